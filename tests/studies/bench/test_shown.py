"""Output of `bench` for times from closed formulas: findings, tables as in a pipe, and the picture."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from matplotlib.figure import Figure

from attncli.config.looks import Look
from attncli.results import Finding, Result, Row
from attncli.studies.bench.columns import COLUMNS, BenchFacts, raw_name
from attncli.studies.bench.figure import figures
from attncli.studies.bench.rows import bench_findings, growth, mark_noisy
from tests.show.samples import drawn, shown

BASELINE = "scaled_dot/textbook"
FEW = [("additive", "attncli"), ("additive", "textbook"), ("scaled_dot", "textbook"), ("dot", "attncli")]
TIMES = {"additive/attncli": 4.0, "additive/textbook": 200.0, "dot/attncli": 1.01}
SETTINGS: Row = {"baseline": BASELINE, "backward": False, "dtype": "float32", "device": "cpu", "threads": 2}
SETTINGS["device_name"] = "A Processor"
QUARTILES = (0.9, 0.95, 1.0, 6.0, 11.0)  # rounds, over the median
SIZES = (128, 256, 512, 1024)


def row_of(label: str, implementation: str, measure: str, n: int) -> Row:
    """Return a row with n^2 ns for the baseline and n^2 floats of memory, 64 times as much for textbook additive."""
    name = f"{label}/{implementation}"
    ratio, vectors = TIMES.get(name, 1.0), 64 if name == "additive/textbook" else 1
    found = SETTINGS | {
        **{"scorer": label, "label": label, "normalizer": "softmax"},
        **{"implementation": implementation, "measure": measure},
        **{"n": n, "m": n, "d": 64, "batch": 1, "heads": 1, "num_hiddens": 64 if label == "additive" else None},
        **{"status": "timed", "reason": None, "rounds": 5, "noisy": False},
        **{"seconds": ratio * n**2 * 1e-9, "seconds_iqr": ratio * n**2 * 1e-10, "peak_bytes": 4 * n * n * vectors},
        **{"gflops": 128 / ratio, "gbytes_per_second": 4 / ratio, "ratio": ratio},
        "ratio_ci": [1.0, 1.0] if name == BASELINE else [ratio * 0.95, ratio * 1.05],
    }
    return {column.key: found[column.key] for column in COLUMNS}


def result_of(records: Sequence[Row]) -> Result:
    """Return the result with these rows, with a comparison of additive with its textbook code."""
    beside = [
        {**row, "against": "textbook", "times_as_fast": 50.0, "times_as_fast_ci": [49.0, 51.0]}
        for row in records
        if (row["label"], row["implementation"]) == ("additive", "attncli") and row["seconds"]
    ]
    formulas = {str(row["label"]): f"the formula of {row['label']}" for row in records}
    times = {raw_name(row): torch.tensor(QUARTILES) * row["seconds"] for row in records if row["seconds"]}
    findings = bench_findings(records, beside)
    facts = BenchFacts(**SETTINGS)
    return Result("bench", "bench", records, beside, findings, tensors=times, formulas=formulas, facts=facts)


def sample(measures: Sequence[str] = ("scores",), sizes: Sequence[int] = SIZES) -> Result:
    """Return a result with these labels and implementations at every size."""
    return result_of([row_of(*pair, measure, n) for n in sizes for measure in measures for pair in FEW])


def changed(result: Result, where: Callable[[Row], bool], **figures: Any) -> Result:
    """Return the result with changes of some records."""
    return result_of([record | figures if where(record) else record for record in result.records])


def not_timed(result: Result, where: Callable[[Row], bool]) -> Result:
    """Return the result with some records not timed."""
    measured = [column.key for column in COLUMNS if column.kind == "measured"]
    lost = dict.fromkeys(measured) | {"status": "too large", "reason": "needs 32.0 GiB\nor more"}
    return changed(result, where, **lost)


def textbook_additive(record: Row) -> bool:
    """Whether the record is the textbook's additive scorer; its hidden units do not fit into memory."""
    return (record["label"], record["implementation"]) == ("additive", "textbook")


def rows(text: str, start: str = "additive") -> list[str]:
    """Return the table rows of one label, without repeated spaces."""
    return [" ".join(line.split()) for line in text.splitlines() if line.startswith(f"{start} ")]


def finding(result: Result, label: str) -> Finding:
    (found,) = [each for each in result.findings if each.label == label]
    return found


def test_one_sentence_a_label_with_its_numbers() -> None:
    result = sample(["scores", "output"])
    assert [each.label for each in result.findings] == ["additive", "scaled_dot", "dot"]
    additive, baseline, dot = (each.text for each in result.findings)
    assert additive == (
        "additive: 4.19 ms and 4.0 MiB for scores at n = 1024, 4.00 times the time of scaled_dot/textbook "
        "(3.80 to 4.20), 50.0 times as fast as textbook code (49.0 to 51.0)."
    )
    assert baseline.startswith("scaled_dot (textbook): 1.05 ms and 4.0 MiB for scores")
    assert dot.endswith("(0.959 to 1.06, no measurable difference).")
    numbers = finding(result, "additive").numbers
    assert (numbers["n"], numbers["ratio"], numbers["times_as_fast"]) == (1024, 4.0, 50.0)
    assert numbers["growth"] == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("ends", "said"),
    [
        ((1.5, 2.9), ", 2.00 times the time of a (1.50 to 2.90)."),
        ((0.7, 1.3), "(0.700 to 1.30, no measurable difference)."),
        ((0.4, 5.0), ", too noisy to compare (0.40 to 5.0 times the time of a; repeat it on a quiet machine)."),
        ((17.0, 37.0), ", 17 to 37 times the time of a (noisy; repeat it on a quiet machine)."),
    ],
)
def test_noise_hides_a_number_but_no_clear_direction(ends: tuple[float, float], said: str) -> None:
    row = sample().records[0] | {"ratio": 2.0, "ratio_ci": ends, "baseline": "a"}
    (found,) = bench_findings([row], [])
    assert found.text.endswith(said)
    (found,) = bench_findings([row, row | {"implementation": "linear"}], [])
    assert found.text.startswith(f"{row['label']} (linear): "), "kernel attention is judged by its linear form"


def test_a_finding_is_of_the_largest_size_with_a_time() -> None:
    late = not_timed(sample(), lambda row: row["label"] == "dot" and row["n"] > 256)
    assert finding(late, "dot").text.startswith("dot: 66.2 µs and 256.0 KiB for scores at n = 256, ")
    never = not_timed(sample(), lambda row: row["label"] == "dot")
    assert finding(never, "dot").text == "dot: too large at n = 128: needs 32.0 GiB\nor more."
    alone = not_timed(sample(), lambda row: row["label"] == "scaled_dot")
    without = changed(alone, lambda _: True, ratio=None, ratio_ci=None)
    assert "times the time" not in finding(without, "dot").text


def test_growth_is_that_of_the_larger_half() -> None:
    rows = [{"n": n, "seconds": seconds} for n, seconds in ((1, 5.0), (2, 5.0), (4, 5.0), (8, 10.0))]
    assert growth(rows, "n") == pytest.approx(1.0)
    assert growth([{"n": 4, "seconds": None}, {"n": 8, "seconds": 8.0}], "n") is None


def test_what_was_not_timed_says_so_and_why() -> None:
    text = shown(not_timed(sample(), textbook_additive), 120)
    assert rows(text)[1] == "additive textbook too large too large too large too large -"
    assert rows(text)[-1] == "additive textbook scores, n = 1024: too large: needs 32.0 GiB\\nor more"


def test_several_numbers_of_hidden_units_are_several_lines() -> None:
    few = [record for record in sample().records if record["label"] != "additive"]
    several = [row_of("additive", "attncli", "scores", n) | {"num_hiddens": h} for n in SIZES for h in (8, 256)]
    result = result_of([*few, *several])
    text = shown(result, 120)
    found = [row.split(" attncli")[0] for row in rows(text)[:2]]
    assert found == ["additive (num_hiddens 8)", "additive (num_hiddens 256)"]
    numbers = finding(result, "additive").numbers
    assert (numbers["num_hiddens"], numbers["growth"]) == (256, pytest.approx(2.0))


def timed(seconds: float, spread: float = 1e-5, **places: Any) -> Row:
    """Return a row with a time and its interquartile range."""
    return row_of("dot", "attncli", "scores", 128) | {"seconds": seconds, "seconds_iqr": spread} | places


@pytest.mark.parametrize(
    ("rows", "noisy"),
    [
        ([timed(0.0146), timed(0.0159, n=256, m=256), timed(0.0004, n=512, m=512)], [True, True, False]),
        ([timed(0.0146, num_hiddens=8), timed(0.0004, num_hiddens=16)], [True, False]),
        ([timed(0.0146, n=256, d=64), timed(0.0004, n=128, d=128)], [False, False]),  # neither is larger
        ([timed(0.0146), timed(0.0004, n=256, label="other")], [False, False]),
        ([timed(0.0020, spread=0.0009), timed(0.0010, n=256)], [True, False]),
        ([timed(0.0020), timed(0.0010, spread=0.0011, n=256)], [False, False]),
    ],
)
def test_a_row_that_took_longer_than_a_larger_size_is_noisy(rows: list[Row], noisy: list[bool]) -> None:
    mark_noisy(rows)
    assert [row["noisy"] for row in rows] == noisy


def test_noisy_times_are_marked_everywhere_and_do_not_count_as_growth() -> None:
    quiet, result = sample(), sample()
    assert "noisy" not in shown(quiet, 120) + " ".join(each.text for each in quiet.findings)
    for record in result.records:
        if record["label"] == "dot" and record["n"] == 512:
            record["seconds"] = 0.1
    mark_noisy(result.records)
    result = result_of(result.records)
    text = shown(result, 120)
    assert rows(text, "dot")[0] == "dot attncli 16.5 µs 66.2 µs 100 ms ! 1.06 ms 2.00"
    assert "!: noisy, since a larger size took less time; repeat it on a quiet machine." in text
    dot = finding(result, "dot")
    assert dot.text.endswith(" Slower than at larger sizes, so noisy (repeat it on a quiet machine): n = 512.")
    assert (dot.numbers["noisy"], dot.numbers["growth"]) == (1, pytest.approx(2.0))
    figure, _ = drawn(result)
    (ring,) = (part for axes in figure.axes for part in axes.collections if part.get_gid() == "noisy")
    assert ring.get_offsets().tolist() == [[512, 0.1]]  # type: ignore[union-attr]


def points_of(figure: Figure, key: str) -> list[list[tuple[float, float]]]:
    """Return the points of every line, panel by panel."""
    lines: list[Any] = [line for axes in figure.axes for line in axes.lines if line.get_gid() == key]
    return [list(zip(line.get_xdata(), line.get_ydata(), strict=True)) for line in lines]


def test_every_line_has_its_points_and_quartiles() -> None:
    result = sample()
    figure: Any
    figure, notes = drawn(result)
    for key in ("seconds", "peak_bytes"):
        for pair, points in zip(FEW, points_of(figure, key), strict=True):
            of_pair = [record for record in result.records if (record["label"], record["implementation"]) == pair]
            assert points == [(record["n"], record[key]) for record in of_pair]
    bars = [tuple(bar[:, 1]) for part in figure.axes[0].collections for bar in part.get_segments()]
    assert bars[0] == pytest.approx((0.95 * 4 * 128**2 * 1e-9, 6 * 4 * 128**2 * 1e-9))
    titles = [axes.get_title() for axes in figure.axes]
    assert titles == ["scores: time per call", "scores: peak memory"]
    assert [*figure.entries] == [f"{label}, {implementation}" for label, implementation in FEW]
    assert notes == []


def test_of_other_sizes_the_largest_with_a_time_are_drawn_and_a_note_says_so() -> None:
    result = result_of([row | {"batch": size} for row in sample().records for size in (1, 8)])
    figure, notes = drawn(changed(result, lambda record: record["batch"] == 8, seconds=1.5))
    assert {y for points in points_of(figure, "seconds") for _, y in points} == {1.5}
    assert notes == ["bench.png shows batch = 8 only; the tables and records.csv have all sizes"]
    lost = not_timed(result, lambda record: record["batch"] == 8)
    assert drawn(lost)[1][0].startswith("bench.png shows batch = 1 only")
    few = sample(sizes=[1]).records
    keys, _ = drawn(result_of([row | {"m": size} for row in few for size in (1024, 65536)]))
    assert [x for x, _ in points_of(keys, "seconds")[0]] == [1024, 65536]


def test_what_has_no_figure_is_not_drawn() -> None:
    result = sample()
    figure: Any = drawn(not_timed(result, textbook_additive))[0]
    assert "additive, textbook" not in figure.entries
    assert figures(not_timed(result, lambda _: True), print, Look()) == {}
    for value in (None, 0):
        _, notes = drawn(changed(result, textbook_additive, peak_bytes=value))
        assert notes == ["bench.png: memory of 4 rows is not drawn: it is 0 or unknown"]
