"""Real queries and keys for a sweep: from a tensor file, a run folder, or the inputs of a config."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from attncli.attention import valid_mask
from attncli.config.document import YAML, Document, read_document
from attncli.errors import InputError, got
from attncli.inputs.files import read_tensors
from attncli.inputs.shapes import batched
from attncli.precision import at_least_float32
from attncli.studies import STUDIES, load_study
from attncli.studies.progress import Progress

NAMES = {"queries": ("queries", "query", "q", "Q"), "keys": ("keys", "key", "k", "K")}
TENSORS = "tensors.safetensors"
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


def read_pairs(source: str, progress: Progress) -> RealPairs:
    """The queries and keys of a file, run folder or config.

    Raises:
        InputError: below `from`, for a source that is not there, or has no queries and keys that fit together.
    """
    path = Path(source)
    if path.suffix.lower() in YAML and not path.is_dir():
        return _from_config(path, progress)
    try:
        return _from_tensors(path, read_tensors(_file_of(path)))
    except InputError as error:
        raise InputError.of(error.problems[0].message, ["from"]) from error


def _from_config(path: Path, progress: Progress) -> RealPairs:
    """The inputs of an attention experiment, drawn with its own seed."""
    document = _read(path)
    name = document.study(STUDIES)
    if name != "attention":
        message = got(name, "only experiments of the study attention have queries and keys")
        raise document.located(InputError.of(message, ["study"]))
    study = load_study(name)
    options = document.validate(study.OPTIONS)
    try:
        inputs = study.prepare(options, progress).inputs
    except InputError as error:
        raise document.located(error) from error
    return _pairs(inputs.queries, inputs.keys, inputs.mask)


def _read(path: Path) -> Document:
    """The config; where there is none, the place that names it is what is wrong."""
    try:
        return read_document(path)
    except InputError as error:
        if error.problems[0].where != str(path):
            raise
        raise InputError.of(f'got "{path}"; {error.problems[0].message}', ["from"]) from error


def _file_of(path: Path) -> Path:
    if not path.is_dir():
        return path
    if (path / TENSORS).is_file():
        return path / TENSORS
    cure = f"did you mean `{path / 'latest'}`?" if (path / "latest").is_dir() else "expected the folder of a run"
    raise InputError.of(f'got "{path}", which has no {TENSORS}; {cure}')


def _from_tensors(path: Path, stored: Mapping[str, Tensor]) -> RealPairs:
    if any(name.startswith("curve/") for name in stored) and "queries" not in stored:
        raise InputError.of(f'got "{path}", a run with random entries, which keeps no queries and keys')
    if path.is_dir() and "valid" not in stored and any(name.endswith("/output") for name in stored):
        message = f'got "{path}", a run of outputs alone, whose mask was too large to keep'
        raise InputError.of(f"{message}; use {path / 'config.yaml'}, which says how it is made")
    queries, keys = (_named(role, stored, path) for role in NAMES)
    rank = max(queries.ndim, keys.ndim, 3)
    queries, keys = (tensor.reshape(*(1,) * (rank - tensor.ndim), *tensor.shape) for tensor in (queries, keys))
    leading = [max(sizes) for sizes in zip(queries.shape[:-2], keys.shape[:-2], strict=True)]
    for tensor in (queries, keys):
        if any(size not in (1, most) for size, most in zip(tensor.shape, leading, strict=False)):
            shapes = f"queries of shape {list(queries.shape)} and keys of shape {list(keys.shape)}"
            cure = "keys that several heads of queries share must be repeated"
            raise InputError.of(f'got "{path}" with {shapes}; expected equal leading axes, or of size 1; {cure}')
    queries, keys = (tensor.expand(*leading, *tensor.shape[-2:]) for tensor in (queries, keys))
    return _pairs(queries, keys, _valid(path, stored, (*queries.shape[:-1], keys.shape[-2])))


def _named(role: str, stored: Mapping[str, Tensor], path: Path) -> Tensor:
    name = next((name for name in NAMES[role] if name in stored), None)
    if name is None:
        there = ", ".join(list(stored)[:8])
        expected = f"expected one of {', '.join(NAMES[role])} in it, as in an .npz with queries and keys"
        raise InputError.of(f'got "{path}", which has no {role}; {expected}; it has {there}')
    tensor = stored[name]
    if tensor.ndim < 2 or tensor.numel() == 0 or tensor.is_complex() or tensor.dtype == torch.bool:
        what = f"{tensor.dtype} of shape {list(tensor.shape)}".removeprefix("torch.")
        expected = "expected numbers of shape (..., rows, features), with an entry at least"
        raise InputError.of(f'got "{name}" of "{path}", {what}; {expected}')
    return tensor if tensor.is_floating_point() else tensor.float()


def _valid(path: Path, stored: Mapping[str, Tensor], shape: tuple[int, ...]) -> Tensor | None:
    """The mask `valid` beside the tensors, as a run saves it, or that of `valid_lens`."""
    valid, lengths = stored.get("valid"), stored.get("valid_lens")
    if valid is None:
        return None if lengths is None else valid_mask(shape, lengths)
    fits = valid.ndim <= len(shape) and all(
        size in (1, whole) for size, whole in zip(reversed(valid.shape), reversed(shape), strict=False)
    )
    numbers = valid.dtype == torch.bool or bool(((valid == 0) | (valid == 1)).all())
    if not (fits and numbers):
        what = f"{valid.dtype} of shape {list(valid.shape)}".removeprefix("torch.")
        expected = f"expected a mask of True and False that fits scores of shape {list(shape)}"
        raise InputError.of(f'got "valid" of "{path}", {what}; {expected}; rename it if it is something else')
    return valid.bool().expand(shape)


def _pairs(queries: Tensor, keys: Tensor, valid: Tensor | None) -> RealPairs:
    """With one axis for heads: none becomes one of size 1, several become one."""
    queries, keys = at_least_float32(queries, keys)
    heads = queries.ndim > 3
    if valid is not None:
        valid = _four_axes(valid.expand(*queries.shape[:-1], keys.shape[-2]))
    return RealPairs(_four_axes(queries), _four_axes(keys), valid, heads)


def _four_axes(tensor: Tensor) -> Tensor:
    b, *heads, rows, features = batched(tuple(tensor.shape))
    return tensor.reshape(b, -1 if heads else 1, rows, features)
