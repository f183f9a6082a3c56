"""Records of the saturation study against a slow computation from the same draws, and published numbers."""

import math
import statistics
from typing import Any

import pytest
import torch

from attncli.common.pairs import parts
from attncli.inputs.seeding import generator
from attncli.results import Row
from attncli.scorers import SCORERS
from attncli.stopping import Progress
from attncli.studies.saturation import study as saturation
from attncli.studies.saturation.study import run
from tests.common.pairs.samples import by_place, prepared, swept
from tests.reference import ORACLES, entropy, softmax
from tests.studies.saturation.test_rows import exact_norm, slow_gradient

D, KEYS, ROWS = 4, 3, 7
PLACE = ("scorer", "label", "normalizer", "head", "d", "keys")
ENTRIES = [{"scorer": name} for name in SCORERS]


def slow_figures(rows: list[list[float]]) -> dict[str, list[float]]:
    """Return the metrics of rows of scores."""
    weights = [softmax(row) for row in rows]
    nats = [entropy(row) for row in weights]
    return {
        "entropy": [x / math.log(len(row)) for x, row in zip(nats, rows, strict=True)],
        "effective_keys": list(map(math.exp, nats)),
        "max_weight": list(map(max, weights)),
        "jacobian": list(map(exact_norm, rows)),
    }


def slow_record(figures: dict[str, list[float]]) -> Row:
    """Return the means and quartiles of the metrics, by the names of their columns."""
    record: Row = {"rows": len(figures["entropy"]), "jacobian_mean": statistics.fmean(figures["jacobian"])}
    record["weight_sum"] = 1.0
    record |= {key: statistics.fmean(figures[key]) for key in ("entropy", "effective_keys", "max_weight")}
    for key in figures.keys() - {"effective_keys"}:
        quartiles = statistics.quantiles(figures[key], n=4, method="inclusive")
        record |= zip((f"{key}_q25", f"{key}_median", f"{key}_q75"), quartiles, strict=True)
    return record


@pytest.mark.catalogue("scorers")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("keys", [{}, {"distribution": "laplace", "mean": 0.5, "std": 2.0, "rho": 0.3}])
def test_records_are_those_of_the_rows(keys: dict[str, Any], dtype: str) -> None:
    ready = prepared("saturation", d=[2, D], keys=KEYS, rows=ROWS, scorers=ENTRIES, seed=5, dtype=dtype, **keys)
    rows, point = by_place(run(ready, Progress())), ready.points[1]
    (pairs,) = (point.pairs.of_job(job) for job in point.pairs.jobs)
    randomness = generator(5, f"saturation.values.{D}.0")
    values = torch.empty(ROWS, KEYS, dtype=torch.float64).normal_(generator=randomness)
    for name, scorer in zip(SCORERS, point.scorers, strict=True):
        scores = [ORACLES[name](scorer, q, k)[0].tolist() for q, k in zip(pairs.queries, pairs.keys, strict=True)]
        cases = zip(pairs.queries.double(), pairs.keys.double(), values.tolist(), strict=True)
        gradients = [slow_gradient(name, scorer, q[0], k, v) for q, k, v in cases]
        found, wanted = rows[name, D, None], slow_record({**slow_figures(scores), "query_gradient": gradients})
        assert [found.pop(key) for key in PLACE] == [name, name, "softmax", None, D, KEYS]
        assert found == pytest.approx(wanted, rel=1e-4 if dtype == "float32" else 1e-6, abs=1e-7)


def test_nothing_is_drawn_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every part of every d has two separate generators, one for queries and keys and one for values."""
    seeds: list[int] = []

    def watched(seed: int, name: str) -> torch.Generator:
        seeds.append(generator(seed, name).initial_seed())
        return generator(seed, name)

    for module in (saturation, parts):
        monkeypatch.setattr(module, "generator", watched)
    swept("saturation", d=[1, 2], keys=64, rows=1000, scorers=[{"scorer": "dot"}])
    assert len(seeds) == len(set(seeds)) == 2 * (2 * 4)  # 256 rows of 64 keys make a part


def test_a_softcap_bounds_the_scores() -> None:
    entries = [{"scorer": "dot"}, {"scorer": "dot", "label": "capped", "softcap": 1e-6}]
    rows = by_place(swept("saturation", d=[64, 65], keys=16, rows=200, scorers=entries))
    assert rows["dot", 64, None]["max_weight"] > 0.7
    assert rows["capped", 64, None]["max_weight"] == pytest.approx(1 / 16, rel=1e-4)
    assert rows["capped", 64, None]["query_gradient_median"] < 1e-3 * rows["dot", 64, None]["query_gradient_median"]
