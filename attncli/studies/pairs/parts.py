"""Query-key pairs in parts of bounded size: random ones, drawn part by part, and real ones, head by head."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from attncli.attention import computing_dtype
from attncli.errors import InputError
from attncli.inputs.build import Shapes
from attncli.inputs.seeding import generator
from attncli.inputs.source import read_source
from attncli.studies.pairs.entries import Entries
from attncli.studies.pairs.options import PairsOptions

ENTRIES_AT_A_TIME = 2**18  # of keys: large enough for a part to be worth a thread, small enough to stay in the cache
PAIRS_AT_A_TIME = 2**14  # random ones
SCORES_AT_A_TIME = 2**18  # of real pairs


@dataclass(frozen=True)
class Pairs:
    """Queries (rows, 1, q) with keys (rows, m, k) of their own, or queries (rows, q) that share the keys (m, k).

    `valid` (rows, m) says which pairs count; None for all. `names` are the parts that the rows come from, with the
    number of rows of each: what else is drawn for a part is drawn under its name.
    """

    queries: Tensor
    keys: Tensor
    valid: Tensor | None
    names: Sequence[tuple[str, int]]

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and keys of each."""
        return len(self.queries), self.keys.shape[-2]

    def slices(self, pairs: int) -> Iterator[slice]:
        """Rows that have about so many pairs together."""
        rows, keys = self.shape
        step = max(pairs // keys, 1)
        return (slice(start, start + step) for start in range(0, rows, step))

    def rows(self, some: slice) -> "Pairs":
        """Some of the rows."""
        keys = self.keys[some] if self.keys.ndim == 3 else self.keys
        return Pairs(self.queries[some], keys, None if self.valid is None else self.valid[some], ())


Job = Callable[[], Pairs]  # makes some of the pairs of a point, on any thread


@dataclass(frozen=True)
class RandomPairs:
    """`rows` queries of size d with `keys` keys each; the size of a part depends on d and `keys` only.

    So each part is drawn alike whatever else there is. `together` parts make one job: of large d they have few rows.
    """

    options: PairsOptions
    entries: Entries
    device: torch.device
    d: int
    rows: int
    keys: int = 1
    together: int = 1

    @property
    def step(self) -> int:
        """Rows of a part."""
        return max(min(ENTRIES_AT_A_TIME // (self.keys * self.d), PAIRS_AT_A_TIME // self.keys), 1)

    def __len__(self) -> int:
        return -(-self.rows // (self.step * self.together))

    def __iter__(self) -> Iterator[Job]:
        return (partial(self._job, index) for index in range(len(self)))

    def _job(self, index: int) -> Pairs:
        first = index * self.together
        starts = range(first * self.step, min(self.rows, (first + self.together) * self.step), self.step)
        rows = [min(self.step, self.rows - start) for start in starts]
        names = [f"{self.d}.{part}" for part in range(first, first + len(rows))]
        drawn = list(map(self._draw, names, rows))
        queries, keys = drawn[0] if len(drawn) == 1 else map(torch.cat, zip(*drawn, strict=True))
        return Pairs(queries, keys, None, list(zip(names, rows, strict=True)))

    def _draw(self, name: str, rows: int) -> tuple[Tensor, Tensor]:
        randomness = generator(self.options.seed, f"{self.options.study}.{name}")
        dtype = getattr(torch, self.options.dtype)
        shapes = (rows, 1, self.d), (rows, self.keys, self.d)
        queries, keys = self.entries.draw(*shapes, randomness, computing_dtype(dtype))
        return queries.to(dtype).to(self.device), keys.to(dtype).to(self.device)


@dataclass(frozen=True)
class RealPairs:
    """Queries (b, heads, n, q), keys (b, heads, m, k), and which pairs are valid (b, heads, n, m), or None.

    `has_heads` says whether there are any; if not, that axis has size 1.
    """

    queries: Tensor
    keys: Tensor
    valid: Tensor | None
    has_heads: bool

    @property
    def most_keys(self) -> int:
        """How many valid keys the query has that has most."""
        return self.keys.shape[-2] if self.valid is None else int(self.valid.sum(-1).max())

    def saved(self) -> dict[str, Tensor]:
        """The tensors as a run folder keeps them, to be read again."""
        tensors = {"queries": self.queries, "keys": self.keys}
        if self.valid is not None:
            tensors["valid"] = self.valid
        return {name: (tensor if self.has_heads else tensor[:, 0]).cpu() for name, tensor in tensors.items()}


@dataclass(frozen=True)
class Head:
    """One head of real pairs: some of its queries with all keys, a few scores at a time."""

    real: RealPairs
    head: int

    def __len__(self) -> int:
        return len(self._places())

    def __iter__(self) -> Iterator[Job]:
        return (partial(self._job, index, *place) for index, place in enumerate(self._places()))

    def _places(self) -> list[tuple[int, slice]]:
        b, _, n, _ = self.real.queries.shape
        step = max(SCORES_AT_A_TIME // self.real.keys.shape[-2], 1)
        return [(batch, slice(start, start + step)) for batch in range(b) for start in range(0, n, step)]

    def _job(self, index: int, batch: int, rows: slice) -> Pairs:
        real, place = self.real, (batch, self.head, rows)
        queries, valid = real.queries[place], None if real.valid is None else real.valid[place]
        return Pairs(queries, real.keys[place[:2]], valid, [(f"real.{self.head}.{index}", len(queries))])


def read_pairs(
    source: str, dtype: torch.dtype, device: torch.device, check_size: Callable[[Shapes], None]
) -> RealPairs:
    """The queries and keys of a source, rounded to the dtype, on the device; several axes of heads become one.

    Raises:
        InputError: below `from`, for a source that is not there, or has no queries and keys that fit together; with
            its own place where it is a config with a mistake.
    """
    try:
        inputs = read_source(Path(source), check_size)
    except InputError as error:
        raise error if error.problems[0].where else error.under("from") from error
    tensors = [each.to(dtype).to(device, computing_dtype(dtype)) for each in (inputs.queries, inputs.keys)]
    tensors += [] if inputs.valid.is_full else [inputs.valid.whole.to(device)]
    has_heads = inputs.queries.ndim > 3
    queries, keys, *valid = (each.reshape(len(each), -1 if has_heads else 1, *each.shape[-2:]) for each in tensors)
    return RealPairs(queries, keys, valid[0] if valid else None, has_heads)
