"""Promises of every scorer of the catalogue; a new scorer is tested as soon as it is listed."""

import itertools
from typing import Any

import pytest
import torch

from attncli.errors import InputError
from attncli.scorers import SCORERS, additive
from tests.scorers.catalogue import VARIANTS, make, normal

every_scorer = pytest.mark.parametrize("name", SCORERS)
STORED = [torch.float16, torch.bfloat16, torch.float32]


@every_scorer
def test_scores_are_float32_or_float64(name: str) -> None:
    for dtype, stored in itertools.product([*STORED, torch.float64], STORED):
        scorer = make(name, 3).to(stored)
        wanted = torch.float64 if dtype == torch.float64 else torch.float32
        assert scorer(normal(2, 3, dtype=dtype), normal(4, 3, dtype=dtype)).dtype == wanted
        assert scorer(normal(2, 3, dtype=torch.float16), normal(4, 3, dtype=dtype)).dtype == wanted


@pytest.mark.parametrize(("name", "options"), VARIANTS)
def test_gradients(name: str, options: dict[str, Any]) -> None:
    scorer = make(name, 3, **options).double()
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
        return  # see test_oracles.py
    with pytest.raises(InputError) as error:
        SCORERS[name](3, 5)
    assert str(error.value) == (
        "got queries of size 3 and keys of size 5; expected equal sizes; additive and general accept different sizes"
    )


@pytest.mark.parametrize(("name", "options"), VARIANTS)
def test_heads_with_parameters_and_options_of_their_own(
    name: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stacked over heads, a scorer gives each head the scores of a scorer with the head's parameters and options."""
    (together, *alone), heads = (make(name, 3, **options).double() for _ in range(5)), 4
    if not together.stacks_over_heads:
        pytest.skip("its parameters cannot be stacked")
    for index, scorer in enumerate(alone):
        for parameter in scorer.parameters():
            parameter.data.add_(normal(*parameter.shape, seed=index, dtype=torch.float64))
        for option in scorer.learnable:
            setattr(scorer, option, 0.7 + index)
    for module, of_heads in zip(together.modules(), zip(*(each.modules() for each in alone), strict=True), strict=True):
        for key in module._parameters.keys() if next(module.parameters(False), None) is not None else ():
            stacked = [each._parameters[key] for each in of_heads]
            setattr(module, key, None if stacked[0] is None else torch.nn.Parameter(torch.stack(stacked)))
    for option in together.learnable:
        numbers = torch.tensor([getattr(each, option) for each in alone], dtype=torch.float64)
        setattr(together, option, numbers[:, None, None])
    queries, keys = normal(2, heads, 5, 3, dtype=torch.float64), normal(2, heads, 6, 3, seed=1, dtype=torch.float64)
    wanted = torch.stack([each(queries[:, head], keys[:, head]) for head, each in enumerate(alone)], 1)
    torch.testing.assert_close(together(queries, keys), wanted, rtol=1e-12, atol=1e-12)
    monkeypatch.setattr(additive, "MOST_UNITS", 1)  # as for many pairs
    torch.testing.assert_close(together(queries, keys), wanted, rtol=1e-12, atol=1e-12)
