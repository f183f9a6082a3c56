"""`attncli sweep`: how many points run at a time, and where."""

from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import pytest

from attncli.engine.sweeps import running
from attncli.results import Row
from tests.cli import attncli, experiment
from tests.engine.sweeps.jobs import kept


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the number of processes requested from an engine that computes nothing."""
    numbers = list[int]()

    def engine(jobs: Sequence[Any], number: int, *_: object) -> Generator[Row]:
        numbers.append(number)
        for job in jobs:
            yield {"key": job["key"], "status": "done", "error": None, "seconds": 1, "host": "", "records": []}

    monkeypatch.setattr(running, "on_processes", engine)
    return numbers


def test_points_that_measure_time_run_alone(here: Path, asked: list[int]) -> None:
    bench = here / "bench.yaml"
    bench.write_text("study: bench\nscorers: [{scorer: dot}]\n")
    result = attncli("sweep", bench, "--over", "seed=0..3", "--jobs", 4)
    assert result.exit_code == 0
    assert asked == [1]
    assert "bench: points of a study that measures time run one at a time" in result.stderr


def test_no_more_processes_than_points(here: Path, asked: list[int]) -> None:
    assert attncli("sweep", experiment(here / "x.yaml"), "--over", "seed=0..1", "--jobs", 8).exit_code == 0
    assert asked[0] <= 2
    assert len(kept(here / "outputs/x_sweep/latest")) == 2
