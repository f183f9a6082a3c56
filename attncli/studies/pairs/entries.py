"""Random queries and keys: their entries' distribution, its kurtosis, and the correlation of queries with keys."""

import math

import torch
from pydantic import Field
from torch import Generator, Tensor

from attncli.errors import printable
from attncli.results import Facts
from attncli.scorers._theory import Moments
from attncli.sources.fills import student_t
from attncli.studies.pairs.options import DEFAULT_DF, PairsOptions


class Entries(Facts):
    """The distribution of the entries q_i = query_mean + query_std u_i and k_i = key_mean + key_std v_i.

    Here v_i = rho u_i + sqrt(1 - rho^2) w_i; u_i and w_i are independent draws from `distribution`, which is symmetric
    with mean 0 and variance 1. `rho` is then the correlation of q_i and k_i. student_t has a variance only for df > 2;
    for smaller df it is not scaled to variance 1.
    """

    distribution: str = "normal"
    df: float | None = None
    query_mean: float = 0.0
    query_std: float = 1.0
    key_mean: float = 0.0
    key_std: float = 1.0
    rho: float = 0.0

    @property
    def kurtosis(self) -> float:
        """Return the kurtosis of the distribution, 3 for normal entries; for student_t it needs df above 4."""
        if self.df is not None:
            return 3.0 + 6.0 / (self.df - 4.0)
        return {"normal": 3.0, "uniform": 1.8, "rademacher": 1.0, "laplace": 6.0}[self.distribution]

    def moments(self, d: int) -> Moments:
        """Return the moments of queries and keys of size d, for the theory of a scorer."""
        mu, s, nu, t = self.query_mean, self.query_std, self.key_mean, self.key_std
        zero_vectors = self.distribution == "rademacher" and (abs(mu) == s or abs(nu) == t)
        return Moments(d, mu, s, nu, t, self.rho, self.kurtosis, zero_vectors)

    def draw(
        self, queries: tuple[int, ...], keys: tuple[int, ...], generator: Generator, dtype: torch.dtype
    ) -> tuple[Tensor, Tensor]:
        """Draw queries of shape (..., 1, d) and keys (..., m, d) in `dtype`, float32 or float64."""
        u = self._standard(queries, generator, dtype)
        w = self._standard(keys, generator, dtype)
        if self.rho:
            w = w.mul_(math.sqrt(1.0 - self.rho**2)).add_(u, alpha=self.rho)
        return _moved(u, self.query_mean, self.query_std), _moved(w, self.key_mean, self.key_std)

    def _standard(self, shape: tuple[int, ...], generator: Generator, dtype: torch.dtype) -> Tensor:
        numbers = torch.empty(shape, dtype=dtype)
        match self.distribution:
            case "normal":
                return numbers.normal_(generator=generator)
            case "uniform":
                return numbers.uniform_(-math.sqrt(3.0), math.sqrt(3.0), generator=generator)
            case "rademacher":
                return _signs(shape, generator, dtype)
            case "laplace":  # exponential lengths with random signs; the exponential's rate makes the variance 1
                lengths = numbers.uniform_(generator=generator).neg_().log1p_()  # of uniform numbers in [0, 1)
                return lengths.mul_(_signs(shape, generator, dtype)).mul_(math.sqrt(0.5))
        df = self.df or DEFAULT_DF
        unit = math.sqrt((df - 2.0) / df) if df > 2 else 1.0  # the variance is 1 if there is one
        return student_t(shape, df, generator).mul_(unit).to(dtype)


class PairsFacts(Entries):
    """The distribution of random queries and keys, or the file `source` that they are from."""

    source: str | None = Field(None, alias="from")
    one_over_sqrt_d: float | None = None

    @property
    def words(self) -> str:
        """Where queries and keys are from: a file, or a distribution such as `normal entries, mean 0, std 1`."""
        if self.source is not None:
            return f"queries and keys from {printable(self.source)}"
        df = "" if self.df is None else f" (df {self.df:g})"
        queries = f"mean {self.query_mean:g}, std {self.query_std:g}"
        keys = f"mean {self.key_mean:g}, std {self.key_std:g}"
        drawn = queries if queries == keys else f"{queries} (queries) and {keys} (keys)"
        correlated = f", correlation {self.rho:g}" if self.rho else ""
        return f"{self.distribution}{df} entries, {drawn}{correlated}"


def random_entries(options: PairsOptions) -> Entries:
    """Return the distribution that the options of a study describe."""
    sides = {}
    for side in ("query", "key"):
        for name in ("mean", "std"):
            value = getattr(options, f"{side}_{name}")
            sides[f"{side}_{name}"] = getattr(options, name) if value is None else value
    df = (options.df or DEFAULT_DF) if options.distribution == "student_t" else None
    return Entries(distribution=options.distribution, df=df, rho=options.rho, **sides)


def _moved(standard: Tensor, mean: float, std: float) -> Tensor:
    """Return std * standard + mean, computed in place; skip 1 and 0 to save time."""
    if std != 1.0:
        standard.mul_(std)
    return standard.add_(mean) if mean else standard


def _signs(shape: tuple[int, ...], generator: Generator, dtype: torch.dtype) -> Tensor:
    return torch.randint(2, shape, generator=generator, dtype=torch.int8).to(dtype).mul_(2.0).sub_(1.0)
