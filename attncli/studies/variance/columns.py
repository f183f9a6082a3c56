"""The columns of the study `variance`: one row for each label and d, or for each label and head of real tensors."""

from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from attncli.core.numbers import MISSING, short
from attncli.results import LABEL, SCORER, Column, Result
from attncli.studies.pairs.entries import PairsFacts
from attncli.studies.pairs.study import PLACE

signed = partial(Column, signed=True)
ENOUGH = 625  # samples in the fullest bin: its standard error is 1/25 of it
TOGETHER = (1, 2, 4, 5)  # numbers of bins that may be merged into one


def _margin(ends: Sequence[float] | None) -> str:
    """Return half the width of an interval [low, high] as text for a table; MISSING without an interval."""
    return MISSING if ends is None else short((ends[1] - ends[0]) / 2)


COLUMNS = (
    SCORER,
    LABEL,
    *PLACE,
    Column("samples", "samples", "Query-key pairs that were measured."),
    signed("mean", "mean", "Mean of the scores.", format=short, least=0.1),
    Column("mean_ci", "±", "95 % interval of the mean; none for real tensors.", format=_margin, least=0.1),
    Column("variance", "variance", "Variance of the scores."),
    Column("variance_ci", "95 %\ninterval", "95 % interval of the variance (Bonett 2006).", format=short),
    signed("theory_mean", "theory\nmean", "Mean in closed form, where one is known.", format=short),
    Column("theory_variance", "theory\nvariance", "Variance in closed form, where one is known."),
    signed("z", "z", "Difference of the variance from an exact theory, in standard errors.", format=short, least=10),
    signed("z_mean", "z of\nmean", "Difference of the mean from theory, in standard errors.", format=short, least=10),
    Column("theory", "kind", "Whether the theory of the variance is exact, or a limit for large sizes.", text=True),
    Column(
        "row_variance",
        "within\nrows",
        "Variance over the keys of a query, mean over queries weighted by their number of valid keys.",
    ),
    Column("scale", "scale", "Scale of the scorer."),
    Column("unit_scale", "needed\nscale", "Scale that would give variance 1."),
)


def density(result: Result, label: str, d: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the bin edges and the heights of the histogram of a scorer's scores at d, as a probability density.

    For real tensors it is of all scores together. Neighbouring bins are merged, up to half a standard deviation, until
    random error changes the height of the fullest bin by 4 % at most.
    """
    edges, counts = (result.tensors[f"histogram/{label}/{d}/{name}"].numpy() for name in ("edges", "counts"))
    merged = next((n for n in TOGETHER if counts.reshape(-1, n).sum(axis=1).max() >= ENOUGH), TOGETHER[-1])
    edges, counts = edges[::merged], counts.reshape(-1, merged).sum(axis=1)
    samples, sizes = (result.tensors[f"curve/{label}/{column}"].numpy() for column in ("samples", "d"))
    total = samples.sum() if PairsFacts.of(result).source is not None else samples[sizes == d].sum()
    return edges, counts / (total * np.diff(edges))
