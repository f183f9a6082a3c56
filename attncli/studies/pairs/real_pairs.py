"""Real queries and keys for a sweep, head by head and a few scores at a time."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from attncli.attention import at_least_float32
from attncli.errors import InputError
from attncli.inputs.shapes import Shapes
from attncli.inputs.source import read_source

SCORES_AT_A_TIME = 2**18
RealPart = tuple[Tensor, Tensor, Tensor | None]  # queries (rows, q), keys (m, k) and which pairs are valid (rows, m)


@dataclass(frozen=True)
class RealPairs:
    """Queries (b, heads, n, q), keys (b, heads, m, k), and which pairs are valid (b, heads, n, m), or None.

    `heads` says whether there are any; if not, that axis has size 1.
    """

    queries: Tensor
    keys: Tensor
    valid: Tensor | None
    heads: bool

    def parts(self, head: int) -> Iterator[RealPart]:
        """Some queries (rows, q) of one head with all keys (m, k) and their mask (rows, m), a few scores at a time."""
        b, _, n, _ = self.queries.shape
        m = self.keys.shape[-2]
        rows = max(SCORES_AT_A_TIME // m, 1)
        for batch in range(b):
            for start in range(0, n, rows):
                place = (batch, head, slice(start, start + rows))
                yield self.queries[place], self.keys[batch, head], None if self.valid is None else self.valid[place]

    def count(self) -> int:
        """How many parts there are, over all heads."""
        b, heads, n, _ = self.queries.shape
        return b * heads * -(-n // max(SCORES_AT_A_TIME // self.keys.shape[-2], 1))

    def most_keys(self) -> int:
        """How many keys the query has that has most."""
        return self.keys.shape[-2] if self.valid is None else int(self.valid.sum(-1).max())

    def kept(self) -> dict[str, Tensor]:
        """The tensors as a run folder keeps them, to be read again."""
        axis = slice(None) if self.heads else 0
        kept = {"queries": self.queries[:, axis].cpu(), "keys": self.keys[:, axis].cpu()}
        if self.valid is not None:
            kept["valid"] = self.valid[:, axis].cpu()
        return kept


def read_pairs(source: str, check_size: Callable[[Shapes], None]) -> RealPairs:
    """The queries and keys of a source, with one axis for heads: none becomes one of size 1, several become one.

    Raises:
        InputError: below `from`, for a source that is not there, or has no queries and keys that fit together; with
            its own place where it is a config with a mistake.
    """
    try:
        inputs = read_source(Path(source), check_size)
    except InputError as error:
        raise error if error.problems[0].where else error.under("from") from error
    queries, keys = at_least_float32(inputs.queries, inputs.keys)
    valid = None if inputs.valid.is_full else _four_axes(inputs.valid.whole)
    return RealPairs(_four_axes(queries), _four_axes(keys), valid, heads=queries.ndim > 3)


def _four_axes(tensor: Tensor) -> Tensor:
    b, *heads, rows, features = tensor.shape
    return tensor.reshape(b, -1 if heads else 1, rows, features)
