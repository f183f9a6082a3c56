"""Memory of the studies against d does not grow with how much is drawn."""

import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[3]
GROWTH = """
import resource
from tests.studies.pairs.samples import swept

def peak(study, **keys):
    swept(study, d=[1], scorers=[{"scorer": "dot"}, {"scorer": "scaled_dot"}], **keys)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # in KiB, on a Mac in bytes

"""


@pytest.mark.parametrize(
    ("study", "few", "many"),
    [
        ("variance", {"samples": 10**6}, {"samples": 16 * 10**6}),  # whose scores would take 229 MiB in float64
        pytest.param(  # these figures would take 113 MiB
            "saturation", {"keys": 2, "rows": 10**5}, {"keys": 2, "rows": 16 * 10**5}, marks=pytest.mark.slow
        ),
    ],
)
def test_memory_does_not_grow(study: str, few: dict[str, int], many: dict[str, int]) -> None:
    program = f"{GROWTH}few, many = peak('{study}', **{few}), peak('{study}', **{many})\nprint(many - few)"
    done = subprocess.run([sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert int(done.stdout) * (1 if sys.platform == "darwin" else 1024) < 64 * 2**20
