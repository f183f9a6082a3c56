"""Why the variance of q . k is what it is, from how the entries were drawn: as sentences.

For independent entries Var(XY) = (Var X + E[X]^2)(Var Y + E[Y]^2) - E[X]^2 E[Y]^2 (Goodman 1960, "On the exact variance
of products"); the numbers for one product are read from the records' theory, so that correlated entries have theirs.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from attncli.show.numbers import DOTS, significant
from attncli.studies.study import Record

SAME = 1e-6  # relative: figures that differ by less are the same


@dataclass(frozen=True)
class Product:
    """Mean and variance of one product q_i k_i, and the sizes d that were measured."""

    mean: float
    variance: float | None
    largest: int

    @property
    def standard(self) -> bool:
        """Whether 1/sqrt(d) gives variance 1."""
        return self.variance is not None and math.isclose(self.variance, 1.0, rel_tol=SAME)

    @property
    def centred(self) -> bool:
        """Whether the mean is 0."""
        return abs(self.mean) < SAME


def reasons(records: Sequence[Record], settings: Record) -> list[str]:
    """Nothing where no scorer is a scaled q . k with a theory."""
    product = _product(records)
    if product is None:
        return []
    lines = [_variance(product, settings)] if product.variance is not None else []
    if product.centred:
        return lines
    aligned = [_aligned(product)] if settings["rho"] > 0 and product.mean > SAME else []
    return [*lines, _mean(product, settings), *aligned, _shared(settings)]


def _product(records: Sequence[Record]) -> Product | None:
    dots = [
        record for record in records if record["scorer"] in DOTS and record["scale"] and _known(record["theory_mean"])
    ]
    if not dots:
        return None
    record = dots[0]
    mean = record["theory_mean"] / (record["scale"] * record["d"])
    variance = record["theory_variance"] if _known(record["theory_variance"]) else None
    each = None if variance is None else variance / (record["scale"] ** 2 * record["d"])
    return Product(mean, each, max(record["d"] for record in dots))


def _known(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _variance(product: Product, settings: Record) -> str:
    assert product.variance is not None
    each = significant(product.variance)
    if product.standard:
        return (
            f"Why: {_cause(settings)}each product q_i k_i has variance 1, so q . k, the sum of d of them, has variance "
            "d; 1/sqrt(d) brings it back to 1, and 1/d makes it 1/d."
        )
    if product.variance == 0:
        return "Why: the products q_i k_i do not vary, and no scale changes that."
    return (
        f"Why: {_cause(settings)}each product q_i k_i has variance {_formula(settings)}{each}, so q . k has variance "
        f"{each} d: 1/sqrt(d) leaves {each} and 1/d leaves {each}/d, neither of them 1 at every d; "
        f"1/sqrt({each} d) would be."
    )


def _cause(settings: Record) -> str:
    if settings["rho"]:
        return "with correlated entries "
    means = settings["query_mean"], settings["key_mean"]
    return "with independent entries of mean 0 " if means == (0, 0) else "with independent entries, not all of mean 0, "


def _formula(settings: Record) -> str:
    """The closed form, where there is a short one; s is a std, m a mean, of queries (q) and keys (k)."""
    means = settings["query_mean"], settings["key_mean"]
    if settings["rho"]:
        return "1 + rho^2 = " if settings["distribution"] == "normal" and _standard_entries(settings) else ""
    return "s_q^2 s_k^2 = " if means == (0, 0) else "(s_q^2 + m_q^2)(s_k^2 + m_k^2) - m_q^2 m_k^2 = "


def _standard_entries(settings: Record) -> bool:
    return [settings[f"{side}_{moment}"] for side in ("query", "key") for moment in ("mean", "std")] == [0, 1, 0, 1]


def _mean(product: Product, settings: Record) -> str:
    each, root = significant(product.mean), product.mean * math.sqrt(product.largest)
    names = "m_q m_k" if not settings["rho"] else "rho" if _standard_entries(settings) else ""
    equals = f"{names} d = " if names else ""
    grows = f" ({significant(root, 3)} at d = {product.largest})" if product.largest > 1 else ""
    return (
        f"The mean of q . k is {equals}{each} d: 1/sqrt(d) leaves a mean that grows like {each} sqrt(d){grows}, "
        f"1/d one of {each} at every d."
    )


def _shared(settings: Record) -> str:
    where = "where one key of a query matches and the others do not"
    correlated = "which is what rho stands for here" if settings["rho"] else "as with rho"
    return (
        "A mean that all keys of a query share changes no weight, as the softmax sees only differences within a row; "
        f"it matters {where}, {correlated}."
    )


def _aligned(product: Product) -> str:
    return (
        "That is the argument for 1/d once queries and keys are aligned: it keeps the score of a matching pair "
        f"at {significant(product.mean)}, whatever d is, where 1/sqrt(d) lets it grow."
    )
