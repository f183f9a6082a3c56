"""What the study `train` shows: tables, findings and train.png, of results whose figures are known."""

import io
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.cells import cell_len
from rich.console import Console

from attncli.studies.study import Record, Result
from attncli.studies.train.columns import summary
from attncli.studies.train.figure import pictures, train_figure
from attncli.studies.train.findings import findings_of
from attncli.studies.train.tables import tables

SIZES, LABELS, STEPS = (16, 64, 256, 1024), ("dot", "scaled_dot", "additive"), torch.arange(0, 801, 8)
MANY = ["dot", "注意力机制 点积", "a rather long label that says everything that there is to say about the scorer"]
MANY += ["_hidden $x_1$", "[bold]", *(f"dot_{index}" for index in range(5, 12))]
SETTINGS: Record = {
    "keys": 8, "vocabulary": 16, "classes": 8, "embedding": 64, "steps": 800, "batch": 64, "optimizer": "adam",
    "lr": 0.001, "dtype": "float32", "device": "cpu", "equal_weights": {str(keys): 2.5 / keys for keys in (8, 16, 32)},
    "least_loss": math.log1p(7 / math.e),
}  # fmt: skip


def accuracy(label: str, d: int, seed: int) -> float:
    """1 for all but `dot`, which loses 0.05 each time d is four times as large, and 0.02 with each seed."""
    return 1.0 if label != "dot" or d <= 16 else 1.0 - 0.05 * math.log2(d / 16) / 2 - 0.02 * seed


def row_of(label: str, d: int, seed: int, keys: int) -> Record:
    share = accuracy(label, d, seed) - (0.1 if keys != 8 and label == "dot" else 0.0)
    measured = {"accuracy": share, "loss": 2.0 - share, "entropy": 0.25, "gradient_norm": 1e-6 if share < 1 else 0.125}
    place: Record = {"scorer": label, "label": label, "d": d, "seed": seed, "keys": keys, "parameters": 128 * d}
    start = 0.0625 if label == "dot" else 2.0
    return place | measured | {"steps_to_90": 8 * (seed + 1) if share >= 0.9 else None, "start_entropy": start}


def result_of(
    sizes: Sequence[int] = SIZES, labels: Sequence[str] = LABELS, seeds: int = 5, tested: Sequence[int] = (8,)
) -> Result:
    """A result whose curves rise from 0.25 to the accuracy in the end."""
    places = [(label, d, keys) for label in labels for d in sizes for keys in tested]
    rows = [row_of(label, d, seed, keys) for label, d, keys in places for seed in range(seeds)]
    rise = 1 - torch.exp(-STEPS / 100)
    curves = {
        f"{label}/{d}/accuracy": torch.stack([0.25 + (accuracy(label, d, seed) - 0.25) * rise for seed in range(seeds)])
        for label in labels
        for d in sizes
    }
    settings = SETTINGS | {"seeds": seeds, "formulas": {label: f"the formula of {label}" for label in labels}}
    over_seeds = summary(rows)
    return Result(
        "train",
        "train",
        settings,
        rows,
        over_seeds,
        findings_of(over_seeds, settings),
        tensors={"steps": STEPS, **curves},
    )


def changed(result: Result, change: Callable[[Record], dict[str, Any]]) -> Result:
    """With other figures in the rows over the seeds, and what is found in them."""
    rows = [row | change(row) for row in result.comparisons]
    return replace(result, comparisons=rows, findings=findings_of(rows, result.settings))


def all_of(value: float) -> dict[str, float]:
    return dict.fromkeys(("accuracy", "accuracy_min", "accuracy_max"), value)


def shown(result: Result, width: int = 80, full: bool = False) -> str:
    console = Console(file=io.StringIO(), width=width)
    for part in tables(result, width=width, full=full, csv=None):
        console.print(part)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_tables() -> None:
    text = shown(result_of(tested=[8, 16]))
    assert " ".join(text.split()).startswith(
        "associative recall: 8 keys of 16 symbols, 8 values, embeddings of size 64; Adam, learning rate 0.001, "
        "800 steps of 64 sequences, 5 seeds, float32"
    )
    lines = text.split("accuracy with 8 keys (equal weights have 0.31)\n")[1].splitlines()
    assert lines[0].split() == ["label", *(part for d in SIZES for part in ("d", "=", str(d)))]
    assert lines[2].split() == ["dot", "1.00", "0.91", "(0.87–0.95)", "0.86", "(0.82–0.90)", "0.81", "(0.77–0.85)"]
    assert lines[3].split() == ["scaled_dot", "1.00", "1.00", "1.00", "1.00"]
    lines = text.split("accuracy with 16 keys, trained with 8 (equal weights have 0.16)\n")[1].splitlines()
    assert lines[2].split()[-2:] == ["0.71", "(0.67–0.75)"]
    details = [line.split() for line in text.split("learning at each d\n")[1].splitlines() if line.startswith("dot ")]
    assert details[0] == ["dot", "16", "24", "5", "1.00", "0.0625", "0.250", "0.125"]
    assert details[3] == ["dot", "1024", "-", "0", "1.19", "0.0625", "0.250", "1.0e-06"]
    assert "the least possible loss is 1.27" in " ".join(text.split())


def test_interrupted_says_how_to_go_on() -> None:
    assert "--resume" not in shown(result_of())
    assert "--resume with this run's folder goes on" in shown(replace(result_of(), interrupted=True))


def test_findings() -> None:
    *courses, why = result_of().findings
    assert [found.text for found in courses] == [
        "dot: accuracy 1.00 at d = 16, 0.81 (0.77–0.85) at d = 1024.",
        "scaled_dot: accuracy 1.00 at every d.",
        "additive: accuracy 1.00 at every d.",
    ]
    assert courses[0].numbers["d"] == list(SIZES)
    assert courses[0].numbers["accuracy"] == [row["accuracy"] for row in result_of().comparisons[:4]]
    assert why.text == (
        "dot has stopped learning at d = 1024: the norm of its gradient is 1.0e-06; the entropy of its weights was "
        "0.0625 nats before the first step and is 0.250 now, of 2.08 for equal weights."
    )
    assert (why.label, why.numbers["d"], why.numbers["gradient_norm"]) == ("dot", 1024, pytest.approx(1e-6))
    assert len(changed(result_of(), lambda row: {"gradient_norm": 0.1}).findings) == 3
    more = result_of([16, 64], ["dot"], tested=[8, 16, 32]).findings[0]
    assert more.text == (
        "dot: accuracy 1.00 at d = 16, 0.91 (0.87–0.95) at d = 64, with 16 keys 0.81 (0.77–0.85), with 32 keys 0.81 "
        "(0.77–0.85)."
    )
    assert more.numbers["accuracy_with_keys"] == pytest.approx({"16": 0.81, "32": 0.81})


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ((0.5, 0.6, 0.8), "accuracy 0.50 at d = 16, 0.80 at d = 256"),
        ((0.9, 0.6, 0.9), "accuracy 0.90 at d = 16, 0.60 at d = 64, 0.90 at d = 256"),
        ((0.97, math.nan, 0.97), "no accuracy at d = 64, where losses are not finite"),
    ],
)
def test_courses(values: tuple[float, ...], said: str) -> None:
    by_size = dict(zip((16, 64, 256), values, strict=True))
    result = changed(result_of([256, 16, 64], ["dot"]), lambda row: all_of(by_size[row["d"]]) | {"gradient_norm": 1.0})
    assert [found.text for found in result.findings] == [f"dot: {said}."]


@pytest.mark.parametrize(
    "result",
    [
        result_of([64], seeds=1),
        result_of(list(range(1, 4000, 100)), MANY),
        changed(result_of(), lambda row: all_of(math.nan) if row["d"] == 64 else {}),
        changed(result_of([64]), lambda row: all_of(math.nan)),
    ],
    ids=["one", "many", "lost", "all lost"],
)
def test_all_is_shown_whatever_was_found(result: Result, tmp_path: Path) -> None:
    assert max(map(cell_len, shown(result, width=60).splitlines())) <= 60
    pictures(result, lambda note: None)["train.png"](tmp_path / "train.png")


def test_what_is_drawn() -> None:
    result = result_of()
    figure = train_figure(result, print)
    lines: dict[Any, Any] = {line.get_gid(): line for axes in figure.axes for line in axes.lines}
    for label in LABELS:
        rows = [row for row in result.comparisons if row["label"] == label]
        assert list(lines[f"accuracy-{label}"].get_xdata()) == list(SIZES)
        assert list(lines[f"accuracy-{label}"].get_ydata()) == [row["accuracy"] for row in rows]
        curve = torch.tensor(lines[f"curve-{label}"].get_ydata(), dtype=torch.float32)
        torch.testing.assert_close(curve, result.tensors[f"{label}/1024/accuracy"].mean(0))
    assert list(lines["equal-weights"].get_ydata()) == [2.5 / 8] * 2
    band: Any = figure.axes[0].collections[0]
    corners = {(round(x, 6), round(y, 6)) for x, y in band.get_paths()[0].vertices.tolist()}
    dot = [row for row in result.comparisons if row["label"] == "dot"]
    assert {(row["d"], round(row[f"accuracy_{end}"], 6)) for row in dot for end in ("min", "max")} <= corners
    without_curves = replace(result, tensors={"steps": torch.tensor([0, 1])})
    assert len(train_figure(without_curves, print).axes[1].lines) == 1, "the level of equal weights"
