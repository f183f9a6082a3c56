"""Modules of torch: heads, masks and names, with the modules' own weights as the oracle."""

import weakref
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.modules import module
from torch.testing import assert_close

import attncli
from attncli.errors import InputError
from tests.models.rounding import output_rounding
from tests.models.written import Computed, normal

X = normal(2, 5, 16)
PADDING = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
FUTURE = torch.ones(5, 5, dtype=torch.bool).triu(1)


def attention(**options: bool) -> nn.MultiheadAttention:
    torch.manual_seed(0)
    return nn.MultiheadAttention(16, 4, batch_first=True, **options).eval()


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("options", [{}, {"add_zero_attn": True}, {"add_bias_kv": True}], ids=str)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("weights", [True, False])
def test_multihead_attention(weights: bool, masked: bool, options: dict[str, bool], mode: type[torch.no_grad]) -> None:
    model = attention(**options)
    masks = {"key_padding_mask": PADDING, "attn_mask": FUTURE} if masked else {}
    with mode():
        (record,) = attncli.capture(model, X, X, X, need_weights=weights, **masks).records
        _, want = model(X, X, X, average_attn_weights=False, **masks)
        computed = record.weights()
    assert (record.how, record.problem) == ("steps" if weights else "kernel", None)
    assert (record.layer, record.queries.shape) == ("MultiheadAttention", (2, 4, 5, 4))
    assert record.scale * record.pre_scale == pytest.approx(0.5)
    projected = (X @ model.in_proj_weight.T).view(2, 5, 3, 4, 4)  # its bias is 0
    assert_close(record.queries / record.pre_scale, projected[:, :, 0].transpose(1, 2).detach())
    assert_close(computed, want, rtol=0, atol=1e-6)
    valid = ~(PADDING[:, None, None] | FUTURE) if masked else torch.ones(1, 1, 1, 5, dtype=torch.bool)
    assert bool((record.valid_keys.whole[..., :5] == valid).all())


def test_encoder_and_decoder() -> None:
    model = nn.Transformer(16, 4, 2, 1, 32, batch_first=True)
    mask = nn.Transformer.generate_square_subsequent_mask(3)
    seen = attncli.capture(model, X, normal(2, 3, 16), tgt_mask=mask, src_key_padding_mask=PADDING)
    names = ["encoder.layers.0.self_attn", "encoder.layers.1.self_attn", "decoder.layers.0.self_attn"]
    assert [record.name for record in seen.records] == [*names, "decoder.layers.0.multihead_attn"]
    assert [record.keys.shape[-2] for record in seen.records] == [5, 5, 3, 5]
    for record in seen.records:
        assert record.error <= output_rounding(record)
    first, _, third, _ = seen.records
    assert_close(first.valid, ~PADDING[:, None, None])
    assert_close(third.valid, torch.ones(1, 1, 3, 3, dtype=torch.bool).tril())


def test_heads_can_be_chosen() -> None:
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), 2).eval()
    with attncli.Capture() as everything, attncli.Capture(layers="*.1.*", heads="1-2") as chosen:
        model(X)
    assert repr(everything) == "<attncli.Capture: 2 calls of 2 layers>"
    (record,) = chosen.records
    assert (record.layer, record.heads) == ("layers.1.self_attn", (1, 2))
    for role in ("queries", "keys", "values", "output"):
        assert_close(getattr(record, role), getattr(everything.records[1], role)[:, 1:3])


def test_a_method_that_runs_parts_of_the_model() -> None:
    model = nn.Sequential(nn.TransformerEncoderLayer(16, 4, 32, batch_first=True))
    (record,) = attncli.capture(model.forward, X).records
    assert (record.layer, record.problem, model.training) == ("0.self_attn", None, True)


def test_a_module_that_is_no_part_of_the_model() -> None:
    (record,) = attncli.capture(nn.Sequential(Computed(lambda _, x: attention()(x, x, x)[0])), X).records
    assert record.layer == "0/MultiheadAttention"


def test_what_fails_leaves_nothing_behind() -> None:
    with pytest.raises(RuntimeError, match="shapes"):
        attncli.capture(nn.Sequential(nn.Linear(3, 4)), X)
    assert torch.is_grad_enabled()
    assert not {**module._global_forward_hooks, **module._global_forward_pre_hooks}
    assert [record.problem for record in attncli.capture(attention(), X, X, X).records] == [None]


def test_a_module_says_how_many_heads_are_in_the_batch() -> None:
    """Heads next to features become heads next to the batch, with queries first: no tensor has all four axes."""

    def packed(module: Any, x: Tensor) -> Tensor:
        heads = x.transpose(0, 1).reshape(5, 2 * module.num_heads, 4).transpose(0, 1)
        weights: Tensor = torch.bmm(heads, heads.transpose(1, 2)).softmax(-1)
        return torch.bmm(weights, heads)

    (record,) = attncli.capture(Computed(packed, num_heads=4), X).records
    assert_close(record.queries, X.view(2, 5, 4, 4).transpose(1, 2))


def test_scores_and_softmax_in_modules_of_their_own() -> None:
    model = Computed(
        lambda module, x: module.dropout(module.softmax(module.scores(x, x))) @ x,
        scores=Computed(lambda _, queries, keys: queries @ keys.mT / 4),
        softmax=nn.Softmax(dim=-1),
        dropout=nn.Dropout(0.1),
    )
    (record,) = attncli.capture(nn.Sequential(model), X).records
    assert (record.layer, record.kind, record.scale, record.problem) == ("0", "Computed", 0.25, None)


def test_activations_are_not_kept() -> None:
    """The activations of a layer are freed after it, although every layer adds to the stream of earlier layers."""
    activations, alive = list[weakref.ref[Tensor]](), list[int]()

    def note(module: nn.Module, inputs: object, output: Tensor) -> None:
        activations.append(weakref.ref(output))
        alive.append(sum(each() is not None for each in activations))

    def attend(module: Any, x: Tensor) -> Any:
        return (module.query(x) @ module.key(x).mT / 4).softmax(-1) @ module.value(x)

    def block() -> nn.Module:
        query, key, value, mlp = (nn.Linear(16, 16, bias=False) for _ in range(4))
        inner = Computed(attend, query=query, key=key, value=value)
        return Computed(lambda module, x: (y := x + module.attention(x)) + module.mlp(y), attention=inner, mlp=mlp)

    model = nn.Sequential(*(block() for _ in range(8)))
    for each in model.modules():
        if isinstance(each, nn.Linear | Computed):
            each.register_forward_hook(note)
    assert len(attncli.capture(model, X).records) == 8
    assert len(activations) == 48
    assert max(alive) <= 12  # the activations of two layers


def test_what_cannot_be_called_is_no_model() -> None:
    with pytest.raises(
        InputError, match=r"^attncli\.capture: model: got 3; expected a torch module, or a function that"
    ):
        attncli.capture(3)  # type: ignore[arg-type]
