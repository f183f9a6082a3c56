"""Mean and variance of one score in closed form, where there is one, for random queries and keys of `Entries`.

Notation: q_i = mu + s u_i and k_i = nu + t v_i with v_i = rho u_i + sqrt(1 - rho^2) w_i; u_i, w_i independent and
symmetric with mean 0, variance 1 and fourth moment `kurtosis`. So E v_i^2 = 1 and E u_i v_i = rho.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import nn

from attncli.common.pairs.entries import Entries
from attncli.config.scorer_entries import ScorerEntry

NODES = 64  # of the Gauss-Hermite rule: more change no digit that is shown


@dataclass(frozen=True)
class Theory:
    """Mean and variance of a score over random queries and keys, for the scorer's parameters as they are.

    None where no closed form is known. `limit` marks a variance that is approached for large sizes only.
    """

    mean: float | None = None
    variance: float | None = None
    limit: bool = False

    @property
    def kind(self) -> str | None:
        """`exact`, `limit`, or None where no variance is known."""
        return "limit" if self.limit else None if self.variance is None else "exact"

    def scaled(self, scale: float) -> "Theory":
        """That of `scale` times the score."""
        mean = None if self.mean is None else scale * self.mean
        return Theory(mean, None if self.variance is None else scale * scale * self.variance, self.limit)


def theory_of(entry: ScorerEntry, scorer: nn.Module, entries: Entries, d: int) -> Theory:
    """The theory of an entry's scores; unknown for scorers of the user's own, capped scores, and infinite moments."""
    if entry.softcap is not None or entry.scorer not in THEORIES or entries.degrees_of_freedom <= 2:
        return Theory()
    if entry.scorer == "additive" and entry.parameters is not None:
        return Theory()  # the limit is that of parameters as they are drawn
    return THEORIES[entry.scorer](scorer, entries, d)


def product_moments(entries: Entries) -> tuple[float, float]:
    """Mean and variance of one product q_i k_i.

    For mu = nu = rho = 0 its mean and variance are 0 and s^2 t^2 (Vaswani et al. 2017, footnote 4). For rho = 0 the
    variance of a product of independent numbers is (s^2 + mu^2)(t^2 + nu^2) - mu^2 nu^2 (Goodman 1960). For normal
    entries of mean 0 and variance 1 it is 1 + rho^2.
    """
    mu, s, nu, t, rho = _letters(entries)
    product = s**2 * t**2 * (1.0 + (rho**2 * (entries.kurtosis - 2.0) if rho else 0.0))
    return mu * nu + rho * s * t, mu**2 * t**2 + nu**2 * s**2 + 2.0 * rho * mu * nu * s * t + product


def _dot(scorer: Any, entries: Entries, d: int) -> Theory:
    """A sum of d products q_i k_i, times the scale if there is one: d times the mean and the variance of one."""
    mean, variance = product_moments(entries)
    return Theory(d * mean, d * variance).scaled(getattr(scorer, "scale", 1.0))


def _general(scorer: Any, entries: Entries, d: int) -> Theory:
    """A bilinear form with the matrix W as it is: for mu = nu = rho = 0 the variance is s^2 t^2 |W|_F^2.

    With W drawn from U(-1/sqrt(d), 1/sqrt(d)), as torch does, that is about s^2 t^2 d / 3. The other terms are those
    of the linear parts, mu t 1'W v and nu s u'W 1, and of u'W u, whose variance is
    sum_ij (W_ij^2 + W_ij W_ji) + (kurtosis - 3) sum_i W_ii^2 (Seber and Lee 2003, theorem 1.6).
    """
    mu, s, nu, t, rho = _letters(entries)
    w = scorer.W.weight.detach().double()  # q k
    columns, rows, diagonal = w.sum(0), w.sum(1), w.diagonal()
    squares = float(w.square().sum())
    form = squares
    if rho:
        own = squares + float((w * w.mT).sum()) + (entries.kurtosis - 3.0) * float(diagonal.square().sum())
        form = rho**2 * own + (1.0 - rho**2) * squares
    linear = mu**2 * t**2 * float(columns.square().sum()) + nu**2 * s**2 * float(rows.square().sum())
    linear += 2.0 * rho * mu * nu * s * t * float(columns @ rows)
    return Theory(mu * nu * float(w.sum()) + rho * s * t * float(diagonal.sum()), linear + s**2 * t**2 * form)


def _gaussian(scorer: Any, entries: Entries, d: int) -> Theory:
    """A sum of d squares of differences D = delta + e times -scale: d Var(D^2) from their second and fourth moments."""
    mu, s, nu, t, rho = _letters(entries)
    delta, a, b = mu - nu, s - t * rho, t * math.sqrt(1.0 - rho**2)  # e = a u - b w
    second = a**2 + b**2
    fourth = 6.0 * a**2 * b**2 + (a**4 + b**4) * entries.kurtosis
    variance = fourth - second**2 + 4.0 * delta**2 * second
    return Theory(d * (second + delta**2), d * variance).scaled(-scorer.scale)


def _cosine(scorer: Any, entries: Entries, d: int) -> Theory:
    """Mean 0 and variance scale^2 / d: exact for every d and distribution, if one side has mean 0 and rho is 0.

    With signs that are symmetric and independent the mixed terms of E (sum_i a_i b_i)^2 vanish, for a = q / |q| and
    b = k / |k|; with entries alike E a_i^2 is 1 / d on that side, and sum_i E b_i^2 = 1 on the other. Both sides must
    be random for a_i to be defined, and signs around a mean of their own size make zero vectors, which have no b_i.
    """
    mu, s, nu, t, rho = _letters(entries)
    zeros = entries.distribution == "rademacher" and (abs(mu) == s or abs(nu) == t)
    if rho or (mu and nu) or not (s and t) or zeros:
        return Theory()
    return Theory(0.0, 1.0 / d).scaled(scorer.scale)


def _additive(scorer: nn.Module, entries: Entries, d: int) -> Theory:
    """The limit for large d and many hidden units with torch's initial parameters, U(-1/sqrt(size), 1/sqrt(size)).

    By the central limit theorem a hidden unit sees c + z: z ~ N(0, (s^2 + t^2) / 3) from pair to pair, and
    c ~ N(0, (mu^2 + nu^2) / 3) fixed with the parameters. The entries of w_v have variance 1 / (3 h) and the h units
    are independent, so the variance is E[Var(tanh(c + z) | c)] / 3: 0.107 for standardised entries, whatever d. The
    mean is 0 by symmetry for mu = nu = 0; else it depends on the parameters.
    """
    mu, s, nu, t, _ = _letters(entries)
    nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
    weights = weights / weights.sum()
    fixed, drawn = math.sqrt((mu**2 + nu**2) / 3.0) * nodes, math.sqrt((s**2 + t**2) / 3.0) * nodes
    values = np.tanh(fixed[:, None] + drawn[None, :])  # c z
    variances = (values**2) @ weights - (values @ weights) ** 2
    return Theory(None if mu or nu else 0.0, float(weights @ variances) / 3.0, limit=True)


def _vector_sum(scorer: nn.Module, entries: Entries, d: int) -> Theory:
    """A sum of d independent pairs q_i + k_i."""
    mu, s, nu, t, rho = _letters(entries)
    return Theory(d * (mu + nu), d * (s**2 + t**2 + 2.0 * rho * s * t))


def _letters(entries: Entries) -> tuple[float, float, float, float, float]:
    return entries.query_mean, entries.query_std, entries.key_mean, entries.key_std, entries.rho


THEORIES: dict[str, Callable[[Any, Entries, int], Theory]] = {
    "dot": _dot,
    "scaled_dot": _dot,
    "general": _general,
    "gaussian": _gaussian,
    "cosine": _cosine,
    "additive": _additive,
    "vector_sum": _vector_sum,
}
