import pytest
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from attncli.scorers import SCORERS
from attncli.show.terminal.tables import Cells, blocks, pick, recorded, tables
from attncli.studies.attention.columns import COLUMNS
from tests.show.samples import printed, record_of

FIGURES = ["parameters", "score_mean", "score_std", "entropy", "effective_keys", "max_weight", "empty_rows"]


def test_summary_is_one_table_at_80_columns() -> None:
    """Missing numbers are a dash."""
    records = [record_of(name, name) for name in SCORERS]
    records += [record_of("odd", "dot", entropy=float("nan"), effective_keys=None, parameters=None)]
    text = printed([*tables(pick(COLUMNS, ["label"]), pick(COLUMNS, FIGURES), records, 80)], 80)
    lines = [line.split() for line in text.splitlines()]
    assert lines[:2] == [
        ["score", "score", "entropy", "effective", "max", "empty"],
        ["label", "params", "mean", "std", "(nats)", "keys", "weight", "rows"],
    ]
    assert lines[3] == ["additive", "184", "-0.01230", "1.500", "1.250", "3.500", "0.5000", "0"]
    assert lines[-1] == ["odd", "-", "-0.01230", "1.500", "nan", "-", "0.5000", "0"]
    assert len(lines) == 3 + len(records)


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
