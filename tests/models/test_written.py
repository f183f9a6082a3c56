"""Attention that is written by hand: the captured tensors equal its inputs, and the oracle agrees."""

from collections.abc import Sequence
from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.testing import assert_close

import attncli
from attncli.errors import InputError
from attncli.models.call import AttentionCall
from tests.models.rounding import output_rounding
from tests.models.written import (
    CASES,
    CAUSAL,
    KEYS,
    MASK,
    QUERIES,
    SCALE,
    VALUES,
    B,
    Computed,
    D,
    H,
    M,
    N,
    V,
    Written,
    crossed_einsums,
    normal,
    slow,
)  # fmt: skip


def only(seen: attncli.Capture) -> AttentionCall:
    (record,) = seen.records
    assert (record.problem, seen.missed) == (None, [])
    return record


def assert_captured(
    record: AttentionCall,
    inputs: Sequence[Tensor],
    valid: Tensor | None = None,
    bias: Tensor | None = None,
    scale: float = SCALE,
) -> None:
    """Compare a record with queries, keys and values (b, h, n, d), mask and bias, and its outputs with the oracle's."""
    queries, keys, values = inputs
    assert_close((record.queries / record.pre_scale, record.keys, record.values), (queries, keys, values))
    assert (record.groups, record.softcap, record.sinks) == (queries.shape[1] // keys.shape[1], None, None)
    assert record.scale * record.pre_scale == pytest.approx(scale)
    assert (record.valid is None, record.bias is None) == (valid is None, bias is None)
    seen = record.valid_keys.whole
    assert bool((seen == (True if valid is None else valid)).all())
    if bias is not None and record.bias is not None:
        assert_close(record.bias * seen, bias * seen)
    want = slow(queries, keys, values, scale, valid, bias)
    for output in (record.output, record.rescored()):
        assert_close(output.double(), want, rtol=0, atol=output_rounding(record))
    assert record.error <= output_rounding(record)


@pytest.mark.parametrize("inference", ["none", "inside", "outside"])  # torch runs other operations in its mode
@pytest.mark.parametrize("name", CASES)
@torch.no_grad()
def test_what_went_in_is_captured(name: str, inference: str) -> None:
    written, valid, bias = CASES[name]
    capture = torch.inference_mode()(attncli.capture) if inference == "outside" else attncli.capture
    attend = torch.inference_mode()(written) if inference == "inside" else written
    before = 4 if name == "divided before" else 1  # of the keys
    record = only(capture(attend, QUERIES, KEYS, VALUES))
    assert_captured(record, (QUERIES * before, KEYS / before, VALUES), valid, bias)


@pytest.mark.parametrize("name", ["softmax", "sdpa"])
@pytest.mark.parametrize(("lead", "b", "h"), [((), 1, 1), ((3,), 3, 1), ((2, 2, 3), 2, 6)])
def test_axes(lead: tuple[int, ...], b: int, h: int, name: str) -> None:
    inputs = [normal(*lead, size, D) for size in (N, M, M)]
    record = only(attncli.capture(CASES[name][0], *inputs))
    assert_captured(record, [each.reshape(b, h, -1, D) for each in inputs])


def repeated(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    wide = [each[:, :, None].expand(-1, -1, 2, -1, -1).reshape(B, H, M, -1) for each in (keys, values)]
    return CASES["masked_fill"][0](queries, *wide)


def multi_query(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    scores = (queries.reshape(B, H * N, D) @ keys[:, 0].mT).view(B, H, N, M) * SCALE
    output: Tensor = scores.softmax(-1).view(B, H * N, M) @ values[:, 0]
    return output.view(B, H, N, -1)


def grouped(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Compute attention with groups of heads in an axis of their own."""
    scores = torch.einsum("bkgnd,bkmd->bkgnm", queries.unflatten(1, (2, H // 2)), keys) * SCALE  # type: ignore[no-untyped-call]
    weights = scores.masked_fill(~MASK[:, :, None], -torch.inf).softmax(-1)
    return torch.einsum("bkgnm,bkmv->bkgnv", weights, values).flatten(1, 2)


def single(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Compute attention with one head. Before the axes are transposed, queries look like heads of a single token."""
    split = [each[:, 0].view(B, -1, 1, each.shape[-1]).transpose(1, 2) for each in (queries, keys, values)]
    return F.scaled_dot_product_attention(split[0], split[1], split[2])


def turned(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Compute scores with the queries on the right; with as many queries as keys only the numbers show it."""
    output: Tensor = (keys @ queries.mT * SCALE).mT.softmax(-1) @ values
    return output


# The numbers of heads of queries and of keys, the number of queries, and the mask.
LAYOUTS: dict[str, tuple[Written, int, int, int, Tensor | None]] = {
    "repeated": (repeated, H, 2, N, MASK),
    "enable_gqa": (partial(F.scaled_dot_product_attention, attn_mask=MASK, enable_gqa=True), H, 2, N, MASK),
    "multi-query": (multi_query, H, 1, N, None),
    "grouped": (grouped, H, 2, N, MASK),
    "single": (single, 1, 1, N, None),
    "turned": (turned, H, H, M, None),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_heads_and_queries_in_any_layout(name: str) -> None:
    attend, heads, of_keys, n, mask = LAYOUTS[name]
    inputs = normal(B, heads, n, D), normal(B, of_keys, M, D), normal(B, of_keys, M, D)
    assert_captured(only(attncli.capture(attend, *inputs)), inputs, mask)


def test_a_scale_of_each_head_is_part_of_the_queries() -> None:
    scales = torch.tensor([1.0, 2.0, 0.5, 3.0]).view(H, 1, 1)
    record = only(attncli.capture(lambda: (QUERIES @ KEYS.mT * scales).softmax(-1) @ VALUES))
    assert_close(record.queries, QUERIES * scales)
    assert record.scale == 1


def test_biases_of_rows_and_columns_of_a_picture() -> None:
    """Queries and keys are a grid of 2 x 3, and the bias is the sum of a bias for each axis."""
    queries, keys, values = (normal(B, H, 6, D) for _ in range(3))
    rows, columns = normal(B, H, 2, 3, 2), normal(B, H, 2, 3, 3)

    def attention() -> Tensor:
        scores = (queries @ keys.mT * SCALE).view(B, H, 2, 3, 2, 3)
        scores = scores + rows[..., :, None] + columns[..., None, :]
        weights: Tensor = scores.view(B, H, 6, 6).softmax(-1)
        return weights @ values

    bias = (rows[..., :, None] + columns[..., None, :]).reshape(B, H, 6, 6)
    assert_captured(only(attncli.capture(attention)), (queries, keys, values), bias=bias)


@pytest.mark.parametrize(
    ("put", "empty_row"), [(-torch.inf, "nan"), (-1e9, "uniform"), (torch.finfo(torch.float32).min, "uniform")]
)
def test_a_query_without_a_key_gets_what_the_model_gave_it(put: float, empty_row: str) -> None:
    mask = MASK.clone()
    mask[0, :, 2] = False
    record = only(attncli.capture(lambda: (QUERIES @ KEYS.mT).masked_fill(~mask, put).softmax(-1) @ VALUES))
    assert record.empty_row == empty_row
    assert_close(record.valid, mask)
    fused = only(attncli.capture(lambda: F.scaled_dot_product_attention(QUERIES, KEYS, VALUES, mask)))
    assert fused.empty_row == "zero"


def test_a_weak_mask_is_a_bias_where_a_query_has_no_key() -> None:
    """-1e4 on all keys of a query is no mask: the softmax is the same as without it."""
    mask = MASK.clone()
    mask[0, :, 2] = False
    record = only(attncli.capture(lambda: (QUERIES @ KEYS.mT + ~mask * -1e4).softmax(-1) @ VALUES))
    assert record.valid is None
    assert record.bias is not None


def test_learned_queries_and_projections() -> None:
    queries, key, x = nn.Parameter(normal(3, 8)), nn.Linear(5, 8), normal(2, 4, 5)
    model = Computed(lambda module, x: (module.queries @ module.key(x).mT).softmax(-1) @ x, queries=queries, key=key)
    record = only(attncli.capture(model, x))
    assert (record.layer, record.kind) == ("Computed", "Computed")
    assert_close(record.queries, queries.detach().expand(2, 1, 3, 8))
    assert_close(record.keys, key(x)[:, None].detach())


CENTRED, NEAR = normal(1, 1, M, 1), torch.cat([KEYS, KEYS * (1 + 1e-6)], -2)
CENTRED -= CENTRED.mean()
ROUGH: dict[str, list[Tensor]] = {
    "outputs near 0, of one feature": [normal(1, 1, 2000, D), normal(1, 1, M, D), CENTRED],
    "scores of 100": [QUERIES * 10, NEAR, torch.cat([VALUES, -VALUES], -2)],
    # Two ways to add up a score of 10,000 differ by 0.001, which decides between keys that are nearly the same.
    "scores of 10,000": [QUERIES * 1000, NEAR, torch.cat([VALUES, -VALUES], -2)],
}
ROUGH["bfloat16"] = [each.bfloat16() for each in ROUGH["outputs near 0, of one feature"]]


@pytest.mark.parametrize("rough", ROUGH)
@pytest.mark.parametrize("name", ["softmax", "sdpa"])
def test_rounding_makes_no_reading_wrong(name: str, rough: str) -> None:
    only(attncli.capture(CASES[name][0], *ROUGH[rough]))


def test_models_that_mix_dtypes() -> None:
    """A softmax in float32 of a model in float64, and scores in bfloat16 of a model in float32."""
    exact, rough = ([3 * each.to(dtype) for each in (QUERIES, KEYS)] for dtype in (torch.float64, torch.bfloat16))
    only(attncli.capture(lambda: (exact[0] @ exact[1].mT).softmax(-1, dtype=torch.float32).double() @ VALUES.double()))
    only(attncli.capture(lambda: (rough[0] @ rough[1].mT).float().softmax(-1) @ VALUES))


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_nested_tensors_are_let_through() -> None:
    jagged = torch.nested.nested_tensor([normal(3, 4, 8), normal(5, 4, 8)], layout=torch.jagged).transpose(1, 2)
    with pytest.raises(InputError, match="its tensors cannot be read"):
        attncli.capture(F.scaled_dot_product_attention, jagged, jagged, jagged)


@pytest.mark.parametrize(("how", "v"), [("kernel", D), ("steps", V)])
def test_the_operation_under_no_name_of_a_function(how: str, v: int) -> None:
    """TorchScript and C++ call the operation; sizes that its kernel does not support are computed in steps."""
    values = normal(B, H, M, v)
    operation = torch.ops.aten.scaled_dot_product_attention
    record = only(attncli.capture(lambda: operation(QUERIES, KEYS, values, MASK)))
    assert record.how == how
    before = SCALE**0.5 if how == "steps" else 1  # of queries and of keys
    assert_captured(record, (QUERIES / before, KEYS * before, values), MASK)


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_flex_attention() -> None:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    keys, values = KEYS[:, :2].contiguous(), VALUES[:, :2].contiguous()
    scores = torch.arange(M)[None, :] - torch.arange(N)[:, None]
    bias = 0.1 * scores * torch.arange(H)[:, None, None]
    causal = create_block_mask(lambda b, h, q, k: q >= k, None, None, N, M, device="cpu")

    def attention() -> Tensor:
        modified = lambda score, b, h, q, k: score + 0.1 * h * (k - q)  # noqa: E731
        output = flex_attention(QUERIES, keys, values, modified, causal, scale=0.3, enable_gqa=True)
        assert isinstance(output, Tensor)
        return output

    assert_captured(only(attncli.capture(attention)), (QUERIES, keys, values), CAUSAL, bias[None], 0.3)
    with pytest.raises(InputError, match="re-scored, its output differs"):  # this function of the scores is no bias
        attncli.capture(lambda: flex_attention(QUERIES, KEYS, VALUES, lambda score, *_: torch.tanh(score)))


@pytest.mark.parametrize(
    ("b", "h", "n"), [(3, 4, 16), (1, 4, 16), (2, 16, 4), (2, 4, 4), (2, 4, 1), (2, 1, 4), (1, 8, 2)]
)
@pytest.mark.parametrize("order", ["bnhm", "bhnm"])
def test_heads_are_told_from_queries_where_one_number_divides_the_other(order: str, b: int, h: int, n: int) -> None:
    inputs = [normal(b, size, h, 5).transpose(1, 2) for size in (n, 16, 16)]  # in memory as models have them
    assert_captured(only(attncli.capture(crossed_einsums, *inputs, order)), inputs)
