"""Memory: planted allocations of known size are found, and nothing is tried that might not fit."""

import os
import subprocess
import sys
from collections.abc import Callable

import pytest
import torch

from attncli.studies import memory
from attncli.studies.bench import memory as bench_memory
from attncli.studies.bench.memory import LOG_LEVEL, Forecast, forecast, peak_extra, too_large_at_rest
from attncli.studies.bench.plan import Case
from attncli.studies.memory import ran_out
from tests.studies.bench.small import CPU

MIB = 2**20


def planted(first: int, then: int) -> torch.Tensor:
    """`first` MiB that are gone before `then` MiB are kept."""
    gone = torch.empty(first * MIB, dtype=torch.uint8)
    del gone
    return torch.empty(then * MIB, dtype=torch.uint8)


@pytest.mark.parametrize(("first", "then", "peak"), [(0, 3, 3), (5, 3, 5), (2, 3, 3)])
def test_planted_allocations(first: int, then: int, peak: int) -> None:
    assert peak_extra(lambda: planted(first, then), CPU) == peak * MIB


def test_what_lives_at_the_same_time_adds_up() -> None:
    assert peak_extra(lambda: [planted(0, 1) for _ in range(4)], CPU) == 4 * MIB


def test_what_was_there_before_does_not_count() -> None:
    before = torch.ones(7 * MIB)
    assert peak_extra(lambda: before[:4].clone(), CPU) == 16, "four numbers of 32 bits"
    assert peak_extra(lambda: before, CPU) == 0


def test_inside_of_one_operation() -> None:
    a, b = torch.ones(256, 128), torch.ones(128, 512)
    assert peak_extra(lambda: a @ b, CPU) == 256 * 512 * 4
    assert peak_extra(lambda: (a @ b).tanh(), CPU) == 2 * 256 * 512 * 4


def test_gradients_count() -> None:
    a = torch.ones(MIB, requires_grad=True)
    found = peak_extra(lambda: torch.autograd.grad((a * a).sum(), a), CPU)
    assert found is not None
    assert 2 * 4 * MIB <= found <= 4 * 4 * MIB


def test_what_has_too_many_operations_is_counted_at_smaller_sizes_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """One operation for each query and key at a time, so that twice the sizes have four times as many."""
    monkeypatch.setattr(bench_memory, "FEW_PAIRS", 4 * 4)
    monkeypatch.setattr(bench_memory, "MOST_EVENTS", 8 * 3 * 8 * 8)
    calls = list[Case]()

    def tiled(case: Case) -> Callable[[], object]:
        calls.append(case)
        return lambda: [torch.ones(1) for _ in range(case.n * case.m)]

    def whole(case: Case) -> Callable[[], object]:
        return lambda: torch.ones(case.n, case.m)

    case = Case(64, 64, 2)
    assert forecast(whole, case, 0, CPU) == Forecast(None, True)
    assert forecast(tiled, case, 0, CPU) == Forecast(None, False)
    assert calls == [case.halved(4), case.halved(3)], "and no larger one is tried"


def test_nobody_is_told_that_the_profiler_starts(capfd: pytest.CaptureFixture[str]) -> None:
    peak_extra(lambda: planted(0, 1), CPU)
    assert capfd.readouterr() == ("", "")
    assert LOG_LEVEL in os.environ


def test_nobody_is_told_that_something_was_there_before(capfd: pytest.CaptureFixture[str]) -> None:
    """The library counts how often it says so, and does it the first time: hence a process of its own."""
    code = """
import os, torch
from attncli.studies.bench.memory import peak_extra
held = [torch.ones(2**20)]
def call():
    held.pop()
    os.write(2, b"something else")
peak_extra(call, torch.device("cpu"))
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    assert capfd.readouterr() == ("", "something else")


def test_devices_that_do_not_count() -> None:
    assert peak_extra(lambda: pytest.fail("called"), torch.device("mps")) is None


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


@pytest.fixture
def gibibyte(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available_memory", lambda device: 2**30)


@pytest.mark.usefixtures("gibibyte")
def test_at_rest() -> None:
    assert too_large_at_rest(int(0.9 * 2**30), CPU) is None
    expected = "needs at least 2.0 GiB; 1.0 GiB of memory is available"
    assert too_large_at_rest(2**31, CPU) == expected


@pytest.mark.usefixtures("gibibyte")
class TestAtWork:
    """A call that takes `each` bytes for every pair of query and key, at 1024 of both."""

    case = Case(1024, 1024, 4)

    @pytest.fixture(autouse=True)
    def _planted(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(bench_memory, "_events", lambda call: [call()])
        monkeypatch.setattr(bench_memory, "_peak_of", lambda events: events[0])

    def climb(self, each: int, most: int) -> tuple[str | None, list[int]]:
        seen: list[int] = []

        def call_at(case: Case) -> Callable[[], int]:
            seen.append(case.n)
            return lambda: each * case.n * case.m

        return forecast(call_at, self.case, most, CPU).too_large, seen

    def test_nothing_is_tried_where_the_most_fits(self) -> None:
        assert self.climb(10**9, 2**29) == (None, [])

    def test_it_climbs_until_the_next_step_is_safe(self) -> None:
        assert self.climb(800, 2**33) == (None, [256, 512])

    def test_what_does_not_fit_is_never_tried(self) -> None:
        reason, seen = self.climb(3000, 2**40)
        assert reason == "may need 2.9 GiB; 1.0 GiB of memory is available"
        assert seen == [16, 32, 64, 128, 256, 512]
        assert max(seen) ** 2 * 3000 <= 0.9 * 2**30
        reason, seen = self.climb(12000, 2**40)
        assert reason == "may need 2.9 GiB at n = 512, m = 512 already; 1.0 GiB of memory is available"
        assert max(seen) == 256

    def test_a_single_query_cannot_be_halved(self) -> None:
        self.case = Case(1, 1, 4)
        assert self.climb(2**40, 2**45) == (None, [])
