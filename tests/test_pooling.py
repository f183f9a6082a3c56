"""Pooling without weights: the output of attention, whichever way it is made, and by which way it is."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from attncli import pooling
from attncli.attention import Causal, Valid, attend, softcap, valid_mask
from attncli.errors import InputError
from attncli.pooling import Rules, pool, pool_by_rules
from attncli.scorers import SCORERS
from tests.combinations import varied
from tests.scorers.catalogue import make, normal

N, M, D = 9, 7, 4
LEADING: list[tuple[int, ...]] = [(), (2,), (2, 3), (2, 3, 2)]
EMPTY_ROWS: list[Any] = ["zero", "uniform", "nan", "error"]
DOTS = ["scaled_dot", "dot", "general", "cosine"]  # whose scores are dot products of something

NAMES = sorted(SCORERS, key="scaled_dot".__ne__)
WORKSPACES = [pooling.WORKSPACE_BYTES, 2**11]  # all queries at once, as it is shipped, and tiles of some or of one

every_scorer = pytest.mark.parametrize("name", NAMES)
Tensors = tuple[Tensor, Tensor, Tensor]


def tensors(leading: tuple[int, ...] = (), v: int = D, dtype: torch.dtype = torch.float32) -> Tensors:
    """Queries, keys and values."""
    shapes = (*leading, N, D), (*leading, M, D), (*leading, M, v)
    queries, keys, values = (normal(*shape, seed=seed, dtype=dtype) for seed, shape in enumerate(shapes))
    return queries, keys, values


def lengths_of(leading: tuple[int, ...], *, per_query: bool = False, empty: bool = False) -> Tensor:
    """(b,) or (b, n) of all sizes; 0 among them where some are to be empty."""
    shape = (leading[0] if leading else 1, *([N] if per_query else []))
    lengths = torch.arange(torch.Size(shape).numel()).mul(3).remainder(M) + (0 if empty else 1)
    return lengths.reshape(shape)


def mask_of(leading: tuple[int, ...]) -> Tensor:
    """Every query may attend to some key."""
    mask = normal(*leading, N, M, seed=5) > 0
    mask[..., 2] = True
    return mask


def assert_pooled(output: Tensor, wanted: Tensor) -> None:
    assert output.dtype == wanted.dtype
    tolerance = 1e-12 if output.dtype == torch.float64 else 1e-5
    torch.testing.assert_close(output, wanted, rtol=tolerance, atol=tolerance / 4, equal_nan=True)


def assert_as_attend(name: str, given: Tensors, lengths: Any = None, **keys: Any) -> None:
    queries, k, values = given
    scorer = make(name, D)
    wanted, _ = attend(scorer(queries, k), values, lengths, **keys)
    assert_pooled(pool(scorer, queries, k, values, lengths, **keys), wanted)


@varied(name=NAMES, workspace=WORKSPACES, leading=LEADING, v=[D, 3])
def test_as_attend(
    name: str, workspace: int, leading: tuple[int, ...], v: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pooling, "WORKSPACE_BYTES", workspace)
    given = tensors(leading, v)
    assert_as_attend(name, given)
    assert_as_attend(name, given, lengths_of(leading))
    assert_as_attend(name, given, lengths_of(leading, per_query=True))
    assert_as_attend(name, given, mask=mask_of(leading))
    assert_as_attend(name, given, mask=mask_of(()))
    assert_as_attend(name, given, lengths_of(leading).clamp(min=3), mask=mask_of(leading))


@varied(name=NAMES, workspace=WORKSPACES, dtype=[torch.float64, torch.float16, torch.bfloat16])
def test_other_dtypes(name: str, workspace: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pooling, "WORKSPACE_BYTES", workspace)
    scorer, (queries, keys, values) = make(name, D).to(dtype), tensors((2,), dtype=dtype)
    for lengths in (None, lengths_of((2,))):
        wanted, _ = attend(scorer(queries, keys), values, lengths)
        assert_pooled(pool(scorer, queries, keys, values, lengths), wanted)


@every_scorer
def test_values_of_another_dtype(name: str) -> None:
    """Nothing is lost where one tensor alone is float64."""
    scorer, (queries, keys, _), (*_, values) = make(name, D).double(), tensors((2,)), tensors((2,), dtype=torch.float64)
    wanted, _ = attend(scorer(queries.double(), keys.double()), values)
    assert_pooled(pool(scorer, queries, keys, values), wanted)


@varied(
    name=NAMES,
    workspace=WORKSPACES,
    causal=["top_left", "bottom_right"],
    sizes=[(9, 7), (9, 9), (5, 9), (1, 4), (4, 1)],
    v=[D, 3],
)
def test_causal(
    name: str, workspace: int, causal: Causal, sizes: tuple[int, int], v: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pooling, "WORKSPACE_BYTES", workspace)
    scorer, (n, m) = make(name, D), sizes
    queries, keys, values = normal(2, n, D), normal(2, m, D, seed=1), normal(2, m, v, seed=2)
    mask = torch.ones(n, m, dtype=torch.bool).tril(0 if causal == "top_left" else m - n)
    wanted, _ = attend(scorer(queries, keys), values, mask=mask)
    valid = Valid((2, n, m), causal=causal)
    assert_pooled(pool_by_rules(scorer, queries, keys, values, Rules(valid)), wanted)
    assert_pooled(wanted, attend(scorer(queries, keys), values, mask=valid.joined)[0])


@varied(name=NAMES, workspace=WORKSPACES, empty_row=EMPTY_ROWS, per_query=[True, False])
def test_empty_rows(
    name: str, workspace: int, empty_row: Any, per_query: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pooling, "WORKSPACE_BYTES", workspace)
    given, lengths = tensors((2, 3)), lengths_of((2, 3), per_query=per_query, empty=True)
    assert 0 in lengths
    if empty_row == "error":
        with pytest.raises(InputError, match="with no valid key; expected at least one key each"):
            pool(make(name, D), *given, lengths, empty_row=empty_row)
        return
    assert_as_attend(name, given, lengths, empty_row=empty_row)
    mask = Valid.of((2, 3, N, M), lengths).whole
    assert_as_attend(name, given, mask=mask, empty_row=empty_row)


@varied(name=NAMES, workspace=WORKSPACES, limited=[True, False])
def test_softcap(name: str, workspace: int, limited: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pooling, "WORKSPACE_BYTES", workspace)
    scorer, (queries, keys, values) = make(name, D), tensors((2,))
    lengths = lengths_of((2,)) if limited else None
    wanted, _ = attend(softcap(scorer(queries, keys), 0.3), values, lengths)
    assert_pooled(pool_by_rules(scorer, queries, keys, values, Rules(Valid.of((2, N, M), lengths), cap=0.3)), wanted)


@varied(
    mixes=16,
    name=NAMES,
    workspace=WORKSPACES,
    junk=[torch.nan, torch.inf, -torch.inf, 1e30],
    where=["both", "keys", "values"],
    rules=["lengths", "mask", "causal"],
)
def test_padding_does_not_matter(
    name: str, workspace: int, junk: float, where: str, rules: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even numbers whose products are beyond the largest one."""
    monkeypatch.setattr(pooling, "WORKSPACE_BYTES", workspace)
    queries, keys, values = tensors((2,))
    queries = queries * 1e10 if junk == 1e30 and name in ("dot", "scaled_dot", "general") else queries
    shape, per_query = (2, N, M), [[min(i, M - 2) for i in range(1, N + 1)]] * 2
    given = {
        "lengths": Rules(Valid.of(shape, [3, M - 2])),
        "mask": Rules(Valid.of(shape, mask=valid_mask(shape, per_query))),
        "causal": Rules(Valid(shape, torch.tensor([M - 2] * 2), "top_left")),
    }[rules]
    wanted = pool_by_rules(make(name, D), queries, keys, values, given)
    for tensor in [keys] * (where != "values") + [values] * (where != "keys"):
        tensor[:, M - 2 :] = junk
    assert_pooled(pool_by_rules(make(name, D), queries, keys, values, given), wanted)
    assert bool(wanted.isfinite().all())


@varied(
    name=NAMES,
    junk=[torch.nan, torch.inf, -torch.inf],
    where=["keys", "queries", "values"],
    lengths=[[M, M - 1], None],
)
def test_what_is_seen_does_matter(name: str, junk: float, where: str, lengths: Any) -> None:
    given = dict(zip(("queries", "keys", "values"), tensors((2,)), strict=True))
    given[where][:, 2, 1] = junk
    assert_as_attend(name, (given["queries"], given["keys"], given["values"]), lengths)


@pytest.mark.parametrize("name", ["dot", "scaled_dot", "general"])
def test_scores_that_are_all_minus_infinity(name: str) -> None:
    queries, keys, values = tensors()
    scorer = make(name, D)
    if name == "general":
        scorer.load_state_dict({"W.weight": torch.eye(D)})
    queries[0], keys[:] = 1e25, -1e25
    wanted, _ = attend(scorer(queries, keys), values)
    assert bool(wanted[0].isnan().all())
    assert_pooled(pool(scorer, queries, keys, values), wanted)


@varied(
    mixes=12,
    name=NAMES,
    workspace=WORKSPACES,
    v=[D, 3],
    rules=["lengths", "none", "mask", "causal", "empty", "cap"],
)
def test_gradients(name: str, workspace: int, v: int, rules: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pooling, "WORKSPACE_BYTES", workspace)
    scorer, given = make(name, D).double(), tensors((2,), v, torch.float64)
    valid = {
        "none": Valid((2, N, M)),
        "mask": Valid((2, N, M), mask=mask_of(())),
        "lengths": Valid((2, N, M), torch.tensor([3, M])),
        "causal": Valid((2, N, M), causal="top_left"),
        "empty": Valid((2, N, M), torch.tensor([0, M])),
        "cap": Valid((2, N, M), causal="top_left"),
    }[rules]
    cap = 0.3 if rules == "cap" else None
    leaves = [*(each.requires_grad_() for each in given), *scorer.parameters()]
    scores = scorer(*given[:2])
    wanted, _ = attend(scores if cap is None else softcap(scores, cap), given[2], mask=valid.whole)
    output = pool_by_rules(scorer, *given, Rules(valid, cap))
    upstream = normal(2, N, v, seed=9, dtype=torch.float64)
    pairs = [torch.autograd.grad(each, leaves, upstream, materialize_grads=True) for each in (output, wanted)]
    for found, right in zip(*pairs, strict=True):
        torch.testing.assert_close(found, right, rtol=1e-10, atol=1e-12)


class Calls:
    """Counts how often torch's kernel is called, and with what."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.kinds: list[str] = []
        kernel = scaled_dot_product_attention

        def counted(*args: Any, **kwargs: Any) -> Tensor:
            masked = args[3] is not None
            self.kinds.append("causal" if kwargs["is_causal"] else "masked" if masked else "plain")
            return kernel(*args, **kwargs)

        monkeypatch.setattr(pooling, "scaled_dot_product_attention", counted)


@varied(name=DOTS, leading=LEADING[:3])
def test_the_fused_kernel_is_used(name: str, leading: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    calls, given = Calls(monkeypatch), tensors(leading)
    pool(make(name, D), *given)
    pool(make(name, D), *given, lengths_of(leading))
    pool(make(name, D), *given, mask=mask_of(leading))
    pool_by_rules(make(name, D), *given, Rules(Valid((*leading, N, M), causal="top_left")))
    assert calls.kinds == ["plain", "masked", "masked", "causal"]
    for other in set(SCORERS) - set(DOTS):
        pool(make(other, D), *given)
    assert len(calls.kinds) == 4


def test_the_fused_kernel_is_used_tile_by_tile(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, given = Calls(monkeypatch), tensors()
    monkeypatch.setattr(pooling, "WORKSPACE_BYTES", pooling.MATRICES * M * 4 * 2)  # two queries
    pool(make("dot", D), *given, mask=mask_of(()))
    assert calls.kinds == ["masked"] * 5
    pool(make("dot", D), *given)
    assert calls.kinds[5:] == ["plain"], "what needs no mask needs no tiles"


@varied(
    name=DOTS,
    why=["softcap", "empty row", "NaN in values", "NaN in keys", "infinity", "overflow", "unequal sizes", "axes"],
)
def test_the_fused_kernel_is_not_used(name: str, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = Calls(monkeypatch)
    queries, keys, values = tensors((2, 3, 2) if why == "axes" else (2,), 3 if why == "unequal sizes" else D)
    rules = Rules(Valid((2, 3, 2, N, M)) if why == "axes" else Valid((2, N, M), torch.tensor([3, M - 1])))
    match why:
        case "softcap":
            rules = rules._replace(cap=1.0)
        case "empty row":
            rules = rules._replace(valid=Valid((2, N, M), torch.tensor([0, M])))
        case "NaN in values":
            values[0, -1] = torch.nan
        case "NaN in keys":
            keys[0, -1] = torch.nan
        case "infinity":
            values[0, -1, 0] = -torch.inf
        case "overflow":
            queries, keys = queries * 1e25, keys * 1e25
            name = "dot" if name == "cosine" else name  # whose vectors have length 1
    pool_by_rules(make(name, D), queries, keys, values, rules)
    assert calls.kinds == []


def test_different_sizes_of_queries_and_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, queries, keys = Calls(monkeypatch), normal(2, N, 3), normal(2, M, 6, seed=1)
    for name, v in [("general", 6), ("general", 3), ("additive", 6)]:
        scorer, values = make(name, 3, 6), normal(2, M, v, seed=2)
        assert_pooled(pool(scorer, queries, keys, values), attend(scorer(queries, keys), values)[0])
    assert calls.kinds == ["plain"], "values as wide as the keys"
