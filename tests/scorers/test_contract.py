"""Promises of every scorer of the catalogue; a new scorer is tested as soon as it is listed."""

import itertools
from typing import Any

import pytest
import torch

from attncli.errors import InputError
from attncli.scorers import SCORERS, additive
from attncli.scorers._heads import HeadScorer
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
    """Each head has the scores of a scorer with its parameters and options: together, in parts, and one by one."""
    together, *alone = (make(name, 3, **options).double() for _ in range(5))
    for index, scorer in enumerate(alone):
        for parameter in scorer.parameters():
            parameter.data.add_(normal(*parameter.shape, seed=index, dtype=torch.float64))
        for option in scorer.learnable:
            setattr(scorer, option, 0.75 + index)
    names = [key for key, _ in together.named_parameters()]
    learnt = {key: torch.stack([scorer.get_parameter(key).detach() for scorer in alone]) for key in names}
    learnt |= {key: torch.tensor([getattr(scorer, key) for scorer in alone]) for key in together.learnable}
    queries, keys = normal(2, 4, 5, 3, dtype=torch.float64), normal(2, 4, 6, 3, seed=1, dtype=torch.float64)
    wanted = torch.stack([scorer(queries[:, head], keys[:, head]) for head, scorer in enumerate(alone)], 1)
    for change in ({}, {additive: ("MOST_UNITS", 1)}, {together: ("stacks_over_heads", False)}):
        for module, (attribute, value) in change.items():
            monkeypatch.setattr(module, attribute, value)
        torch.testing.assert_close(HeadScorer(together, learnt)(queries, keys), wanted, rtol=1e-12, atol=1e-12)
