"""Read queries, keys, values and mask from a config, a run folder, a captured file or a tensor file."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import torch
from pydantic import ConfigDict
from torch import Tensor

from attncli.config.document import YAML, read_document
from attncli.config.files import CAPTURED, TENSORS
from attncli.config.models import DEFAULT_STUDY, Experiment
from attncli.config.tensors import CapturedData, Data, Layout, Mask, TokenNames, Tokens
from attncli.core.files import read_tensors
from attncli.core.masks import Valid
from attncli.errors import InputError, got, listed, os_errors_as_input_errors
from attncli.models.inputs import Inputs
from attncli.sources.build import Note, build_inputs, common_leading, heads_first
from attncli.sources.captured import is_captured, read_calls
from attncli.sources.masks import read_mask

ROLES, MASKS, LENGTHS = ("queries", "keys", "values"), ("valid", "mask"), "valid_lens"  # names of tensors in a file
NOT_USED = "a bias is added to scores, and is not used here"
SHARED_HEADS = "if heads of queries share those of keys, use a config that names the tensors, with `grouped: true`"


class InputsOfConfig(Experiment):
    """The keys of an attention experiment that define its tensors; other keys are ignored."""

    model_config = ConfigDict(extra="ignore")

    data: Data
    mask: Mask = Mask()
    tokens: Tokens = TokenNames()


def is_config(path: Path) -> bool:
    """Whether a source is a YAML file, according to its name."""
    with os_errors_as_input_errors(path):
        return path.suffix.lower() in YAML and not path.is_dir()


def read_source(path: Path, note: Note, layout: Layout = "bhsd") -> dict[str | None, Inputs]:
    """Return the inputs in a source by layer if it is a captured file, else a single item with the key None.

    A config is used with its own seed. A tensor file has `queries`, `keys` and optional `values`; without values,
    `values` is (b, ..., m, 0). Integers become float32. Masks are named `valid` or `mask`, lengths `valid_lens`; a key
    is valid if all allow it. `note` is called with sentences about how the mask was read, and about unused tensors.
    `layout` is the order of the axes in a tensor file.

    Raises:
        InputError: the source cannot be read; or a key of a config is wrong, in which case the error has its place.
    """
    if layout != "bhsd" and (is_config(path) or path.is_dir() or is_captured(path)):
        raise InputError.of(f'got {layout} for "{path}", which is no tensor file; leave it out', ["layout"])
    if is_config(path):
        return {None: _from_config(path, note)}
    if not is_captured(path):
        return {None: _from_tensors(path, stored_tensors(path), note, layout)}
    try:
        return read_layers(CapturedData(capture=str(path)), note)
    except InputError as error:
        raise InputError.of(error.problems[0].message) from error


def read_layers(data: CapturedData, note: Note) -> dict[str | None, Inputs]:
    """Return the inputs of each chosen attention call of a captured file by its name.

    Raises:
        InputError: as in `read_calls`.
    """
    captured, calls = read_calls(data, torch.float32, torch.device("cpu"))
    if any(inputs.bias is not None for inputs in calls):
        note(f"{captured.path.name}: {NOT_USED}")
    return {inputs.call.name: inputs for inputs in calls if inputs.call is not None}


def stored_tensors(path: Path) -> dict[str, Tensor]:
    """Return all tensors of a file or run folder by name.

    Raises:
        InputError: the file is broken or the folder has no tensors; the path in the error is empty.
    """
    with os_errors_as_input_errors(path):
        is_folder = path.is_dir()
        if is_folder and not (path / TENSORS).is_file():
            latest = path / "latest"
            cure = f"did you mean `{latest}`?" if latest.is_dir() else "expected the folder of a run"
            raise InputError.of(f'got "{path}", which has no {TENSORS}; {cure}')
    try:
        return read_tensors(path / TENSORS if is_folder else path)
    except InputError as error:
        raise InputError.of(error.problems[0].message) from error


def _from_config(path: Path, note: Note) -> Inputs:
    document = read_document(path)
    document.check_mapping()
    if (study := document.data.get("study", DEFAULT_STUDY)) != DEFAULT_STUDY:
        message = got(study, "only experiments of the study attention have queries and keys")
        raise document.located(InputError.of(message, ["study"]))
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
            note=note,
        )


def _from_tensors(path: Path, stored: Mapping[str, Tensor], note: Note, layout: Layout) -> Inputs:
    is_run = path.is_dir() or (path.name == TENSORS and path.with_name("results.json").is_file())
    folder = path if path.is_dir() else path.parent
    if is_run and (folder / CAPTURED).is_file():  # its tensors lack the numbers of layers and heads
        raise InputError.of(f'got "{path}", a run over layers of a model; use {folder / CAPTURED}')
    if is_run and "valid" not in stored and any(name.endswith("/output") for name in stored):
        message = f'got "{path}", a run without weights, whose mask was too large to save'
        raise InputError.of(f"{message}; use {folder / 'config.yaml'}")
    tensors = {role: _numbers(path, role, stored) for role in ROLES if role != "values" or role in stored}
    heads_first({role: tuple(tensor.shape) for role, tensor in tensors.items()}, layout)  # raises InputError
    if layout == "bshd":
        tensors = {role: tensor.transpose(1, 2) if tensor.ndim == 4 else tensor for role, tensor in tensors.items()}
    try:
        leading = common_leading({role: tuple(tensor.shape) for role, tensor in tensors.items()}, cure=SHARED_HEADS)
    except InputError as error:
        role, message = error.problems[0].path[0], error.problems[0].message
        raise InputError.of(f'got "{path}", whose {role} have {message.removeprefix("got ")}') from error
    queries, keys, *rest = (tensor.expand(*leading, *tensor.shape[-2:]) for tensor in tensors.values())
    values = rest[0] if rest else keys.new_empty((*keys.shape[:-1], 0))
    shape = (*queries.shape[:-1], keys.shape[-2])
    valid = Valid.of(shape, stored.get(LENGTHS))
    for name in [name for name in MASKS if name in stored]:
        mask = _mask(path, name, stored[name], shape, note)
        valid = replace(valid, mask=mask if valid.mask is None else valid.mask & mask)
    if is_run and "bias" in stored:
        note(f"{path.name}: bias: {NOT_USED}")
    if not is_run and (unused := [name for name in stored if name not in (*ROLES, *MASKS, LENGTHS)]):
        note(f"{path.name}: not used: {listed(unused)}; a mask is named valid or mask, lengths are named valid_lens")
    inputs = Inputs(queries, keys, values, valid)
    for fault in inputs.faults.values():
        note(f"{path.name}: {fault}")
    return inputs


def _numbers(path: Path, role: str, stored: Mapping[str, Tensor]) -> Tensor:
    if role not in stored:
        raise InputError.of(
            f'got "{path}", which has no tensor named {role}, but {listed([*stored])}; '
            "expected tensors named queries and keys, as an .npz or .safetensors file has"
        )
    tensor = stored[role]
    if tensor.ndim < 2 or tensor.numel() == 0 or tensor.dtype == torch.bool:
        kind = f"{tensor.dtype} of shape {list(tensor.shape)}".removeprefix("torch.")
        expected = "expected numbers of shape (..., rows, features), not empty"
        raise InputError.of(f'got "{role}" of "{path}", {kind}; {expected}')
    return tensor if tensor.is_floating_point() else tensor.float()


def _mask(path: Path, name: str, mask: Tensor, shape: tuple[int, ...], note: Note) -> Tensor:
    try:
        cure = "" if name == "valid" else "use a config with `mask: {file, tensor: mask, invert: true}`"
        return read_mask(mask, shape, f"{path.name}: {name}", note, cure=cure)
    except InputError as error:
        raise InputError.of(f'got "{name}" of "{path}", {error.problems[0].message.removeprefix("got ")}') from error
