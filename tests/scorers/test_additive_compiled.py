"""Additive attention after `compile()`: the same scores and gradients, from code that torch made for it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

from attncli.scorers.additive import Additive
from tests.scorers.catalogue import make, normal

needs_compiler = pytest.mark.skipif(not any(map(shutil.which, ("g++", "clang++"))), reason="there is no C++ compiler")
pytestmark = [pytest.mark.filterwarnings("ignore::DeprecationWarning")]  # torch's own, while it compiles
SIZES = [(16, 17, 8), (40, 24, 9), (33, 70, 31)]  # n m h, for the quotient; torch compiles again from 4096 pairs on
SMALL = [(3, 4, 5), (5, 2, 7), (14, 15, 6)]  # and for tanh itself


def results(sizes: tuple[int, int, int], *, compiled: bool) -> list[Tensor]:
    """Return scores, and gradients with respect to everything."""
    n, m, h = sizes
    scorer = make("additive", 6, 4, num_hiddens=h)
    if compiled:
        scorer.compile()
    queries, keys = normal(n, 6).requires_grad_(), normal(m, 4, seed=1).requires_grad_()
    scores = scorer(queries, keys)
    gradients = torch.autograd.grad(scores, [queries, keys, *scorer.parameters()], normal(n, m, seed=2))
    return [scores.detach(), *gradients]


def assert_same(sizes: tuple[int, int, int]) -> None:
    for found, wanted in zip(results(sizes, compiled=True), results(sizes, compiled=False), strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=2e-6 * float(wanted.abs().max()))


def compiled_so_far() -> int:
    from torch._dynamo.utils import counters

    return int(counters["stats"]["unique_graphs"])


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("sizes", [SIZES, SMALL], ids=["quotient", "direct"])
def test_the_same_in_every_size_from_code_compiled_once(sizes: list[tuple[int, int, int]]) -> None:
    before = compiled_so_far()
    assert_same(sizes[0])
    first = compiled_so_far()
    assert first > before, "something is compiled"
    for others in sizes[1:]:
        assert_same(others)
    assert compiled_so_far() == first


@needs_compiler
def test_the_same_in_several_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Additive, "workspace_bytes", 2**12)  # 9 keys at most
    assert_same((6, 20, 7))


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("spread", [1e-3, 1.0, 10.0])
def test_digits(spread: float) -> None:
    """Relative to float64, in every range."""
    scorer = make("additive", 16, num_hiddens=16).requires_grad_(False)
    queries, keys = spread * normal(32, 16), spread * normal(20, 16, seed=1)
    wanted = make("additive", 16, num_hiddens=16).double()(queries.double(), keys.double()).detach()
    scorer.compile()
    found = scorer(queries, keys).double()
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-6 * float(wanted.abs().max()))


SCRIPT = """
import torch
from attncli.errors import InputError
from attncli.scorers.additive import Additive

scorer = Additive(3, 3)
scorer.compile()
try:
    scorer(torch.ones(2, 3), torch.ones(4, 3))
except InputError as error:
    print(error)
"""


@pytest.mark.slow
def test_without_a_compiler(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    there = {name: value for name, value in os.environ.items() if name not in ("CXX", "CC")}
    paths = {"PATH": str(tmp_path / "empty"), "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=there | paths, capture_output=True, text=True, check=True)
    message = done.stdout.strip()
    assert message.startswith("torch.compile gave: ")
    assert message.endswith("; expected a C++ compiler, on a GPU Triton")
    assert "compiler" in message.removesuffix("; expected a C++ compiler, on a GPU Triton"), "torch's reason is named"
