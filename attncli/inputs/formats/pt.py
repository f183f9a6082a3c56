"""PyTorch's .pt: a zip archive with a pickle, of which torch's own restricted reader admits tensors and containers."""

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zipfile import ZIP_STORED, ZipFile

import torch
from torch import Tensor

from attncli.errors import InputError
from attncli.inputs.formats.contents import Contents, bare
from attncli.inputs.formats.problems import broken, parsing, problem, short
from attncli.inputs.formats.tensors import entry, refuse_unmappable

SAVE_TENSORS = "save tensors alone, for instance model.state_dict(), with torch.save or as .safetensors"
MOST_NODES = 100_000  # dicts, lists and tensors; a small pickle can describe a tree without end
DEEPEST = 32


def contents(path: Path) -> Contents:
    """The tensors of a .pt, mapped and not read; those in containers under dotted names (`state_dict.W.weight`)."""
    refuse_other_archives(path)
    refuse_unmappable(path)
    loaded = load(path)
    if isinstance(loaded, Tensor):
        return bare(path, entry(path, loaded))
    return Contents(path, {name: entry(path, tensor, name) for name, tensor in flat(path, loaded).items()})


def refuse_other_archives(path: Path) -> None:
    """Whatever torch's own reader, written in C++, would have to take on trust."""
    with parsing(path), ZipFile(path) as archive:
        members = {member.filename: member for member in archive.infolist()}
        endings = {name.rpartition("/")[2] for name in members}
        if "constants.pkl" in endings:
            raise problem(path, "a TorchScript program, which is never run", SAVE_TENSORS)
        if "data.pkl" not in endings:
            raise problem(path, "a zip archive that torch.save did not write", SAVE_TENSORS)
        if any(member.compress_type != ZIP_STORED for member in members.values()):
            raise problem(path, "a PyTorch file that was packed again", "load it and save it again with torch.save")
        pickles = [archive.read(member) for name, member in members.items() if name.endswith("data.pkl")]
    if any(b"bytearray\n" in text for text in pickles):  # the one thing torch admits that takes any amount of memory
        raise objects(path, ["bytearray"])


def load(path: Path) -> Any:
    """What was saved: numbers stay in the file (mapped, hence bounded by its size), code is refused."""
    with parsing(path):
        try:
            return torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        except pickle.UnpicklingError as error:
            unsafe = torch.serialization.get_unsafe_globals_in_checkpoint(path)
            raise (objects(path, unsafe) if unsafe else broken(path, "its pickle makes no sense")) from error


def objects(path: Path, names: list[str]) -> InputError:
    """A pickle that would import and call something."""
    what = f"holds Python objects ({short(', '.join(names))}), which are never loaded since they may run code"
    return problem(path, what, SAVE_TENSORS)


def flat(path: Path, loaded: object) -> dict[str, Tensor]:
    """Tensors by dotted name, in the order of the file; what is neither tensor nor container is passed over."""
    found: dict[str, Tensor] = {}
    waiting: list[tuple[tuple[str, ...], object]] = [((), loaded)]
    for _ in range(MOST_NODES):
        if not waiting:
            return found
        keys, node = waiting.pop()
        if isinstance(node, Tensor):
            name = ".".join(keys)
            if name in found:
                raise problem(path, f"holds two tensors that would be named {short(name)}", "rename one")
            found[name] = node
        elif len(keys) > DEEPEST:
            raise problem(path, f"holds containers nested more than {DEEPEST} deep", SAVE_TENSORS)
        else:
            waiting += [((*keys, key), child) for key, child in reversed(children(node))]
    raise problem(path, f"holds a tree of more than {MOST_NODES} parts", SAVE_TENSORS)


def children(node: object) -> list[tuple[str, object]]:
    """The tensors and containers right below a container."""
    items: list[tuple[object, object]] = []
    if isinstance(node, Mapping):
        items = list(node.items())
    elif isinstance(node, list | tuple):
        items = list(enumerate(node))
    return [(str(key), child) for key, child in items if isinstance(child, Tensor | Mapping | list | tuple)]
