"""Additive attention after `compile()`: the same scores and gradients, from code that torch made for it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.scorers.additive.cases import Case, Draw, half_unit, largest_errors
from tests.scorers.catalogue import make, normal

COMPILER = next(filter(None, map(shutil.which, ("g++", "clang++"))), None)
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler")
# Torch warns of its own code while it compiles.
pytestmark = [pytest.mark.filterwarnings("ignore::DeprecationWarning")]

SIZES = [(16, 17, 8), (40, 24, 9), (33, 70, 31)]  # n m h, for the quotient; torch compiles again from 4096 pairs on
SMALL = [(3, 4, 5), (5, 2, 7), (14, 15, 6)]  # and for tanh itself
FEW_UNITS = 5  # in the last place of sum |w_v|, in halves; see test_exact.py


def results(sizes: tuple[int, int, int], *, fused: bool, workspace: int = 2**24) -> list[Tensor]:
    """Scores, and gradients with respect to everything."""
    n, m, h = sizes
    scorer = make("additive", 6, 4, num_hiddens=h)
    scorer.workspace_bytes = workspace  # type: ignore[assignment]
    if fused:
        scorer.compile()
    queries, keys = normal(n, 6).requires_grad_(), normal(m, 4, seed=1).requires_grad_()
    scores = scorer(queries, keys)
    gradients = torch.autograd.grad(scores, [queries, keys, *scorer.parameters()], normal(n, m, seed=2))
    return [scores.detach(), *gradients]


def assert_same(sizes: tuple[int, int, int], workspace: int = 2**24) -> None:
    pairs = zip(results(sizes, fused=True, workspace=workspace), results(sizes, fused=False), strict=True)
    for found, wanted in pairs:
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
def test_the_same_in_several_blocks() -> None:
    assert_same((6, 20, 7), workspace=2**12)  # of 9 keys at most


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("kind", ["even", "offset", "wide", "saturated"])
@pytest.mark.parametrize(("n", "m", "h"), [(32, 20, 16), (5, 6, 16)], ids=["quotient", "direct"])
def test_as_exact_as_the_textbook_form(kind: str, n: int, m: int, h: int) -> None:
    drawn = Draw(n, m, h, seed=6)
    queries, keys = (each.float() for each in getattr(drawn, kind)())
    case = Case(queries, keys, drawn.weights("normal").float())
    mine, usual = largest_errors(case, fused=True)
    assert mine <= 2 * usual + FEW_UNITS * half_unit(case.w_v)


# Says what is wrong, as the command line would.
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
    empty, cache = tmp_path / "empty", tmp_path / "cache"
    empty.mkdir()
    there = {name: value for name, value in os.environ.items() if name not in ("CXX", "CC")}
    environment = {**there, "PATH": str(empty), "TORCHINDUCTOR_CACHE_DIR": str(cache)}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True)
    message = done.stdout.strip()
    assert message.startswith("torch.compile gave: ")
    assert message.endswith("; expected a C++ compiler, on a GPU Triton")
    assert "compiler" in message.removesuffix("; expected a C++ compiler, on a GPU Triton"), "torch's reason is named"
