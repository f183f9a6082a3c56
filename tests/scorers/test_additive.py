"""Additive scores: as exact as with a tanh for every pair, without computing it; gradients; numbers of every size."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from attncli import textbook
from attncli.errors import InputError
from attncli.scorers.additive import Additive
from tests.combinations import varied
from tests.reference import rounding
from tests.scorers.catalogue import make, normal, same_bits
from tests.scorers.peaks import profiled

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
WIDEST = 33.0  # about the range of projections that exponentials in float32 cover
SIZES = [(5, 6, 3), (20, 18, 8)]  # n m h, for tanh itself and for the quotient
both_forms = pytest.mark.parametrize("size", SIZES, ids=["direct", "quotient"])
Case = tuple[Tensor, Tensor, Tensor]  # projections (n, h) and (m, h), and w_v (h,)


def as_projections(h: int, w_v: Tensor) -> Additive:
    """Return a scorer with identity matrices, so queries and keys are their projections."""
    scorer, identity = Additive(h, h, num_hiddens=h).to(w_v.dtype), torch.eye(h, dtype=w_v.dtype)
    scorer.load_state_dict({"W_q.weight": identity, "W_k.weight": identity, "w_v.weight": w_v[None]})
    return scorer.requires_grad_(False)


def exact_scores(case: Case) -> np.ndarray:
    """Return scores (n, m) by the definition in the next better precision."""
    better = np.longdouble if case[0].dtype == torch.float64 else np.float64
    a, b, w_v = (t.double().numpy().astype(better) for t in case)
    return np.asarray((np.tanh(np.add(a[:, None], b[None])) * w_v).sum(-1))


def largest_error(case: Case) -> float:
    """Return the largest error of the scorer."""
    (a, b, w_v), truth = case, exact_scores(case)
    scores = as_projections(len(w_v), w_v)(a, b).double().numpy().astype(truth.dtype)
    return float(np.abs(scores - truth).max())


def largest_rounding(w_v: Tensor) -> float:
    """Return a bound on the error of a score: h products are summed, each of a tanh, or of a quotient.

    A tanh has the operations of two exponentials, a product, two sums and a quotient: twelve of half a unit in the
    last place of sum |w_v|, of the largest score, also where it is below normal numbers.
    """
    size = w_v.to(torch.promote_types(w_v.dtype, torch.float32)).abs().sum()
    return (2 * len(w_v) + 12) * float(np.spacing(size.numpy()))


def drawn(kind: str, weights: str, n: int, m: int, h: int, seed: int, dtype: torch.dtype) -> Case:
    generator = torch.Generator().manual_seed(seed)

    def uniform(*shape: int, to: float = 1.0) -> Tensor:
        return (2 * torch.rand(shape, generator=generator, dtype=torch.float64) - 1) * to

    def magnitudes(*shape: int) -> Tensor:
        return 10 ** uniform(*shape, to=4) * uniform(*shape).sign()

    a, b = uniform(n, h), uniform(m, h)
    if kind == "even":  # each side of one magnitude
        a, b = a * magnitudes(1), b * magnitudes(1)
    elif kind == "mixed":
        a, b = magnitudes(n, h), magnitudes(m, h)
    elif kind == "offset":  # far from 0 in opposite directions
        away, apart = magnitudes(1, h), magnitudes(1).clamp(-1, 1)
        a, b = away + a * apart, -away + b * apart
    elif kind == "cancelling":  # each key nearly the opposite of some query
        a = a * WIDEST / 2
        b = -a[torch.arange(m) % n] * (1 + b * 1e-3)
    elif kind == "wide":  # over the range that exponentials cover, and around it
        a, b = a * WIDEST / 2, b * 2 * WIDEST
    elif kind == "saturated":
        a, b = 30 * a.sign(), 100 * b.sign()
    elif kind == "huge":  # some rows very large or very small
        a, b = (torch.where(uniform(len(t), 1) > uniform(1), 10 ** uniform(1, to=37.5), 1.0) * t for t in (a, b))
    largest = torch.finfo(dtype).max
    w_v = {
        "normal": uniform(h, to=3),
        "signs": uniform(h).sign(),
        "mixed": magnitudes(h),
        "one": torch.eye(h, dtype=torch.float64)[0],
        "extreme": uniform(h).sign() * (10 ** uniform(h, to=40)).clamp(max=largest**0.75),
        "tiny": uniform(h) * 10 ** (-30 + uniform(1, to=10)),
    }[weights]
    return a.clamp(-largest, largest).to(dtype), b.clamp(-largest, largest).to(dtype), w_v.to(dtype)


KINDS = ["even", "mixed", "offset", "cancelling", "wide", "saturated", "huge"]
WEIGHTS = ["normal", "signs", "mixed", "one", "extreme", "tiny"]


@settings(max_examples=100)
@example(drawn("wide", "one", 64, 64, 20, 3, torch.float64))  # where a rounding of the projections would show
@given(
    st.builds(
        lambda kind, weights, pairs, *others: drawn(kind, weights, *pairs, *others),
        st.sampled_from(KINDS),
        st.sampled_from(WEIGHTS),
        st.sampled_from([(16, 16), (17, 33), (48, 20), (1, 1), (1, 40), (40, 1), (3, 5)]),
        st.sampled_from([1, 2, 7, 8, 9, 64, 200, 1024]),
        st.integers(0, 2**32),
        st.sampled_from([torch.float32, *DTYPES]),
    )
)
def test_as_exact_as_a_tanh_for_every_pair(case: Case) -> None:
    assert largest_error(case) <= largest_rounding(case[2])


@varied(dtype=DTYPES, size=[5, 16], magnitude=[1e-4, 1e-3])
def test_small_scores_keep_their_digits(dtype: torch.dtype, size: int, magnitude: float) -> None:
    a, b, w_v = (normal(size, 16, seed=seed).clamp(-1, 1) for seed in range(3))
    case = (a * magnitude).to(dtype), (b * magnitude).to(dtype), w_v[0].sign().to(dtype)
    bound = largest_rounding(case[2]) * 2 * magnitude
    assert largest_error(case) <= bound, "of numbers that small, not of sum |w_v|"


@pytest.mark.parametrize("n", [1, 16])
def test_projections_beyond_the_largest_number(n: int) -> None:
    a, b, w_v = normal(n, 8).sign() * 3e38, normal(16, 8, seed=1) * 1e30, normal(8, seed=2)
    scorer = as_projections(8, w_v)
    scorer.W_q.weight.mul_(10)  # these projections are infinite, of either sign
    mine = scorer(a, b).double().numpy()
    assert np.abs(mine - exact_scores((a, b, w_v))).max() <= largest_rounding(w_v)
    scorer.W_k.weight.mul_(1e9)  # the others as well, so that some sums are NaN by the formula
    assert scorer(a, b).isfinite().all()


@pytest.mark.parametrize(
    ("n", "h", "spread", "tanhs"),
    [(64, 16, 1.0, 0), (64, 16, 5.0, 0), (64, 16, 100.0, 64 * 64 * 16), (2, 16, 1.0, 2 * 2 * 16), (64, 4, 1.0, 16384)],
)
def test_no_tanh_per_pair(n: int, h: int, spread: float, tanhs: int) -> None:
    """A tanh per pair is computed only if projections are spread too widely, or pairs or hidden units are few."""
    scorer, rows = as_projections(h, torch.ones(h)), normal(n, h).clamp(-3, 3) * spread
    with profiled(record_shapes=True) as record:
        scorer(rows, rows)
    computed = (math.prod(event.input_shapes[0]) for event in record.events() or [] if "tanh" in event.name)
    assert sum(computed) == tanhs


@varied(
    workspace=[2**14, 2**24],
    stranger=[math.nan, math.inf, -math.inf, 1e30, -3e38],
    shape=[(33, 40, 16), (16, 16, 8), (5, 7, 3)],
)
def test_no_key_changes_a_bit_of_the_scores_of_another(
    shape: tuple[int, int, int], stranger: float, workspace: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Additive, "workspace_bytes", workspace)
    n, m, h = shape
    scorer, queries, keys = make("additive", 6, num_hiddens=h), normal(2, n, 6), normal(2, m, 6, seed=1)
    before = scorer(queries, keys)
    for place in [(0, 0, slice(None)), (1, m // 2, slice(None)), (1, m - 1, slice(1))]:
        changed, others = keys.clone(), torch.ones(2, m, dtype=torch.bool)
        changed[place], others[place[:2]] = stranger, False
        after = scorer(queries, changed)
        assert same_bits(after.mT[others], before.mT[others])
        assert not torch.equal(after, before)


@pytest.mark.parametrize("size", [5, 16], ids=["direct", "quotient"])
@pytest.mark.parametrize("stranger", [math.nan, math.inf, 1e30])
def test_no_query_changes_the_scores_of_another_beyond_rounding(size: int, stranger: float) -> None:
    scorer, queries, keys = make("additive", 6, num_hiddens=8), normal(3, size, 6), normal(3, size, 6, seed=1)
    changed, others = queries.clone(), torch.ones(3, size, dtype=torch.bool)
    changed[1, 2], others[1, 2] = stranger, False
    before, after = scorer(queries, keys), scorer(changed, keys)
    w_v = scorer.get_parameter("w_v.weight").detach()[0]
    torch.testing.assert_close(after[others], before[others], rtol=0, atol=2 * largest_rounding(w_v))
    if math.isnan(stranger):
        assert bool(after[1, 2].isnan().all())


@pytest.mark.parametrize("shape", [(0, 5), (2, 5, 0), (0, 5, 5)])
def test_nothing_to_score(shape: tuple[int, ...]) -> None:
    *leading, n, m = shape
    queries, keys = torch.zeros(*leading, n, 3, requires_grad=True), torch.zeros(*leading, m, 3)
    scores = make("additive", 3)(queries, keys)
    assert scores.shape == shape
    (gradient,) = torch.autograd.grad(scores.sum(), queries)
    assert bool((gradient == 0).all())


def tensors_of(size: tuple[int, int, int], leading: Any = ((), ()), dtypes: Any = (torch.float64,) * 5) -> list[Tensor]:
    """Return queries of 3 features, keys of 2, and the three parameters."""
    n, m, h = size
    shapes = [(*leading[0], n, 3), (*leading[1], m, 2), (h, 3), (h, 2), (1, h)]
    return [normal(*each, seed=seed, dtype=dtypes[seed]).requires_grad_() for seed, each in enumerate(shapes)]


def scores_of(tensors: list[Tensor]) -> Tensor:
    """Return the scorer's scores, differentiable with respect to its parameters."""
    queries, keys, w_q, w_k, w_v = tensors
    scorer = Additive(queries.shape[-1], keys.shape[-1], num_hiddens=len(w_q))
    parameters = {"W_q.weight": w_q, "W_k.weight": w_k, "w_v.weight": w_v}
    return torch.func.functional_call(scorer, parameters, (queries, keys))  # type: ignore[no-any-return]


def textbook_of(tensors: list[Tensor]) -> Tensor:
    queries, keys, w_q, w_k, w_v = tensors
    return textbook.additive_scores(queries, keys, w_q, w_k, w_v[0])


def assert_gradients(tensors: list[Tensor], upstream: Tensor | None = None) -> None:
    """Assert that scores and gradients equal the results of the textbook's code."""
    both = scores_of(tensors), textbook_of(tensors)
    torch.testing.assert_close(*both, rtol=1e-11, atol=1e-12)
    upstream = normal(*both[0].shape, seed=9, dtype=torch.float64) if upstream is None else upstream
    needed = [tensor for tensor in tensors if tensor.requires_grad]
    found, wanted = (torch.autograd.grad(each, needed, upstream) for each in both)
    torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-11)


@varied(
    size=[*SIZES, (1, 1, 1), (70, 1, 9), (1, 70, 9)],
    workspace=[2**24, 2**17, 2**15, 1],  # all at once; tiles; blocks with tiles; pair by pair
    leading=[((3,), (3,)), ((), ()), ((2, 1), (1, 3)), ((1,), (4,)), ((), (2, 2)), ((2, 3), (2, 3))],
    magnitude=[1.0, 1e-4, 10.0, 1e4],
)
def test_gradients(
    size: tuple[int, int, int], workspace: int, leading: Any, magnitude: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Additive, "workspace_bytes", workspace)
    queries, *others = tensors_of(size, leading)
    assert_gradients([(queries * magnitude).detach().requires_grad_(), *others])


@both_forms
@pytest.mark.parametrize("needed", [[0], [1], [2], [3], [4], [1, 2, 4]])
def test_only_the_gradients_that_are_needed(size: tuple[int, int, int], needed: list[int]) -> None:
    tensors = [each.detach().requires_grad_(at in needed) for at, each in enumerate(tensors_of(size, ((2,), (2,))))]
    assert_gradients(tensors)
    scores_of(tensors).sum().backward()  # type: ignore[no-untyped-call]
    assert [at for at, tensor in enumerate(tensors) if tensor.grad is not None] == needed


@both_forms
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_gradients_have_the_dtypes_of_their_tensors(size: tuple[int, int, int], dtype: torch.dtype) -> None:
    for dtypes in ([dtype] * 5, [dtype, torch.float32, torch.float16, torch.bfloat16, dtype]):
        tensors = tensors_of(size, ((2,), (2,)), dtypes)
        wide = [each.detach().double().requires_grad_() for each in tensors]
        found, wanted = (torch.autograd.grad(of(t).sum(), t) for of, t in ((scores_of, tensors), (textbook_of, wide)))
        for gradient, target, stored in zip(found, wanted, dtypes, strict=True):
            assert gradient.dtype == stored
            # Sums of up to 2 n m = 800 products in float32, rounded once to the stored dtype.
            scale = float(target.abs().max())
            atol = rounding(800) * scale
            torch.testing.assert_close(gradient.double(), target, rtol=rounding(4, stored), atol=atol)


def test_second_derivatives_are_refused() -> None:
    tensors = tensors_of((4, 5, 8))
    with pytest.raises(InputError, match="got create_graph=True; expected first derivatives"):
        torch.autograd.grad(scores_of(tensors).sum(), tensors[0], create_graph=True)
