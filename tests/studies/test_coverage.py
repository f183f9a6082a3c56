"""The 95 % intervals hold the theory 95 times in a hundred, whatever the entries are."""

import pytest

from attncli.studies.study import Record
from tests.combinations import others_slow
from tests.studies.pairs.samples import DISTRIBUTIONS, swept

SEEDS = 200
SAMPLES = 1000
SIZES = [16, 17]  # a single size would bring the powers of two below it


def holds(record: Record, figure: str) -> bool:
    low, high = record[f"{figure}_ci"]
    return bool(low <= record[f"theory_{figure}"] <= high)


def records(distribution: str, mean: float) -> list[Record]:
    """One of each seed: pools share their pairs, so that a second scorer or size would prove nothing new."""
    keys = {"distribution": distribution, "mean": mean, "samples": SAMPLES, "d": SIZES, "scorers": [{"scorer": "dot"}]}
    df = {"df": 8.0} if distribution == "student_t" else {}
    return [swept("variance", seed=seed, **keys, **df).records[0] for seed in range(SEEDS)]


@pytest.mark.parametrize("mean", others_slow([0.5, 0.0]))
@pytest.mark.parametrize("distribution", others_slow(DISTRIBUTIONS))
def test_coverage(distribution: str, mean: float) -> None:
    found = records(distribution, mean)
    assert {record["d"] for record in found} == {16}
    for figure in ("mean", "variance"):
        share = sum(holds(record, figure) for record in found) / SEEDS
        assert 0.92 <= share <= 0.98, figure
        beyond = sum(abs(record["z" if figure == "variance" else "z_mean"]) > 1.959964 for record in found) / SEEDS
        assert beyond == pytest.approx(1 - share), "z says the same as the interval"
