"""Attention that is not recognised is listed, and layers that are no attention are left alone."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import entmax
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from torch.testing import assert_close

import attncli
from attncli.errors import InputError
from tests.models.written import Computed
from tests.studies.swap.models import Other, Relu, Strides


@torch.library.custom_op("attncli_tests::attn_forward", mutates_args=())
def kernel(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    return scaled_dot_product_attention(queries, keys, values)


def largest(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Return a mean of the values of the three keys of the largest scores, gathered."""
    scores, keys = (q @ k.mT).topk(3, -1)
    values = v[:, :, None].expand(*scores.shape[:3], *v.shape[2:]).gather(3, keys[..., None].expand(*keys.shape, 8))
    return (scores.softmax(-1)[..., None] * values).sum(-2)


class LinearAttention(Other):
    """Softmax over features."""

    def __init__(self) -> None:
        super().__init__(lambda q, k, v: q.softmax(-1) @ (k.softmax(-2).mT @ v))


def threaded(module: Any, x: Tensor) -> Tensor:
    with torch.no_grad(), ThreadPoolExecutor(1) as thread:
        output: Tensor = thread.submit(lambda: module.inner(x).detach()).result()
    return output


MISSED: dict[str, tuple[Callable[[], nn.Module], str, str]] = {
    "entmax15": (lambda: Other(lambda q, k, v: entmax.entmax15(q @ k.mT, -1) @ v), "1", "pow in place of a softmax"),
    "a kernel": (lambda: Other(kernel), "1", "the kernel attncli_tests::attn_forward"),
    "the largest scores": (lambda: Other(largest), "1", "a softmax of a product"),
    "linear attention": (LinearAttention, "1", "it ran, and no attention was recognised in it"),
    "another thread": (lambda: Computed(threaded, inner=Strides()), "1.inner", "it ran in another thread"),
}


@pytest.mark.parametrize("name", MISSED)
def test_attention_that_is_not_recognised_is_listed(name: str) -> None:
    torch.manual_seed(0)
    kind, layer, problem = MISSED[name]
    model, x = nn.Sequential(Strides(), kind()), torch.randn(2, 6, 32)
    with torch.no_grad(), attncli.Swap("uniform") as swap:
        model(x)
    seen = attncli.capture(model, x)
    for missed in (swap.missed, seen.missed):
        assert [each.layer for each in missed] == [layer]
        assert missed[0].problem.startswith(problem)
    assert (list(swap.swapped), [call.layer for call in seen.records]) == (["0"], ["0"])
    with pytest.raises(InputError, match="its attention was not replaced"), torch.no_grad():  # noqa: SIM117
        with attncli.Swap("uniform", layers=[layer]):
            model(x)


def test_a_result_names_what_was_not_recognised() -> None:
    torch.manual_seed(0)
    model, x = nn.Sequential(Strides(), Other(kernel), Strides()), torch.randn(2, 6, 32)
    with pytest.warns(UserWarning, match="1 keeps its own attention: the kernel"):
        result = attncli.swap(model, x, scorers=["dot"], by="all")
    text = str(result._repr_mimebundle_()["text/plain"])
    assert "not recognised, and left as they are: 1: the kernel" in " ".join(text.split())
    assert "All 2 recognised layers" in text
    assert result.findings[0].text.startswith("dot: in all 2 recognised layers changes the output")


NO_ATTENTION: dict[str, Callable[[], nn.Module]] = {
    "a mean of embeddings": lambda: Computed(
        lambda module, x: module.h(x).softmax(-1) @ module.embedding.weight,
        h=nn.Linear(32, 9),
        embedding=nn.Embedding(9, 32),
    ),
    "keys and values that are parameters": lambda: Computed(
        lambda module, x: (module.query(x) @ module.memory.T).softmax(-1) @ module.memory,
        query=nn.Linear(32, 32),
        memory=nn.Parameter(torch.randn(9, 32)),
    ),
    "softmax over features": LinearAttention,
}


@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
@pytest.mark.parametrize("name", NO_ATTENTION)
def test_what_is_no_attention_is_left_alone(name: str, dtype: torch.dtype | None) -> None:
    torch.manual_seed(0)
    model, x = nn.Sequential(NO_ATTENTION[name](), Strides()), torch.randn(2, 6, 32)
    outputs = []
    for swap in (attncli.Swap("zero", model=model[1]), attncli.Swap("zero")):
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=dtype is not None), swap:
            outputs.append(model(x))
    assert_close(outputs[1], outputs[0])
    assert list(swap.swapped) == ["1"]


@pytest.mark.parametrize("is_number", [True, False])
@pytest.mark.parametrize("is_stable", [False, True])
def test_constants_of_a_row_count_for_other_normalisers(is_number: bool, is_stable: bool) -> None:
    """Softmax ignores them, sigmoid does not; but the maximum that keeps exponentials small is not the model's."""
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 4, 5, 8) for _ in range(3))
    added = torch.tensor(2.0) if is_number else torch.randn(2, 4, 5, 1)

    def attention() -> Tensor:
        scores = q @ k.mT / 8 + (2.0 if is_number else added)
        if is_stable:
            scores = scores - scores.amax(-1, keepdim=True)
        weights: Tensor = scores.softmax(-1)
        return weights @ v

    entry = {"scorer": "scaled_dot", "scale": "model", "normalizer": {"normalizer": "sigmoid", "bias": 0.0}}
    with attncli.Swap(entry):
        found = attention()
    if is_number or not is_stable:  # these two cannot be told apart
        assert_close(found, (q @ k.mT / 8 + added).sigmoid() @ v)
    with attncli.Swap("model"):
        assert_close(attention(), (q @ k.mT / 8).softmax(-1) @ v)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (Relu(), "attention was not replaced: Relu: relu in place of a softmax"),
        (nn.Flatten(), "attention was not replaced: none ran"),
        (Strides(), "got 4; expected 0 to 3, of the 4 heads of Strides"),
        (nn.MultiheadAttention(32, 4, 0.1), "it ran with dropout"),
    ],
)
def test_what_cannot_be_replaced(model: nn.Module, message: str) -> None:
    inputs = [torch.randn(2, 7, 32)] * (3 if isinstance(model, nn.MultiheadAttention) else 1)
    with pytest.raises(InputError, match=message), torch.no_grad(), attncli.Swap("model", heads=[4]):
        model(*inputs)
