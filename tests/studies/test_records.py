"""Records and comparisons of the attention study against their definitions."""

import itertools
import math
from decimal import Decimal
from typing import Any

import pytest
import torch
from torch import Tensor

from attncli.attention import Rules
from attncli.core.masks import Valid
from attncli.studies.attention.columns import FIGURES
from attncli.studies.attention.rows import pair_rows, scorer_rows
from attncli.studies.attention.statistics import OF_WEIGHTS
from tests.experiments import Notes, result_of, runs_of
from tests.reference import rounding
from tests.studies.slow import TINY, slow_comparison


def test_equal_weights_do_not_differ_and_disjoint_ones_are_one_bit_apart() -> None:
    entries = [{"scorer": "dot"}, {"scorer": "dot", "label": "again"}, {"scorer": "gaussian"}]
    result = result_of(data=TINY, scorers=entries)
    weights = {run.label: run.stages["weights"].tolist() for run in runs_of(result)}
    assert (weights["dot"], weights["gaussian"]) == ([[[1.0, 0.0]]], [[[0.0, 1.0]]])
    assert list(result.comparisons[0].values()) == ["dot", "again", 0.0, 1.0, 0.0, 0.0, 0.0]
    assert list(result.comparisons[1].values()) == ["dot", "gaussian", 1.0, 0.0, 1.0, 4.0, 4.0]  # outputs 1 and 5


@pytest.mark.parametrize("total", [1.0, 1e-3, 300.0])
@pytest.mark.parametrize("m", [2, 1000])
@pytest.mark.parametrize("peak", [0.0, 1e-6, 0.5, 1 - 1e-3, 1 - 1e-6])  # the share of the first key, beyond 1 / m
def test_the_entropy_is_exact_from_0_to_ln_m(m: int, peak: float, total: float) -> None:
    """The other metrics are exact, too, and so is the divergence of nearly equal weights."""
    weights = torch.full((2, m), (1 - peak) / m, dtype=torch.float64)
    weights[:, 0] += peak
    weights[1] *= 1 + 1e-3 * torch.arange(m) / m
    weights = (weights * total).float()
    exact = [[Decimal(weight) for weight in row] for row in weights.tolist()]
    shares = [[weight / sum(row) for weight in row] for row in exact]
    middle = [(p + q) / 2 for p, q in zip(*shares, strict=True)]
    entropies = [-sum(p * p.ln() for p in row) for row in (*shares, middle)]
    rules = Rules(Valid((1, m)))
    a, b = (scorer_rows(each, each, rules) for each in weights[:, None])
    for found, row, entropy in zip((a, b), exact, entropies, strict=False):
        assert found.entropy.item() == pytest.approx(float(entropy), rel=1e-9, abs=0.0)
        assert found.weight_sum.item() == pytest.approx(float(sum(row)), rel=1e-9, abs=0.0)
        assert found.max_weight.item() == float(max(row))
    pair = pair_rows(weights[:1], weights[1:], a, b, (rules, rules))
    # A difference of entropies of ln m, each a sum in pairs of m products with a logarithm.
    slack = 2 * rounding(8 + 2 * math.log2(m), torch.float64) * math.log(m)
    divergence = float((entropies[2] - (entropies[0] + entropies[1]) / 2) / Decimal(2).ln())
    assert pair.js_divergence.item() == pytest.approx(divergence, rel=1e-9, abs=slack)
    furthest = max(abs(p - q) for p, q in zip(*exact, strict=True))
    assert pair.max_abs_difference.item() == float(furthest)


def test_spread_of_scores_far_from_zero() -> None:
    data = {"queries": [[1.0]], "keys": [[1e8 + x] for x in (-1.0, 0.0, 1.0)]}
    record = result_of(data=data, dtype="float64").records[0]
    assert record["score_std"] == pytest.approx(math.sqrt(2 / 3), rel=1e-9)


WINDOWS: list[dict[str, Any]] = [
    {"scorer": "dot"},
    {"scorer": "dot", "label": "next", "window": 1},
    {"scorer": "cosine", "label": "near", "window": 2},
    {"scorer": "dot", "label": "near and first", "window": 1, "first_keys": 1, "normalizer": "sigmoid"},
]


def sees(entry: dict[str, Any], valid: Tensor) -> Tensor:
    """Return the keys that each query sees (..., n, m), given the mask before the entry's window."""
    n, m = valid.shape[-2:]
    near = [[abs(i - j) < entry.get("window", m) or j < entry.get("first_keys", 0) for j in range(m)] for i in range(n)]
    return valid & torch.tensor(near)


@pytest.mark.parametrize("at_a_time", [1, 2**19])
@pytest.mark.parametrize("empty_row", ["zero", "uniform"])
def test_pairs_are_compared_by_their_saved_weights(
    empty_row: str, at_a_time: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query has weights in the comparison unless it has no valid key for both entries, whose windows may differ."""
    monkeypatch.setattr("attncli.studies.attention.rows.AT_A_TIME", at_a_time)
    shapes = {"queries": [2, 2, 7, 3], "keys": [2, 2, 8, 3], "values": [2, 2, 8, 4]}
    data = {**{name: {"shape": shape} for name, shape in shapes.items()}, "valid_lens": [2, 6]}
    keys: dict[str, Any] = {"data": data, "scorers": WINDOWS, "dtype": "float64"}
    keys["mask"] = {"empty_row": empty_row, "align": "top_left"}
    result, alone = result_of(**keys), result_of(**keys, weights=False)
    valid = result.inputs["valid"].expand(2, 2, 7, 8)
    empty = [~sees(entry, valid).any(-1) for entry in WINDOWS]
    assert [int(each.sum()) for each in empty] == [record["empty_rows"] for record in result.records] == [0, 12, 8, 0]
    pairs = itertools.combinations(zip(result.labels, empty, WINDOWS, strict=True), 2)
    for index, ((a, empty_a, *entry_a), (b, empty_b, *entry_b)) in enumerate(pairs):
        entries = [*entry_a, *entry_b]
        has_keys = ~(empty_a & empty_b)
        stages = [result.tensors[f"{label}/{stage}"] for stage in ("weights", "output") for label in (a, b)]
        groups: list[tuple[Any, ...]] = [(), (0, 0), (0, 1), (1, 0), (1, 1)]  # all batch elements and heads, and each
        for place, group in enumerate(groups):
            masks = [sees(entry, valid)[group][has_keys[group]].tolist() for entry in entries]
            expected = slow_comparison(*(each[group][has_keys[group]].tolist() for each in stages), seen=masks)
            rows = ([run.comparisons[index], *run.head_comparisons[4 * index :]] for run in (result, alone))
            row, without_weights = (each[place] for each in rows)
            assert {name: row[name] for name in expected} == pytest.approx(expected, rel=1e-9, abs=1e-12), (a, b, group)
            outputs = {name: value for name, value in expected.items() if name not in OF_WEIGHTS}
            assert {name: without_weights[name] for name in outputs} == pytest.approx(outputs, rel=1e-9)
            assert [without_weights[name] for name in OF_WEIGHTS] == [None] * 3


def test_numbers_that_are_not_finite_at_valid_keys_are_told() -> None:
    progress = Notes()
    data = {"queries": [[1.0]], "keys": [[math.nan], [1.0]], "values": [[1.0], [2.0]]}
    result = result_of(data=data, scorers=[{"scorer": "dot"}, {"scorer": "gaussian"}], progress=progress)
    assert progress.notes == ["warning: keys[0, 0]: NaN"]
    assert [finding.text for finding in result.findings] == [
        "keys[0, 0]: NaN; queries whose weights are not finite are left out of the figures."
    ]
    assert {result.records[0][column.key] for column in FIGURES} == {None, 0}, "no query is left"
    assert list(result.comparisons[0].values())[2:] == [None] * 5


def test_values_and_outputs_that_are_not_finite_change_only_outputs() -> None:
    """Finite values overflow where weights sum to more than 1."""
    overflowing, progress = {"queries": [[9.0]], "keys": [[9.0]] * 2, "values": [[3e38], [3e38]]}, Notes()
    result_of(data=overflowing, scorers=[{"scorer": "dot", "normalizer": "sigmoid"}], progress=progress)
    assert progress.notes == ["warning: dot_sigmoid: NaN or infinite numbers in the outputs"]
    data = {"queries": [[1.0]] * 2, "keys": [[1.0], [2.0]], "values": [[1.0], [-math.inf]]}
    result = result_of(data=data, scorers=[{"scorer": "dot"}, {"scorer": "gaussian"}], progress=Notes())
    assert result.findings[0].text == (
        "values[0, 1]: -inf; queries whose outputs are not finite are left out of the differences of outputs."
    )
    assert result.records[0]["entropy"] is not None
    assert result.comparisons[0]["js_divergence"] is not None
    assert result.comparisons[0]["output_difference"] is None
