"""Query-key pairs in parts of bounded size: random pairs, drawn part by part, and pairs of a file, head by head."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from attncli.attention import computing_dtype
from attncli.core.seeding import generator
from attncli.errors import InputError
from attncli.models.fitted import check_for_model
from attncli.models.inputs import Inputs
from attncli.runtime import Progress
from attncli.sources.captured import read_captured
from attncli.sources.source import read_layers, read_source
from attncli.studies.pairs.entries import Entries
from attncli.studies.pairs.options import PairsOptions

ENTRIES_AT_A_TIME = 2**18  # of keys: large enough for a part to be worth a thread, small enough to stay in the cache
PAIRS_AT_A_TIME = 2**14  # for random pairs
SCORES_AT_A_TIME = 2**18  # of real pairs


@dataclass(frozen=True)
class Pairs:
    """Query-key pairs: queries (rows, 1, q) with keys (rows, m, k), or queries (rows, q) that share keys (m, k).

    `valid` (rows, m) marks the pairs that count; None means all. `first` is the position of the first query for `rope`,
    or (rows, 1) of each; keys have positions from 0. `names` has the name and the number of rows of each
    part; other random numbers for a part are drawn from a generator with its name.
    """

    queries: Tensor
    keys: Tensor
    valid: Tensor | None
    names: Sequence[tuple[str, int]] = ()
    first: int | Tensor = 0


@dataclass(frozen=True)
class RandomPairs:
    """Random pairs: `rows` queries of size d with `keys` keys each, drawn in parts that are small for large d.

    The size of a part depends on d and `keys` only, so the numbers in a part do not depend on the number of rows. A job
    is the work of a thread between two steps of the progress; it has `together` parts.
    """

    options: PairsOptions
    entries: Entries
    device: torch.device
    d: int
    rows: int
    keys: int
    together: int

    @property
    def step(self) -> int:
        """Return the number of rows of a part."""
        return max(min(ENTRIES_AT_A_TIME // (self.keys * self.d), PAIRS_AT_A_TIME // self.keys), 1)

    @property
    def jobs(self) -> range:
        """Return the numbers of all jobs, the arguments of `of_job`."""
        return range(-(-self.rows // (self.step * self.together)))

    def of_job(self, job: int) -> Pairs:
        """Draw the pairs of a job. They depend on the seed and the job only, not on the thread that draws them."""
        blocks = range(job * self.together, min((job + 1) * self.together, -(-self.rows // self.step)))
        names = [(f"{self.d}.{block}", min(self.step, self.rows - block * self.step)) for block in blocks]
        dtype, drawn = getattr(torch, self.options.dtype), list[tuple[Tensor, Tensor]]()
        for name, rows in names:
            randomness = generator(self.options.seed, f"{self.options.study}.{name}")
            shapes = (rows, 1, self.d), (rows, self.keys, self.d)
            sides = self.entries.draw(*shapes, randomness, computing_dtype(dtype))
            drawn.append((sides[0].to(dtype).to(self.device), sides[1].to(dtype).to(self.device)))
        queries, keys = drawn[0] if len(drawn) == 1 else map(torch.cat, zip(*drawn, strict=True))
        first = torch.cat([torch.arange(rows) for _, rows in names])[:, None]  # so that there are all distances
        return Pairs(queries, keys, None, names, first)


@dataclass(frozen=True)
class RealPairs:
    """Pairs of one head of a file: `tensors` has queries (b, n, q), keys (b, m, k) and perhaps `valid` (b, n, m).

    `head` is the number of the head, `first` the position of the first query. A job has a few queries of a batch
    element, with all keys.
    """

    tensors: Mapping[str, Tensor]
    head: int
    first: int = 0

    @property
    def keys(self) -> int:
        """Return the number of keys of each query, valid or not."""
        return self.tensors["keys"].shape[-2]

    @property
    def jobs(self) -> range:
        """Return the numbers of all jobs, the arguments of `of_job`."""
        return range(len(self.tensors["queries"]) * len(self._starts))

    def of_job(self, job: int) -> Pairs:
        """Return the pairs of a job."""
        batch, index = divmod(job, len(self._starts))
        rows = slice(self._starts[index], self._starts[index] + self._starts.step)
        queries, valid = self.tensors["queries"][batch, rows], self.tensors.get("valid")
        valid = None if valid is None else valid[batch, rows]
        names = [(f"real.{self.head}.{job}", len(queries))]
        return Pairs(queries, self.tensors["keys"][batch], valid, names, self.first + rows.start)

    @property
    def _starts(self) -> range:
        return range(0, self.tensors["queries"].shape[-2], max(SCORES_AT_A_TIME // self.keys, 1))


def read_pairs(
    options: PairsOptions, dtype: torch.dtype, device: torch.device, progress: Progress
) -> dict[str | None, tuple[dict[str, Tensor], Inputs]]:
    """Return the tensors of the file in the options by layer, each layer with its inputs as they were read.

    The tensors are `queries` (b, n, q) or (b, heads, n, q), `keys` (..., m, k) and, if some pairs are invalid, `valid`
    (..., n, m). Sources other than captured models have the one layer None. Tensors are rounded to the dtype, and
    several axes of heads become one. `progress` gets notes on unused tensors and on how masks were understood.

    Raises:
        InputError: located at `from` or `data` if the source is missing, or has no queries and keys that fit together;
            located in the source if that is a config with a mistake; or an entry was fitted to another model.
    """
    try:
        if options.data is not None:
            layers = read_layers(options.data, progress.note)
        else:
            layers = read_source(Path(options.source or ""), progress.note, options.layout)
    except InputError as error:
        problem = error.problems[0]
        raise error if problem.where or problem.path == ("layout",) else error.under(options.file_key[0]) from error
    if any(inputs.call is not None for inputs in layers.values()):
        captured = read_captured(Path(str(options.file)))
        check_for_model(options.scorers, captured.about.get("model"), captured.texts, progress.note)
    read = dict[str | None, tuple[dict[str, Tensor], Inputs]]()
    for layer, inputs in layers.items():
        sides = {"queries": inputs.queries, "keys": inputs.keys}
        tensors = {name: side.to(dtype).to(device, computing_dtype(dtype)) for name, side in sides.items()}
        if not inputs.valid.is_full:
            tensors["valid"] = inputs.valid.whole.to(device)
        read[layer] = {name: each.flatten(1, -3) if each.ndim > 3 else each for name, each in tensors.items()}, inputs
    return read
