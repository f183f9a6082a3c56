"""Swapped outputs carry the gradients of the textbook's code, to the model and to the scorer."""

from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from torch.testing import assert_close
from torch.utils.checkpoint import checkpoint

import attncli
from attncli.errors import InputError
from tests.models.families import of_transformers
from tests.models.swap.oracle import TEXTBOOK, assert_same, attention, passed, softmax_of
from tests.models.written import Computed
from tests.studies.swap.models import Other, Strides, Written

pytestmark = pytest.mark.filterwarnings("ignore")  # of transformers
FAMILIES = [(kind, way) for kind in ("bert", "gpt2", "llama", "gqa") for way in ("sdpa", "eager")]


@pytest.mark.parametrize("entry", TEXTBOOK)
@pytest.mark.parametrize(("kind", "way"), FAMILIES)
def test_gradients_of_all_parameters_are_those_of_the_textbook(kind: str, way: str, entry: str) -> None:
    model, inputs = of_transformers(kind, way)
    swapped = passed(model, inputs, attncli.Swap(entry))
    assert_same(swapped, passed(model, inputs, attention(model, TEXTBOOK[entry])))


@pytest.mark.parametrize("kind", ["t5", "bloom", "gemma2", "gpt_oss", "albert", "swinv2", "vit"])
def test_gradients_of_the_models_own_scorer_are_the_models(kind: str) -> None:
    """Also those of position biases and sinks."""
    model, inputs = of_transformers(kind, None if kind in ("t5", "bloom", "swinv2") else "eager")
    assert_same(passed(model, inputs, attncli.Swap("model")), passed(model, inputs, nullcontext()))


def test_equal_biases_of_a_new_model_have_gradients_of_their_own() -> None:
    model, x = Written(), torch.randn(2, 7, 32)
    nn.init.zeros_(model.bias)
    expected = torch.autograd.grad(model(x).tanh().sum(), [*model.parameters()])
    with attncli.Swap("model"):
        found = torch.autograd.grad(model(x).tanh().sum(), [*model.parameters()])
    assert_close(found, expected, rtol=1e-4, atol=1e-5)


def learnt(module: Any, x: Tensor, weights: Any = None) -> Tensor:
    """Return attention of one head with a temperature and a bias that are learnt."""
    q, k, v = module.qkv(x).chunk(3, -1)
    scores = q @ k.mT
    if module.order == "bias first":
        scores = (scores + module.bias) / module.temperature
    else:
        scores = scores * module.temperature + module.bias
    output: Tensor = (scores.softmax(-1) if weights is None else weights(scores)) @ v
    return output


@pytest.mark.parametrize("order", ["bias first", "bias last"])
@pytest.mark.parametrize("entry", ["model", "softmax_plus_one", "cosine"])
def test_a_scale_and_a_bias_of_one_number_that_are_parameters(order: str, entry: str) -> None:
    torch.manual_seed(0)
    numbers = {"temperature": nn.Parameter(torch.tensor(0.7)), "bias": nn.Parameter(torch.tensor([[0.4]]))}
    model: Any = Computed(learnt, order=order, qkv=nn.Linear(8, 24), **numbers)
    x = torch.randn(2, 5, 8)

    def weights(scores: Tensor) -> Tensor:
        if entry == "cosine":
            q, k, _ = model.qkv(x).chunk(3, -1)
            added = model.bias / model.temperature if order == "bias first" else model.bias
            q, k = (nn.functional.normalize(each, dim=-1) for each in (q, k))
            return torch.softmax(q @ k.mT + added, -1)
        return scores.exp() / ((entry == "softmax_plus_one") + scores.exp().sum(-1, keepdim=True))

    parameters = [*model.parameters()]
    unused: dict[str, Any] = {"allow_unused": True, "materialize_grads": True}
    expected = torch.autograd.grad(model(x, weights).tanh().sum(), parameters, **unused)
    with attncli.Swap(entry):
        found = torch.autograd.grad(model(x).tanh().sum(), parameters, **unused)
    assert_close(found, expected, rtol=1e-4, atol=1e-5)
    (call,) = attncli.capture(model, x).records
    assert call.scale_gradient is None


@pytest.mark.parametrize("need_weights", [True, False])
def test_multihead_attention_of_torch(need_weights: bool) -> None:
    torch.manual_seed(0)
    model, x = nn.MultiheadAttention(16, 4, batch_first=True), torch.randn(2, 5, 16)
    with attncli.Swap("uniform"):
        found = torch.autograd.grad(model(x, x, x, need_weights=need_weights)[0].tanh().sum(), model.out_proj.weight)
    values = x @ model.in_proj_weight[32:].T
    output = values.mean(1, keepdim=True).expand(2, 5, 16) @ model.out_proj.weight.T
    assert_close(found, torch.autograd.grad(output.tanh().sum(), model.out_proj.weight))


def test_torch_func() -> None:
    torch.manual_seed(0)
    model, x = Strides(), torch.randn(2, 5, 32)
    parameters: dict[str, Tensor] = dict(model.named_parameters())

    def loss(parameters: dict[str, Tensor]) -> Tensor:
        output: Tensor = torch.func.functional_call(model, parameters, (x,))
        return output.tanh().sum()

    with attncli.Swap("cosine"):
        found = torch.func.grad(loss)(parameters)
        expected = torch.autograd.grad(model(x).tanh().sum(), [*parameters.values()])
    assert_close([*found.values()], [*expected], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["llama", "bert"])
def test_parameters_of_a_scorer(kind: str) -> None:
    model, inputs = of_transformers(kind, "sdpa")
    swap = attncli.Swap("additive:num_hiddens=5")
    found = passed(model, inputs, swap)
    parameters = [*swap.parameters()]
    own = [each.grad for each in parameters]
    assert len(parameters) == 3
    (scorer,) = swap.scorers
    for each in parameters:
        each.grad = None
    textbook = attention(model, lambda queries, keys, _, valid: softmax_of(scorer(queries, keys), valid))
    assert_same(found, passed(model, inputs, textbook))
    for mine, theirs in zip(own, (each.grad for each in parameters), strict=True):
        assert_close(mine, theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_model_that_is_run_again_by_the_backward_pass(reentrant: bool) -> None:
    """Checkpoints run each block a second time, which replaces the same calls again."""

    def blocks(module: Any, x: Tensor, is_checkpointed: bool) -> Tensor:
        for block in module.blocks:
            x = x + (checkpoint(block, x, use_reentrant=reentrant) if is_checkpointed else block(x))
        return x

    torch.manual_seed(0)
    model = Computed(blocks, blocks=nn.ModuleList([Strides(), Written(), Strides()]))
    x = torch.randn(2, 6, 32, requires_grad=True)
    gradients = []
    for is_checkpointed in (False, True):
        model.zero_grad()
        with attncli.Swap("sparsemax", layers=[0, 1]) as swap:
            model(x, is_checkpointed).tanh().sum().backward()
        gradients.append([each.grad for each in model.parameters()])
        assert swap.missed == []
    assert_close(gradients[1], gradients[0])
    assert list(swap.swapped) == ["blocks.0", "blocks.1"]


class Custom(torch.autograd.Function):
    """Attention with a backward pass of its own, which is wrong for any other attention."""

    @staticmethod
    def forward(ctx: Any, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        return scaled_dot_product_attention(queries, keys, values)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return gradients[0], gradients[0], gradients[0]


def test_gradients_of_its_own_are_refused() -> None:
    model, x = Other(Custom.apply), torch.randn(1, 5, 32)
    with pytest.raises(InputError, match=r"gradients by itself, as a torch\.autograd\.Function"):  # noqa: SIM117
        with attncli.Swap("uniform"):
            model(x)
    with attncli.Swap("uniform") as swap, torch.no_grad():
        model(x)
    with swap:
        model.requires_grad_(False)(x)


def scripted(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    return torch.matmul(torch.matmul(queries, keys.transpose(-1, -2)).div(8**0.5).softmax(-1), values)


def test_gradients_that_cannot_be_followed_are_refused() -> None:
    """Of TorchScript only the operations below autograd are seen."""
    model, x = Other(torch.jit.script(scripted)), torch.randn(1, 5, 32)
    with pytest.raises(InputError, match=r"outside of Python, as in TorchScript.*use torch\.no_grad"):  # noqa: SIM117
        with attncli.Swap("cosine"):
            model(x)
    with torch.no_grad(), attncli.Swap("cosine"):
        found = model(x)
        model.attend = scripted
        assert_close(found, model(x))


def test_a_capture_leaves_the_graph_of_the_model_alone_and_keeps_no_graph() -> None:
    model, inputs = of_transformers("llama", "eager")
    expected = passed(model, inputs, nullcontext())
    with attncli.Capture() as seen:
        found = passed(model, inputs, nullcontext())
    assert_same(found, expected, share=0)
    assert not any(call.queries.requires_grad or call.output.requires_grad for call in seen.records)
