"""Custom scorers: `module:Class` in the working directory."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from attncli.engine.runs.resolved import config_data
from attncli.studies.attention.options import AttentionOptions
from tests.experiments import Run, result_of, runs_of
from tests.studies.slow import DATA

MODULE = '''
import torch
from torch import nn


class Base(nn.Module):
    def __init__(self, query_size, key_size):
        super().__init__()


class Plain(Base):
    def forward(self, queries, keys):
        return queries @ keys.mT


class Powered(Base):
    """(q . k)^power, a kernel of one's own

    More text.
    """

    def __init__(self, query_size, key_size, *, power: int = 2, offset: float | None = 0.5):
        super().__init__(query_size, key_size)
        self.power, self.offset = power, offset or 0.0
        self.sizes = query_size, key_size
        self.weight = nn.Parameter(torch.randn(3))

    def forward(self, queries, keys):
        return (queries @ keys.mT) ** self.power + self.offset


class Learned(Base):
    def __init__(self, query_size, key_size):
        super().__init__(query_size, key_size)
        self.scale = nn.Parameter(torch.ones(3, 1))

    def forward(self, queries, keys):
        return queries * self.scale @ keys.mT


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


def run(name: str, *, train: bool = False, seed: int = 0, **options: Any) -> Run:
    entries = [{"scorer": f"mine:{name}", **options}]
    return runs_of(result_of(data=DATA, scorers=entries, train=train, seed=seed))[0]


@pytest.mark.parametrize(
    ("options", "power", "offset"), [({}, 2, 0.5), ({"power": 3}, 3, 0.5), ({"power": 1, "offset": None}, 1, 0.0)]
)
def test_options(options: dict[str, Any], power: int, offset: float) -> None:
    dot = runs_of(result_of(data=DATA))[0].stages["scores"]
    powered = run("Powered", **options)
    torch.testing.assert_close(powered.stages["scores"], dot**power + offset)
    assert (powered.label, powered.scorer) == ("Powered", "mine:Powered")
    assert powered.formula == "(q . k)^power, a kernel of one's own"
    assert powered.record["parameters"] == 3


def test_parameters_follow_seed_and_label_even_where_layers_are_made_late() -> None:
    torch.manual_seed(1)
    lazy = run("Lazy")
    torch.manual_seed(2)
    assert torch.equal(lazy.stages["scores"], run("Lazy").stages["scores"])
    assert lazy.record["parameters"] == 4 * 4 + 4
    weight = run("Powered").state["weight"]
    assert torch.equal(weight, run("Powered").state["weight"])
    assert not torch.equal(weight, run("Powered", seed=1).state["weight"])
    assert not torch.equal(weight, run("Powered", label="other").state["weight"])


def test_randomness_inside() -> None:
    torch.manual_seed(1)
    noisy = run("Noisy", train=True).stages["scores"]
    torch.manual_seed(2)
    assert torch.equal(noisy, run("Noisy", train=True).stages["scores"])
    assert not torch.equal(noisy, run("Noisy", train=True, seed=1).stages["scores"])
    still = run("Noisy").stages["scores"]
    assert torch.equal(still, runs_of(result_of(data=DATA))[0].stages["scores"]), "in evaluation mode there is none"


def test_scores_of_whole_numbers_and_a_scale_that_is_no_number() -> None:
    dot, whole, learned = runs_of(result_of(data=DATA))[0].stages["scores"], run("Whole"), run("Learned")
    assert whole.stages["scores"].dtype == torch.float32
    assert torch.equal(whole.stages["scores"], dot.trunc())
    assert math.isnan(learned.scale)
    assert torch.equal(learned.stages["scores"], dot)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_scores_are_computed_in_float32_whatever_the_storage(dtype: str) -> None:
    own = [{"scorer": "mine:Plain"}, {"scorer": "dot"}]
    mine, dot = runs_of(result_of(data=DATA, scorers=own, dtype=dtype))
    torch.testing.assert_close(mine.stages["scores"], dot.stages["scores"], rtol=0, atol=0)


def test_an_option_set_to_nothing_is_written_down() -> None:
    options = AttentionOptions.model_validate(
        {"name": "x", "data": DATA, "scorers": [{"scorer": "mine:Powered", "offset": None}]}
    )
    assert config_data(options)["scorers"][0]["offset"] is None
