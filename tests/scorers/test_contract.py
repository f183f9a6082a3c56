"""Promises of every scorer of the catalogue; a new scorer is tested as soon as it is listed."""

import itertools

import pytest
import torch
from torch import Tensor

from attncli.errors import InputError
from attncli.scorers import SCORERS
from tests.scorers.catalogue import make, normal

every_scorer = pytest.mark.parametrize("name", SCORERS)
STORED = [torch.float16, torch.bfloat16, torch.float32]


@every_scorer
def test_scores_are_float32_or_float64(name: str) -> None:
    for dtype, stored in itertools.product([*STORED, torch.float64], STORED):
        scorer = make(name, 3).to(stored)
        wanted = torch.float64 if dtype == torch.float64 else torch.float32
        assert scorer(normal(2, 3, dtype=dtype), normal(4, 3, dtype=dtype)).dtype == wanted
        assert scorer(normal(2, 3, dtype=torch.float16), normal(4, 3, dtype=dtype)).dtype == wanted


@every_scorer
def test_gradients(name: str) -> None:
    scorer = make(name, 3).double()
    queries, keys = normal(2, 3, dtype=torch.float64), normal(4, 3, seed=1, dtype=torch.float64)
    keys[0] = queries[0]  # where a distance has its kink
    keys[1] = 1.0  # where no entry is the largest
    leaves = [queries.requires_grad_(), keys.requires_grad_(), *scorer.parameters()]
    assert torch.autograd.gradcheck(lambda q, k, *_: scorer(q, k), leaves)


@every_scorer
def test_gradients_are_finite_at_every_size(name: str) -> None:
    for size in (0.0, 1e-20, 1e-10, 1.0, 1e10):
        queries, keys = (normal(2, 3) * size).requires_grad_(), (normal(4, 3, seed=1) * size).requires_grad_()
        for gradient in torch.autograd.grad(make(name, 3)(queries, keys).sum(), (queries, keys)):
            assert gradient.isfinite().all(), size


@every_scorer
def test_refuses_different_sizes_or_says_that_it_takes_them(name: str) -> None:
    if SCORERS[name].sizes_may_differ:
        assert make(name, 3, 5)(normal(2, 4, 3), normal(2, 6, 5)).shape == (2, 4, 6)
        return
    with pytest.raises(InputError) as error:
        SCORERS[name](3, 5)
    assert str(error.value) == (
        "got queries of size 3 and keys of size 5; expected equal sizes; additive and general accept different sizes"
    )


PARAMETERS = {
    "additive": {"W_q.weight": (8, 3), "W_k.weight": (8, 5), "w_v.weight": (1, 8)},
    "general": {"W.weight": (3, 5)},
    **{name: {} for name in ("scaled_dot", "dot", "cosine", "gaussian", "vector_sum", "kernel")},
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters(name: str) -> None:
    state: dict[str, Tensor] = make(name, 3, 5 if PARAMETERS[name] else 3).state_dict()
    assert {key: tuple(tensor.shape) for key, tensor in state.items()} == PARAMETERS[name]
    assert all(tensor.dtype == torch.float32 for tensor in state.values())
