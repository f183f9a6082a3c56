"""Safetensors: a header in JSON and the numbers behind it. The library checks every size against the file's."""

from pathlib import Path

from safetensors import safe_open

from attncli.inputs.formats.contents import Contents
from attncli.inputs.formats.problems import parsing
from attncli.inputs.formats.tensors import entry, refuse_unmappable


def contents(path: Path) -> Contents:
    """The tensors of a .safetensors by name, mapped and not read."""
    refuse_unmappable(path)
    with parsing(path), safe_open(path, framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  it is no dict
    return Contents(path, {name: entry(path, tensor, name) for name, tensor in tensors.items()})
