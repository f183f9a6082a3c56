"""Attention that is written by hand: the captured tensors equal its inputs, and the oracle agrees."""

from collections.abc import Callable

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
    normal,
    slow,
)  # fmt: skip


def only(seen: attncli.Capture) -> AttentionCall:
    (record,) = seen.records
    assert (record.problem, seen.missed) == (None, [])
    return record


def assert_captured(
    attention: Callable[[], Tensor],
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    valid: Tensor | None = None,
    bias: Tensor | None = None,
) -> AttentionCall:
    """Compare the captured tensors with the inputs (b, h, n, d), and the output with the oracle's."""
    record = only(attncli.capture(attention))
    assert_close((record.queries, record.keys, record.values), (queries, keys, values))
    assert record.groups == queries.shape[1] // keys.shape[1]
    assert record.scale * record.pre_scale == pytest.approx(SCALE)
    want = slow(queries, keys, values, SCALE, valid, bias)
    assert_close(record.output.double(), want, rtol=0, atol=output_rounding(record))
    return record


@pytest.mark.parametrize("inference", ["none", "inside", "outside"])  # torch runs other operations in its mode
@pytest.mark.parametrize("name", CASES)
@torch.no_grad()
def test_what_went_in_is_captured(name: str, inference: str) -> None:
    written, valid, bias = CASES[name]
    capture = torch.inference_mode()(attncli.capture) if inference == "outside" else attncli.capture
    attend = torch.inference_mode()(written) if inference == "inside" else written
    record = only(capture(attend, QUERIES, KEYS, VALUES))
    before = 4 if name == "divided before" else 1  # of the keys
    assert_close(record.queries / record.pre_scale / before, QUERIES)
    assert_close((record.keys * before, record.values), (KEYS, VALUES), rtol=0, atol=0)
    assert record.scale * record.pre_scale == pytest.approx(SCALE)
    assert (record.groups, record.softcap, record.sinks) == (1, None, None)
    assert (record.valid is None) == (valid is None)
    assert (record.bias is None) == (bias is None)
    if valid is not None and record.valid is not None:
        assert_close(record.valid.expand(B, H, N, M), valid.expand(B, H, N, M))
    if bias is not None and record.bias is not None:
        seen = torch.ones(N, M) if valid is None else valid
        assert_close((record.bias * seen).expand(B, H, N, M), (bias * seen).expand(B, H, N, M))
    want = slow(QUERIES, KEYS, VALUES, SCALE, valid, bias)
    assert_close(record.output.double(), want, rtol=0, atol=output_rounding(record))
    assert_close(record.rescored().double(), want, rtol=0, atol=output_rounding(record))
    assert record.error <= output_rounding(record)


@pytest.mark.parametrize("name", ["softmax", "sdpa"])
@pytest.mark.parametrize(("lead", "b", "h"), [((), 1, 1), ((3,), 3, 1), ((2, 2, 3), 2, 6)])
def test_axes(lead: tuple[int, ...], b: int, h: int, name: str) -> None:
    inputs = [normal(*lead, size, D) for size in (N, M, M)]
    queries, keys, values = (each.reshape(b, h, -1, D) for each in inputs)
    assert_captured(lambda: CASES[name][0](*inputs), queries, keys, values)


def repeated(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    wide = [each[:, :, None].expand(-1, -1, 2, -1, -1).reshape(B, H, M, -1) for each in (keys, values)]
    return CASES["masked_fill"][0](queries, *wide)


def enable_gqa(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(queries, keys, values, MASK, enable_gqa=True)


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
    "enable_gqa": (enable_gqa, H, 2, N, MASK),
    "multi-query": (multi_query, H, 1, N, None),
    "grouped": (grouped, H, 2, N, MASK),
    "single": (single, 1, 1, N, None),
    "turned": (turned, H, H, M, None),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_heads_and_queries_in_any_layout(name: str) -> None:
    attend, heads, of_keys, n, mask = LAYOUTS[name]
    inputs = normal(B, heads, n, D), normal(B, of_keys, M, D), normal(B, of_keys, M, D)
    assert_captured(lambda: attend(*inputs), *inputs, mask)


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
    assert_close(assert_captured(attention, queries, keys, values, bias=bias).bias, bias)


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


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", ["softmax", "sdpa"])
def test_values_that_cancel_leave_their_rounding(name: str, dtype: torch.dtype) -> None:
    """With one feature, many rows of the output are close to 0, so their relative errors are large."""
    queries, keys, values = normal(1, 1, 2000, D), normal(1, 1, M, D), normal(1, 1, M, 1)
    values -= values.mean()
    record = only(attncli.capture(CASES[name][0], *(each.to(dtype) for each in (queries, keys, values))))
    assert float(record.output.abs().min()) < 1e-2 * float(record.output.abs().max())


@pytest.mark.parametrize("name", ["softmax", "sdpa"])
@pytest.mark.parametrize("length", [10.0, 1000.0])
def test_large_scores_round(name: str, length: float) -> None:
    """Two ways to add up a score of 10,000 differ by 0.001, which decides between keys that are nearly the same."""
    keys = torch.cat([KEYS, KEYS * (1 + 1e-6)], -2)
    only(attncli.capture(CASES[name][0], QUERIES * length, keys, torch.cat([VALUES, -VALUES], -2)))


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
    assert record.scale * record.pre_scale == pytest.approx(SCALE)
    assert_close(record.queries @ record.keys.mT / record.pre_scale, QUERIES @ KEYS.mT)
    assert_close(record.valid, MASK)
    assert_close(record.output.double(), slow(QUERIES, KEYS, values, SCALE, MASK), rtol=0, atol=output_rounding(record))


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

    record = only(attncli.capture(attention))
    assert record.groups == 2
    assert record.scale == pytest.approx(0.3)
    assert_close(record.valid, CAUSAL[None, None])
    assert record.bias is not None
    assert_close((record.bias * CAUSAL).expand(B, H, N, M), (bias * CAUSAL).expand(B, H, N, M))
    want = slow(QUERIES, keys, values, 0.3, CAUSAL, bias.float())
    assert_close(record.output.double(), want, rtol=0, atol=output_rounding(record))
    with pytest.raises(InputError, match="re-scored, its output differs"):  # this function of the scores is no bias
        attncli.capture(lambda: flex_attention(QUERIES, KEYS, VALUES, lambda score, *_: torch.tanh(score)))


@pytest.mark.parametrize(
    ("b", "h", "n"), [(3, 4, 16), (1, 4, 16), (2, 16, 4), (2, 4, 4), (2, 4, 1), (2, 1, 4), (1, 8, 2)]
)
@pytest.mark.parametrize("order", ["bnhm", "bhnm"])
def test_heads_are_told_from_queries_where_one_number_divides_the_other(order: str, b: int, h: int, n: int) -> None:
    queries, keys, values = normal(b, h, n, 5), normal(b, h, 16, 5), normal(b, h, 16, 5)

    def attend() -> Tensor:
        q, k, v = (each.transpose(1, 2).contiguous() for each in (queries, keys, values))
        weights = torch.einsum(f"bnhd,bmhd->{order}", q, k).softmax(-1)
        return torch.einsum(f"{order},bmhv->bnhv", weights, v)

    (call,) = attncli.capture(attend).records
    assert_close((call.queries, call.output), (queries, (queries @ keys.mT).softmax(-1) @ values))
