"""The memory that the attention study says it takes, and that it refuses before it takes it."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from psutil import Process

from attncli import pooling
from attncli.errors import InputError
from attncli.scorers import additive
from attncli.studies import memory
from attncli.studies.attention import rows
from attncli.studies.attention import study as attention
from attncli.studies.memory import available_memory, estimate_attention
from attncli.studies.progress import Progress
from attncli.studies.study import Result
from tests.experiments import CPU, options_of, result_of, runs_of
from tests.scorers.peaks import peak_of

NORMAL = {"queries": {"shape": [4, 128, 16]}, "keys": {"shape": [4, 96, 16]}}
CASES: dict[str, dict[str, Any]] = {
    "one": {"data": NORMAL, "scorers": [{"scorer": "dot"}]},
    "several": {"data": NORMAL, "scorers": [{"scorer": name} for name in ("additive", "gaussian", "cosine")]},
    "stages": {
        "data": {**NORMAL, "valid_lens": [50] * 4},
        "scorers": [{"scorer": "gaussian", "softcap": 1.0, "dropout": 0.5}],
        "train": True,
        "mask": {"causal": "top_left"},
    },
    "float64": {"data": {**NORMAL, "valid_lens": [0, 9, 9, 9]}, "scorers": [{"scorer": "cosine"}], "dtype": "float64"},
    "half": {
        "data": {"queries": {"shape": [4, 16, 4096]}, "keys": {"shape": [4, 16, 4096]}},
        "scorers": [{"scorer": "cosine"}, {"scorer": "gaussian"}],
        "dtype": "float16",
    },
    "heavy-tailed": {
        "data": {
            "queries": {"shape": [4, 64, 512], "fill": "student_t", "df": 3},
            "keys": {"fill": "correlated", "with": "queries", "rho": 0.5},
        },
        "scorers": [{"scorer": "vector_sum"}],
    },
    "values": {"data": {**NORMAL, "values": {"shape": [96, 512]}}, "scorers": [{"scorer": "dot"}]},
    "wide": {
        "data": {"queries": {"shape": [2, 3, 512]}, "keys": {"shape": [2, 3, 512]}},
        "scorers": [{"scorer": "general"}, {"scorer": "additive", "num_hiddens": 500}],
    },
    "hidden": {
        "data": {"queries": {"shape": [1, 128, 16]}, "keys": {"shape": [1, 96, 16]}},
        "scorers": [{"scorer": "additive", "num_hiddens": 256}],
    },
    "projected": {
        "data": {"queries": {"shape": [1, 4000, 1]}, "keys": {"shape": [1, 2, 200]}},
        "scorers": [{"scorer": "general"}],
    },
    "outputs alone": {
        "data": {"queries": {"shape": [2, 512, 16]}, "keys": {"shape": [2, 400, 16]}},
        "scorers": [{"scorer": name} for name in ("additive", "gaussian", "cosine", "dot", "vector_sum")],
        "weights": False,
    },
    "outputs alone, masked": {
        "data": {"queries": {"shape": [3, 300, 16]}, "keys": {"shape": [3, 400, 16]}, "valid_lens": [0, 9, 400]},
        "scorers": [{"scorer": "gaussian", "softcap": 1.0}, {"scorer": "general"}],
        "mask": {"causal": "bottom_right"},
        "dtype": "float64",
        "weights": False,
    },
}
HEADS = {"queries": {"shape": [2, 3, 256, 8]}, "keys": {"shape": [2, 3, 192, 8]}, "valid_lens": [0, 100]}
NORMALIZERS = [
    {"scorer": "dot", "normalizer": "sparsemax"},
    {"scorer": "gaussian", "normalizer": "entmax", "bias": "alibi"},
    {"scorer": "dot", "normalizer": "sigmoid", "softcap": 1.0},
]
CASES["normalisers"] = {"data": HEADS, "scorers": NORMALIZERS}
CASES["outputs alone, normalisers"] = {**CASES["normalisers"], "mask": {"causal": "top_left"}, "weights": False}
CASES["wide, half"] = {**CASES["wide"], "dtype": "bfloat16"}
CASES["outputs alone, half"] = {**CASES["half"], "weights": False}


@pytest.mark.parametrize("case", CASES)
def test_the_estimate_holds(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    estimates: list[dict[str, int]] = []
    monkeypatch.setattr(attention, "require_memory", lambda estimate, *_: estimates.append(estimate))
    monkeypatch.setattr(rows, "AT_A_TIME", 2**12)  # what does not grow with the tensors is the program's
    monkeypatch.setattr(additive.Additive, "workspace_bytes", 2**18)
    monkeypatch.setattr(pooling, "WORKSPACE_BYTES", 2**18)
    monkeypatch.setattr(attention, "MOST_CELLS", 2**17)
    found: list[Result] = []

    def work() -> None:
        found.append(attention.run(attention.prepare(options_of(**CASES[case]), Progress()), Progress()))

    peak = peak_of(work)
    (result,) = found
    kept = [*result.inputs.values(), *(stage for run in runs_of(result) for stage in run.stages.values())]
    assert peak >= sum(tensor.untyped_storage().nbytes() for tensor in kept), "the count misses nothing"
    assert peak <= sum(estimates[-1].values()) - memory.PROGRAM <= 2.5 * peak


def test_what_does_not_fit_is_refused_with_the_figures_and_the_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available_memory", lambda device: 3 * 2**30)
    data = {"queries": {"shape": [1, 2**14, 8]}, "keys": {"shape": [1, 2**14, 8]}}
    with pytest.raises(InputError) as caught:
        result_of(data=data, scorers=[{"scorer": "scaled_dot"}, {"scorer": "additive"}])
    parts = "inputs 257.5 MiB, scores and weights 4.0 GiB, working space 2.8 GiB, program 384.0 MiB"
    available = "3.0 GiB of memory is available"
    cure = "use fewer queries, keys or batch elements, or fewer scorers"
    assert str(caught.value) == f"data: needs about 7.4 GiB ({parts}); {available}; {cure}"


@pytest.mark.parametrize(("room", "fits"), [(1.0, True), (0.999, False)])
def test_a_tenth_of_the_memory_is_left_to_others(room: float, fits: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    data = {"queries": {"shape": [1, 3, 8]}, "keys": {"shape": [1, 3, 8]}}
    shapes = {"queries": (1, 3, 8), "keys": (1, 3, 8), "values": (1, 3, 8)}
    needed = (sum(estimate_attention(shapes, torch.float32, [2], []).values()) - memory.PROGRAM) / 0.9 + 1
    monkeypatch.setattr(memory, "available_memory", lambda device: needed * room)
    monkeypatch.setattr(Process, "memory_info", lambda self: SimpleNamespace(rss=2**40))  # all of the program is loaded
    if fits:
        assert len(runs_of(result_of(data=data))) == 1
    else:
        with pytest.raises(InputError, match="of memory is available"):
            result_of(data=data)


@pytest.mark.parametrize(
    ("shape", "scorer"),
    [
        ([1, 10_000_000, 64], {"scorer": "dot"}),
        ([1, 10**10, 10**10], {"scorer": "additive"}),  # more than torch can count
        ([10**30, 1, 1], {"scorer": "general"}),
        ([1, 2, 3], {"scorer": "additive", "num_hiddens": 10**13}),
        ([1, 2, 10**6], {"scorer": "general"}),
    ],
)
def test_nothing_large_is_made_before_it_is_refused(shape: list[int], scorer: dict[str, Any]) -> None:
    source = {"shape": shape, "fill": "ones"}

    def refused() -> None:
        with pytest.raises(InputError, match="of memory is available; use fewer queries"):
            result_of(data={"queries": source, "keys": source}, scorers=[scorer])

    assert peak_of(refused) < 10_000


def test_the_memory_of_the_device_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (123, 456))
    assert available_memory(torch.device("cuda:1")) == 123
    assert available_memory(CPU) > 2**20
