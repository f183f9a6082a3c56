"""The promise of additive attention: at most 16 MiB beside scores and gradients, where textbooks hold n x m x h.

And its tiles: the same numbers on any number of threads.
"""

import pytest
import torch
from torch import Tensor

from attncli.core.threads import on_threads
from attncli.scorers import _additive
from attncli.scorers.additive import Additive
from tests.combinations import others_slow, varied
from tests.scorers.catalogue import make, needs_compiler, normal
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
    ((20, 5), (20, 5), 200, torch.float32),
    ((20, 200), (20, 200), 5, torch.float32),
    ((1000, 1, 4), (1000, 2, 4), 16, torch.float64),
    ((2, 64, 8), (2, 64, 8), 8, torch.float16),
]


@pytest.mark.parametrize("case", others_slow(CASES, 2), ids=str)
@pytest.mark.parametrize("workspace", [2**16, 2**20])
def test_within_a_small_workspace(
    case: tuple[Shape, Shape, int, torch.dtype], workspace: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Additive, "workspace_bytes", workspace)
    assert workspace_taken(*case) <= workspace


@pytest.mark.parametrize("case", others_slow([((600, 64), 512), ((600, 256), 256), ((4096, 1, 64), 256)]), ids=str)
def test_within_sixteen_mebibytes(case: tuple[Shape, int]) -> None:
    rows, h = case
    with on_threads(1):  # the profiler sees one thread; each has a share of the workspace
        taken = workspace_taken(rows, rows, h, torch.float32)
    assert _additive.WORKERS * taken <= Additive.workspace_bytes == 16 * 2**20


def test_keys_that_are_shared_are_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Additive, "workspace_bytes", 2**16)
    scorer, queries, keys = make("additive", 8, num_hiddens=16), normal(20, 1, 8), normal(400, 8, seed=1)
    with torch.no_grad():
        peak = peak_of(lambda: scorer(queries, keys))
    assert peak <= 20 * 400 * 4 + 2**16 < 20 * keys.nbytes


@pytest.mark.nightly
@needs_compiler
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own, while it compiles
def test_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Additive, "workspace_bytes", 2**18)
    hidden_bytes = 150 * 130 * 32 * 4
    assert workspace_taken((150, 8), (130, 8), 32, torch.float32, compiled=True) <= 2**18 < hidden_bytes


@varied(mixes=1, dtype=[torch.float32, torch.float64], h=[32, 5], scale=[1.0, 100.0])  # also tanh itself
@pytest.mark.parametrize("threads", [2, 3])
def test_the_same_numbers_on_any_threads(
    dtype: torch.dtype, h: int, scale: float, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Additive, "workspace_bytes", 2**18)  # several blocks, and several tiles in each
    scorer = make("additive", 24, 25, num_hiddens=h).to(dtype)  # BLAS rounds odd sizes by its number of threads
    queries, keys = normal(2, 1, 90, 24, dtype=dtype) * scale, normal(2, 3, 70, 25, seed=1, dtype=dtype)
    leaves = [queries.requires_grad_(), keys.requires_grad_(), *scorer.parameters()]

    def results() -> list[Tensor]:
        scores = scorer(queries, keys)
        return [scores, *torch.autograd.grad(scores, leaves, normal(*scores.shape, seed=9, dtype=dtype))]

    with on_threads(threads):
        found = results()
        assert torch.get_num_threads() == threads, "left as it was"
    with on_threads(1):
        wanted = results()
    assert all(map(torch.equal, found, wanted))
    with torch.inference_mode():
        assert torch.equal(scorer(queries, keys), wanted[0])
