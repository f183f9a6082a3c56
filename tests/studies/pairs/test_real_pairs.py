"""Real queries and keys of any shape, mask and source, against slow loops over every head."""

import math
import statistics
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from attncli.engine.runs.saving import save_named
from attncli.results import Row
from attncli.studies import load_study
from attncli.studies.pairs import parts
from tests.experiments import Notes
from tests.reference import ORACLES
from tests.scorers.catalogue import normal
from tests.studies.pairs.samples import by_place, prepared, swept
from tests.studies.saturation.test_study import slow_figures, slow_record

SCORERS: list[dict[str, Any]] = [
    {"scorer": "dot"},
    {"scorer": "scaled_dot", "scale": 0.3},
    {"scorer": "gaussian", "sigma": 2.0},
]
OPTIONS: dict[str, dict[str, Any]] = {"scaled_dot": {"scale": 0.3}, "gaussian": {"sigma": 2.0}}
SCALES = {"scaled_dot": 0.3, "gaussian": 1 / 8}


def tensors(*leading: int, n: int = 3, m: int = 4, d: int = 5) -> dict[str, Tensor]:
    return {"queries": normal(*leading, n, d), "keys": normal(*leading, m, d, seed=1)}


def stored(folder: Path, tensors: dict[str, Tensor]) -> Path:
    save_named(folder / "qk.safetensors", tensors)
    return folder / "qk.safetensors"


def by_head(given: dict[str, Tensor]) -> list[list[tuple[Tensor, Tensor, Tensor]]]:
    """Return for every head a list of queries (n, q), keys (m, k) and valid (n, m) of every batch element."""
    queries, keys = given["queries"], given["keys"]
    valid = given.get("valid", torch.ones(*queries.shape[:-1], keys.shape[-2], dtype=torch.bool))
    while queries.ndim < 4:
        axis = -3 if queries.ndim == 3 else 0
        queries, keys, valid = (each.unsqueeze(axis) for each in (queries, keys, valid))
    queries, keys, valid = (each.flatten(1, -3) for each in (queries, keys, valid))  # b heads . .
    return [[(queries[b, h], keys[b, h], valid[b, h]) for b in range(len(queries))] for h in range(queries.shape[1])]


def rows_of(name: str, scorer: Any, head: list[tuple[Tensor, Tensor, Tensor]]) -> list[list[float]]:
    """Return the scores of the valid keys of every query; NaN and infinity in padding are replaced by 0."""
    found = []
    for queries, keys, valid in head:
        numbers = (side.nan_to_num(0.0, posinf=0.0) for side in (queries, keys))
        scores = ORACLES[name](scorer, *numbers, **OPTIONS.get(name, {})).tolist()
        found += [[x for x, may in zip(*row, strict=True) if may] for row in zip(scores, valid.tolist(), strict=True)]
    return found


def assert_variance(row: Row, rows: list[list[float]], scale: float) -> None:
    """Assert the moments of all scores, and the variance within rows, which is what a softmax sees."""
    scores = [x for each in rows for x in each]
    within = [(x - statistics.fmean(each)) ** 2 for each in rows for x in each]
    assert row["row_variance"] == pytest.approx(statistics.fmean(within), rel=1e-5)
    assert row["samples"] == len(scores)
    assert row["mean"] == pytest.approx(statistics.fmean(scores), rel=1e-5, abs=1e-6)
    assert row["variance"] == pytest.approx(statistics.pvariance(scores), rel=1e-5)
    assert row["unit_scale"] == pytest.approx(scale / statistics.pstdev(scores), rel=1e-5)
    assert row["scale"] == pytest.approx(scale)
    empty = ["mean_ci", "variance_ci", "theory_mean", "theory_variance", "z", "z_mean", "theory"]
    assert [row[column] for column in empty] == [None] * 7


def assert_saturation(row: Row, rows: list[list[float]]) -> None:
    wanted = slow_record(slow_figures([each for each in rows if len(each) > 1]))
    assert {key: row[key] for key in wanted} == pytest.approx(wanted, rel=1e-4, abs=1e-9)
    assert math.isfinite(row["query_gradient_median"])


def assert_records(path: Path, given: dict[str, Tensor], heads: bool, scorers: list[dict[str, Any]] = SCORERS) -> None:
    """Assert that the records of both studies are right for every head."""
    d = given["keys"].shape[-1]
    cases = by_head(given)
    for study in ("variance", "saturation"):
        ready = prepared(study, source=path, scorers=scorers)
        result = swept(study, source=path, scorers=scorers)
        assert len(result.records) == len(scorers) * len(cases)
        found = by_place(result)
        for entry, scorer in zip(scorers, ready.points[0].scorers, strict=True):
            for index, head in enumerate(cases):
                row = found[entry["scorer"], d, index if heads else None]
                rows = rows_of(entry["scorer"], scorer, head)
                if study == "variance":
                    assert_variance(row, rows, SCALES.get(entry["scorer"], 1.0))
                else:
                    assert_saturation(row, rows)
                    assert row["keys"] == given["keys"].shape[-2]


@pytest.mark.parametrize("leading", [(), (2,), (1, 1), (2, 3, 2)])
def test_any_shape(leading: tuple[int, ...], tmp_path: Path) -> None:
    given = tensors(*leading)
    assert_records(stored(tmp_path, given), given, heads=len(leading) > 1)


def test_sizes_that_differ(tmp_path: Path) -> None:
    given = {"queries": normal(2, 2, 3, 5), "keys": normal(2, 2, 4, 7, seed=1)}
    assert_records(stored(tmp_path, given), given, heads=True, scorers=[{"scorer": "additive"}, {"scorer": "general"}])


@pytest.mark.parametrize("rows", [1, 2, 100])
def test_a_few_queries_at_a_time(rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "SCORES_AT_A_TIME", rows * 4)
    given = tensors(2, 2)
    given["valid"] = normal(2, 2, 3, 4, seed=2) > -0.5
    assert_records(stored(tmp_path, given), given, heads=True)


@pytest.mark.parametrize("padding", [math.nan, math.inf])
@pytest.mark.parametrize("leading", [(2,), (2, 2), (2, 2, 1)])
def test_padding_never_counts(leading: tuple[int, ...], padding: float, tmp_path: Path) -> None:
    """`saturation` skips queries with fewer than two valid keys, and `variance` skips queries without any."""
    given = tensors(*leading, n=4)
    rows = [[1, 1, 0, 0], [1, 1, 1, 0], [1, 0, 0, 0], [0, 0, 0, 0]]
    given["valid"] = torch.tensor(rows).bool().expand(*leading, 4, 4)
    given["keys"][..., 3, :] = padding
    given["queries"][..., 3, :] = padding
    assert_records(stored(tmp_path, given), given, heads=len(leading) > 1)


def test_the_dtype_of_the_config_rounds(tmp_path: Path) -> None:
    given = tensors(2)
    result = swept("variance", source=stored(tmp_path, given), scorers=[{"scorer": "dot"}], dtype="bfloat16")
    scores = given["queries"].bfloat16().double() @ given["keys"].bfloat16().double().mT
    assert result.records[0]["variance"] == pytest.approx(float(scores.var(correction=0)), rel=1e-5)


@pytest.mark.parametrize("study", ["variance", "saturation"])
def test_a_head_without_a_valid_pair_has_no_figures(study: str, tmp_path: Path) -> None:
    valid = torch.ones(1, 2, 3, 4, dtype=torch.bool)
    valid[:, 1] = False
    source, progress = stored(tmp_path, tensors(1, 2) | {"valid": valid}), Notes()
    ready = prepared(study, source=source, scorers=[{"scorer": "dot"}])
    whole, nothing = load_study(study).run(ready, progress).records
    assert progress.notes == []
    assert all(math.isfinite(figure) for figure in whole.values() if isinstance(figure, float))
    places = {"scorer", "label", "normalizer", "head", "d", "keys", "scale"}
    known = {key: figure for key, figure in nothing.items() if key not in places and figure is not None}
    assert known == {"samples" if study == "variance" else "rows": 0}
