"""Expectations in words and as a table: read back from the text for a terminal or a pipe."""

from typing import Any

import pytest
from rich.cells import cell_len

from attncli.engine.expect.tables import expected_words, failure, got_words, verdict_tables
from tests.engine.expect.test_expectations import one, result, verdicts
from tests.show.samples import printed

CLAIM = "Dividing by the square root of d keeps the variance of scores at 1"
SOURCE = "Vaswani et al. 2017, section 3.2.1"


@pytest.mark.parametrize(
    ("got", "keys", "expected", "measured"),
    [
        (1.0123456, {"between": [0.95, 1.05]}, "0.95 to 1.05", "1.012"),
        (512.25, {"about": 1, "within": "5 %"}, "1 ± 5 %", "512.2"),
        (0.9999999999, {"above": 1}, "above 1", "1.000"),
        (None, {"below": 3, "by": 0.5}, "at most 3 - 0.5", "no value"),
        (1.0, {"above": 3, "by": "2 x"}, "at least 2 x 3", "1.000"),
        (1.0, {"above": {"d": 1}}, "above 0.2501 (d = 1)", "1.000"),
        (1.0, {"below": {"d": 1}, "by": "2 x"}, "at most 0.2501 (d = 1) / 2", "1.000"),
        (1.0, {"above": {"d": 2}}, "above the value of d = 2", "1.000"),
        (0.250051, {"above": {"d": 1}}, "above 0.250051 (d = 1)", "0.250051"),
        (0.30000000000000004, {"equal": 0.3}, "0.3", "0.300000000000000044"),
    ],
)
def test_what_was_measured_is_told_from_what_was_expected(
    got: Any, keys: dict[str, Any], expected: str, measured: str
) -> None:
    verdict = one(got, 0.250051, None, **keys)
    assert (expected_words(verdict), got_words(verdict)) == (expected, measured)


def test_of_a_long_table_those_that_do_not_hold_are_kept() -> None:
    found = verdicts(result(*[1.0] * 20), *({"where": {"d": i}, "equal": 1 + (i == 7)} for i in range(20)))
    title, _, _, *rows, last = printed(verdict_tables([("", found)], 80, 10), 80).strip().splitlines()
    assert (title, last) == ("Expectations that do not hold", "19 of 20 expectations hold; see them with --full")
    assert rows[0].split() == ["NO", "x", "(d", "=", "7)"]
    assert not any(row.startswith("yes") for row in rows)
    assert printed(verdict_tables([("", found)], 80, 3), 80).strip() == last, "or only their number"


@pytest.mark.parametrize("width", [40, 120])
def test_numbers_stay_whole_at_any_width(width: int) -> None:
    found = verdicts(
        result(1.0, 4.0),
        {"where": {"d": [0, 1]}, "about": 1, "within": "5 %", "claim": CLAIM * 3, "source": SOURCE},
        {"where": {"d": 1}, "above": {"d": 0}, "by": "2.5 x"},
    )
    text = printed(verdict_tables([("variance", found), ("another with a long name", found)], width, None), width)
    assert text.splitlines()[-1] == "2 of 4 expectations hold"
    assert max(map(cell_len, text.splitlines())) <= width
    assert "…" not in text
    assert all(words in text for words in ("1 ± 5 %", "at least 2.5 x 1", "yes", "NO"))


def test_claims_are_text_and_never_markup_or_control() -> None:
    keys = {"claim": "[bold]x[/]\n\x1b[31m", "source": "[y]\x07"}
    assert failure(one(1.0, equal=2, **keys)).startswith(r'"[bold]x[/] \x1b[31m" ([y]\x07) does not hold')
    text = printed(verdict_tables([("a", verdicts(result(1.0), {"equal": 1, **keys}))], 80, None), 80)
    assert r"[bold]x[/] \x1b[31m" in text
    assert "[y]" in text
