"""The base class of scorers, with the defaults of the facts that a scorer may state, and functions for several."""

import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from torch import Tensor, nn

from attncli.core.modes import outside_autocast
from attncli.errors import InputError
from attncli.scorers._theory import Moments, Theory

POSITIVE, REAL = (0.0, math.inf), (-math.inf, math.inf)  # ranges of learnable options


class Scorer(nn.Module):
    """A scoring function; a subclass overrides the facts that differ for it.

    A scorer is made with the sizes of a query and a key and with its options. Its `forward` takes queries (..., n, q)
    and keys (..., m, k) and returns raw scores (..., n, m); dot products need `as_dot` only. A factor of the scores is
    its attribute `scale`. Classes of users need not inherit from this one: `with_facts` adds the defaults.
    """

    scales_dot_product = False  # scores are q . k times a factor
    sizes_may_differ = False  # of queries and keys
    squares_entries = False  # the variance of the scores needs the fourth moment of an entry
    theory_is_limit = False  # `theory` is for large sizes, and for parameters as torch draws them
    linear_with: str | None = None  # a normaliser with which sums over keys can come first, without an n x m matrix
    has_fused_kernel = False  # torch's `scaled_dot_product_attention` computes the outputs
    worth_compiling = True  # with `torch.compile`
    stacks_over_heads = False  # parameters and learnable options may have a first axis of heads, or of seeds
    learnable: ClassVar[Mapping[str, tuple[float, float]]] = {}  # options that `attncli fit` learns, with their ranges
    short_names: ClassVar[Mapping[str, Mapping[str, Any]]] = {}  # of entries with this scorer: their other keys

    has_random_parameters = False  # set where a scorer is built: they are drawn, and not read from a file

    @property
    def as_in_textbooks(self) -> Callable[[Tensor, Tensor], Tensor] | None:
        """A function of queries and keys that computes the scores as a textbook does; None if there is none."""
        return None

    @outside_autocast
    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Return the scores, the dot product of `as_dot`."""
        product = self.as_dot(queries, keys)
        if product is None:
            raise NotImplementedError(f"{type(self).__name__} has no method `forward`")
        queries, keys, scale = product
        is_one = isinstance(scale, float) and scale == 1.0  # a tensor has a scale for each head
        return (queries if is_one else queries * scale) @ keys.mT  # ... n m

    def as_dot(self, queries: Tensor, keys: Tensor) -> tuple[Tensor, Tensor, float] | None:
        """Return queries, keys and a factor if the scores are their dot product times the factor, else None."""
        return None

    def steps(self, queries: Tensor, keys: Tensor) -> dict[str, Tensor] | None:
        """Return the steps of the formula by name, in their order, for `attncli explain`; None without steps.

        The last is the score. For queries (n, q) and keys (m, k), numbers broadcast to (n, m), vectors to (n, m, size):
        a query's steps have 1 in place of m, a key's have 1 in place of n, and a constant number has no axes.
        """
        return None

    def operations(self, n: int, m: int, query_size: int, key_size: int) -> int | None:
        """Return the number of floating-point operations of the formula; None if it is not known."""
        return None

    def theory(self, moments: Moments) -> Theory:
        """Return mean and variance of a score over random queries and keys, each None without a closed form."""
        return None, None


def with_facts(cls: type[nn.Module]) -> type[Scorer]:
    """Return a scorer's class, or for a user's class a subclass of it with the facts that it does not state."""
    if issubclass(cls, Scorer):
        return cls
    return type(cls.__name__, (cls, Scorer), {"__module__": cls.__module__, "__qualname__": cls.__qualname__})


def require_equal_sizes(query_size: int, key_size: int) -> None:
    """Raise an InputError unless queries and keys have the same feature size."""
    if query_size != key_size:
        from attncli.scorers import SCORERS  # which imports this module

        others = " and ".join(name for name, cls in SCORERS.items() if cls.sizes_may_differ)
        expected = f"expected equal sizes; {others} accept different sizes"
        raise InputError.of(f"got queries of size {query_size} and keys of size {key_size}; {expected}")


def steps_of_dot(queries: Tensor, keys: Tensor) -> dict[str, Tensor]:
    """Return the products q_i k_i of the entries of each pair, (..., n, m, d), and their sum q . k, (..., n, m)."""
    products = queries[..., :, None, :] * keys[..., None, :, :]  # ... n m d
    return {"q_i k_i": products, "q . k": products.sum(-1)}
