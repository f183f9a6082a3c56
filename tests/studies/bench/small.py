"""The study `bench` as Python data: small sizes, few rounds, and parts that can be planted."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from attncli.studies.bench import measure
from attncli.studies.bench import study as bench
from attncli.studies.bench.options import BenchOptions
from attncli.studies.bench.study import Prepared
from attncli.studies.progress import Silent
from attncli.studies.study import Record, Result

CPU = torch.device("cpu")


def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rounds, and short ones: what they measure is not looked at."""
    monkeypatch.setattr(measure, "BLOCK", 1e-5)
    monkeypatch.setattr(measure, "BUDGET", 0.0)
    monkeypatch.setattr(measure, "MOST_COPIES", 3)


def options_of(**keys: Any) -> BenchOptions:
    """Options of a small experiment."""
    return BenchOptions.model_validate({"name": "test", "device": "cpu", "threads": 1, "n": [6], "d": [4], **keys})


def prepared(**keys: Any) -> Prepared:
    """An experiment that is ready to run."""
    return bench.prepare(options_of(**keys), Silent())


def result_of(**keys: Any) -> Result:
    """The result of an experiment."""
    return bench.run(prepared(**keys), Silent())


def by_name(result: Result, measure: str = "scores") -> dict[str, Record]:
    """The rows of one measure by label/implementation."""
    rows = [row for row in result.records if row["measure"] == measure]
    return {f"{row['label']}/{row['implementation']}": row for row in rows}


class Clock:
    """A clock that only planted work moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def work(self, seconds: Iterator[float] | float) -> Any:
        """A call that takes so long, or as long as the next of several times."""

        def call() -> None:
            self.now += next(seconds) if isinstance(seconds, Iterator) else seconds

        return call
