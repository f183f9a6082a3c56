"""Moments of random queries and keys, used by scorers to compute mean and variance of a score."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Theory = tuple[float | None, float | None]  # mean and variance of a score; None where no closed form is known
Array = NDArray[np.float64]
FURTHEST = 10.0  # a standard normal number is further from 0 with a probability of 1.5e-23
FLAT = 20.0  # where tanh rounds to 1
NODES = 12  # of an interval


@dataclass(frozen=True)
class Moments:
    """Entries q_i = mu + s u_i and k_i = nu + t v_i of random queries and keys of size d.

    Here v_i = rho u_i + sqrt(1 - rho^2) w_i; all u_i and w_i are independent and symmetric, with mean 0, variance 1 and
    fourth moment `kurtosis`. So E v_i^2 = 1 and E u_i v_i = rho. `zero_vectors`: a query or key may be 0 by chance.
    """

    d: int
    mu: float = 0.0
    s: float = 1.0
    nu: float = 0.0
    t: float = 1.0
    rho: float = 0.0
    kurtosis: float = 3.0
    zero_vectors: bool = False

    def of_product(self) -> tuple[float, float]:
        """Return mean and variance of one product q_i k_i.

        For mu = nu = rho = 0 they are 0 and s^2 t^2 (Vaswani et al. 2017, footnote 4). For rho = 0 the variance is
        (s^2 + mu^2)(t^2 + nu^2) - mu^2 nu^2 (Goodman 1960), for standard normal entries 1 + rho^2.
        """
        mu, s, nu, t, rho = self.mu, self.s, self.nu, self.t, self.rho
        linear = (nu * s + rho * mu * t) ** 2 + (1.0 - rho**2) * (mu * t) ** 2
        product = (s * t) ** 2 * (1.0 + (rho**2 * (self.kurtosis - 2.0) if rho else 0.0))
        return mu * nu + rho * s * t, linear + product

    def of_dot(self, scale: float = 1.0) -> Theory:
        """Return mean and variance of `scale` times q . k, a sum of d independent products."""
        mean, variance = self.of_product()
        return scale * (self.d * mean), scale * scale * (self.d * variance)


def normal_rule(centre: Array, *widths: float) -> tuple[Array, Array]:
    """Return nodes u and weights (..., nodes) with which the weighted sum of f(u) is the mean of f over normal u.

    The mean is exact to ten digits if f is smooth but for a transition like tanh((u - centre) / width), with any of the
    `widths`, however steep. A Gauss-Hermite rule needs many nodes between -width and width. This is the Gauss-Legendre
    rule on intervals of two standard deviations, divided at every second width from the centre (..., 1).
    """
    steps: Any = np.arange(-FLAT, FLAT + 1.0, 2.0)
    every = [np.broadcast_to(steps, (*centre.shape[:-1], len(steps))), *(centre + width * steps for width in widths)]
    ends = np.sort(np.concatenate(every, -1).clip(-FURTHEST, FURTHEST), -1)
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    half, middle = np.diff(ends)[..., None] / 2.0, (ends[..., 1:] + ends[..., :-1])[..., None] / 2.0
    points = middle + half * nodes  # ... intervals nodes
    densities = np.exp(-(points**2) / 2.0) / math.sqrt(2.0 * math.pi)
    shape = (*ends.shape[:-1], -1)
    return points.reshape(shape), (half * weights * densities).reshape(shape)
