"""The one reader of queries, keys, values and mask, wherever they are: a config, a run folder or a tensor file."""

import functools
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import torch
from pydantic import ConfigDict
from torch import Tensor

from attncli.attention import Valid
from attncli.capturing.record import LOW
from attncli.config.document import CAPTURED, TENSORS, YAML, read_document
from attncli.config.models import DEFAULT_STUDY, Experiment
from attncli.config.tensors import CapturedData, Data, Mask, TokenNames, Tokens
from attncli.errors import InputError, got, listed, looking_at
from attncli.inputs.build import Inputs, Shapes, build_inputs, common_leading
from attncli.inputs.captured import is_captured, read_calls
from attncli.inputs.files import read_tensors
from attncli.inputs.masks import marks_padding, read_mask

NAMES = {
    "queries": ("queries", "query", "q", "Q"),
    "keys": ("keys", "key", "k", "K"),
    "values": ("values", "value", "v", "V"),
}
MASKS = ("mask", "attention_mask", "attn_mask", "valid_mask", "key_mask", "causal_mask")
LENGTHS = re.compile(r"((valid|key|seq)_?)?(lens|lengths)")  # other names than `valid_lens`, which is ours
BIASES = ("bias", "attention_bias", "attn_bias", "position_bias")
NOT_USED = "a bias is added to scores, and is not used here"
SHARED_HEADS = "if heads of queries share those of keys, use a config that names the tensors, with `grouped: true`"
Note = Callable[[str], None]


class InputsOfConfig(Experiment):
    """The keys of an attention experiment that say what its tensors are; the others are of no interest here."""

    model_config = ConfigDict(extra="ignore")

    data: Data
    mask: Mask = Mask()
    tokens: Tokens = TokenNames()


def is_config(path: Path) -> bool:
    """Whether a source is a YAML file, by its name."""
    with looking_at(path):
        return path.suffix.lower() in YAML and not path.is_dir()


def read_source(path: Path, check_size: Callable[[Shapes], None], note: Note) -> dict[str | None, Inputs]:
    """Queries, keys, values and mask of a config (drawn with its own seed), a run folder or a tensor file.

    A captured model has every layer that can be re-scored, by its name; all else is one layer, None. In tensor
    files they are called `queries` (or query, q, Q), `keys` and `values` alike; integers become float32. Values that
    a file does not have are (b, ..., m, 0). Masks are called `valid`, `mask`, `attention_mask`, `key_padding_mask` and
    the like, lengths `valid_lens`; they are joined. `check_size` is given the shapes of what a config draws, before it
    is drawn, and may refuse them. `note` is told how masks are read, and what is not used.

    Raises:
        InputError: of the source itself without path and place; of what stands in a config with its place.
    """
    if is_config(path):
        return {None: _from_config(path, check_size, note)}
    if not is_captured(path):
        return {None: _from_tensors(path, stored_tensors(path), note)}
    try:
        _, calls = read_calls(CapturedData(capture=str(path)), torch.float32, torch.device("cpu"))
    except InputError as error:
        raise InputError.of(error.problems[0].message) from error
    if any(inputs.bias is not None for inputs in calls):
        note(f"{path.name}: {NOT_USED}")
    return {inputs.call.name: inputs for inputs in calls if inputs.call is not None}


def stored_tensors(path: Path) -> dict[str, Tensor]:
    """All tensors of a file or run folder by name.

    Raises:
        InputError: without a path, whatever is wrong with the file, or a folder that has none.
    """
    with looking_at(path):
        is_folder = path.is_dir()
        if is_folder and not (path / TENSORS).is_file():
            latest = path / "latest"
            cure = f"did you mean `{latest}`?" if latest.is_dir() else "expected the folder of a run"
            raise InputError.of(f'got "{path}", which has no {TENSORS}; {cure}')
    try:
        return read_tensors(path / TENSORS if is_folder else path)
    except InputError as error:
        raise InputError.of(error.problems[0].message) from error


def _from_config(path: Path, check_size: Callable[[Shapes], None], note: Note) -> Inputs:
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
    if options.data.bias is not None:
        note(f"{path.name}: data.bias: {NOT_USED}")
    with document.locating():
        return build_inputs(
            options.data,
            options.mask,
            options.tokens,
            seed=options.seed,
            dtype=getattr(torch, options.dtype),
            device=torch.device("cpu"),
            check_size=check_size,
            note=note,
        )


def _from_tensors(path: Path, stored: Mapping[str, Tensor], note: Note) -> Inputs:
    is_run = path.is_dir() or (path.name == TENSORS and path.with_name("results.json").is_file())
    folder = path if path.is_dir() else path.parent
    if is_run and "queries" not in stored and (folder / CAPTURED).is_file():
        raise InputError.of(f'got "{path}", a run over layers of a model; use {folder / CAPTURED}')
    if is_run and "valid" not in stored and any(name.endswith("/output") for name in stored):
        message = f'got "{path}", a run without weights, whose mask was too large to save'
        raise InputError.of(f"{message}; use {folder / 'config.yaml'}")
    tensors = {role: _numbers(role, stored, path) for role in NAMES if role != "values" or _name(role, stored)}
    try:
        leading = common_leading({role: tuple(tensor.shape) for role, tensor in tensors.items()}, cure=SHARED_HEADS)
    except InputError as error:
        role, message = error.problems[0].path[0], error.problems[0].message
        raise InputError.of(f'got "{path}", whose {role} have {message.removeprefix("got ")}') from error
    queries, keys, *given = (tensor.expand(*leading, *tensor.shape[-2:]) for tensor in tensors.values())
    values = given[0] if given else keys.new_empty((*keys.shape[:-1], 0))
    shape = (*queries.shape[:-1], keys.shape[-2])
    if is_run and "valid" in stored:  # which is all masks joined
        mask = _mask(path, "valid", stored["valid"], shape, note)
        if "bias" in stored:
            note(f"{path.name}: bias: {NOT_USED}")
        return Inputs(queries, keys, values, Valid(shape, mask=mask))
    valid, others = _valid(path, stored, shape, note)
    unused = [name for name in others if name not in {_name(role, stored) for role in NAMES}]
    if unused and not is_run:
        note(f"{path.name}: not used: {listed(unused)}")
    return Inputs(queries, keys, values, valid)


def _valid(path: Path, stored: Mapping[str, Tensor], shape: tuple[int, ...], note: Note) -> tuple[Valid, list[str]]:
    """Lengths and masks of a tensor file, joined, and the names of all other tensors."""
    lengths, masks, others = stored.get("valid_lens"), list[Tensor](), []
    for name, tensor in stored.items():
        where, low = f"{path.name}: {name}", tensor <= LOW if name.lower() in BIASES else None
        if name == "valid" or name.lower() in MASKS or marks_padding(name):
            masks.append(_mask(path, name, tensor, shape, note))
        elif low is not None and bool(low.any()):
            masks.append(_mask(path, name, ~low, shape, note))
            note(f"{where}: -10000 and less masks keys; the rest is added to scores, and is not used here")
        elif low is not None:
            note(f"{where}: {NOT_USED}")
        elif lengths is None and LENGTHS.fullmatch(name.lower()) and _are_lengths(tensor, shape):
            lengths = tensor
            note(f"{where}: read as valid lengths")
        elif name != "valid_lens":
            others.append(name)
    joined = functools.reduce(torch.Tensor.logical_and, masks) if masks else None
    return replace(Valid.of(shape, lengths), mask=joined), others


def _are_lengths(tensor: Tensor, shape: tuple[int, ...]) -> bool:
    with suppress(InputError):
        Valid.of(shape, tensor)
        return True
    return False


def _name(role: str, stored: Mapping[str, Tensor]) -> str | None:
    return next((name for name in NAMES[role] if name in stored), None)


def _numbers(role: str, stored: Mapping[str, Tensor], path: Path) -> Tensor:
    name = _name(role, stored)
    if name is None:
        expected = f"expected a tensor named {', '.join(NAMES[role][:-1])} or {NAMES[role][-1]}"
        raise InputError.of(f'got "{path}", which has no {role}; {expected}; the file has {listed([*stored])}')
    tensor = stored[name]
    if tensor.ndim < 2 or tensor.numel() == 0 or tensor.dtype == torch.bool:
        what = f"{tensor.dtype} of shape {list(tensor.shape)}".removeprefix("torch.")
        expected = "expected numbers of shape (..., rows, features), not empty"
        raise InputError.of(f'got "{name}" of "{path}", {what}; {expected}')
    return tensor if tensor.is_floating_point() else tensor.float()


def _mask(path: Path, name: str, mask: Tensor, shape: tuple[int, ...], note: Note) -> Tensor:
    """A mask beside the tensors; what is called `valid` holds True and False, or 1 and 0."""
    try:
        if name == "valid":
            mask = _truth_values(mask)
        return read_mask(mask, shape, f"{path.name}: {name}", note, name)
    except InputError as error:
        what = error.problems[0].message.removeprefix("got ").removeprefix(f'"{name}"; ')
        raise InputError.of(f'got "{name}" of "{path}", {what}; rename it if it is something else') from error


def _truth_values(mask: Tensor) -> Tensor:
    if not bool(((mask == 0) | (mask == 1)).all()):
        raise InputError.of("got other numbers than 1 and 0; expected True and False, True = may attend")
    return mask.bool()
