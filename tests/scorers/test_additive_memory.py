"""The promise of additive attention: at most 16 MiB beside scores and gradients, where textbooks hold n x m x h."""

import shutil

import pytest
import torch

from attncli.scorers.additive import Additive
from tests.combinations import others_slow
from tests.scorers.catalogue import make, normal
from tests.scorers.peaks import peak_of

Shape = tuple[int, ...]


def workspace_taken(queries: Shape, keys: Shape, h: int, dtype: torch.dtype, *, compiled: bool = False) -> int:
    """Return the peak in bytes beside the scores, or beside the gradients with respect to everything."""
    scorer = make("additive", queries[-1], keys[-1], num_hiddens=h).to(dtype)
    leaves = [normal(*queries, dtype=dtype), normal(*keys, seed=1, dtype=dtype), *scorer.parameters()]
    if compiled:
        scorer.compile()
        scorer(*leaves[:2])
    leaves = [leaf.requires_grad_() for leaf in leaves]
    scores = scorer(*leaves[:2])
    upstream = torch.ones_like(scores)
    if compiled:
        torch.autograd.grad(scores, leaves, upstream, retain_graph=True)  # compiling takes memory, once
    forward = peak_of(lambda: scorer(*leaves[:2])) - int(scores.nbytes)
    backward = peak_of(lambda: torch.autograd.grad(scores, leaves, upstream, retain_graph=True))
    return max(forward, backward - sum(leaf.nbytes for leaf in leaves))


CASES = [
    ((2, 3, 40, 8), (2, 3, 50, 8), 16, torch.float32),
    ((3, 8), (1500, 8), 16, torch.float32),
    ((1500, 8), (3, 8), 16, torch.float32),
    ((1, 2), (5000, 2), 8, torch.float32),
    ((20, 5), (20, 5), 200, torch.float32),
    ((20, 200), (20, 200), 5, torch.float32),
    ((1000, 1, 4), (1000, 2, 4), 16, torch.float32),
    ((64, 8), (64, 8), 8, torch.float64),
    ((2, 64, 8), (2, 64, 8), 8, torch.float16),
]


@pytest.mark.parametrize("case", others_slow(CASES, 2), ids=str)
@pytest.mark.parametrize("workspace", [2**16, 2**20])
def test_within_a_small_workspace(
    case: tuple[Shape, Shape, int, torch.dtype], workspace: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Additive, "workspace_bytes", workspace)
    assert workspace_taken(*case) <= workspace


@pytest.mark.parametrize("rows", others_slow([(600, 128), (4096, 1, 64)]), ids=str)
def test_within_sixteen_mebibytes(rows: Shape) -> None:
    assert workspace_taken(rows, rows, 128, torch.float32) <= Additive.workspace_bytes == 16 * 2**20


def test_keys_that_are_shared_are_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Additive, "workspace_bytes", 2**16)
    scorer, queries, keys = make("additive", 8, num_hiddens=16), normal(50, 1, 8), normal(500, 8, seed=1)
    with torch.no_grad():
        peak = peak_of(lambda: scorer(queries, keys))
    assert peak <= 50 * 500 * 4 + 2**16 < 50 * keys.nbytes


@pytest.mark.slow
@pytest.mark.skipif(not any(map(shutil.which, ("g++", "clang++"))), reason="there is no C++ compiler")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own, while it compiles
def test_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Additive, "workspace_bytes", 2**18)
    hidden_bytes = 150 * 130 * 32 * 4
    assert workspace_taken((150, 8), (130, 8), 32, torch.float32, compiled=True) <= 2**18 < hidden_bytes
