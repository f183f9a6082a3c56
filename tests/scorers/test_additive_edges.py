"""Additive scores where callers do the unusual: no rows at all, autocast, weights near the end of the numbers."""

import pytest
import torch

from attncli import textbook
from tests.scorers.catalogue import make, normal


@pytest.mark.parametrize(("n", "m"), [(0, 5), (5, 0), (0, 0)])
@pytest.mark.parametrize("leading", [(), (2,), (0,)])
def test_nothing_to_score(leading: tuple[int, ...], n: int, m: int) -> None:
    scorer = make("additive", 3)
    queries, keys = torch.zeros(*leading, n, 3, requires_grad=True), torch.zeros(*leading, m, 3)
    scores = scorer(queries, keys)
    assert scores.shape == (*leading, n, m)
    scores.sum().backward()
    assert queries.grad is not None
    assert bool((queries.grad == 0).all())


def test_autocast_changes_nothing() -> None:
    scorer, queries, keys = make("additive", 16, num_hiddens=16), normal(2, 20, 16), normal(2, 24, 16, seed=1)
    queries.requires_grad_()
    wanted = scorer(queries, keys)
    (gradient,) = torch.autograd.grad(wanted.sum(), queries)
    with torch.autocast("cpu", torch.bfloat16):
        scores = scorer(queries, keys)
        (found,) = torch.autograd.grad(scores.sum(), queries)
    torch.testing.assert_close(scores, wanted, rtol=0, atol=0)
    torch.testing.assert_close(found, gradient, rtol=0, atol=0)


@pytest.mark.parametrize("size", [1e-300, 1e-44, 1e44, 1e200, 1e300])
def test_float64_weights_of_every_size(size: float) -> None:
    scorer = make("additive", 16, num_hiddens=16).double()
    queries, keys = normal(20, 16, dtype=torch.float64), 100 * normal(24, 16, seed=1, dtype=torch.float64)
    with torch.no_grad():
        scorer.w_v.weight *= size  # type: ignore[union-attr, operator]
        w_q, w_k, w_v = (parameter.detach() for parameter in scorer.parameters())
        scores = scorer(queries, keys)
    torch.testing.assert_close(scores, textbook.additive_scores(queries, keys, w_q, w_k, w_v[0]), rtol=1e-11, atol=0)
