"""The one reader of queries, keys, values and mask, wherever they are: a config, a run folder or a tensor file."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import torch
from pydantic import ConfigDict
from torch import Tensor

from attncli.attention import Valid
from attncli.config.document import TENSORS, YAML, read_document
from attncli.config.models import DEFAULT_STUDY, Experiment
from attncli.config.tensors import Data, Mask, TokenNames
from attncli.errors import InputError, got
from attncli.inputs.build import Inputs, Shapes, build_inputs, common_leading
from attncli.inputs.files import read_tensors

NAMES = {
    "queries": ("queries", "query", "q", "Q"),
    "keys": ("keys", "key", "k", "K"),
    "values": ("values", "value", "v", "V"),
}

SHARED_HEADS = "if heads of queries share those of keys, use a config that names the tensors, with `grouped: true`"


class InputsOfConfig(Experiment):
    """The keys of an attention experiment that say what its tensors are; the others are of no interest here."""

    model_config = ConfigDict(extra="ignore")

    data: Data
    mask: Mask = Mask()
    tokens: TokenNames = TokenNames()


def is_config(path: Path) -> bool:
    """Whether a source is a YAML file, by its name."""
    return path.suffix.lower() in YAML and not path.is_dir()


def read_source(path: Path, check_size: Callable[[Shapes], None] = lambda shapes: None) -> Inputs:
    """Queries, keys, values and mask of a config (drawn with its own seed), a run folder or a tensor file.

    In files they are called `queries` (or query, q, Q), `keys` and `values` alike, and `valid`, or `valid_lens`;
    integers become float32. Values that a file does not have are (b, ..., m, 0). `check_size` is given the shapes of
    what a config draws, before it is drawn, and may refuse them.

    Raises:
        InputError: of the source itself without path and place; of what stands in a config with its place.
    """
    if is_config(path):
        return _from_config(path, check_size)
    return _from_tensors(path, stored_tensors(path))


def stored_tensors(path: Path) -> dict[str, Tensor]:
    """All tensors of a file or run folder by name.

    Raises:
        InputError: without a path, whatever is wrong with the file, or a folder that has none.
    """
    if path.is_dir() and not (path / TENSORS).is_file():
        cure = f"did you mean `{path / 'latest'}`?" if (path / "latest").is_dir() else "expected the folder of a run"
        raise InputError.of(f'got "{path}", which has no {TENSORS}; {cure}')
    try:
        return read_tensors(path / TENSORS if path.is_dir() else path)
    except InputError as error:
        raise InputError.of(error.problems[0].message) from error


def _from_config(path: Path, check_size: Callable[[Shapes], None]) -> Inputs:
    try:
        document = read_document(path)
    except InputError as error:
        if error.problems[0].where != str(path):  # where there is no config, the place that names it is what is wrong
            raise
        raise InputError.of(f'got "{path}"; {error.problems[0].message}') from error
    study = document.data.get("study", DEFAULT_STUDY) if isinstance(document.data, dict) else DEFAULT_STUDY
    if study != DEFAULT_STUDY:
        message = got(study, "only experiments of the study attention have queries and keys")
        raise document.located(InputError.of(message, ["study"]))
    document.study({DEFAULT_STUDY: None})  # or it is no mapping
    options = document.validate(InputsOfConfig)
    with document.locating():
        return build_inputs(
            options.data,
            options.mask,
            options.tokens,
            seed=options.seed,
            dtype=getattr(torch, options.dtype),
            device=torch.device("cpu"),
            check_size=check_size,
        )


def _from_tensors(path: Path, stored: Mapping[str, Tensor]) -> Inputs:
    if path.is_dir() and "valid" not in stored and any(name.endswith("/output") for name in stored):
        message = f'got "{path}", a run without weights, whose mask was too large to save'
        raise InputError.of(f"{message}; use {path / 'config.yaml'}")
    tensors = {role: _numbers(role, stored, path) for role in NAMES if role != "values" or _name(role, stored)}
    try:
        leading = common_leading({role: tuple(tensor.shape) for role, tensor in tensors.items()}, cure=SHARED_HEADS)
    except InputError as error:
        role, message = error.problems[0].path[0], error.problems[0].message
        raise InputError.of(f'got "{path}", whose {role} have {message.removeprefix("got ")}') from error
    queries, keys, *given = (tensor.expand(*leading, *tensor.shape[-2:]) for tensor in tensors.values())
    values = given[0] if given else keys.new_empty((*keys.shape[:-1], 0))
    shape = (*queries.shape[:-1], keys.shape[-2])
    if "valid" not in stored:
        return Inputs(queries, keys, values, Valid.of(shape, stored.get("valid_lens")))
    return Inputs(queries, keys, values, Valid(shape, mask=_mask(path, stored["valid"], shape)))


def _name(role: str, stored: Mapping[str, Tensor]) -> str | None:
    return next((name for name in NAMES[role] if name in stored), None)


def _numbers(role: str, stored: Mapping[str, Tensor], path: Path) -> Tensor:
    name = _name(role, stored)
    if name is None:
        there = ", ".join(list(stored)[:8])
        expected = f"expected a tensor named {', '.join(NAMES[role][:-1])} or {NAMES[role][-1]}"
        raise InputError.of(f'got "{path}", which has no {role}; {expected}; the file has {there}')
    tensor = stored[name]
    if tensor.ndim < 2 or tensor.numel() == 0 or tensor.dtype == torch.bool:
        what = f"{tensor.dtype} of shape {list(tensor.shape)}".removeprefix("torch.")
        expected = "expected numbers of shape (..., rows, features), not empty"
        raise InputError.of(f'got "{name}" of "{path}", {what}; {expected}')
    return tensor if tensor.is_floating_point() else tensor.float()


def _mask(path: Path, mask: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The mask `valid` beside the tensors, as a run saves it."""
    with suppress(RuntimeError):  # it cannot be expanded
        if bool(((mask == 0) | (mask == 1)).all()):
            return mask.bool().expand(shape)
    what = f"{mask.dtype} of shape {list(mask.shape)}".removeprefix("torch.")
    expected = f"expected a mask of True and False that fits scores of shape {list(shape)}"
    raise InputError.of(f'got "valid" of "{path}", {what}; {expected}; rename it if it is something else')
