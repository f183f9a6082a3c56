"""Output of the study `train` for results with known metrics: tables, findings and train.png."""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.cells import cell_len

from attncli.config.looks import Look
from attncli.results import Result, Row
from attncli.show.pictures.figures import save_figure
from attncli.studies.train.columns import TrainFacts
from attncli.studies.train.figure import figures
from attncli.studies.train.rows import summary, train_findings
from tests.show.samples import drawn, shown

pytestmark = pytest.mark.usefixtures("sketches")

SIZES, LABELS, STEPS = (16, 64, 256, 1024), ("dot", "scaled_dot", "additive"), torch.arange(0, 801, 8)
FACTS: Row = {
    "keys": 8, "vocabulary": 16, "classes": 8, "embedding": 64, "steps": 800, "batch": 64, "optimizer": "adam",
    "lr": 0.001, "dtype": "float32", "device": "cpu", "equal_weights": {str(keys): 2.5 / keys for keys in (8, 16, 32)},
    "least_loss": math.log1p(7 / math.e),
}  # fmt: skip


def dot_loses(label: str, d: int, seed: int) -> float:
    """Return an accuracy of 1; `dot` loses 0.05 each time d is multiplied by four, and 0.02 with each seed."""
    return 1.0 if label != "dot" or d <= 16 else 1.0 - 0.05 * math.log2(d / 16) / 2 - 0.02 * seed


def result_of(
    sizes: Sequence[int] = SIZES,
    labels: Sequence[str] = LABELS,
    seeds: int = 5,
    tested: Sequence[int] = (8,),
    accuracy: Callable[[str, int, int], float] = dot_loses,
) -> Result:
    """Return a result with curves that rise from 0.25 to the final accuracy."""
    rows: list[Row] = []
    for label, d, keys, seed in itertools.product(labels, sizes, tested, range(seeds)):
        right = accuracy(label, d, seed) - (0.1 if keys != 8 and label == "dot" else 0.0)
        row: Row = {"scorer": label, "label": label, "normalizer": "softmax", "d": d, "seed": seed, "keys": keys}
        row |= {"parameters": 128 * d, "accuracy": right, "loss": 2.0 - right}
        row |= {"gradient_norm": 1e-6 if right < 1 else 0.125}
        row |= {"entropy": 0.25, "start_entropy": 0.0625 if label == "dot" else 2.0, "largest_score": 3.0}
        rows.append(row | {"steps_to_90": 8 * (seed + 1) if right >= 0.9 else None})
    rise = 1 - torch.exp(-STEPS / 100)
    curves = {
        f"{label}/{d}/accuracy": torch.stack([0.25 + (accuracy(label, d, seed) - 0.25) * rise for seed in range(seeds)])
        for label, d in itertools.product(labels, sizes)
    }
    return Result(
        "train",
        "train",
        rows,
        summary(rows),
        train_findings(summary(rows), 8),
        tensors={"steps": STEPS, **curves},
        formulas={label: f"the formula of {label}" for label in labels},
        facts=TrainFacts(seeds=seeds, **FACTS),
    )


def test_tables() -> None:
    text = shown(result_of())
    assert "interrupted" not in text
    assert "interrupted: results are incomplete" in shown(replace(result_of(), interrupted=True))
    lines = text.split("accuracy with 8 keys (chance level 0.312)\n")[1].splitlines()
    assert lines[0].split() == ["label", *(part for d in SIZES for part in ("d", "=", str(d)))]
    assert lines[2].split()[:4] == ["dot", "1.00", "0.910", "(0.870–0.950)"]
    assert lines[2].split()[-2:] == ["0.810", "(0.770–0.850)"]
    short = shown(result_of(tested=[8, 16]))
    assert ["16", "1,024", "0.710"] in [line.split()[:3] for line in short.splitlines()]
    details = [line.split() for line in text.split("learning at each d\n")[1].splitlines() if line.startswith("dot ")]
    assert details[3] == ["dot", "1,024", "-", "0", "1.19", "0.0625", "0.250", "1.0e-06"]
    assert "lowest possible loss: 1.27" in " ".join(text.split())


def test_findings() -> None:
    *courses, why = result_of().findings
    assert [found.text for found in courses] == [
        "dot: accuracy falls from 1.00 (d = 16) to 0.810 (d = 1024).",
        "scaled_dot: accuracy stays at 1.00 (d = 16 to d = 1024).",
        "additive: accuracy stays at 1.00 (d = 16 to d = 1024).",
    ]
    assert courses[0].numbers["accuracy"] == [row["accuracy"] for row in result_of().comparisons[:4]]
    assert why.text.startswith("dot has hardly any gradient left at d = 1024: its norm is 1.0e-06; the entropy")
    assert (why.label, why.numbers["d"], why.numbers["gradient_norm"]) == ("dot", 1024, pytest.approx(1e-6))
    more = result_of([16, 64], ["dot"], tested=[8, 16, 32]).findings[0]
    others = "; ".join(f"with {keys} keys it is 0.810 (0.770–0.850) at d = 64" for keys in (16, 32))
    assert more.text == f"dot: accuracy falls from 1.00 (d = 16) to 0.910 (d = 64); {others}."
    assert more.numbers["accuracy_with_keys"] == pytest.approx({"16": 0.81, "32": 0.81})


@pytest.mark.parametrize("sizes", [list(range(1, 4000, 200)), [16, 64], [64]])
def test_all_is_shown_whatever_was_found(sizes: list[int], tmp_path: Path) -> None:
    """With many sizes and labels, and with lost losses at some sizes or at all."""
    long = "a rather long label that says everything that there is to say about the scorer"
    labels = ["dot", "注意力机制 点积", long, "_hidden $x_1$", "[bold]", "dot_5", "dot_6", "dot_7"]
    result = result_of(sizes, labels, accuracy=lambda label, d, seed: math.nan if d == 64 else 1.0)
    assert max(map(cell_len, shown(result, width=60).splitlines())) <= 60
    save_figure(figures(result, lambda note: None, Look())["train"](), tmp_path / "train.png")


def test_what_is_drawn() -> None:
    result = result_of()
    figure, _ = drawn(result)
    lines: dict[Any, Any] = {line.get_gid(): line for axes in figure.axes for line in axes.lines}
    for label, band in zip(LABELS, figure.axes[0].collections, strict=True):
        rows = [row for row in result.comparisons if row["label"] == label]
        outline: Any = band.get_paths()[0].vertices
        for row in rows:
            ends = [y for x, y in outline if x == row["d"]]
            assert (min(ends), max(ends)) == (row["accuracy_min"], row["accuracy_max"])
        assert list(lines[f"accuracy-{label}"].get_xdata()) == list(SIZES)
        assert list(lines[f"accuracy-{label}"].get_ydata()) == [row["accuracy"] for row in rows]
        curve = torch.tensor(lines[f"curve-{label}"].get_ydata(), dtype=torch.float32)
        torch.testing.assert_close(curve, result.tensors[f"{label}/1024/accuracy"].mean(0))
    assert list(lines["equal-weights"].get_ydata()) == [2.5 / 8] * 2
    without_curves = replace(result, tensors={"steps": torch.tensor([0, 1])})
    assert len(drawn(without_curves)[0].axes[1].lines) == 1, "the level of equal weights"
