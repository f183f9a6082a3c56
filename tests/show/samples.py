"""Results to draw, and independent readers of tables and pictures."""

import importlib
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from matplotlib.figure import Figure
from rich.console import Console, RenderableType
from torch import Tensor

from attncli.attention import softmax_over_valid
from attncli.config.looks import Look
from attncli.engine.views import result_tables
from attncli.results import Result, Row, Tokens
from attncli.show.pictures.themes import look_sheet
from attncli.studies.attention.columns import AttentionFacts
from attncli.studies.attention.findings import attention_findings
from tests.experiments import Run
from tests.margins import last_digit

MOST = 40  # rows of a table, unless all
FIELD = re.compile(r"(\d\.\d{3}|\d+e-\d+|0|nan|·)([*·]?)")


@dataclass(frozen=True)
class Cell:
    """A cell as printed in the terminal."""

    text: str
    mark: str

    @property
    def value(self) -> float:
        return 0.0 if self.text == "·" else float(self.text)


Grid = dict[tuple[int, int], Cell]


def record_of(label: str, scorer: str, **figures: Any) -> Row:
    """Return a record of the attention study, with invented values for metrics not in `figures`."""
    made_up = {
        "normalizer": "softmax",
        "parameters": 184,
        "score_mean": -0.0123,
        "score_std": 1.5,
        "entropy": 1.25,
        "effective_keys": 3.5,
    }
    made_up |= {"max_weight": 0.5, "weight_sum": 1.0, "empty_rows": 0}
    return {"scorer": scorer, "label": label, **made_up, **figures}


def run_of(
    weights: Tensor,
    label: str = "dot",
    scorer: str = "dot",
    stages: dict[str, Tensor] | None = None,
    scale: float = 1.0,
    formula: str = "q . k (Luong et al. 2015)",
    **figures: Any,
) -> Run:
    """Return a scorer's run with these weights."""
    stages = {"scores": weights, "weights": weights, "output": torch.zeros(*weights.shape[:-1], 99), **(stages or {})}
    record = record_of(label, scorer, **{"parameters": 0, **figures})
    return Run(label, scorer, formula, scale, record, stages, {})


def result_of(*runs: Run, valid: Tensor | None = None, tokens: Tokens | None = None) -> Result:
    """Return a result with these runs and a comparison of each pair."""
    everything = torch.ones(1, 1, dtype=torch.bool)
    figures = {"js_divergence": 0.0123, "top1_agreement": 0.75, "max_abs_difference": 0.25, "output_difference": None}
    pairs = [{"a": a.label, "b": b.label, **figures} for i, a in enumerate(runs) for b in runs[i + 1 :]]
    stages = {f"{run.label}/{name}": each for run in runs for name, each in run.stages.items()}
    queries = next(iter(stages.values()), everything)[..., :1]
    inputs = {"valid": everything if valid is None else valid, "queries": queries}
    return Result(
        "attention",
        "test",
        [run.record for run in runs],
        pairs,
        attention_findings([], pairs, []),
        inputs,
        stages,
        formulas={run.label: run.formula for run in runs},
        scales={run.label: run.scale for run in runs},
        tokens={side: names for side, names in vars(tokens or Tokens()).items() if names},
        facts=AttentionFacts(),
    )


def printed(parts: Sequence[RenderableType], width: int) -> str:
    """Return the text for a pipe of this width."""
    file = io.StringIO()
    screen = Console(file=file, width=width)
    for part in parts:
        screen.print(part)
    return file.getvalue()


def shown(result: Result, width: int = 80, full: bool = False) -> str:
    """Return all tables of a result of any study as text."""
    most = None if full else MOST
    parts = result_tables(result, width, most)
    return printed(list(parts), width)


def drawn(result: Result) -> tuple[Figure, list[str]]:
    """Return the picture of a result, and the notes about it."""
    notes: list[str] = []
    figure = importlib.import_module(f"attncli.studies.{result.study}.figure")
    draw = getattr(figure, f"{result.study}_figure")
    return draw(result, notes.append, look_sheet(Look())), notes


def grids(text: str) -> dict[str, Grid]:
    """Return the cells of the weight tables without tokens, by scorer and place (`dot batch 0`), then (query, key)."""
    found: dict[str, Grid] = {}
    names: list[str] = []
    keys: list[str] = []
    label = ""
    for line in text.splitlines():
        fields = line.split()
        if ": scale" in line:
            label = line.split(":")[0].split(" (")[0]
        if " \\ k " in line:
            before, after = line.split(" \\ k ")
            names = re.findall(r"batch|head|axis \d|q", before)
            keys = re.findall(r"\d+|\.\.\.|max", after.split("out")[0])
        elif keys and len(fields) > len(names) and fields[0].isdigit() and fields[1] != "of":
            place = dict(zip(names, fields, strict=False))
            query = place.pop("q", "0")
            if query == "...":
                continue
            title = " ".join([label, ", ".join(f"{name} {index}" for name, index in place.items())]).strip()
            cells = zip(keys, fields[len(names) :], strict=False)
            read = {(int(query), int(key)): FIELD.fullmatch(cell) for key, cell in cells if key.isdigit()}
            found.setdefault(title, {}).update({at: Cell(*cell.groups()) for at, cell in read.items() if cell})
        elif not fields:
            keys = []
    return found


def random_weights(*shape: int, valid: Tensor | None = None, sharpness: float = 3.0, dtype: str = "float32") -> Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    scores = torch.randn(shape, generator=generator, dtype=getattr(torch, dtype)) * sharpness
    return softmax_over_valid(scores, valid)


def check_grid(grid: Grid, weights: Tensor, valid: Tensor | None = None) -> None:
    """Assert that every cell shows the tensor's value, and that the marked cells are the largest of their rows."""
    may_attend = torch.ones_like(weights, dtype=torch.bool) if valid is None else valid.expand(weights.shape)
    for (query, key), cell in grid.items():
        row, value = weights[query][may_attend[query]].tolist(), weights[query, key].item()
        if not may_attend[query, key]:
            assert (cell.text, cell.mark) == ("·", "")
            continue
        assert cell.value == pytest.approx(value, abs=last_digit(1e-3 if "e" not in cell.text else value))
        assert (cell.value == 0) == (value == 0)
        level = len(row) > 1 and max(row) - min(row) < 1e-6
        assert (cell.mark == "*") == (not level and value > max(row) - 1e-7)
