"""Gradients of additive scores, which are worked out block by block and tile by tile."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from attncli import textbook
from attncli.scorers._additive_scores import additive_scores
from tests.combinations import varied
from tests.scorers.catalogue import make, normal

# Bytes of workspace: everything at once; tiles of a few queries; blocks of about 16 queries and keys, each with tiles.
WORKSPACES = [2**24, 2**17, 2**15]
SIZES = [(5, 6, 3), (20, 18, 8)]  # n m h for each form
both_forms = pytest.mark.parametrize("size", SIZES, ids=["direct", "quotient"])
every_workspace = pytest.mark.parametrize("workspace", WORKSPACES)
Leading = tuple[int, ...]


def leaves(*shapes: tuple[int, ...], dtype: torch.dtype = torch.float64) -> list[Tensor]:
    return [normal(*shape, seed=seed, dtype=dtype).requires_grad_() for seed, shape in enumerate(shapes)]


def arguments(size: tuple[int, int, int], queries: Leading = (), keys: Leading = ()) -> list[Tensor]:
    """Queries of 3 features, keys of 2, and the three parameters, in float64."""
    n, m, h = size
    return leaves((*queries, n, 3), (*keys, m, 2), (h, 3), (h, 2), (h,))


def assert_gradients(tensors: list[Tensor], workspace: int = 2**24, upstream: Tensor | None = None) -> None:
    """Those of the scores and of the textbook form are the same."""
    wanted_scores = textbook.additive_scores(*tensors)
    scores = additive_scores(*tensors, workspace=workspace)
    torch.testing.assert_close(scores, wanted_scores, rtol=1e-11, atol=1e-12)
    upstream = normal(*scores.shape, seed=9, dtype=scores.dtype) if upstream is None else upstream
    needed = [tensor for tensor in tensors if tensor.requires_grad]
    found, wanted = (torch.autograd.grad(each, needed, upstream) for each in (scores, wanted_scores))
    for gradient, tensor, target in zip(found, needed, wanted, strict=True):
        assert gradient.dtype == tensor.dtype
        torch.testing.assert_close(gradient, target, rtol=1e-10, atol=1e-11)


@both_forms
@pytest.mark.parametrize("workspace", [2**24, 2**15])
def test_against_differences(size: tuple[int, int, int], workspace: int) -> None:
    tensors = arguments(size)
    assert torch.autograd.gradcheck(lambda *each: additive_scores(*each, workspace=workspace), tensors)


@varied(
    size=[*SIZES, (1, 1, 1), (70, 1, 9), (1, 70, 9)],
    workspace=[*WORKSPACES, 1],  # at last one pair after another
    leading=[((3,), (3,)), ((), ()), ((2, 1), (1, 3)), ((1,), (4,)), ((), (2, 2)), ((2, 3), (2, 3))],
)
def test_against_the_textbook_form(
    size: tuple[int, int, int], workspace: int, leading: tuple[Leading, Leading]
) -> None:
    assert_gradients(arguments(size, *leading), workspace)


@both_forms
@pytest.mark.parametrize("magnitude", [1e-4, 10.0, 1e4])
def test_small_and_saturated_projections(size: tuple[int, int, int], magnitude: float) -> None:
    queries, keys, *parameters = arguments(size, (2,), (2,))
    assert_gradients([(queries * magnitude).detach().requires_grad_(), keys, *parameters])


@both_forms
def test_expanded_inputs(size: tuple[int, int, int]) -> None:
    queries, keys, *parameters = arguments(size, (1,), (4, 1))
    assert_gradients([queries.expand(4, *queries.shape[-2:]), keys.expand(4, 4, *keys.shape[-2:]), *parameters])


@both_forms
@every_workspace
def test_inputs_and_gradients_in_any_layout(size: tuple[int, int, int], workspace: int) -> None:
    n, m, h = size
    queries, keys = leaves((3, n, 2), (m, 2, 2))
    w_q, w_k, w_v = leaves((3, h), (2, 2 * h), (2 * h,))
    views = [queries.mT.mT.permute(2, 1, 0), keys.transpose(0, 1), w_q.mT, w_k[:, ::2].mT, w_v[::2]]
    assert_gradients(views, workspace)
    assert_gradients(views, workspace, upstream=normal(m, n, 2, dtype=torch.float64).permute(2, 1, 0))
    assert_gradients(views, workspace, upstream=torch.ones((), dtype=torch.float64).expand(2, n, m))


@both_forms
@pytest.mark.parametrize("needed", [[0], [1], [2], [3], [4], [0, 3], [1, 2, 4]])
def test_only_what_is_asked_for(size: tuple[int, int, int], needed: list[int]) -> None:
    tensors = [each.detach().requires_grad_(place in needed) for place, each in enumerate(arguments(size, (2,), (2,)))]
    assert_gradients(tensors)
    scores = additive_scores(*tensors)
    torch.autograd.backward(scores.sum())
    assert [place for place, tensor in enumerate(tensors) if tensor.grad is not None] == needed


@both_forms
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_gradients_are_stored_as_their_tensors_are(size: tuple[int, int, int], dtype: torch.dtype) -> None:
    tensors = [each.detach().to(dtype).requires_grad_() for each in arguments(size, (2,), (2,))]
    wide = [each.detach().double().requires_grad_() for each in tensors]
    scores = additive_scores(*tensors)
    assert scores.dtype == torch.float32
    found = torch.autograd.grad(scores.sum(), tensors)
    wanted = torch.autograd.grad(textbook.additive_scores(*wide).sum(), wide)
    for gradient, target in zip(found, wanted, strict=True):
        assert gradient.dtype == dtype
        unit = torch.finfo(dtype).eps
        torch.testing.assert_close(
            gradient.double(), target, rtol=unit, atol=max(unit, 3e-7 * float(target.abs().max()), 1e-5)
        )


def test_of_mixed_dtypes() -> None:
    dtypes = [torch.float16, torch.float64, torch.float32, torch.bfloat16, torch.float64]
    given = zip(arguments((4, 5, 3), (2,), (2,)), dtypes, strict=True)
    tensors = [each.detach().to(dtype).requires_grad_() for each, dtype in given]
    gradients = torch.autograd.grad(additive_scores(*tensors).sum(), tensors)
    assert [each.dtype for each in gradients] == dtypes


@pytest.mark.parametrize("use", [torch.sum, torch.linalg.vector_norm])
def test_second_derivatives(use: Callable[[Tensor], Tensor]) -> None:
    """Also as a part of something else, where leaving it out would go unnoticed; whatever the scores are used for."""
    found: list[Tensor | None] = []
    wanted: list[Tensor | None] = []
    for by, into in (("scorer", found), ("textbook", wanted)):
        queries, keys = leaves((4, 3), (5, 3))
        scorer = make("additive", 3).double()
        w_q, w_k, w_v = scorer.parameters()
        scores = scorer(queries, keys) if by == "scorer" else textbook.additive_scores(queries, keys, w_q, w_k, w_v[0])
        (gradient,) = torch.autograd.grad(use(scores), queries, create_graph=True)
        (scores.sum() + gradient.square().sum()).backward()
        into += [queries.grad, keys.grad, *(each.grad for each in (w_q, w_k, w_v))]
    torch.testing.assert_close(found, wanted)
    assert all(each is not None and bool(each.abs().sum() > 0) for each in wanted)
