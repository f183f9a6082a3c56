"""Additive scores are as exact as the textbook form, with a tanh for every pair and unit; and what is at the edges."""

import math

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from attncli import textbook
from attncli.scorers import _additive_pairs, _additive_scores
from tests.combinations import varied
from tests.scorers.additive.cases import (
    PROJECTIONS,
    WEIGHTS,
    Case,
    Draw,
    exact_scores,
    half_unit,
    largest_errors,
    scorer_for,
)
from tests.scorers.catalogue import make, normal, same_bits

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
both_forms = pytest.mark.parametrize("size", [5, 16], ids=["direct", "quotient"])
SIZES = [(16, 16), (17, 33), (48, 20), (1, 1), (1, 40), (40, 1), (3, 5)]

# Beyond twice the error of the textbook form, half-units in the last place of sum |w_v|. One, the rounding of the
# result, is enough where the error of the textbook form is not by chance far smaller than that. It is where all units
# are saturated or cancel exactly, or where one of them outweighs the others: then the few roundings of the quotient
# stand alone.
USUALLY, AT_WORST = 1, 5


@st.composite
def cases(draw: st.DrawFn) -> Case:
    (n, m), h = draw(st.sampled_from(SIZES)), draw(st.sampled_from([1, 2, 7, 8, 9, 64, 200, 1024]))
    drawn, dtype = Draw(n, m, h, draw(st.integers(0, 2**32))), draw(st.sampled_from([torch.float32, *DTYPES]))
    return drawn_case(drawn, draw(st.sampled_from(sorted(PROJECTIONS))), draw(st.sampled_from(WEIGHTS)), dtype)


def drawn_case(drawn: Draw, kind: str, weights: str, dtype: torch.dtype) -> Case:
    largest = torch.finfo(dtype).max
    queries, keys = (each.clamp(-largest, largest).to(dtype) for each in PROJECTIONS[kind](drawn))
    return Case(queries, keys, drawn.weights(weights, largest**0.75).to(dtype))


@settings(max_examples=250)
@example(
    case=drawn_case(Draw(64, 64, 20, seed=3), "wide", "one", torch.float64)
)  # where a rounding of the projections would show
@given(case=cases())
def test_no_less_exact_than_the_textbook_form(case: Case) -> None:
    mine, usual = largest_errors(case)
    assert mine <= 2 * usual + AT_WORST * half_unit(case.w_v)


@varied(dtype=DTYPES, magnitude=[1.0, 1e-4, 1e-2, 10.0, 1e2, 1e4], h=[8, 64])
def test_usually_one_rounding_more_at_most(dtype: torch.dtype, magnitude: float, h: int) -> None:
    drawn = Draw(32, 32, h, seed=1)
    queries, keys = (drawn.uniform(32, h, to=magnitude).to(dtype) for _ in range(2))
    case = Case(queries, keys, drawn.weights("normal").to(dtype))
    mine, usual = largest_errors(case)
    assert mine <= 2 * usual + USUALLY * half_unit(case.w_v)


@varied(dtype=DTYPES, size=[5, 16], magnitude=[1e-4, 1e-3])
def test_small_scores_keep_their_digits(dtype: torch.dtype, size: int, magnitude: float) -> None:
    drawn = Draw(size, size, 16, seed=2)
    queries, keys = (drawn.uniform(size, 16, to=magnitude).to(dtype) for _ in range(2))
    case = Case(queries, keys, drawn.weights("signs").to(dtype))
    mine, _ = largest_errors(case)
    assert mine <= 8 * half_unit(case.w_v) * 2 * magnitude, "of numbers that small, not of sum |w_v|"


@pytest.mark.parametrize("n", [1, 16])
def test_projections_beyond_the_largest_number(n: int) -> None:
    case = Case(normal(n, 8).sign() * 3e38, normal(16, 8, seed=1) * 1e30, normal(8, seed=2))
    scorer = scorer_for(case.w_v)
    scorer.get_parameter("W_q.weight").mul_(10)  # the projections are infinite, of either sign
    mine = scorer(case.queries, case.keys).double().numpy()
    assert np.abs(mine - exact_scores(case)).max() <= AT_WORST * half_unit(case.w_v)
    scorer.get_parameter("W_k.weight").mul_(1e9)  # and on the other side too, where only NaN would be wrong
    assert scorer(case.queries, case.keys).isfinite().all()


@varied(
    workspace=[2**14, 2**24],
    stranger=[math.nan, math.inf, -math.inf, 1e30, -3e38],
    shape=[(33, 40, 16), (16, 16, 8), (5, 7, 3)],
)
def test_no_key_changes_the_scores_of_another(
    shape: tuple[int, int, int], stranger: float, workspace: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    n, m, h = shape
    scorer, queries, keys = make("additive", 6, num_hiddens=h), normal(2, n, 6), normal(2, m, 6, seed=1)
    monkeypatch.setattr(type(scorer), "workspace_bytes", workspace)
    before = scorer(queries, keys)
    for place in [(0, 0, slice(None)), (1, m // 2, slice(None)), (1, m - 1, slice(1))]:
        changed = keys.clone()
        changed[place] = stranger
        others = torch.ones(2, m, dtype=torch.bool)
        others[place[:2]] = False
        after = scorer(queries, changed)
        assert same_bits(after.mT[others], before.mT[others])
        assert not torch.equal(after, before)


@both_forms
@pytest.mark.parametrize("stranger", [math.nan, math.inf, 1e30])
def test_no_query_changes_the_scores_of_another_beyond_rounding(size: int, stranger: float) -> None:
    scorer, queries, keys = make("additive", 6, num_hiddens=8), normal(3, size, 6), normal(3, size, 6, seed=1)
    changed, others = queries.clone(), torch.ones(3, size, dtype=torch.bool)
    changed[1, 2], others[1, 2] = stranger, False
    before, after = scorer(queries, keys), scorer(changed, keys)
    rounding = 8 * half_unit(scorer.get_parameter("w_v.weight").detach())
    torch.testing.assert_close(after[others], before[others], rtol=0, atol=rounding)
    if math.isnan(stranger):
        assert bool(after[1, 2].isnan().all())


def test_the_sizes_of_these_tests_reach_both_forms(monkeypatch: pytest.MonkeyPatch) -> None:
    used = []

    def watched(queries: Tensor, keys: Tensor) -> tuple[_additive_pairs.Form, Tensor]:
        form, largest = _additive_pairs.form_for(queries, keys)
        used.append(form is _additive_pairs.QUOTIENT)
        return form, largest

    monkeypatch.setattr(_additive_scores, "form_for", watched)
    for size in (5, 16):
        make("additive", 6, num_hiddens=8)(normal(3, size, 6), normal(3, size, 6, seed=1))
    assert used == [False, True]


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
