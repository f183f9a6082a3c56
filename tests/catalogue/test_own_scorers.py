"""Custom scorers: `module:Class` in the working directory."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from attncli.engine.runs.resolved import config_data
from tests.experiments import Run, options_of, result_of, runs_of
from tests.studies.slow import DATA

MODULE = '''
import torch
from torch import nn


class Base(nn.Module):
    def __init__(self, query_size, key_size):
        super().__init__()


class Powered(Base):
    """(q . k)^power, a kernel of one's own"""

    def __init__(self, query_size, key_size, *, power: int = 2, offset: float | None = 0.5):
        super().__init__(query_size, key_size)
        self.power, self.offset = power, offset or 0.0
        self.scale = nn.Parameter(torch.randn(3))

    def forward(self, queries, keys):
        return (queries @ keys.mT) ** self.power + self.offset


class Noisy(Base):
    def __init__(self, query_size, key_size):
        super().__init__(query_size, key_size)
        self.dropout = nn.Dropout(0.5)

    def forward(self, queries, keys):
        return self.dropout(queries) @ keys.mT


class Lazy(Base):
    def __init__(self, query_size, key_size):
        super().__init__(query_size, key_size)
        self.layer = nn.LazyLinear(4)

    def forward(self, queries, keys):
        return self.layer(queries) @ keys.mT


class Whole(Base):
    def forward(self, queries, keys):
        return (queries @ keys.mT).int()
'''


@pytest.fixture(autouse=True)
def mine(own_module: Callable[[str, str], None]) -> None:
    own_module("mine", MODULE)


def run(name: str, *, train: bool = False, seed: int = 0, dtype: str = "float32", **options: Any) -> Run:
    entries = [{"scorer": f"mine:{name}", **options}]
    return runs_of(result_of(data=DATA, scorers=entries, train=train, seed=seed, dtype=dtype))[0]


def dot(**keys: Any) -> torch.Tensor:
    return runs_of(result_of(data=DATA, **keys))[0].stages["scores"]


@pytest.mark.parametrize("options", [{}, {"power": 3}, {"power": 1, "offset": None}], ids=str)
def test_options(options: dict[str, Any]) -> None:
    powered, offset = run("Powered", **options), 0.0 if "offset" in options else 0.5
    torch.testing.assert_close(powered.stages["scores"], dot() ** options.get("power", 2) + offset)
    assert (powered.label, powered.scorer) == ("Powered", "mine:Powered")
    assert powered.formula == "(q . k)^power, a kernel of one's own"
    assert powered.record["parameters"] == 3
    assert math.isnan(powered.scale), "three numbers are no scale"
    (written,) = config_data(options_of(data=DATA, scorers=[{"scorer": "mine:Powered", **options}]))["scorers"]
    assert options.items() <= written.items(), "also an option that is nothing"


@pytest.mark.parametrize(("name", "train"), [("Lazy", False), ("Noisy", True)])
def test_random_numbers_follow_seed_and_label(name: str, train: bool) -> None:
    """Those of parameters, also of layers that are made late, and those drawn inside."""

    def scores(**keys: Any) -> torch.Tensor:
        torch.rand(1)  # changes the state of torch's generator, of no interest
        return run(name, train=train, **keys).stages["scores"]

    assert torch.equal(scores(), scores())
    assert not torch.equal(scores(), scores(seed=1))
    assert not torch.equal(scores(), scores(label="other"))


def test_in_evaluation_mode_there_is_no_dropout() -> None:
    assert torch.equal(run("Noisy").stages["scores"], dot())


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_scores_are_computed_in_float32_at_least_whatever_the_storage(dtype: str) -> None:
    whole, expected = run("Whole", dtype=dtype).stages["scores"], dot(dtype=dtype)
    assert expected.dtype == (torch.float64 if dtype == "float64" else torch.float32)
    torch.testing.assert_close(whole, expected.trunc().float(), rtol=0, atol=0)
