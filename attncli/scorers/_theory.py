"""Moments of random queries and keys, used by scorers to compute mean and variance of a score."""

from dataclasses import dataclass

Theory = tuple[float | None, float | None]  # mean and variance of a score; None where no closed form is known


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
        product = s**2 * t**2 * (1.0 + (rho**2 * (self.kurtosis - 2.0) if rho else 0.0))
        return mu * nu + rho * s * t, mu**2 * t**2 + nu**2 * s**2 + 2.0 * rho * mu * nu * s * t + product

    def of_dot(self, scale: float = 1.0) -> Theory:
        """Return mean and variance of `scale` times q . k, a sum of d independent products."""
        mean, variance = self.of_product()
        return scale * (self.d * mean), scale * scale * (self.d * variance)
