"""Memory: planted allocations of known size are found, and nothing is tried that will not fit."""

import os
from typing import Any

import pytest
import torch

from attncli.studies.bench.implementations import make_call
from attncli.studies.bench.measure import LOG_LEVEL, draw_inputs, estimate_call, peak_memory
from attncli.studies.bench.plan import Case
from attncli.studies.memory import ran_out
from attncli.studies.scoring import build_scorer, outline
from tests.studies.bench.small import CPU, options_of

MIB = 2**20


def planted(first: int, then: int) -> torch.Tensor:
    """`first` MiB that are gone before `then` MiB are kept."""
    gone = torch.empty(first * MIB, dtype=torch.uint8)
    del gone
    return torch.empty(then * MIB, dtype=torch.uint8)


@pytest.mark.parametrize(("first", "then", "peak"), [(0, 3, 3), (5, 3, 5), (2, 3, 3)])
def test_planted_allocations(first: int, then: int, peak: int, capfd: pytest.CaptureFixture[str]) -> None:
    assert peak_memory(lambda: planted(first, then), CPU) == peak * MIB
    assert capfd.readouterr() == ("", ""), "nobody is told that the profiler starts"
    assert LOG_LEVEL in os.environ


def test_what_lives_at_the_same_time_adds_up() -> None:
    assert peak_memory(lambda: [planted(0, 1) for _ in range(4)], CPU) == 4 * MIB


def test_what_was_there_before_does_not_count() -> None:
    before = torch.ones(7 * MIB)
    assert peak_memory(lambda: before[:4].clone(), CPU) == 16, "four numbers of 32 bits"
    assert peak_memory(lambda: before, CPU) == 0


def test_inside_of_one_operation() -> None:
    a, b = torch.ones(256, 128), torch.ones(128, 512)
    assert peak_memory(lambda: a @ b, CPU) == 256 * 512 * 4
    assert peak_memory(lambda: (a @ b).tanh(), CPU) == 2 * 256 * 512 * 4


def test_gradients_count() -> None:
    a = torch.ones(MIB, requires_grad=True)
    found = peak_memory(lambda: torch.autograd.grad((a * a).sum(), a), CPU)
    assert found is not None
    assert 2 * 4 * MIB <= found <= 4 * 4 * MIB


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MemoryError(), True),
        (torch.OutOfMemoryError("CUDA out of memory."), True),
        (RuntimeError("[enforce fail at alloc_cpu.cpp:117] DefaultCPUAllocator: can't allocate memory"), True),
        (RuntimeError("shapes do not match"), False),
        (ValueError("out of memory"), False),
    ],
)
def test_what_running_out_looks_like(error: Exception, expected: bool) -> None:
    assert ran_out(error) is expected


def test_torch_really_says_so() -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**62, dtype=torch.uint8)
    assert ran_out(caught.value)


ADDITIVE = {"scorer": "additive", "num_hiddens": 48}


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("measure", ["scores", "weights", "output"])
@pytest.mark.parametrize("entry", [ADDITIVE, {"scorer": "scaled_dot"}])
@pytest.mark.parametrize("implementation", ["attncli", "textbook"])
def test_the_estimate_is_no_less_than_the_measured_peak(
    implementation: str, entry: dict[str, Any], measure: str, backward: bool
) -> None:
    options = options_of(scorers=[entry], backward=backward)
    case, hidden = Case(600, 500, 32, 2), entry.get("num_hiddens")
    estimate = estimate_call(outline(options.scorers[0], 32, 32), implementation, hidden, case, measure, options)
    scorer = build_scorer(options.scorers[0], 32, 32, 0, torch.float32)
    call = make_call(implementation, scorer, measure, [draw_inputs(options, case, CPU)], backward)
    call()
    peak = peak_memory(call, CPU)
    assert peak is not None
    assert peak <= estimate.total - estimate.parts["program"]
