from collections.abc import Sequence

import pytest
from rich.cells import cell_len
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from attncli.results import Row
from attncli.scorers import SCORERS
from attncli.show.terminal.tables import Cells, blocks, pick, recorded, tables
from attncli.studies.attention.columns import COLUMNS
from tests.show.samples import printed, record_of

FIGURES = ["parameters", "score_mean", "score_std", "entropy", "effective_keys", "max_weight", "empty_rows"]


def lines(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def summary_tables(records: Sequence[Row], width: int, names: int = 1) -> list[RenderableType]:
    return list(tables(pick(COLUMNS, ["label", "scorer"])[:names], pick(COLUMNS, FIGURES), records, width))


def test_summary_is_one_table_at_80_columns() -> None:
    records = [record_of(name, name) for i, name in enumerate(SCORERS)]
    text = printed(summary_tables(records, 80), 80)
    assert lines(text)[:2] == [
        ["score", "score", "entropy", "effective", "max", "empty"],
        ["label", "params", "mean", "std", "(nats)", "keys", "weight", "rows"],
    ]
    assert lines(text)[3] == ["additive", "184", "-0.01230", "1.500", "1.250", "3.500", "0.5000", "0"]
    assert len(lines(text)) == 3 + len(SCORERS)


def test_what_is_not_known_is_a_dash() -> None:
    record = record_of("dot", "dot", entropy=float("nan"), effective_keys=None, parameters=None)
    text = printed(summary_tables([record], 80), 80)
    assert lines(text)[-1] == ["dot", "-", "-0.01230", "1.500", "nan", "-", "0.5000", "0"]


@pytest.mark.parametrize("width", [20, 40, 80])
def test_a_long_heading_is_folded_and_the_names_beside_it_stay(width: int) -> None:
    long = "a heading of one hundred characters " * 3
    table = blocks([Cells("key", ["first", "second"])], [Cells("x", ["1"] * 2), Cells(long, ["2.5", "3.5"])], width)
    text = printed([*table], width)
    assert max(map(cell_len, text.splitlines())) <= width
    last = [line.split() for line in text.splitlines() if "second" in line][-1]
    assert (last[0], last[-1]) == ("second", "3.5")
    assert "".join(long.split()) in "".join(text.replace("key", "").replace(" x ", "").split())


def test_no_text_controls_the_terminal() -> None:
    """A view may forget to escape a name; the console does not. Rich's own styles and layout stay."""
    hostile = "\x1b[31mred\x1b[0m \x9b2J \u202e \x07\r\x00"
    table = Table(hostile)
    table.add_row(f"two\n{hostile}")
    console = recorded([Text(hostile, style="bold"), table, hostile], 200)
    text = console.export_text(clear=False)
    assert {c for c in text if not c.isprintable()} == {"\n"}
    assert text.count(r"\x1b[31mred\x1b[0m \x9b2J \u202e") == 4
    assert "font-weight: bold" in console.export_html(inline_styles=True)
