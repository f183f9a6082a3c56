"""Points for engines: small studies of attention, and scorers that misbehave."""

import csv
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attncli.engine.sweeps.work import code_version
from attncli.results import Row
from attncli.scorers.dot import Dot


def config(seed: int, scorer: str = "additive", **keys: Any) -> dict[str, Any]:
    """Return the part of a resolved config that a point needs."""
    data = {"queries": {"shape": [2, 3, 4]}, "keys": {"shape": [2, 5, 4]}}
    return {"study": "attention", "seed": seed, "data": data, "scorers": [{"scorer": scorer}], **keys}


def job(key: str, config: dict[str, Any]) -> dict[str, Any]:
    return {"key": key, "config": config, "code": code_version()}


def jobs(count: int, scorer: str = "additive") -> list[dict[str, Any]]:
    """Return points that differ in their seed."""
    return [job(f"{scorer}-{seed}", config(seed, scorer)) for seed in range(count)]


def bad(name: str) -> dict[str, Any]:
    """Return a point with one of the scorers below."""
    return job(name, config(0, f"{__name__}:{name}"))


def figures(rows: Sequence[Row]) -> dict[str, Any]:
    """Return the parts of rows that do not depend on time and machine, by key; assert that each key occurs once."""
    found = {row["key"]: [row["status"], row["records"], row.get("heads")] for row in rows}
    assert len(found) == len(rows)
    return found


def table(folder: Path, name: str = "records.csv") -> list[Row]:
    """Return the rows in a file of a sweep."""
    with (folder / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def misbehaving(misdeed: Callable[[], object]) -> type[Dot]:
    """Return a scorer that calls a function before each use."""

    class Misbehaving(Dot):
        def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
            misdeed()
            return super().forward(queries, keys)

    return Misbehaving


def fail() -> None:
    raise ArithmeticError("three\nlines\nof text")


Raises = misbehaving(fail)
Leaves = misbehaving(partial(sys.exit, 3))
EndsBadly = misbehaving(partial(os._exit, 5))
IsKilled = misbehaving(lambda: os.kill(os.getpid(), signal.SIGKILL))
EatsMemory = misbehaving(partial(torch.empty, 2**50))
NeverEnds = misbehaving(partial(time.sleep, 1e6))
Prints = misbehaving(lambda: sys.stdout.write("from the scorer\n"))
Slow = misbehaving(partial(time.sleep, 0.1))
IsInterrupted = misbehaving(partial(signal.raise_signal, signal.SIGINT))
