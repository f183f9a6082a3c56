"""What additive attention is for here: never to hold the n x m x h hidden units of the textbook form at once."""

import shutil
from dataclasses import dataclass

import pytest
import torch

from attncli import textbook
from attncli.scorers.additive import Additive
from tests.combinations import others_slow
from tests.scorers.catalogue import make, normal
from tests.scorers.peaks import peak_of


@dataclass(frozen=True)
class Sizes:
    """Of queries (*leading, n, q), keys (*leading, m, q) and h hidden units."""

    n: int
    m: int
    h: int
    q: int
    leading: tuple[int, ...] = ()
    dtype: torch.dtype = torch.float32

    @property
    def hidden_bytes(self) -> int:
        element = 8 if self.dtype == torch.float64 else 4
        return torch.Size(self.leading).numel() * self.n * self.m * self.h * element


def beside_results(sizes: Sizes, *, fused: bool = False) -> tuple[int, int]:
    """Peak bytes beside the scores, and beside the gradients with respect to everything."""
    scorer = make("additive", sizes.q, num_hiddens=sizes.h).to(sizes.dtype)
    queries = normal(*sizes.leading, sizes.n, sizes.q, dtype=sizes.dtype).requires_grad_()
    keys = normal(*sizes.leading, sizes.m, sizes.q, seed=1, dtype=sizes.dtype).requires_grad_()
    leaves = [queries, keys, *scorer.parameters()]
    scores = scorer(queries, keys)
    upstream = torch.ones_like(scores)
    if fused:
        scorer.compile()
        torch.autograd.grad(scorer(queries, keys), leaves, upstream)  # compiling takes memory too, once
        scores = scorer(queries, keys)
    forward = peak_of(lambda: scorer(queries, keys)) - scores.nbytes
    backward = peak_of(lambda: torch.autograd.grad(scores, leaves, upstream, retain_graph=True))
    return forward, backward - sum(leaf.nbytes for leaf in leaves)


SIZES = [
    Sizes(40, 50, 16, 8, (2, 3)),
    Sizes(3, 1500, 16, 8),
    Sizes(160, 160, 16, 8),
    Sizes(1500, 3, 16, 8),
    Sizes(1, 5000, 8, 2),
    Sizes(300, 200, 8, 2),
    Sizes(20, 20, 200, 5),
    Sizes(20, 20, 5, 200),
    Sizes(90, 70, 1, 1),
    Sizes(1, 2, 16, 4, (1000,)),
    Sizes(4, 3, 32, 32, (300,)),
    Sizes(16, 16, 8, 8, (32,)),
    Sizes(64, 64, 8, 8, dtype=torch.float64),
    Sizes(64, 64, 8, 8, (2,), dtype=torch.float16),
]


@pytest.mark.parametrize("sizes", others_slow(SIZES, 2), ids=str)
def test_within_a_small_workspace(sizes: Sizes, monkeypatch: pytest.MonkeyPatch) -> None:
    for workspace in (2**16, 2**18, 2**20):
        monkeypatch.setattr(Additive, "workspace_bytes", workspace)
        assert max(beside_results(sizes)) <= workspace


SHIPPED = [Sizes(600, 600, 128, 128), Sizes(1, 1, 256, 256, (512,)), Sizes(1, 1, 64, 64, (4096,))]


@pytest.mark.parametrize("sizes", others_slow(SHIPPED), ids=str)
def test_within_the_workspace_as_shipped(sizes: Sizes) -> None:
    assert max(beside_results(sizes)) <= Additive.workspace_bytes == 16 * 2**20


@pytest.mark.slow
def test_at_two_thousand_queries_and_keys() -> None:
    scorer, inputs = make("additive", 256, num_hiddens=256), normal(2048, 256)
    with torch.no_grad():
        peak = peak_of(lambda: scorer(inputs, inputs))
    assert peak <= 2048 * 2048 * 4 + Additive.workspace_bytes


def test_keys_that_are_shared_are_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Additive, "workspace_bytes", 2**16)
    scorer, queries, keys = make("additive", 8, num_hiddens=16), normal(50, 1, 8), normal(500, 8, seed=1)
    with torch.no_grad():
        peak = peak_of(lambda: scorer(queries, keys))
    assert peak <= 50 * 500 * 4 + 2**16 < 50 * keys.nbytes


@pytest.mark.slow
@pytest.mark.skipif(not any(map(shutil.which, ("g++", "clang++"))), reason="there is no C++ compiler")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own, while it compiles
@pytest.mark.parametrize("workspace", [2**18, 2**20])
def test_compiled(workspace: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Additive, "workspace_bytes", workspace)
    sizes = Sizes(150, 130, 32, 8)
    assert max(beside_results(sizes, fused=True)) <= workspace < sizes.hidden_bytes


def test_what_is_counted() -> None:
    arguments = [normal(*shape) for shape in [(50, 4), (60, 4), (8, 4), (8, 4), (8,)]]
    hidden, projected, scores = 50 * 60 * 8 * 4, (50 + 60) * 8 * 4, 50 * 60 * 4
    with torch.no_grad():
        peak = peak_of(lambda: textbook.additive_scores(*arguments))
    assert 2 * hidden <= peak <= 2 * hidden + projected + scores + 4096
