import re
from collections.abc import Sequence

import pytest
from rich.cells import cell_len
from rich.table import Table

from attncli.scorers import SCORERS
from attncli.show.tables import shares, tables
from attncli.studies.attention.columns import COLUMNS, COMPARISONS
from attncli.studies.study import Record
from tests.views.samples import printed, record_of


def lines(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def summary_tables(records: Sequence[Record], width: int, names: int = 1) -> list[Table]:
    scorer, label, *figures = COLUMNS
    return tables([label, scorer][:names], figures, records, width)


def comparison_tables(pairs: Sequence[Record], width: int) -> list[Table]:
    return tables(COMPARISONS[:2], COMPARISONS[2:], pairs, width)


def test_summary_is_one_table_at_80_columns() -> None:
    records = [record_of(name, name, seconds=0.0012 * (i + 1)) for i, name in enumerate(SCORERS)]
    text = printed(summary_tables(records, 80), 80)
    assert lines(text)[:2] == [
        ["score", "score", "entropy", "effective", "max", "empty"],
        ["label", "params", "mean", "std", "(nats)", "keys", "weight", "rows", "time"],
    ]
    assert lines(text)[3] == ["additive", "184", "-0.0123", "1.5000", "1.2500", "3.5000", "0.5000", "0", "1.2", "ms"]
    assert len(lines(text)) == 3 + len(SCORERS)


def test_columns_move_closer_before_they_are_shared_out() -> None:
    records = [record_of("scaled_dot", "scaled_dot", score_mean=-8.61e-4, score_std=12.5)]
    assert len(summary_tables(records, 80)) == 1
    assert [len(table.columns) for table in summary_tables(records, 60)] == [5, 5]


def test_scorer_is_named_where_a_label_does_not_say_it() -> None:
    text = printed(summary_tables([record_of("dot", "dot"), record_of("mine", "additive")], 100, names=2), 100)
    assert lines(text)[1][:3] == ["label", "scorer", "params"]
    assert [line[:2] for line in lines(text)[3:]] == [["dot", "dot"], ["mine", "additive"]]


@pytest.mark.parametrize("width", [30, 40, 60, 80, 120])
def test_numbers_stay_whole_beside_long_labels(width: int) -> None:
    label = "additive with many hidden units and a very long label " + "ß" * 50
    records = [record_of(label, "additive", score_mean=-123.4567, score_std=1.2e-7, effective_keys=4096.0)]
    text = printed(summary_tables(records, width, names=2), width)
    assert "…" not in text
    assert max(map(cell_len, text.splitlines())) <= width
    for number in ["184", "-123.4567", "1.20e-07", "1.2500", "4096.0000", "0.5000", "1.23 ms"]:
        assert re.search(rf"(?<=[ \n]){re.escape(number)}(?=\s)", text)
    assert text.count("ß") in range(50, 500, 50)


def test_what_is_not_known_is_a_dash() -> None:
    record = record_of("dot", "dot", entropy=float("nan"), effective_keys=None, seconds=None, parameters=None)
    text = printed(summary_tables([record], 80), 80)
    assert lines(text)[-1] == ["dot", "-", "-0.0123", "1.5000", "nan", "-", "0.5000", "0", "-"]


def test_comparison_of_seven_scorers_has_21_rows() -> None:
    names = list(SCORERS)
    figures = {"js_divergence": 0.0123, "top1_agreement": 1.0, "max_abs_difference": 2e-9, "output_difference": None}
    pairs = [{"a": a, "b": b, **figures} for i, a in enumerate(names) for b in names[i + 1 :]]
    text = printed(comparison_tables(pairs, 80), 80)
    assert lines(text)[1] == ["a", "b", "(bits)", "agreement", "difference", "difference"]
    assert lines(text)[3:] == [[pair["a"], pair["b"], "0.0123", "1.0000", "2.00e-09", "-"] for pair in pairs]


def test_labels_are_text_and_never_markup() -> None:
    assert "[bold]x[/] " in printed(summary_tables([record_of("[bold]x[/]", "dot")], 120, names=2), 120)


def test_shares_give_what_is_left_to_those_who_want_more() -> None:
    assert shares([30, 5, 30], 35) == [15, 5, 15]
    assert shares([3, 4], 100) == [3, 4]
