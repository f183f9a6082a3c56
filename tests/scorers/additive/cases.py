"""Additive scores whose projections are exactly what a test wants them to be, and how far from the truth they are.

With the identity for both matrices, queries and keys (of size h) are their own projections, in every dtype.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from attncli import textbook
from attncli.attention import computing_dtype
from attncli.scorers.additive import Additive

SPREAD = 4.0  # powers of ten that magnitudes go up and down
WIDEST = 33.0  # about the range of projections for which exponentials of float32 serve


@dataclass(frozen=True)
class Case:
    queries: Tensor  # n h
    keys: Tensor  # m h
    w_v: Tensor  # h


def scorer_for(w_v: Tensor) -> Additive:
    h = w_v.shape[0]
    scorer = Additive(h, h, num_hiddens=h).to(w_v.dtype)
    identity = torch.eye(h, dtype=w_v.dtype)
    scorer.load_state_dict({"W_q.weight": identity, "W_k.weight": identity, "w_v.weight": w_v[None]})
    return scorer.requires_grad_(False)


class Draw:
    """Random projections and w_v of all kinds. Twice the same seed, twice the same numbers."""

    def __init__(self, n: int, m: int, h: int, seed: int) -> None:
        self.n, self.m, self.h = n, m, h
        self._generator = torch.Generator().manual_seed(seed)

    def uniform(self, *shape: int, to: float = 1.0) -> Tensor:
        """Between -to and to."""
        return (2 * torch.rand(shape, generator=self._generator, dtype=torch.float64) - 1) * to

    def magnitudes(self, *shape: int) -> Tensor:
        """Of either sign, and of every magnitude."""
        return 10 ** self.uniform(*shape, to=SPREAD) * self.uniform(*shape).sign()

    def even(self) -> tuple[Tensor, Tensor]:
        """Each side of one magnitude."""
        return self.uniform(self.n, self.h) * self.magnitudes(1), self.uniform(self.m, self.h) * self.magnitudes(1)

    def mixed(self) -> tuple[Tensor, Tensor]:
        return self.magnitudes(self.n, self.h), self.magnitudes(self.m, self.h)

    def offset(self) -> tuple[Tensor, Tensor]:
        """Far from 0, in opposite directions, and close together otherwise."""
        away, apart = self.magnitudes(1, self.h), self.magnitudes(1).clamp(-1, 1)
        return away + self.uniform(self.n, self.h) * apart, -away + self.uniform(self.m, self.h) * apart

    def cancelling(self) -> tuple[Tensor, Tensor]:
        """Each key nearly the opposite of some query."""
        queries = self.uniform(self.n, self.h, to=WIDEST / 2)
        return queries, -queries[torch.arange(self.m) % self.n] * (1 + self.uniform(self.m, self.h, to=1e-3))

    def wide(self) -> tuple[Tensor, Tensor]:
        """Over the range that the exponentials can just take, and around it."""
        return self.uniform(self.n, self.h, to=WIDEST / 2), self.uniform(self.m, self.h, to=2 * WIDEST)

    def saturated(self) -> tuple[Tensor, Tensor]:
        return 30 * self.uniform(self.n, self.h).sign(), 100 * self.uniform(self.m, self.h).sign()

    def huge(self) -> tuple[Tensor, Tensor]:
        """Some queries and some keys, or all of them, very large or very small."""
        sides = self.uniform(self.n, self.h), self.uniform(self.m, self.h)
        for side in sides:
            some = self.uniform(len(side), 1) > self.uniform(1)
            side *= torch.where(some, 10 ** self.uniform(1, to=37.5), 1.0)
        return sides

    def weights(self, kind: str, largest: float = 1.0) -> Tensor:
        """(h,), below `largest`."""
        normal = torch.randn(self.h, generator=self._generator, dtype=torch.float64)
        kinds = {"normal": normal, "signs": normal.sign(), "mixed": self.magnitudes(self.h)}
        kinds["one"] = torch.eye(self.h, dtype=torch.float64)[0]
        kinds["extreme"] = normal.sign() * (10 ** self.uniform(self.h, to=40)).clamp(max=largest)
        kinds["tiny"] = normal * 10 ** (-30 + self.uniform(1, to=10))
        return kinds[kind]


PROJECTIONS: dict[str, Callable[[Draw], tuple[Tensor, Tensor]]] = {
    each.__name__: each
    for each in (Draw.even, Draw.mixed, Draw.offset, Draw.cancelling, Draw.wide, Draw.saturated, Draw.huge)
}
WEIGHTS = ["normal", "signs", "mixed", "one", "extreme", "tiny"]


def exact_scores(case: Case) -> np.ndarray:
    """(n, m), computed in the next better precision from numbers that are the projections themselves."""
    better = np.longdouble if case.queries.dtype == torch.float64 else np.float64
    queries, keys, w_v = (t.to(torch.float64).numpy().astype(better) for t in (case.queries, case.keys, case.w_v))
    hidden = np.tanh(np.add(queries[:, None], keys[None]))  # n m h
    return np.asarray((hidden * w_v).sum(-1))


def largest_errors(case: Case, *, fused: bool = False) -> tuple[float, float]:
    """Of the scorer, compiled or not, and of the textbook form in the same dtype."""
    truth, identity = exact_scores(case), torch.eye(case.w_v.shape[0], dtype=computing_dtype(case.w_v.dtype))
    queries, keys, w_v = (t.to(identity.dtype) for t in (case.queries, case.keys, case.w_v))
    scorer = scorer_for(case.w_v)
    if fused:
        scorer.compile()
    found = scorer(case.queries, case.keys)
    usual = textbook.additive_scores(queries, keys, identity, identity, w_v)
    mine, theirs = (
        float(np.abs(scores.double().numpy().astype(truth.dtype) - truth).max()) for scores in (found, usual)
    )
    return mine, theirs


def half_unit(w_v: Tensor) -> float:
    """Half a unit in the last place of sum |w_v|, the largest score there can be: what rounding it once may cost."""
    size = w_v.to(computing_dtype(w_v.dtype)).abs().sum()
    return float(np.spacing(size.numpy())) / 2
