"""Read queries, keys, values and mask from a config, a run folder, a captured file or a tensor file."""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import torch
from pydantic import ConfigDict
from torch import Tensor

from attncli.attention import Valid
from attncli.config.document import CAPTURED, TENSORS, YAML, read_document
from attncli.config.models import DEFAULT_STUDY, Experiment
from attncli.config.tensors import CapturedData, Data, Mask, TokenNames, Tokens
from attncli.errors import InputError, got, listed, looking_at
from attncli.inputs.build import Inputs, Note, build_inputs, common_leading
from attncli.inputs.captured import is_captured, read_calls
from attncli.inputs.files import read_tensors
from attncli.inputs.masks import marks_padding, read_mask
from attncli.models.call import LOW

NAMES = {
    "queries": ("queries", "query", "q", "Q"),
    "keys": ("keys", "key", "k", "K"),
    "values": ("values", "value", "v", "V"),
}
MASKS = ("mask", "attention_mask", "attn_mask", "valid_mask", "key_mask", "causal_mask")
LENGTHS = re.compile(r"((valid|key|seq)_?)?(lens|lengths)")
BIASES = ("bias", "attention_bias", "attn_bias", "position_bias")
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
    with looking_at(path):
        return path.suffix.lower() in YAML and not path.is_dir()


def read_source(path: Path, note: Note) -> dict[str | None, Inputs]:
    """Return the inputs in a source by layer if it is a captured file, else a single item with the key None.

    A config is used with its own seed. A tensor file has `queries` (or query, q, Q), `keys` and optional `values`, both
    with similar alternatives; if there are no values, `values` is (b, ..., m, 0). Integers become float32. Masks are
    named `valid`, `mask`, `attention_mask`, `key_padding_mask` and the like, and lengths `valid_lens`; a key is valid
    if all of them allow it. `note` is called with sentences about how masks were read and about tensors that are not
    used.

    Raises:
        InputError: the source cannot be read; or a key of a config is wrong, in which case the error has its place.
    """
    if is_config(path):
        return {None: _from_config(path, note)}
    if not is_captured(path):
        return {None: _from_tensors(path, stored_tensors(path), note)}
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


def _from_config(path: Path, note: Note) -> Inputs:
    try:
        document = read_document(path)
    except InputError as error:
        if error.problems[0].where != str(path):
            raise
        raise InputError.of(f'got "{path}"; {error.problems[0].message}') from error  # the file cannot be read
    study = document.data.get("study", DEFAULT_STUDY) if isinstance(document.data, dict) else DEFAULT_STUDY
    if study != DEFAULT_STUDY:
        message = got(study, "only experiments of the study attention have queries and keys")
        raise document.located(InputError.of(message, ["study"]))
    document.study({DEFAULT_STUDY})  # raises InputError if the document is not a mapping
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


def _from_tensors(path: Path, stored: Mapping[str, Tensor], note: Note) -> Inputs:
    is_run = path.is_dir() or (path.name == TENSORS and path.with_name("results.json").is_file())
    folder = path if path.is_dir() else path.parent
    if is_run and (folder / CAPTURED).is_file():  # its tensors lack the numbers of layers and heads
        raise InputError.of(f'got "{path}", a run over layers of a model; use {folder / CAPTURED}')
    if is_run and "valid" not in stored and any(name.endswith("/output") for name in stored):
        message = f'got "{path}", a run without weights, whose mask was too large to save'
        raise InputError.of(f"{message}; use {folder / 'config.yaml'}")
    names = {role: next((each for each in known if each in stored), None) for role, known in NAMES.items()}
    tensors = {
        role: _numbers(path, role, name, stored) for role, name in names.items() if name is not None or role != "values"
    }
    try:
        leading = common_leading({role: tuple(tensor.shape) for role, tensor in tensors.items()}, cure=SHARED_HEADS)
    except InputError as error:
        role, message = error.problems[0].path[0], error.problems[0].message
        raise InputError.of(f'got "{path}", whose {role} have {message.removeprefix("got ")}') from error
    queries, keys, *given = (tensor.expand(*leading, *tensor.shape[-2:]) for tensor in tensors.values())
    values = given[0] if given else keys.new_empty((*keys.shape[:-1], 0))
    shape = (*queries.shape[:-1], keys.shape[-2])
    if is_run and "valid" in stored:  # `valid` of a run combines all its masks
        mask = _mask(path, "valid", stored["valid"], shape, note)
        if "bias" in stored:
            note(f"{path.name}: bias: {NOT_USED}")
        return Inputs(queries, keys, values, Valid(shape, mask=mask))
    others = {name: tensor for name, tensor in stored.items() if name not in names.values()}
    return Inputs(queries, keys, values, _valid(path, others, shape, note, is_run))


def _valid(path: Path, stored: Mapping[str, Tensor], shape: tuple[int, ...], note: Note, is_run: bool) -> Valid:
    """Return the valid keys for scores of `shape`: the logical and of all lengths and masks in a tensor file.

    `note` is called with how these were read, and with the names of unused tensors unless the file is part of a run.
    """
    lengths, valid, unused = stored.get("valid_lens"), Valid(shape), list[str]()
    for name, tensor in stored.items():
        where = f"{path.name}: {name}"
        if name == "valid" or name.lower() in MASKS or marks_padding(name):
            mask = _mask(path, name, tensor, shape, note)
            valid = replace(valid, mask=mask if valid.mask is None else valid.mask & mask)
        elif name.lower() in BIASES:
            if bool((tensor <= LOW).any()):
                raise InputError.of(
                    f'got "{name}" of "{path}", which masks keys by -10000 or less; save them as `mask`'
                )
            note(f"{where}: {NOT_USED}")
        elif lengths is None and LENGTHS.fullmatch(name.lower()):
            lengths = tensor
            note(f"{where}: read as valid lengths")
        elif name != "valid_lens":
            unused.append(name)
    if unused and not is_run:
        note(f"{path.name}: not used: {listed(unused)}")
    try:
        return replace(Valid.of(shape, lengths), mask=valid.mask)
    except InputError as error:
        if "valid_lens" in stored:
            raise
        message = error.problems[0].message
        raise InputError.of(f'got "{path}", whose lengths are wrong: {message}; rename them') from error


def _numbers(path: Path, role: str, name: str | None, stored: Mapping[str, Tensor]) -> Tensor:
    if name is None:
        expected = f"expected a tensor named {', '.join(NAMES[role][:-1])} or {NAMES[role][-1]}"
        raise InputError.of(f'got "{path}", which has no {role}; {expected}; the file has {listed([*stored])}')
    tensor = stored[name]
    if tensor.ndim < 2 or tensor.numel() == 0 or tensor.dtype == torch.bool:
        found = f"{tensor.dtype} of shape {list(tensor.shape)}".removeprefix("torch.")
        expected = "expected numbers of shape (..., rows, features), not empty"
        raise InputError.of(f'got "{name}" of "{path}", {found}; {expected}')
    return tensor if tensor.is_floating_point() else tensor.float()


def _mask(path: Path, name: str, mask: Tensor, shape: tuple[int, ...], note: Note) -> Tensor:
    """Return a mask in a tensor file as booleans; a mask named `valid` may hold only True and False, or 1 and 0."""
    try:
        if name == "valid":
            if not bool(((mask == 0) | (mask == 1)).all()):
                raise InputError.of("got other numbers than 1 and 0; expected True and False, True = may attend")
            mask = mask.bool()
        return read_mask(mask, shape, f"{path.name}: {name}", note, name)
    except InputError as error:
        message = error.problems[0].message.removeprefix("got ")
        raise InputError.of(f'got "{name}" of "{path}", {message}; rename it if it is something else') from error
