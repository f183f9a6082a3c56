"""The catalogue of scoring functions: one name, one file, one `Scorer`.

A scorer is made with the sizes of a query and a key and with its options, and returns raw scores:

    SCORERS["additive"](query_size, key_size, num_hiddens=8)(queries, keys)   # (..., n, q), (..., m, k) -> (..., n, m)

To add one, write its file, list it here after all others, and give its oracle in `tests/reference.py`. Its class
states the facts of `Scorer` that differ from the defaults.
"""

from typing import TypeGuard

from attncli.core.modes import outside_autocast
from attncli.scorers._base import Scorer, require_equal_sizes
from attncli.scorers.additive import Additive
from attncli.scorers.cosine import Cosine
from attncli.scorers.dot import Dot
from attncli.scorers.gaussian import Gaussian
from attncli.scorers.general import General
from attncli.scorers.kernel import Kernel
from attncli.scorers.scaled_dot import ScaledDot
from attncli.scorers.vector_sum import VectorSum

__all__ = ["SCORERS", "Scorer", "is_built_in", "outside_autocast", "require_equal_sizes"]

SCORERS: dict[str, type[Scorer]] = {
    "additive": Additive,
    "scaled_dot": ScaledDot,
    "dot": Dot,
    "general": General,
    "cosine": Cosine,
    "gaussian": Gaussian,
    "vector_sum": VectorSum,
    "kernel": Kernel,
}


def is_built_in(scorer: object) -> TypeGuard[Scorer]:
    """Whether a scorer is of the catalogue; a subclass of one may compute other scores."""
    return type(scorer) in SCORERS.values()
