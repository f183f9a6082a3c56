"""Random pairs in parts, their memory, and the sizes for which a study builds scorers."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from attncli.studies import options_model
from attncli.studies.pairs.entries import Entries
from attncli.studies.pairs.parts import ENTRIES_AT_A_TIME, PAIRS_AT_A_TIME, RandomPairs
from attncli.studies.variance import study as variance
from tests.experiments import Notes
from tests.studies.pairs.samples import prepared

REPOSITORY = Path(__file__).parents[3]
GROWTH = """
import resource
from tests.studies.pairs.samples import swept

def peak(samples):
    swept("variance", d=[1], scorers=[{"scorer": "dot"}, {"scorer": "scaled_dot"}], samples=samples)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # in KiB, on a Mac in bytes

few, many = peak(10**6), peak(16 * 10**6)
print(many - few)
"""


def random_pairs(rows: int, d: int, keys: int, together: int = 1) -> RandomPairs:
    options = options_model("saturation").model_validate({"name": "test"})
    return RandomPairs(options, Entries(), torch.device("cpu"), d, rows, keys, together)  # type: ignore[arg-type]


@pytest.mark.parametrize(("rows", "d", "keys"), [(1, 1, 1), (16385, 1, 1), (3000, 8, 64), (5, 4096, 99)])
@pytest.mark.parametrize("together", [1, 4])
def test_parts_cover_all_rows_once(rows: int, d: int, keys: int, together: int) -> None:
    source = random_pairs(rows, d, keys, together)
    made = [source.of_job(job) for job in source.jobs]
    parts = [part for pairs in made for part in pairs.names]
    assert [name for name, _ in parts] == [f"{d}.{index}" for index in range(-(-rows // source.step))]
    assert sum(count for _, count in parts) == sum(len(pairs.queries) for pairs in made) == rows
    assert {count for _, count in parts[:-1]} <= {source.step}
    assert source.step == 1 or source.step * d * keys <= ENTRIES_AT_A_TIME
    assert source.step * keys <= PAIRS_AT_A_TIME
    alone = random_pairs(rows, d, keys).of_job(0)
    assert torch.equal(made[0].keys[: len(alone.keys)], alone.keys), "drawn alike, however many make a job"


def test_products_too_small_for_the_dtype_are_told() -> None:
    ready = prepared("variance", d=[4], samples=100, std=1e-30, scorers=[{"scorer": "dot"}])
    progress = Notes()
    variance.run(ready, progress)
    assert progress.notes == ["warning: dot: scores too small for the dtype at d = 4; use float64"]


@pytest.mark.slow
def test_memory_does_not_grow() -> None:
    """All scores of the larger run would take 229 MiB in float64."""
    done = subprocess.run([sys.executable, "-c", GROWTH], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert int(done.stdout) * (1 if sys.platform == "darwin" else 1024) < 64 * 2**20
