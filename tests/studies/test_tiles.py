"""Outputs and metrics of every row without weights, against loops and against the metrics with weights."""

import math
from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial

import pytest
import torch
from torch import Tensor

from attncli.attention import Bias, Rules, weighted_sum
from attncli.core.masks import Valid
from attncli.errors import InputError
from attncli.normalizers import NORMALIZERS
from attncli.pooling import pool_by_rules
from attncli.scorers import SCORERS
from attncli.studies.attention import tiles
from attncli.studies.attention.rows import ScorerRows, scorer_rows
from attncli.studies.attention.tiles import pool_with_rows
from tests import reference
from tests.combinations import varied
from tests.normalizers.catalogue import fitting
from tests.scorers.catalogue import make, normal

N, M, D = 6, 7, 4
Shape = tuple[int, ...]
RULES: dict[str, Callable[[Shape], Rules]] = {
    "none": lambda s: Rules(Valid(s)),
    "causal": lambda s: Rules(Valid(s, causal="top_left")),
    "lengths": lambda s: Rules(Valid.of(s, torch.arange(2, 2 + s[0]))),
    "empty rows": lambda s: Rules(Valid(s, torch.zeros(s[0], dtype=torch.int64), causal="bottom_right")),
    "some empty rows": lambda s: Rules(Valid(s, causal="bottom_right"), empty_row="uniform"),
    "window": lambda s: Rules(Valid(s, causal="top_left", window=2)),
    "window and first keys": lambda s: Rules(Valid(s, window=2, first_keys=3, first=1)),
    "mask": lambda s: Rules(Valid.of(s, mask=normal(*s, seed=3) > -0.5)),
    "softcap": lambda s: Rules(Valid(s), cap=0.7),
    "bias": lambda s: Rules(Valid(s), bias=Bias(s, normal(s[-1], seed=3)[None], alibi=True)),
    "everything": lambda s: Rules(
        Valid.of(s, torch.full((s[0],), 5), normal(s[-2], s[-1], seed=3) > -0.5), 0.7, "nan", Bias(s, alibi=True)
    ),
}


def tensors(
    leading: Shape, sizes: tuple[int, int] = (N, M), dtype: torch.dtype = torch.float64
) -> tuple[Tensor, Tensor, Tensor]:
    """Return queries, keys and values."""
    shapes = (*leading, sizes[0], D), (*leading, sizes[1], D), (*leading, sizes[1], 3)
    queries, keys, values = (normal(*shape, seed=seed, dtype=dtype) for seed, shape in enumerate(shapes))
    return queries, keys, values


def slow_row(scores: list[float], weights: list[float], valid: list[bool]) -> list[float]:
    """Return the metrics of a row by their definitions in Python floats, in the order of the fields."""
    seen = [score for score, may in zip(scores, valid, strict=True) if may]
    mean, total = math.fsum(seen) / len(seen), math.fsum(weights)
    squares = math.fsum((score - mean) ** 2 for score in seen)
    entropy = reference.entropy([weight / total for weight in weights]) if total else math.nan
    return [len(seen), mean, squares, entropy, max(weights), total]


def assert_rows(found: ScorerRows, wanted: ScorerRows, has_keys: Tensor, tolerance: float) -> None:
    """Assert equal metrics in the kept rows; `entropy` only in rows with a nonzero weight."""
    for field in fields(ScorerRows):
        one, other = (getattr(each, field.name)[has_keys] for each in (found, wanted))
        if field.name == "entropy":
            one, other = (each.masked_fill(wanted.weight_sum[has_keys] == 0, 0.0) for each in (one, other))
        assert one.dtype == torch.float64
        torch.testing.assert_close(
            one, other, rtol=tolerance, atol=tolerance / 10, equal_nan=True, msg=partial("{}: {}".format, field.name)
        )


@varied(
    mixes=24,
    scorer=sorted(SCORERS, key="scaled_dot".__ne__),
    normalizer=sorted(NORMALIZERS, key="softmax".__ne__),
    kind=list(RULES),
    leading=[(2, 3), (2,), (), (1, 2, 2)],
    dtype=[torch.float64, torch.float32, torch.bfloat16],
    at_a_time=[2 * M + 1, 20, 1, 2**18],
)
def test_against_loops(
    scorer: str,
    normalizer: str,
    kind: str,
    leading: Shape,
    dtype: torch.dtype,
    at_a_time: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tiles, "AT_A_TIME", at_a_time)
    sizes = (9, 7) if "empty" in kind else (N, M)
    shape, (queries, keys, values) = (*leading, *sizes), tensors(leading, sizes, dtype)
    if kind in ("lengths", "empty rows", "everything") and not leading:
        shape, (queries, keys, values) = (1, *sizes), tensors((1,), sizes, dtype)
    scorer, rules = fitting(normalizer, scorer, RULES[kind](shape))
    scored = make(scorer, D).to(dtype)
    output, found = pool_with_rows(scored, queries, keys, values, rules)
    with torch.no_grad():
        scores = scored(queries, keys)
        last = rules.logits(scores)
    slow = reference.for_each_matrix(
        lambda s, v: reference.weights_of(normalizer, s, v), last.double(), rules.valid.whole
    )
    has_keys = ~rules.valid.empty_rows
    cells = [each.double()[has_keys].tolist() for each in (scores, slow)]
    wanted = [slow_row(*each) for each in zip(*cells, rules.valid.whole[has_keys].tolist(), strict=True)]
    columns = torch.tensor(wanted, dtype=torch.float64).reshape(-1, len(fields(ScorerRows))).unbind(-1)
    tolerance = 1e-9 if dtype == torch.float64 else 2e-5
    rows_with_keys = ScorerRows(*(getattr(found, field.name)[has_keys] for field in fields(found)))
    assert_rows(rows_with_keys, ScorerRows(*columns), torch.ones_like(columns[0], dtype=torch.bool), tolerance)
    usual = weighted_sum(rules.stages(scores)["weights"], values)
    torch.testing.assert_close(output, usual.detach(), rtol=tolerance, atol=tolerance, equal_nan=True)


def test_a_score_that_the_normaliser_refuses_has_no_index_of_its_tile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiles, "AT_A_TIME", 2 * M)
    queries, keys, values = tensors((2,))
    queries, keys = queries.abs(), keys.abs()
    queries[..., 0] = queries[1, 3] = 0.0
    queries[1, 3, 0], keys[1, 5, 0] = 0.5, -1.0
    rules = Rules(Valid((2, N, M)), normalizer=NORMALIZERS["sum"]())
    with pytest.raises(InputError, match=r"^scores: sum: got a score of -0\.5;"):
        pool_with_rows(make("dot", D), queries, keys, values, rules)


@varied(
    mixes=16,
    where=[1, 0, 2],  # keys, queries, values
    junk=[math.nan, math.inf, -math.inf, 1e25, 3e38, 1e-30],
    kind=["lengths", "causal", "mask", "none", "bias", "softcap"],
    scorer=["dot", "general", "cosine", "gaussian"],
    normalizer=["softmax", "sigmoid"],
)
def test_extreme_numbers_are_as_with_weights(where: int, junk: float, kind: str, scorer: str, normalizer: str) -> None:
    """Extreme numbers inside or outside of padding have the same effect as with weights."""
    given, scored = tensors((2,), dtype=torch.float32), make(scorer, D)
    rules = replace(RULES[kind]((2, N, M)), normalizer=NORMALIZERS[normalizer]())
    given[where][:, 3:5] *= junk
    output, found = pool_with_rows(scored, *given, rules)
    with torch.no_grad():
        scores = scored(*given[:2])
        weights = rules.stages(scores)["weights"]
        torch.testing.assert_close(output, weighted_sum(weights, given[2]), rtol=1e-5, atol=1e-6, equal_nan=True)
        assert_rows(found, scorer_rows(scores, weights, rules), ~rules.valid.empty_rows, 1e-5)


@pytest.mark.parametrize("shift", [0.0, 1e3])
def test_many_keys_in_single_precision(shift: float) -> None:
    """Metrics agree with the metrics with weights, also for scores far from 0, which are sums of three products."""
    queries, keys, values = normal(50, 2), normal(20_000, 2, seed=1), normal(20_000, 3, seed=2)
    queries, keys = (torch.cat([each, torch.full_like(each[:, :1], shift**0.5)], -1) for each in (queries, keys))
    scored, rules = make("dot", 3), Rules(Valid((50, 20_000)))
    scores = scored(queries, keys)
    wanted = scorer_rows(scores, rules.stages(scores)["weights"], rules)
    output, found = pool_with_rows(scored, queries, keys, values, rules)
    slack = max(1e-5, reference.rounding(2 * 3) * shift)
    assert_rows(replace(found, mean=found.mean + 1), replace(wanted, mean=wanted.mean + 1), torch.ones(50) > 0, slack)
    torch.testing.assert_close(output, pool_by_rules(scored, queries, keys, values, rules), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["causal", "lengths", "window", "mask"])
def test_a_scorer_of_the_users_own_sees_all_keys_and_heads(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its scores may depend on the number of keys, or on their mean."""
    monkeypatch.setattr(tiles, "AT_A_TIME", 2 * M)
    given, rules = tensors((2, 3)), RULES[kind]((2, 3, N, M))

    def scored(queries: Tensor, keys: Tensor) -> Tensor:
        assert len(queries) < 3 == queries.shape[1], "some batch elements with all of their heads"
        return queries @ (keys - keys.mean(-2, keepdim=True)).mT * keys.shape[-2]

    output, found = pool_with_rows(scored, *given, rules)
    scores = scored(*given[:2])
    weights = rules.stages(scores)["weights"]
    torch.testing.assert_close(output, weighted_sum(weights, given[2]))
    assert_rows(found, scorer_rows(scores, weights, rules), ~rules.valid.empty_rows, 1e-9)
