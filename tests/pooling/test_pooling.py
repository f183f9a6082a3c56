"""Pooling without weights: outputs equal the outputs of `attend`, and use the fused kernel where it fits."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from attncli import pooling
from attncli.attention import Bias, EmptyRow, Rules, attend, weighted_sum
from attncli.core.masks import Valid
from attncli.errors import InputError
from attncli.normalizers import NORMALIZERS
from attncli.pooling import pool, pool_by_rules
from attncli.scorers import SCORERS
from tests.combinations import varied
from tests.normalizers.catalogue import fitting
from tests.scorers.catalogue import make, normal

N, M, D = 9, 7, 4
DOTS = ["scaled_dot", "dot", "general", "cosine", "kernel"]  # their scores are dot products

NAMES = sorted(SCORERS, key="scaled_dot".__ne__)
WORKSPACES = [pooling.WORKSPACE_BYTES, 2**11]  # all queries at once, as it is shipped, and tiles of some or of one
Tensors = tuple[Tensor, Tensor, Tensor]
Shape = tuple[int, ...]


@pytest.fixture
def workspace() -> int:
    return pooling.WORKSPACE_BYTES


@pytest.fixture(autouse=True)
def within(workspace: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pooling, "WORKSPACE_BYTES", workspace)
    monkeypatch.setattr(pooling, "WINDOW_ROWS", 4)  # several tiles of a window


def tensors(leading: Shape = (), v: int = D, dtype: torch.dtype = torch.float32, sizes: Shape = (N, M)) -> Tensors:
    """Return queries, keys and values."""
    n, m = sizes
    shapes = (*leading, n, D), (*leading, m, D), (*leading, m, v)
    queries, keys, values = (normal(*shape, seed=seed, dtype=dtype) for seed, shape in enumerate(shapes))
    return queries, keys, values


def lengths_of(shape: Shape, *, per_query: bool = False, least: int = 1) -> Tensor:
    """Return lengths (b,) or (b, n) from `least` to all keys."""
    full = (shape[0] if len(shape) > 2 else 1, *([shape[-2]] if per_query else []))
    return torch.arange(torch.Size(full).numel()).mul(3).remainder(shape[-1] + 1 - least).add(least).reshape(full)


def mask_of(shape: Shape) -> Tensor:
    """Return a mask where every query may attend to some key."""
    mask = normal(*shape, seed=5) > 0
    mask[..., 0] = True
    return mask


def bias_of(shape: Shape) -> Tensor:
    return normal(*shape, seed=6, dtype=torch.float64)


RULES: dict[str, Callable[[Shape], Rules]] = {
    "none": lambda s: Rules(Valid(s)),
    "lengths": lambda s: Rules(Valid.of(s, lengths_of(s))),
    "lengths per query": lambda s: Rules(Valid.of(s, lengths_of(s, per_query=True))),
    "window": lambda s: Rules(Valid(s, causal="top_left", window=2)),
    "window and first keys": lambda s: Rules(Valid(s, window=2, first_keys=3, first=1)),
    "mask": lambda s: Rules(Valid.of(s, mask=mask_of(s))),
    "one mask for all": lambda s: Rules(Valid.of(s, mask=mask_of(s[-2:]))),
    "lengths and mask": lambda s: Rules(Valid.of(s, lengths_of(s), mask_of(s))),
    "top left": lambda s: Rules(Valid(s, causal="top_left")),
    "bottom right": lambda s: Rules(Valid(s, causal="bottom_right")),
    "cap": lambda s: Rules(Valid(s), cap=0.3),
    "cap and causal": lambda s: Rules(Valid(s, causal="top_left"), cap=0.3),
    "bias": lambda s: Rules(Valid(s), bias=Bias(s, bias_of(s))),
    "bias of the keys and lengths": lambda s: Rules(Valid.of(s, lengths_of(s)), bias=Bias(s, bias_of((1, s[-1])))),
    "alibi and bottom right": lambda s: Rules(Valid(s, causal="bottom_right"), bias=Bias(s, None, True, s[-1] - s[-2])),
    "cap, both biases and mask": lambda s: Rules(
        Valid.of(s, mask=mask_of(s)), cap=0.3, bias=Bias(s, bias_of((*(1 for _ in s[1:]), s[-1])), True)
    ),
    "empty rows by lengths": lambda s: Rules(Valid.of(s, lengths_of(s, least=0))),
    "empty rows by lengths per query": lambda s: Rules(Valid.of(s, lengths_of(s, per_query=True, least=0))),
    "empty rows by mask": lambda s: Rules(Valid.of(s, mask=mask_of(s) & (torch.arange(s[-2]) % 3 > 0)[:, None])),
}


def assert_pooled(output: Tensor, wanted: Tensor) -> None:
    tolerance = 1e-12 if output.dtype == torch.float64 else 1e-5
    torch.testing.assert_close(output, wanted, rtol=tolerance, atol=tolerance / 4, equal_nan=True)


def attended(scorer: Any, queries: Tensor, keys: Tensor, values: Tensor, rules: Rules) -> Tensor:
    """Return the output, computed from all weights."""
    return weighted_sum(rules.stages(scorer(queries, keys))["weights"], values)


def assert_as_attend(scorer: Any, given: Tensors, rules: Rules) -> None:
    """Assert equal outputs, and equal gradients in float64."""
    with torch.no_grad():
        assert_pooled(pool_by_rules(scorer, *given, rules), attended(scorer, *given, rules))
    if given[0].dtype != torch.float64:
        return
    queries, keys, values = (each.detach().requires_grad_() for each in given)
    leaves = [queries, keys, values, *scorer.parameters()]
    output, usual = (way(scorer, queries, keys, values, rules) for way in (pool_by_rules, attended))
    assert_pooled(output, usual)
    upstream = normal(*output.shape, seed=9, dtype=torch.float64)
    found, wanted = (torch.autograd.grad(each, leaves, upstream, materialize_grads=True) for each in (output, usual))
    torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-12, equal_nan=True)


@varied(
    mixes=12,
    name=NAMES,
    dtype=[torch.float64, torch.float32, torch.float16, torch.bfloat16],
    workspace=WORKSPACES,
    leading=[(2,), (), (2, 3), (2, 3, 2)],
    sizes=[(9, 7), (7, 9), (8, 8), (1, 4), (4, 1)],
    v=[D, 3],
    empty_row=["zero", "uniform", "nan"],
)
def test_as_attend(
    name: str, dtype: torch.dtype, leading: Shape, sizes: tuple[int, int], v: int, empty_row: EmptyRow
) -> None:
    scorer, given = make(name, D).to(dtype), tensors(leading, v, dtype, sizes)
    for rules in RULES.values():
        assert_as_attend(scorer, given, replace(rules((*leading, *sizes)), empty_row=empty_row))


@varied(
    name=sorted(NORMALIZERS, key="softmax_plus_one".__ne__),  # with torch's kernel and a key of zeros, where it fits
    workspace=[2**11, pooling.WORKSPACE_BYTES],
    scorer=["scaled_dot", "gaussian"],
    sizes=[(N, M), (M, N)],
)
def test_every_normaliser(name: str, scorer: str, sizes: tuple[int, int]) -> None:
    """Without gradients some turn scores into weights in place, or need no scores."""
    for rules in RULES.values():
        fit, given = fitting(name, scorer, replace(rules((2, 3, *sizes)), empty_row="uniform"))
        assert_as_attend(make(fit, D).double(), tensors((2, 3), dtype=torch.float64, sizes=sizes), given)


@pytest.mark.parametrize("sink", [1.5, [-1.0, 0.0, 2.0]])
@pytest.mark.parametrize("rules", ["none", "bias", "lengths", "top left"])
def test_sinks(sink: Any, rules: str) -> None:
    given = replace(RULES[rules]((2, 3, N, M)), normalizer=NORMALIZERS["softmax_plus_one"](sink=sink))
    assert_as_attend(make("scaled_dot", D), tensors((2, 3), dtype=torch.float64), given)


@pytest.mark.parametrize("workspace", WORKSPACES)
@pytest.mark.parametrize("name", NAMES)
def test_empty_rows_as_an_error(name: str) -> None:
    given = replace(RULES["empty rows by lengths"]((2, 3, N, M)), empty_row="error")
    with pytest.raises(InputError, match="with no valid key; expected at least one key each"):
        pool_by_rules(make(name, D), *tensors((2, 3)), given)


@varied(
    mixes=12,
    name=NAMES,
    dtype=[torch.float64, torch.float32],
    leading=[(6,), (6, 2), (6, 2, 2)],
    lengths=[[2, 2, 6, 2, 0, 0], [3, 0, 6, 1, 5, 5], [4] * 6, [0] * 6],
    causal=[None, "top_left", "bottom_right"],
    window=[None, 2],
    sizes=[(M, M), (N, M), (4, M)],
    biased=[False, True],
    junk=[0.0, torch.nan, torch.inf],
    empty_row=["uniform", "zero", "nan"],
    workspace=WORKSPACES,
)
def test_each_length_is_a_cut(
    name: str,
    dtype: torch.dtype,
    leading: Shape,
    lengths: list[int],
    causal: Any,
    window: int | None,
    sizes: tuple[int, int],
    biased: bool,
    junk: float,
    empty_row: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Outputs and gradients are the same as with the mask of all keys, and padding has no effect."""
    monkeypatch.setattr(pooling, "RUN", 1)
    scorer, (queries, keys, values) = make(name, D).to(dtype), tensors(leading, dtype=dtype, sizes=sizes)
    shape = (*leading, *sizes)
    bias = Bias(shape, bias_of((1, sizes[1]))) if biased else None
    rules = Rules(Valid(shape, torch.tensor(lengths), causal, window=window), empty_row=empty_row, bias=bias)
    assert_as_attend(scorer, (queries, keys, values), rules)
    wanted = pool_by_rules(scorer, queries, keys, values, rules)
    for at, length in enumerate(lengths):
        if not bool(rules.valid.empty_rows[at].any()):  # these may have weights at all keys
            keys[at, ..., length:, :] = values[at, ..., length:, :] = junk
    assert_pooled(pool_by_rules(scorer, queries, keys, values, rules), wanted)


def test_values_of_another_dtype() -> None:
    """No digits are lost if only one tensor is float64."""
    (queries, keys, _), (*_, values) = tensors((2,)), tensors((2,), dtype=torch.float64)
    for scorer in (make(name, D).double() for name in NAMES):
        wanted, _ = attend(scorer(queries.double(), keys.double()), values)
        assert_pooled(pool(scorer, queries, keys, values), wanted)


@varied(
    name=NAMES,
    junk=[torch.nan, torch.inf, -torch.inf],
    where=[1, 0, 2],  # keys, queries, values
    lengths=[[M, M - 1], None],
)
def test_what_is_seen_does_matter(name: str, junk: float, where: int, lengths: Any) -> None:
    given = tensors((2,))
    given[where][:, 2, 1] = junk
    assert_as_attend(make(name, D), given, Rules(Valid.of((2, N, M), lengths)))


@pytest.mark.parametrize("name", ["dot", "scaled_dot", "general"])
def test_scores_that_are_all_minus_infinity(name: str) -> None:
    queries, keys, values = tensors()
    scorer = make(name, D)
    if name == "general":
        scorer.load_state_dict({"W.weight": torch.eye(D)})
    queries[:], keys[:] = -queries.abs(), 1e25
    queries[0] = -1e25
    wanted, _ = attend(scorer(queries, keys), values)
    assert bool(wanted[0].isnan().all())
    assert_pooled(pool(scorer, queries, keys, values), wanted)


@varied(name=DOTS, bias=[-1e30, torch.finfo().min, 3e38, -torch.inf, 1e300], rules=["none", "lengths"])
def test_extreme_biases(name: str, bias: float, rules: str) -> None:
    """Extreme biases at some keys of all queries, and at all keys of one query."""
    given = torch.zeros(N, M, dtype=torch.float64)
    given[:, 1::2] = given[3] = bias
    shape, scorer = (2, N, M), make(name, D)
    biased = replace(RULES[rules](shape), bias=Bias(shape, given[None]))
    assert_as_attend(scorer, tensors((2,)), biased)


Call = tuple[str, int, int]  # of torch's kernel: its kind of mask, the size of the batch, and the number of keys


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Call]:
    """Return a list that will have the calls of torch's kernel."""
    seen: list[Call] = []

    def counted(*args: Any, **keys: Any) -> Tensor:
        kind = "causal" if keys["is_causal"] else "masked" if args[3] is not None else "plain"
        seen.append((kind, len(args[1]), args[1].shape[-2]))
        return scaled_dot_product_attention(*args, **keys)

    monkeypatch.setattr(pooling, "scaled_dot_product_attention", counted)
    return seen


@pytest.mark.parametrize("causal", [None, "top_left"])
def test_a_run_has_one_call_without_the_other_keys(
    causal: Any, calls: list[Call], monkeypatch: pytest.MonkeyPatch
) -> None:
    queries, keys, values = tensors((7,))
    keys[5, 2:] = values[5, 2:] = torch.nan
    monkeypatch.setattr(pooling, "RUN", 7 * N * M // 4)
    given = Rules(Valid((7, N, M), torch.tensor([2, 2, 6, 6, 6, 2, 0]), causal))
    pool_by_rules(make("dot", D), queries, keys, values, given)
    kind = "causal" if causal else "plain"
    assert calls == [(kind, 2, 2), (kind, 3, 6), (kind, 1, 2)]


@varied(name=DOTS, leading=[(), (2,), (2, 3)])
def test_the_fused_kernel_is_used(name: str, leading: Shape, calls: list[Call]) -> None:
    given = tensors(leading)
    pool(make(name, D), *given)
    pool(make(name, D), *given, lengths_of((*leading, N, M)))
    pool(make(name, D), *given, mask=mask_of((*leading, N, M)))
    pool_by_rules(make(name, D), *given, Rules(Valid((*leading, N, M), causal="top_left")))
    for rules in ("bias", "bias of the keys and lengths"):
        pool_by_rules(make(name, D), *given, RULES[rules]((*leading, N, M)))
    pool_by_rules(make(name, D), *given, Rules(Valid((*leading, N, M)), bias=Bias((*leading, N, M), alibi=True)))
    lengths = "masked" if leading else "plain"  # a single length masks nothing: the keys beyond it are left out
    assert [kind for kind, *_ in calls] == ["plain", lengths, "masked", "causal", "masked", "masked", "masked"]
    for other in set(SCORERS) - set(DOTS):
        pool(make(other, D), *given)
    assert len(calls) == 7


@pytest.mark.parametrize("name", DOTS)
@pytest.mark.parametrize("why", ["normaliser", "sinks", "unequal sizes", "axes"])
def test_the_fused_kernel_is_not_used(name: str, why: str, calls: list[Call]) -> None:
    """Other reasons, such as NaN and a softcap, would change the outputs of the tests above."""
    leading = (2, 3, 2) if why == "axes" else (2,)
    rules = Rules(Valid((*leading, N, M)))
    if why == "normaliser":
        rules = replace(rules, normalizer=NORMALIZERS["ssmax"]())
    if why == "sinks":
        rules = replace(rules, sinks=torch.zeros(1, 1, 1))
    pool_by_rules(make(name, D), *tensors(leading, 3 if why == "unequal sizes" else D), rules)
    assert calls == []


def test_different_sizes_of_queries_and_keys(calls: list[Call]) -> None:
    queries, keys = normal(2, N, 3), normal(2, M, 6, seed=1)
    for name, v in [("general", 6), ("general", 3), ("additive", 6)]:
        scorer, values = make(name, 3, 6), normal(2, M, v, seed=2)
        assert_pooled(pool(scorer, queries, keys, values), attend(scorer(queries, keys), values)[0])
    assert len(calls) == 1, "values as wide as the keys"
