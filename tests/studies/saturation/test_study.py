"""Records of the saturation study against a slow computation from the same draws, and published numbers."""

import math
import statistics
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch

from attncli.core.seeding import generator
from attncli.results import Row
from attncli.runtime import Progress
from attncli.scorers import SCORERS
from attncli.studies.pairs import parts
from attncli.studies.saturation import study as saturation
from attncli.studies.saturation.study import run
from tests.normalizers.catalogue import VARIANTS, scorer_of
from tests.reference import NORMALIZERS, ORACLES, Vector, entropy, slopes, softmax
from tests.studies.pairs.samples import by_place, prepared, swept
from tests.studies.saturation.test_rows import exact_norm, slow_gradient

D, KEYS, ROWS = 4, 3, 7
PLACE = ("scorer", "label", "normalizer", "head", "d", "keys")
ENTRIES: list[dict[str, Any]] = [
    *({"scorer": name} for name in SCORERS),
    *({"scorer": scorer_of(name), "normalizer": {"normalizer": name, **options}} for name, options in VARIANTS[1:]),
]


def slow_norm(weigh: Callable[[Vector], Vector], row: Vector) -> float:
    """Return the Frobenius norm of the Jacobian, exactly for softmax, else by central differences."""
    if weigh is softmax:
        return exact_norm(row)
    return math.hypot(*(slope for column in slopes(weigh, row) for slope in column))


def slow_figures(rows: list[list[float]], weigh: Callable[[Vector], Vector] = softmax) -> dict[str, list[float]]:
    """Return the metrics of rows of scores; rows whose weights are all 0 have no entropy."""
    weights = [weigh(row) for row in rows]
    kept = [(row, math.fsum(row)) for row in weights if any(row)]
    nats = [entropy([weight / total for weight in row]) for row, total in kept]
    return {
        "entropy": [x / math.log(len(row)) for x, (row, _) in zip(nats, kept, strict=True)],
        "effective_keys": list(map(math.exp, nats)),
        "max_weight": list(map(max, weights)),
        "weight_sum": list(map(math.fsum, weights)),
        "jacobian": [slow_norm(weigh, row) for row in rows],
    }


def slow_record(figures: dict[str, list[float]]) -> Row:
    """Return the means and quartiles of the metrics, by the names of their columns."""
    record: Row = {"rows": len(figures["max_weight"]), "jacobian_mean": statistics.fmean(figures["jacobian"])}
    record |= {key: statistics.fmean(figures[key]) for key in ("entropy", "effective_keys", "max_weight", "weight_sum")}
    for key in figures.keys() - {"effective_keys", "weight_sum"}:
        quartiles = statistics.quantiles(figures[key], n=4, method="inclusive")
        record |= zip((f"{key}_q25", f"{key}_median", f"{key}_q75"), quartiles, strict=True)
    return record


@pytest.mark.catalogue("scorers", "normalizers")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("keys", [{}, {"distribution": "laplace", "mean": 0.5, "std": 2.0, "rho": 0.3}])
def test_records_are_those_of_the_rows(keys: dict[str, Any], dtype: str) -> None:
    entries = [entry | {"label": str(index)} for index, entry in enumerate(ENTRIES)]
    ready = prepared("saturation", d=[2, D], keys=KEYS, rows=ROWS, scorers=entries, seed=5, dtype=dtype, **keys)
    rows, point = by_place(run(ready, Progress())), ready.points[1]
    (pairs,) = (point.pairs.of_job(job) for job in point.pairs.jobs)
    randomness = generator(5, f"saturation.values.{D}.0")
    values = torch.empty(ROWS, KEYS, dtype=torch.float64).normal_(generator=randomness)
    for entry, scorer in zip(ready.options.scorers, point.scorers, strict=True):
        name, of = entry.scorer, entry.normalizer
        weigh = partial(NORMALIZERS[of.normalizer], **of.options) if of.normalizer != "softmax" else softmax
        scores = [ORACLES[name](scorer, q, k)[0].tolist() for q, k in zip(pairs.queries, pairs.keys, strict=True)]
        cases = zip(pairs.queries.double(), pairs.keys.double(), values.tolist(), strict=True)
        gradients = [slow_gradient(name, scorer, q[0], k, v, weigh) for q, k, v in cases]
        found, wanted = (
            rows[entry.label, D, None],
            slow_record({**slow_figures(scores, weigh), "query_gradient": gradients}),
        )
        assert [found.pop(key) for key in PLACE] == [name, entry.label, of.normalizer, None, D, KEYS]
        assert found == pytest.approx(wanted, rel=1e-4 if dtype == "float32" else 1e-5, abs=1e-7), entry


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
