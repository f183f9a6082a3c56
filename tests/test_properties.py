"""What holds for every scorer, shape and mask, on many examples. Properties before examples."""

import math
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from attncli.attention import attend, masked_softmax, weighted_sum
from attncli.scorers import SCORERS
from tests.scorers.catalogue import make, normal

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


def same_bits(a: Tensor, b: Tensor) -> bool:
    integers = {torch.float32: torch.int32, torch.float64: torch.int64}[a.dtype]
    return a.dtype == b.dtype and torch.equal(a.view(integers), b.view(integers))


@every_scorer
@given(case=cases())
def test_rows_sum_to_one_or_are_empty_and_masked_weights_are_zero(name: str, case: Case) -> None:
    weights = masked_softmax(scores_of(name, case), mask=case.valid)
    torch.testing.assert_close(weights.sum(-1), case.valid.any(-1).to(weights.dtype))
    assert bool((weights >= 0).all())
    assert torch.equal(weights.masked_select(~case.valid), weights.new_zeros(int((~case.valid).sum())))


@every_scorer
@given(case=cases(longest=20), garbage=st.lists(st.sampled_from(GARBAGE), min_size=1, max_size=4), data=st.data())
def test_what_stands_in_padding_changes_no_bit(
    name: str, case: Case, garbage: list[float], data: st.DataObject
) -> None:
    output, weights = attend(scores_of(name, case), case.values, mask=case.valid)
    padding = torch.rand(case.keys.shape[-2], generator=torch.Generator().manual_seed(case.seed)) < 0.5  # m
    keys, values = case.keys.clone(), case.values.clone()
    for tensor in (keys, values):
        junk = torch.tensor(garbage)[torch.arange(tensor.numel()) % len(garbage)].reshape(tensor.shape)
        tensor[..., padding, :] = junk.to(tensor.dtype)[..., padding, :]
    dirty = Case(case.queries, keys, values, case.valid, case.seed)
    dirty_output, dirty_weights = attend(scores_of(name, dirty), values, mask=case.valid)
    blind = ~(case.valid & padding).any(-1)  # queries that see no changed key
    assert same_bits(dirty_weights[blind], weights[blind])
    assert same_bits(dirty_output[blind], output[blind])


@every_scorer
@given(case=cases(), data=st.data())
def test_permuting_keys_permutes_weights_and_keeps_the_output(name: str, case: Case, data: st.DataObject) -> None:
    """And permuting queries permutes both."""
    scores = scores_of(name, case)
    rows, order = (torch.tensor(data.draw(st.permutations(range(size)))) for size in scores.shape[-2:])
    output, weights = attend(scores, case.values, mask=case.valid)
    valid = case.valid[..., rows, :][..., order]
    moved = Case(case.queries[..., rows, :], case.keys[..., order, :], case.values[..., order, :], valid, case.seed)
    rounding = 4e-7 * max(float(scores.abs().max()), 1.0) * 4
    moved_output, moved_weights = attend(scores_of(name, moved), moved.values, mask=moved.valid)
    torch.testing.assert_close(moved_weights, weights[..., rows, :][..., order], rtol=1e-5, atol=rounding)
    torch.testing.assert_close(moved_output, output[..., rows, :], rtol=1e-5, atol=rounding * 10)


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
@given(case=cases())
def test_weights_lie_within_the_range_of_the_scores(name: str, case: Case) -> None:
    """With scores within D of one another, each of n valid keys has a weight between e^-D / n and e^D / n."""
    scores = scores_of(name, case).double()
    weights = masked_softmax(scores, mask=case.valid)
    top = scores.masked_fill(~case.valid, -math.inf).amax(-1, keepdim=True)
    low = scores.masked_fill(~case.valid, math.inf).amin(-1, keepdim=True)
    number = case.valid.sum(-1, keepdim=True)
    least, most = (low - top).exp() / number, (top - low).exp() / number
    slack = 1e-12
    assert bool(((weights >= least * (1 - slack)) | ~case.valid).all())
    assert bool(((weights <= most * (1 + slack)) | ~case.valid).all())


@given(case=cases(), shift=st.floats(-1e6, 1e6))
def test_shifting_a_row_of_scores_changes_no_weight(case: Case, shift: float) -> None:
    scores = scores_of("dot", case).double()
    shifts = shift * normal(*scores.shape[:-1], 1, seed=case.seed, dtype=torch.float64)
    shifted = masked_softmax(scores + shifts, mask=case.valid)
    torch.testing.assert_close(shifted, masked_softmax(scores, mask=case.valid), rtol=1e-7, atol=1e-9)


@given(case=cases(), lengths=st.data())
def test_lengths_are_the_mask_of_the_first_keys(case: Case, lengths: st.DataObject) -> None:
    scores = scores_of("dot", case)
    b, m = scores.shape[0] if scores.ndim > 2 else 1, scores.shape[-1]
    valid_lens = torch.tensor(lengths.draw(st.lists(st.integers(0, m), min_size=b, max_size=b)))
    mask = torch.zeros(scores.shape, dtype=torch.bool)
    for element, length in zip(mask if scores.ndim > 2 else [mask], valid_lens.tolist(), strict=True):
        element[..., :length] = True
    assert same_bits(masked_softmax(scores, valid_lens), masked_softmax(scores, mask=mask))


@given(case=cases(), sigma=st.sampled_from([0.5, 1.0, 3.0]))
def test_gaussian_is_the_dot_product_less_the_length_of_the_key(case: Case, sigma: float) -> None:
    """|q - k|^2 = |q|^2 - 2 q.k + |k|^2, and what only depends on the query cancels in the softmax."""
    queries, keys = case.queries.double(), case.keys.double()
    scores = queries @ keys.mT / sigma**2 - (keys**2).sum(-1)[..., None, :] / (2 * sigma**2)
    weights = masked_softmax(make("gaussian", keys.shape[-1], sigma=sigma)(queries, keys), mask=case.valid)
    torch.testing.assert_close(weights, masked_softmax(scores, mask=case.valid), rtol=1e-6, atol=1e-9)


@given(case=cases(), sigma=st.sampled_from([0.5, 1.0, 3.0]))
def test_gaussian_on_unit_keys_is_a_dot_product_at_temperature_sigma_squared(case: Case, sigma: float) -> None:
    queries, d = case.queries.double(), case.keys.shape[-1]
    keys = case.keys.double() / case.keys.double().norm(dim=-1, keepdim=True)
    weights = masked_softmax(make("gaussian", d, sigma=sigma)(queries, keys), mask=case.valid)
    dot = masked_softmax(make("scaled_dot", d, scale=1 / sigma**2)(queries, keys), mask=case.valid)
    torch.testing.assert_close(weights, dot, rtol=1e-6, atol=1e-9)


@given(case=cases())
def test_vector_sum_gives_every_query_the_same_weights(case: Case) -> None:
    queries, keys = case.queries.double(), case.keys.double()
    weights = masked_softmax(make("vector_sum", keys.shape[-1])(queries, keys))
    torch.testing.assert_close(weights, weights[..., :1, :].expand_as(weights), rtol=1e-9, atol=1e-12)


@given(case=cases(), query_size=st.integers(-20, 20), key_size=st.integers(-20, 20))
def test_cosine_does_not_see_lengths(case: Case, query_size: int, key_size: int) -> None:
    cosine, queries, keys = make("cosine", case.keys.shape[-1]), case.queries.float(), case.keys.float()
    scaled = cosine(queries * 10.0**query_size, keys * 10.0**key_size)
    torch.testing.assert_close(scaled, cosine(queries, keys), rtol=1e-5, atol=1e-6)
    assert float(scaled.abs().max()) <= 1 + 1e-6


@given(case=cases())
def test_the_output_lies_between_the_smallest_and_the_largest_seen_value(case: Case) -> None:
    weights = masked_softmax(scores_of("scaled_dot", case).double(), mask=case.valid)
    values = case.values.double()
    output = weighted_sum(weights, values)[..., None, :]  # ... n 1 v
    seen, values = case.valid[..., None], values[..., None, :, :]  # ... n m 1, ... 1 m v
    top, low = values.masked_fill(~seen, -math.inf).amax(-2), values.masked_fill(~seen, math.inf).amin(-2)
    inside = (output[..., 0, :] <= top + 1e-12) & (output[..., 0, :] >= low - 1e-12)
    assert bool((inside | ~case.valid.any(-1, keepdim=True)).all())
