"""The study `bench` as Python data: small sizes, and few short rounds."""

from typing import Any

import pytest
import torch

from attncli.results import Result, Row
from attncli.runtime import Progress
from attncli.studies.bench import measure
from attncli.studies.bench import study as bench
from attncli.studies.bench.options import BenchOptions

CPU = torch.device("cpu")
TWO: dict[str, Any] = {"scorers": [{"scorer": "additive"}, {"scorer": "dot"}]}


def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure few short rounds; the times themselves are not tested."""
    monkeypatch.setattr(measure, "BLOCK", 1e-5)
    monkeypatch.setattr(measure, "BUDGET", 0.0)
    monkeypatch.setattr(measure, "MOST_COPIES", 3)


def options_of(**keys: Any) -> BenchOptions:
    """Return the options of a small experiment."""
    return BenchOptions.model_validate({"name": "test", "device": "cpu", "threads": 1, "n": [6], "d": [4], **keys})


def result_of(**keys: Any) -> Result:
    """Return the result of an experiment."""
    return bench.run(bench.prepare(options_of(**keys), Progress()), Progress())


def by_name(result: Result, measure: str = "scores") -> dict[str, Row]:
    """Return the rows of one measure by label/implementation."""
    rows = [row for row in result.records if row["measure"] == measure]
    return {f"{row['label']}/{row['implementation']}": row for row in rows}
