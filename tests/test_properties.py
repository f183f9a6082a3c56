"""Properties of every scorer, shape and mask, on many random examples."""

import itertools
import math
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from attncli.attention import Bias, Rules, attend, weighted_sum
from attncli.core.masks import Valid
from attncli.normalizers import NORMALIZERS
from attncli.scorers import SCORERS
from tests import reference
from tests.normalizers.catalogue import VARIANTS
from tests.scorers.catalogue import make, normal, same_bits

every_scorer = pytest.mark.parametrize("name", SCORERS)
GARBAGE = [math.nan, math.inf, -math.inf, 3e38, -3e38, 1e-40, 0.0, 1.0]


@dataclass(frozen=True)
class Case:
    queries: Tensor  # leading n d
    keys: Tensor  # leading m d
    values: Tensor  # leading m v
    valid: Tensor  # leading n m
    seed: int


@st.composite
def cases(draw: st.DrawFn, longest: int = 9) -> Case:
    leading = draw(st.sampled_from([(), (1,), (3,), (2, 2)]))
    n, m, d, v = (draw(st.integers(1, longest)) for _ in range(4))
    size, share = draw(st.sampled_from([0.01, 1.0, 100.0])), draw(st.sampled_from([0.1, 0.5, 0.9, 1.0]))
    dtype = draw(st.sampled_from([torch.float32, torch.float32, torch.float64, torch.float16, torch.bfloat16]))
    seed = draw(st.integers(0, 2**16))
    queries, keys = normal(*leading, n, d, seed=seed, dtype=dtype), normal(*leading, m, d, seed=seed + 1, dtype=dtype)
    valid = torch.rand(*leading, n, m, generator=torch.Generator().manual_seed(seed)) < share
    return Case(queries * size, keys * size, normal(*leading, m, v, seed=seed + 2, dtype=dtype), valid, seed)


def scores_of(name: str, case: Case) -> Tensor:
    scores: Tensor = make(name, case.queries.shape[-1])(case.queries, case.keys)
    return scores.detach()


@every_scorer
@given(case=cases())
def test_arguments_are_untouched(name: str, case: Case) -> None:
    scorer = make(name, case.queries.shape[-1])
    arguments = [case.queries, case.keys, case.values, case.valid, *scorer.parameters()]
    before = [tensor.detach().clone() for tensor in arguments]
    scores = scorer(case.queries, case.keys).detach()
    copy = scores.clone()
    attend(scores, case.values, mask=case.valid)
    assert all(torch.equal(now, then) for now, then in zip([*arguments, scores], [*before, copy], strict=True))


@every_scorer
def test_a_key_changes_no_bit_of_the_scores_of_others(name: str) -> None:
    for d, junk in itertools.product((3, 32), GARBAGE):
        scorer, queries, keys = make(name, d), normal(2, 3, d), normal(2, 5, d, seed=1)
        scores, others = scorer(queries, keys).mT, torch.ones(2, 5, dtype=torch.bool)
        keys[0, 2], others[0, 2] = junk, False
        assert same_bits(scorer(queries, keys).mT[others], scores[others]), (d, junk)


# A scorer, a normaliser and a bias are drawn together below, since any of them may stand beside any other.


@dataclass(frozen=True)
class Way:
    """The options of one way from queries and keys to weights."""

    scorer: str
    normalizer: str
    options: dict[str, Any]
    biases: frozenset[str]  # of "given" and "alibi"
    cap: float | None

    def rules(self, case: Case, given: Tensor | None) -> Rules:
        shape = tuple(case.valid.shape)
        tensor, first = given if "given" in self.biases else None, shape[-1] - shape[-2]
        bias = Bias(shape, tensor, "alibi" in self.biases, first)
        normalizer = NORMALIZERS[self.normalizer](**self.options)
        valid = Valid(shape, mask=case.valid)
        return Rules(valid, self.cap, "zero", bias if self.biases else None, normalizer)


@st.composite
def ways(draw: st.DrawFn) -> Way:
    """Draw ways, without normalisers that refuse some scores."""
    free = [(name, options) for name, options in VARIANTS if NORMALIZERS[name].lowest_score == -math.inf]
    normalizer, options = draw(st.sampled_from(free))
    return Way(
        draw(st.sampled_from(list(SCORERS))),
        normalizer,
        options,
        draw(st.sampled_from([frozenset(each) for each in ((), ("given",), ("alibi",), ("given", "alibi"))])),
        draw(st.sampled_from([None, None, 3.0])),
    )


def given_bias(case: Case) -> Tensor:
    """Return a random bias of a shape that broadcasts to the scores, with zeros among numbers of either sign."""
    *leading, n, m = case.valid.shape
    shape = [(n, m), (1, m), (n, 1), (*leading, n, m), (*leading, 1, m)][case.seed % 5]
    return normal(*shape, seed=case.seed + 3).relu() - normal(*shape, seed=case.seed + 4).relu()


def slack_of(scores: Tensor) -> float:
    """Return the largest change of a weight by rounding of these scores."""
    return 2e-6 * max(float(scores.abs().max()), 1.0) * (1e-8 if scores.dtype == torch.float64 else 1.0)


@settings(max_examples=100)
@given(way=ways(), case=cases(longest=6))
def test_weights_against_the_slow_ones(way: Way, case: Case) -> None:
    """Each oracle computes one stage from the result of the stage before."""
    scores, given, rules = scores_of(way.scorer, case), given_bias(case), way.rules(case, given_bias(case))
    stages = rules.stages(scores)
    expected = [name for name, is_used in (("capped", way.cap), ("biased", way.biases)) if is_used]
    assert list(stages) == [*expected, "weights"]
    last = scores
    if way.cap is not None:
        capped, last = way.cap * (scores / way.cap).tanh(), stages["capped"]
        torch.testing.assert_close(last, capped, rtol=1e-5, atol=slack_of(scores))
    if way.biases:
        *leading, n, m = case.valid.shape
        heads, bias = leading[1] if len(leading) > 1 else 1, torch.zeros((), dtype=torch.float64)
        if "given" in way.biases:
            bias = bias + given
        if "alibi" in way.biases:
            slow = reference.alibi(heads, n, m, first=m - n)
            bias = bias + (slow if len(leading) > 1 else slow[0])
        torch.testing.assert_close(stages["biased"].double(), last.double() + bias, rtol=1e-5, atol=slack_of(scores))
        last = stages["biased"]

    def weights_of(scores: Tensor, valid: Tensor) -> Tensor:
        return reference.weights_of(way.normalizer, scores, valid, **way.options)

    wanted = reference.for_each_matrix(weights_of, last.double(), case.valid)
    torch.testing.assert_close(stages["weights"].double(), wanted, rtol=2e-5, atol=1e-6)


@settings(max_examples=100)
@given(way=ways(), case=cases(longest=20), garbage=st.lists(st.sampled_from(GARBAGE), min_size=1, max_size=4))
def test_what_stands_in_padding_changes_no_bit_with_any_normalizer_and_bias(
    way: Way, case: Case, garbage: list[float]
) -> None:
    """Padding in keys, values and a bias changes no bit."""
    padding = torch.rand(case.keys.shape[-2], generator=torch.Generator().manual_seed(case.seed)) < 0.5  # m
    case = replace(case, valid=case.valid & ~padding)
    bias = given_bias(case)

    def junk(tensor: Tensor, replaced: Tensor) -> Tensor:
        junk = torch.tensor(garbage)[torch.arange(tensor.numel()) % len(garbage)].reshape(tensor.shape)
        return tensor.where(~replaced, junk.to(tensor.dtype))

    padded = padding[:, None]
    dirty = replace(case, keys=junk(case.keys, padded), values=junk(case.values, padded))
    rules = way.rules(case, bias), way.rules(dirty, junk(bias, padding) if bias.shape[-1] > 1 else bias)
    both = zip(rules, (case, dirty), strict=True)
    weights, dirty_weights = (each.stages(scores_of(way.scorer, inputs))["weights"] for each, inputs in both)
    assert same_bits(weights, dirty_weights)
    assert same_bits(weighted_sum(weights, case.values), weighted_sum(weights, dirty.values))


@settings(max_examples=100)
@given(way=ways().filter(lambda way: way.normalizer != "stick_breaking"), case=cases(), data=st.data())
def test_permuting_keys_and_positions_permutes_weights_with_any_normalizer_and_bias(
    way: Way, case: Case, data: st.DataObject
) -> None:
    """ALiBi depends on the positions of keys, so its bias is passed as a tensor, and permuted with the keys.

    A stick is broken in the order of the keys.
    """
    scores = scores_of(way.scorer, case)
    full = way.rules(case, given_bias(case))
    weights = full.stages(scores)["weights"]
    rows, order = (torch.tensor(data.draw(st.permutations(range(size)))) for size in scores.shape[-2:])
    zeros = torch.zeros(case.valid.shape)
    added = (full.bias.added_to(zeros) if full.bias else zeros)[..., rows, :][..., order]
    sides = case.queries[..., rows, :], case.keys[..., order, :], case.values[..., order, :]
    moved = Case(*sides, case.valid[..., rows, :][..., order], case.seed)
    rules = replace(way, biases=frozenset(["given"])).rules(moved, added)
    moved_scores = scores_of(way.scorer, moved)
    moved_weights = rules.stages(moved_scores)["weights"]
    # ssmax makes differences of scores ln(m) times as large; the bias is added to in float32
    slack = 4 * slack_of(scores.float()) * max(math.log(scores.shape[-1]), 1.0)
    torch.testing.assert_close(moved_weights, weights[..., rows, :][..., order], rtol=1e-5, atol=slack)
