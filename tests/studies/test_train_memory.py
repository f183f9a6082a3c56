"""How much memory a training takes: what is foreseen, beside what is measured; where and how too much is refused."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from attncli.errors import InputError
from attncli.studies import memory
from attncli.studies.memory import PROGRAM
from attncli.studies.training.memory import CURES, estimate_training
from tests.studies.train import prepared

REPOSITORY = Path(__file__).parents[2]
MEASURED = """
from pathlib import Path
import torch
from tests.studies.train import result_of

def peak(**keys):
    result_of(**keys)
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1])  # KiB; getrusage counts the process that has started this one, too

torch.set_num_threads(1)
small = {"scorers": ["dot", "additive"], "steps": 2}
few, many = peak(**small), peak(**small | KEYS)
print(many - few)
"""
LARGE: list[tuple[str, dict[str, Any]]] = [
    ("embeddings", {"d": 1, "vocabulary": 50, "embedding": 300_000, "seeds": 2}),
    ("parameters", {"d": 3000, "embedding": 3000, "seeds": 1}),
    ("queries and keys", {"d": 2**18, "vocabulary": 60, "embedding": 1, "seeds": 1}),
    ("scores", {"d": 2, "vocabulary": 2500}),
    ("sequences", {"d": 2, "batch": 100_000, "vocabulary": 32, "steps": 3}),
    ("pooled values", {"d": 2, "classes": 8000, "batch": 1500, "seeds": 2}),
    ("scores", {"d": 2, "vocabulary": 2000, "scorers": ["gaussian"]}),
]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="where the peak of a process is kept differs")
@pytest.mark.parametrize(("name", "large"), LARGE)
def test_what_is_foreseen_is_what_is_needed(name: str, large: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Never too little, and at most twice too much."""
    monkeypatch.setattr(memory, "available_memory", lambda device: 2**40)
    keys = {"scorers": ["dot"], "steps": 2, **large}
    ready = prepared(**keys)
    parts = estimate_training(ready.jobs, ready.options, 1).parts
    assert max(CURES, key=lambda each: parts[each]) == name, "the usual cure is not for another"
    done = subprocess.run(
        [sys.executable, "-c", MEASURED.replace("KEYS", str(keys))],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    needed = int(done.stdout) * 1024
    foreseen = sum(parts.values()) - PROGRAM
    assert needed > 40 * 2**20, "beside what a program takes anyway"
    assert needed - 16 * 2**20 < foreseen < 2 * needed


@pytest.mark.parametrize(
    ("keys", "place", "cure"),
    [
        ({"embedding": 10**8, "d": 1}, "embedding", "use smaller embeddings, fewer symbols, or fewer seeds"),
        ({"embedding": 10**7}, "embedding", "use a smaller d, smaller embeddings, or fewer seeds"),
        ({"d": 10**5, "embedding": 10**4}, "d", "use a smaller d, smaller embeddings, or fewer seeds"),
        ({"d": 2**20, "vocabulary": 200}, "d", "use a smaller d, fewer symbols, or fewer seeds"),
        ({"vocabulary": 12000}, "vocabulary", "use fewer symbols, fewer hidden units, or fewer seeds"),
        ({"batch": 10**7}, "batch", "use smaller batches, fewer symbols, or fewer seeds"),
        ({"classes": 16384, "batch": 10**5}, "classes", "use fewer classes, smaller batches, or fewer seeds"),
    ],
)
def test_too_large_is_refused_before_anything_is_made(
    keys: dict[str, Any], place: str, cure: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "available_memory", lambda device: 2**30)
    with pytest.raises(InputError) as caught:
        prepared(scorers=["dot"], **keys)
    message = str(caught.value)
    assert message.startswith(f"{place}: needs about ")
    assert message.endswith(f"; {cure}")


def test_hidden_units_count_for_every_pair_and_a_matrix_does_not() -> None:
    def scores(scorer: str) -> int:
        ready = prepared(scorers=[scorer], d=50)
        return estimate_training(ready.jobs, ready.options, 1).parts["scores"]

    assert scores("additive:num_hiddens=20") == 20 * scores("dot")
    assert scores("general") == scores("dot")
    assert scores("dot:softcap=3") == 2 * scores("dot")


def test_as_many_of_the_largest_as_run_at_once() -> None:
    ready = prepared(scorers=["dot"], d=[2, 30, 40])
    one, two, all_of_them, more = (estimate_training(ready.jobs, ready.options, n).parts for n in (1, 2, 3, 9))
    assert (one["parameters"], two["parameters"]) == (5 * 3 * 4 * 10 * 40, 5 * 3 * 4 * 10 * 70)
    assert all_of_them == more
    assert all_of_them["embeddings"] == 4 * 3 * 4 * 6 * 5, "one more while a model is made"
