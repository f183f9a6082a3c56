"""Masked softmax and attention pooling against published numbers, torch's own attention and the slow oracles."""

import itertools
import math
from collections.abc import Callable

import pytest
import torch

from attncli.attention import attend, dropped, masked_softmax, softcap, weighted_sum
from attncli.errors import InputError
from tests import reference
from tests.margins import sampled
from tests.scorers.catalogue import normal

INF, NAN = math.inf, math.nan
UNKNOWN = 'empty_row: got "zeros"; expected one of zero, uniform, nan, error'


@pytest.mark.parametrize("leading", [(), (2,), (2, 3), (2, 1, 3)])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_oracle(leading: tuple[int, ...], dtype: torch.dtype) -> None:
    scores, values = normal(*leading, 4, 6, dtype=dtype) * 3, normal(*leading, 6, 5, seed=1, dtype=dtype)
    valid = normal(*leading, 4, 6, seed=3) > 0
    valid[..., 0] = True  # at least the first key, for every query
    output, weights = attend(scores, values, mask=valid)
    wanted = reference.for_each_matrix(reference.masked_softmax, scores.double(), valid)
    assert weights.dtype == output.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    rtol = 1e-13 if dtype == torch.float64 else 2e-5
    torch.testing.assert_close(weights.double(), wanted, rtol=rtol, atol=0)
    pooled = reference.for_each_matrix(reference.weighted_sum, wanted, values.double())
    torch.testing.assert_close(output.double(), pooled, rtol=rtol, atol=rtol / 20)


@pytest.mark.parametrize("score", [-1e6, -2e6, -1e30, 1e30])
def test_masked_keys_get_nothing_however_low_the_valid_scores_are(score: float) -> None:
    scores = torch.tensor([[[score, score, 0.0, -1e6]]])
    assert masked_softmax(scores, [2]).tolist() == [[[0.5, 0.5, 0.0, 0.0]]]


FITTING = "expected (..., m, v) for scores [2, 3] of 3 keys"


@pytest.mark.parametrize(("empty_row", "weight"), [("zero", 0.0), ("uniform", 0.25), ("nan", NAN)])
def test_empty_rows(empty_row: str, weight: float) -> None:
    scores = normal(2, 3, 4).requires_grad_()
    weights = masked_softmax(scores, [[0, 1, 4], [4, 0, 2]], empty_row=empty_row)  # type: ignore[arg-type]
    for i, j in ((0, 0), (1, 1)):
        torch.testing.assert_close(weights[i, j], torch.full((4,), weight), rtol=0, atol=0, equal_nan=True)
    assert weights[0, 1].tolist() == [1.0, 0.0, 0.0, 0.0]
    torch.testing.assert_close(weights[0, 2], scores[0, 2].softmax(-1))
    with torch.autograd.set_detect_anomaly(empty_row != "nan"):  # an error where any step of the way back gives NaN
        weights[1, 2, 0].backward()  # type: ignore[no-untyped-call]
    assert scores.grad is not None
    assert scores.grad.isfinite().all()
    assert not scores.grad[0].any()
    a, b = weights[1, 2, :2].tolist()
    torch.testing.assert_close(scores.grad[1, 2], torch.tensor([a * b, -a * b, 0.0, 0.0]))


def test_empty_rows_as_an_error() -> None:
    with pytest.raises(InputError) as error:
        masked_softmax(torch.zeros(2, 3, 4), [0, 1], empty_row="error")
    assert str(error.value) == "got 3 of 6 queries with no valid key; expected at least one key each"
    assert masked_softmax(torch.zeros(1, 1, 2), [1], empty_row="error").tolist() == [[[1.0, 0.0]]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_weights_and_values_that_are_not_finite_act_as_ieee_says(dtype: torch.dtype) -> None:
    """Every combination of two weights and two values, against sums of Python floats."""
    numbers = [0.0, -0.0, 0.5, -2.0, INF, -INF, NAN]
    pairs = list(itertools.product(numbers, numbers))
    for vectors in (pairs, [pair for pair in pairs if all(map(math.isfinite, pair))]):  # which another path takes
        weights, values = torch.tensor(pairs, dtype=dtype), torch.tensor(vectors, dtype=dtype).T
        wanted = [[sum(w * v for w, v in zip(ws, vs, strict=True) if w != 0) for vs in vectors] for ws in pairs]
        torch.testing.assert_close(weighted_sum(weights, values), torch.tensor(wanted, dtype=dtype), equal_nan=True)


@pytest.mark.parametrize("layout", ["transposed", "expanded", "strided"])
def test_padding_changes_no_bit_in_any_memory_layout(layout: str) -> None:
    weights = masked_softmax(normal(30, 8, 17), torch.full((30,), 9))
    values = {
        "transposed": normal(30, 3, 17).mT,
        "expanded": normal(1, 17, 3).expand(30, 17, 3),
        "strided": normal(30, 17, 6)[..., ::2],
    }[layout]
    dirty = values.clone()  # of the same strides where they leave no gaps
    dirty[:, 9:] = NAN
    assert torch.equal(weighted_sum(weights, dirty), weighted_sum(weights, values))


@pytest.mark.parametrize("cap", [1e-300, 1e-39, 0.5, 30.0, 1e39, 1e300])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_softcap_of_any_size(cap: float, dtype: torch.dtype) -> None:
    scores = torch.tensor([0.0, 1e-3, 1.0, -2.0, 700.0, 1e20, -INF], dtype=dtype)
    wanted = [cap * math.tanh(score / cap) for score in scores.tolist()]
    torch.testing.assert_close(softcap(scores, cap), torch.tensor(wanted, dtype=torch.float64).to(dtype))


def test_dropout_draws_from_its_own_generator_and_keeps_the_mean() -> None:
    weights = torch.full((100, 100), 0.01)
    first, again = (dropped(weights, 0.25, torch.Generator().manual_seed(1)) for _ in range(2))
    assert torch.equal(first, again)
    torch.testing.assert_close(first[first > 0], torch.full_like(first[first > 0], 0.01 / 0.75))
    assert (first == 0).float().mean().item() == pytest.approx(0.25, abs=sampled(0.02, math.sqrt(0.25 * 0.75 / 100**2)))
    assert torch.equal(dropped(weights, 0.0, torch.Generator()), weights)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: masked_softmax("a"), 'scores: got "a"; expected a tensor, not str'),  # type: ignore[arg-type]
        (lambda: masked_softmax(torch.zeros(1, 2), empty_row="zeros"), UNKNOWN),  # type: ignore[arg-type]
        (lambda: attend(torch.zeros(2, 3), None), "values: got nothing; expected a tensor, not NoneType"),  # type: ignore[arg-type]
        (lambda: attend(torch.zeros(2, 3), torch.zeros(2, 4)), f"values: got shape [2, 4]; {FITTING}"),
    ],
)
def test_what_is_no_tensor_of_scores_or_values(call: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError) as error:
        call()
    assert str(error.value) == message
