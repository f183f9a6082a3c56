"""The tables of `bench`, read back from what a pipe gets."""

import math
import re
from dataclasses import replace
from typing import Any

import pytest
from rich.cells import cell_len

from attncli.runs.records import BenchResult
from attncli.show.numbers import duration
from attncli.units import in_bytes
from attncli.views import load_view
from tests.views.bench_samples import (
    FEW,
    USUAL,
    bench_record,
    bench_result,
    changed,
    not_timed,
    textbook_additive,
)
from tests.views.samples import printed
from tests.views.sweep_samples import many_scorers

SIZES = (128, 256, 512, 1024)


def shown(result: BenchResult, width: int = 80, full: bool = False) -> str:
    return printed(load_view("bench").tables(result, width=width, full=full, csv=None), width)


def rows(text: str, start: str = "additive") -> list[list[str]]:
    """Cells of the table rows of one label; cells are at least two spaces or a number and its unit apart."""
    return [line.split() for line in text.split("What holds")[0].splitlines() if line.startswith(f"{start} ")]


def test_everything_measured_at_one_size_is_one_table_of_80_columns() -> None:
    result = bench_result(measures=["scores"])
    found = {tuple(row[:2]): row[2:] for label in dict(USUAL) for row in rows(shown(result), label)}
    assert len(found) == len(USUAL) - 1  # the fused kernel has no scores
    for record in result.records:
        cells = " ".join(found[record["label"], record["implementation"]])
        for text in (duration(record["seconds"]), duration(record["seconds_iqr"]), in_bytes(record["peak_bytes"])):
            assert text in cells
    assert found["additive", "textbook"][-5:] == ["0.682", "0.0213", "187", "±", "9"]
    assert found["scaled_dot", "textbook"][-3:] == ["128", "3.98", "1"]
    assert "time by size" not in shown(result)


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
@pytest.mark.parametrize("pairs", [USUAL, [(label, "attncli") for label in many_scorers(5)]])
def test_no_number_is_cut_at_any_width(width: int, pairs: list[tuple[str, str]]) -> None:
    result = bench_result(SIZES, pairs)
    text = shown(result, width)
    assert max(map(cell_len, text.splitlines())) <= width
    assert "…" not in text
    largest = [record for record in result.records if record["n"] == max(SIZES)]
    for record in result.records:
        assert re.search(rf"(?<=[ \n]){re.escape(duration(record['seconds']))}(?=\s)", text)
    for record in largest:
        assert re.search(rf"(?<=[ \n]){re.escape(in_bytes(record['peak_bytes']))}(?=\s)", text)


def test_times_by_size_come_before_everything_at_the_largest() -> None:
    result = bench_result(SIZES, FEW, ["scores"])
    text = shown(result)
    first, second = text.split("scores (queries and keys to scores), ")[1:]
    assert first.startswith("time by size\n")
    assert re.search("n = 128 +n = 256 +n = 512 +n = 1024 +slope", first)
    times = [duration(record["seconds"]) for record in result.records if textbook_additive(record)]
    assert " ".join(rows(first)[1][2:]) == f"{' '.join(times)} 2.00"
    assert second.startswith("n = 1024\n")
    assert "memory and ratios at the other 3 sizes: --full" in text
    assert "slope is the power of n" in text


def test_full_has_everything_at_every_size() -> None:
    result = bench_result(SIZES, FEW, ["scores"])
    text = shown(result, full=True)
    assert [f"scores (queries and keys to scores), n = {n}\n" in text for n in SIZES] == [True] * 4
    assert "--full" not in text
    assert [f"to scores), n = {n}\n" in shown(result) for n in SIZES] == [False, False, False, True]


def test_no_difference_is_marked_and_explained() -> None:
    result = bench_result(pairs=FEW, measures=["scores"])
    text = shown(result)
    assert rows(text, "dot")[0][-4:] == ["=", "1.00", "±", "0.05"]
    assert "= not measurably different: the 95 % interval of the ratio contains 1" in text
    apart = shown(changed(result, lambda record: record["label"] == "dot", ratio=1.2, ratio_ci=[1.1, 1.3]))
    assert rows(apart, "dot")[0][-3:] == ["1.20", "±", "0.10"]
    assert "different: the" not in apart  # the baseline's own ratio is no finding


@pytest.mark.parametrize("status", ["too large", "disagrees", "not available"])
def test_what_was_not_timed_says_so_in_place_of_the_time(status: str) -> None:
    text = shown(not_timed(bench_result(SIZES, FEW, ["scores"]), textbook_additive, status, "a reason"), 120)
    by_size, details = [" ".join(row[2:]) for row in rows(text) if row[1] == "textbook"]
    assert by_size == " ".join([status] * 4 + ["-"])
    assert details == " ".join([status] + ["-"] * 5)


def test_what_all_have_in_common_is_said_once() -> None:
    text = shown(bench_result(SIZES), 200)
    where, sizes = text.splitlines()[0].split("; ")
    assert where == "forward, float32, cpu (A Processor @ 2.00GHz), 2 threads"
    assert sizes == "m = n, d = 64, batch = 1, heads = 1, num_hiddens = 64"
    assert "batch = 1, num_hiddens" in shown(bench_result(SIZES, heads=None), 200)
    assert "ratio is the time over that of textbook scaled_dot in the same round" in text
    assert text.count("additive: the formula of additive") == 1
    both = replace(changed(bench_result(), lambda _: True, backward=True), interrupted=True)
    assert shown(both, 200).startswith(
        "forward and backward, float32, cpu (A Processor @ 2.00GHz), 2 threads, interrupted"
    )


def test_other_sizes_that_change_are_named_with_n() -> None:
    result = bench_result((64, 128), FEW, ["scores"])
    result = replace(result, records=[record | {"d": d} for record in result.records for d in (16, 32)])
    text = shown(result, 120)
    assert re.search("n = 64 +n = 64 +n = 128 +n = 128 *\n.* d = 16 +d = 32 +d = 16 +d = 32 *\n", text)
    assert "to scores), n = 128, d = 32\n" in text
    assert "slope" not in text  # of which size?
    assert "d = 64" not in text


def test_a_number_of_keys_of_its_own_is_a_size() -> None:
    result = bench_result((1,), FEW, ["output"])
    one = replace(result, records=[record | {"m": 4096} for record in result.records])
    assert "; m = 4096, d = 64" in shown(one)
    several = replace(result, records=[record | {"m": m} for record in result.records for m in (256, 512)])
    text = shown(several)
    assert "n = 1, m = 512\n" in text
    assert "slope is the power of m" in text


def test_several_numbers_of_hidden_units_are_several_rows() -> None:
    result = bench_result(pairs=FEW, measures=["scores"])
    records = [record for record in result.records if record["label"] != "additive"]
    records += [bench_record("additive", "attncli", "scores", 512, num_hiddens=size) for size in (8, 256)]
    text = shown(replace(result, records=records), 120)
    assert [row[:4] for row in rows(text)] == [["additive", "(num_hiddens", f"{size})", "attncli"] for size in (8, 256)]
    assert "num_hiddens =" not in text


def test_implementations_of_a_label_stand_together() -> None:
    pairs = [("scaled_dot", "textbook"), ("additive", "textbook"), ("additive", "compiled"), ("additive", "attncli")]
    result = bench_result(pairs=[*pairs, ("scaled_dot", "attncli")], measures=["scores"])
    text = shown(result)
    found = [line.split()[:2] for line in text.split("What holds")[0].splitlines() if re.match(r"\w+ .* \d", line)]
    names = [row for row in found if row[0] in ("additive", "scaled_dot")]
    assert names == [
        ["scaled_dot", "attncli"],
        ["scaled_dot", "textbook"],
        ["additive", "attncli"],
        ["additive", "compiled"],
        ["additive", "textbook"],
    ]


def test_a_label_that_is_no_scorer_has_its_scorer_with_the_formula() -> None:
    result = bench_result(pairs=[("wide", "attncli")], measures=["scores"], scorer="additive")
    assert "\nwide (additive): the formula of wide" in shown(result)


@pytest.mark.parametrize("value", [None, math.nan, math.inf, 0.0])
def test_any_figure_can_be_shown(value: float | None) -> None:
    figures: dict[str, Any] = {"gflops": value, "gbytes_per_second": value, "ratio": value}
    assert shown(bench_result(SIZES, FEW, ratio_ci=None, peak_bytes=None, seconds_iqr=None, **figures))


def test_nothing_measured_is_said() -> None:
    assert shown(replace(bench_result(), records=[], interrupted=True)) == "Nothing was measured.\n"
