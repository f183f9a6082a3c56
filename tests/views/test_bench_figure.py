"""bench.png: what is drawn where, and that nothing overlaps or is cut off."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from attncli.runs.records import BenchResult
from attncli.studies.study import Record
from attncli.views import load_view
from attncli.views.bench_axes import bytes_axis, times_axis
from attncli.views.bench_figure import bench_figure
from attncli.views.bench_lines import IMPLEMENTATIONS, Line
from attncli.views.bench_looks import looks
from attncli.views.bench_slopes import slope
from attncli.views.sweep_legend import COLOURS
from tests.views.artists import artists, words
from tests.views.bench_samples import FEW, USUAL, bench_result, changed, not_timed, textbook_additive
from tests.views.sweep_pictures import check_texts
from tests.views.sweep_samples import many_scorers

SIZES = (128, 256, 512, 1024)


def crossed(result: BenchResult, **sizes: list[int]) -> BenchResult:
    """Every record at other sizes, too."""
    records: list[Record] = list(result.records)
    for key, values in sizes.items():
        records = [record | {key: value} for record in records for value in values]
    return replace(result, records=records)


RESULTS = {
    "usual": bench_result(SIZES, [*USUAL, ("additive", "compiled")]),
    "one size": bench_result(),
    "one point": bench_result((1,), [("dot", "attncli")], ["scores"]),
    "many": bench_result(range(100, 4000, 100), [(label, "attncli") for label in many_scorers(12)]),
    "all measures": bench_result(SIZES, measures=["scores", "weights", "output"]),
    "slow": bench_result(SIZES, FEW, seconds=3e4, peak_bytes=1e15),
    "keys": crossed(bench_result((1,), FEW), m=[1024, 2048, 65536]),
}


def drawn(figure: Figure, key: str) -> list[list[tuple[float, float]]]:
    """The points of every line, panel by panel."""
    return [list(zip(line.get_xdata(), line.get_ydata(), strict=True)) for line in artists(figure, key)]


def legend_strokes(figure: Figure) -> set[str]:
    """How the samples of the legend are drawn."""
    return {str(artist.get_linestyle()) for artist in figure.artists if isinstance(artist, Line2D)}


def saved(result: BenchResult, path: Path) -> list[str]:
    notes: list[str] = []
    (draw,) = load_view("bench").pictures(result, notes.append).values()
    draw(path)
    return notes


@pytest.mark.parametrize("name", RESULTS)
def test_texts_neither_overlap_nor_leave_the_page(name: str) -> None:
    check_texts(bench_figure(RESULTS[name]).figure)


def test_every_line_has_its_points() -> None:
    result = bench_result(SIZES, FEW, ["scores"])
    figure = bench_figure(result).figure
    order = [("additive", "attncli"), ("additive", "textbook"), ("scaled_dot", "textbook"), ("dot", "attncli")]
    for key in ("seconds", "peak_bytes"):
        for pair, points in zip(order, drawn(figure, key), strict=True):
            rows = [record for record in result.records if (record["label"], record["implementation"]) == pair]
            assert points == [(record["n"], record[key]) for record in rows]
    assert {axes.get_xscale() + axes.get_yscale() for axes in figure.axes} == {"loglog"}
    assert words(figure, "panel-title") == ["scores: time of a call", "scores: peak memory beyond the inputs"]
    assert words(figure, "axis-title") == ["n", "n"]


def test_bars_reach_from_quartile_to_quartile() -> None:
    """Where one round of two lasts long, half of the range would be more than the median."""
    result = bench_result(SIZES, [("dot", "attncli")], ["scores"])
    rounds = torch.tensor([0.9, 0.95, 1.0, 6.0, 11.0], dtype=torch.float64)
    times = {f"dot/attncli/scores/{r['n']}x{r['n']}x64x-x1x1": rounds * r["seconds"] for r in result.records}
    figure = bench_figure(replace(result, times=times)).figure
    bars = [tuple(map(tuple, bar)) for part in artists(figure, "range") for bar in part.get_segments()]
    for record, ((x0, low), (x1, high)) in zip(result.records, bars, strict=True):
        assert x0 == x1 == record["n"]
        assert (low, high) == (pytest.approx(0.95 * record["seconds"]), pytest.approx(6 * record["seconds"]))
    bottom, top = figure.axes[0].get_ylim()
    assert bottom < min(low for (_, low), _ in bars)
    assert max(high for _, (_, high) in bars) < top
    unknown = bench_figure(result).figure
    assert all(low == high for part in artists(unknown, "range") for (_, low), (_, high) in part.get_segments())


def test_measures_stand_below_each_other_on_the_same_axes() -> None:
    figure = bench_figure(bench_result(SIZES, FEW)).figure
    scores, _, output, _ = figure.axes
    assert scores.get_position().y0 > output.get_position().y1
    assert scores.get_ylim() == output.get_ylim()
    assert words(figure, "panel-title")[2] == "output: time of a call"


def test_the_legend_has_the_slopes_of_time_and_memory() -> None:
    result = bench_result(SIZES, FEW, ["scores"])
    result = changed(result, textbook_additive, peak_bytes=None)
    legend = words(bench_figure(result).figure, "legend")
    assert legend == [
        "additive, attncli (2.00, 2.00)",
        "additive, textbook (2.00, -)",
        "scaled_dot, textbook (2.00, 2.00)",
        "dot, attncli (2.00, 2.00)",
    ]
    title = " ".join(words(bench_figure(result).figure, "title"))
    assert "in brackets by which powers of n time and memory grow" in title
    assert title.startswith("forward, float32, cpu (A Processor @ 2.00GHz), 2 threads, m = n, d = 64, batch = 1")


def test_points_of_the_only_size_stand_side_by_side_and_are_not_joined() -> None:
    figure = bench_figure(bench_result(pairs=FEW, measures=["scores"])).figure
    places = [x for ((x, _),) in drawn(figure, "seconds")]
    assert places == sorted(set(places))
    assert min(places) < 512 < max(places)
    low, high = figure.axes[0].get_xlim()
    assert low < min(places) < max(places) < high
    assert words(figure, "legend")[0] == "additive, attncli"
    assert legend_strokes(figure) == {"None"}
    assert legend_strokes(bench_figure(bench_result(SIZES, FEW)).figure) == {"-", "--"}
    assert "in brackets" not in " ".join(words(figure, "title"))


def test_of_other_sizes_the_largest_are_drawn_and_a_note_says_so(tmp_path: Path) -> None:
    result = crossed(bench_result(SIZES, FEW, ["scores"]), d=[16, 32], batch=[1, 8])
    result = changed(result, lambda record: (record["d"], record["batch"]) == (32, 8), seconds=1.5)
    figure = bench_figure(result).figure
    assert {y for points in drawn(figure, "seconds") for _, y in points} == {1.5}
    assert "d = 32, batch = 8" in " ".join(words(figure, "title"))
    note = "bench.png shows d = 32, batch = 8 only; the tables and records.csv have the other sizes, too"
    assert saved(result, tmp_path / "a.png") == [note]


def test_sizes_with_more_times_are_preferred_to_larger_ones() -> None:
    result = crossed(bench_result(SIZES, FEW, ["scores"]), batch=[1, 8])
    result = not_timed(result, lambda record: textbook_additive(record) and record["batch"] == 8, "too large", "why")
    assert "batch = 1" in " ".join(words(bench_figure(result).figure, "title"))


def test_the_size_that_changes_is_drawn_along_where_n_does_not() -> None:
    figure = bench_figure(RESULTS["keys"]).figure
    assert [x for x, _ in drawn(figure, "seconds")[0]] == [1024, 2048, 65536]
    assert words(figure, "axis-title")[0] == "m"
    title = " ".join(words(figure, "title"))
    assert "2 threads, n = 1, d = 64" in title
    assert "powers of m" in title


def test_what_was_not_timed_is_not_drawn(tmp_path: Path) -> None:
    result = not_timed(bench_result(SIZES, FEW, ["scores"]), textbook_additive, "too large", "why")
    figure = bench_figure(result).figure
    assert len(drawn(figure, "seconds")) == 3
    assert not any("additive, textbook" in text for text in words(figure, "legend"))
    assert saved(result, tmp_path / "a.png") == []
    nothing = not_timed(result, lambda _: True, "too large", "why")
    assert load_view("bench").pictures(nothing, print) == {}
    assert load_view("bench").pictures(replace(result, records=[]), print) == {}


@pytest.mark.parametrize("value", [None, 0, math.nan])
def test_memory_that_cannot_be_drawn_is_noted(value: float | None, tmp_path: Path) -> None:
    result = changed(bench_result(SIZES, FEW, ["scores"]), textbook_additive, peak_bytes=value)
    assert saved(result, tmp_path / "a.png") == ["bench.png: memory of 4 rows is not drawn, as it is 0 or not known"]


def test_labels_have_colours_and_implementations_markers_and_strokes() -> None:
    lines = [Line(label, implementation) for label in "abcdefghijkl" for implementation in IMPLEMENTATIONS]
    found = looks(lines)
    assert len({(look["color"], look["marker"]) for look in found.values()}) == len(lines)
    for label in "al":
        of_label = [found[line] for line in lines if line.label == label]
        assert len({look["color"] for look in of_label}) == 1
        assert len({str(look["linestyle"]) for look in of_label}) == len(IMPLEMENTATIONS)
    own = [found[Line(label, "attncli")] for label in "abcdefg"]
    assert len({look["color"] for look in own}) == len(COLOURS)
    assert len({look["marker"] for look in own}) == 1


def test_a_label_looks_the_same_in_every_panel() -> None:
    figure = bench_figure(bench_result(SIZES)).figure
    colours = [[line.get_color() for line in axes.lines] for axes in figure.axes]
    assert colours[0] == colours[1]
    assert set(colours[0]) == set(colours[2])
    assert len(colours[2]) == len(colours[0]) + 1  # the fused kernel


@pytest.mark.parametrize(
    ("points", "wanted"),
    [
        ([(1, 5.0), (2, 5.0), (4, 5.0), (8, 10.0)], 1.0),  # the larger two
        ([(1, 5.0), (2, 5.0), (4, 20.0)], 2.0),
        ([(8, 8.0), (1, 1.0)], 1.0),
        ([(8, 8.0)], None),
        ([(8, 8.0), (8, 9.0)], None),
        ([(4, 0.0), (8, 8.0), (16, math.nan)], None),
        ([], None),
    ],
)
def test_slopes_are_those_of_the_larger_half(points: list[tuple[float, float]], wanted: float | None) -> None:
    assert slope(points) == (wanted if wanted is None else pytest.approx(wanted))


def test_ticks_are_in_units_that_people_read() -> None:
    assert list(times_axis([2e-7, 30.0]).texts) == ["1 µs", "100 µs", "10 ms", "1 s"]
    assert list(times_axis([3.0, 150.0]).texts) == ["2 s", "5 s", "10 s", "20 s", "50 s", "100 s", "200 s"]
    assert list(bytes_axis([2**20, 2**30]).texts) == ["1 MiB", "4 MiB", "16 MiB", "64 MiB", "256 MiB", "1 GiB"]
    assert list(bytes_axis([4.0]).texts) == ["2 bytes", "4 bytes", "8 bytes"]
    assert bytes_axis([math.nan, 0.0]).low < 1 < bytes_axis([]).high
    for axis in (times_axis([1e-9, 1e5]), bytes_axis([1.0, 2.0**50])):
        assert 2 < len(axis.ticks) <= 8


def test_the_same_result_gives_the_same_bytes(tmp_path: Path) -> None:
    saved(RESULTS["usual"], tmp_path / "a.png")
    saved(RESULTS["usual"], tmp_path / "b.png")
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_labels_are_text_and_never_mathematics() -> None:
    found: list[Any] = artists(bench_figure(RESULTS["many"]).figure, "legend")
    assert any("_hidden $x_1$" in text.get_text() for text in found)
    assert all(not text.get_parse_math() for text in found)
