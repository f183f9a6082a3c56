"""Tensors out of files (.npy .npz .safetensors .pt .csv), whatever those hold: a good tensor or an InputError."""

from collections.abc import Iterable
from pathlib import Path

import psutil
from torch import Tensor

from attncli.errors import did_you_mean
from attncli.inputs.formats import FORMATS
from attncli.inputs.formats.contents import Contents
from attncli.inputs.formats.looks import look_at, refuse_other_kind
from attncli.inputs.formats.opening import head_of
from attncli.inputs.formats.problems import listed, name_problem, problem, reading
from attncli.units import in_bytes


def read_tensor(path: Path, name: str | None = None) -> Tensor:
    """One tensor of a file, on the CPU, contiguous, in its own dtype, sharing nothing with the file.

    `name` picks among the tensors of .npz, .safetensors and .pt; it may be left out where there is only one. Big-endian
    numbers become native, long doubles float64. A CSV is (rows, columns), int64 where every number is whole, else
    float64.

    Raises:
        InputError: below `file` for a file that is missing, broken, too large, of another kind or not all numbers;
            below `tensor` for a name that is missing, unknown or out of place. Code in a file is never run.
    """
    contents = contents_of(path)
    chosen = choose(contents, name)
    return read(contents, [chosen])[chosen]


def read_tensors(path: Path) -> dict[str, Tensor]:
    """All tensors of a file by name, each as `read_tensor` gives it.

    A file of one nameless tensor (.npy, .csv, some .pt) gives it under the file's stem. Dicts and lists in a .pt give
    dotted names (`state_dict.W.weight`). Text, dates and objects beside the tensors of an .npz are passed over.

    Raises:
        InputError: below `file`, as `read_tensor`.
    """
    contents = contents_of(path)
    return read(contents, tensors(contents))


def contents_of(path: Path) -> Contents:
    """What a file holds, by its ending, after its first bytes were seen to agree."""
    head = head_of(path)
    if path.suffix.lower() not in FORMATS:
        look = look_at(head)
        cure = f"it looks like {look.words}: {look.cure}" if look else ""
        raise problem(path, f"expected a file ending in {', '.join(FORMATS)}", cure)
    refuse_other_kind(path, head)
    with reading(path):
        contents = FORMATS[path.suffix.lower()](path)
    if not contents.entries:
        raise problem(path, "holds no tensors; expected at least one")
    return contents


def choose(contents: Contents, name: str | None) -> str:
    """The name of the one tensor that is meant."""
    path, entries = contents.path, contents.entries
    if name is None:
        names = tensors(contents)
        if len(names) > 1:
            raise name_problem(path, None, f"holds {len(names)} tensors ({listed(names)})", "give tensor: NAME")
        return names[0]
    if contents.bare:
        raise name_problem(path, name, "holds one tensor without a name", "leave tensor out")
    if name not in entries:
        raise name_problem(path, name, "holds no tensor of this name", near(name, entries))
    return name


def near(name: str, names: Iterable[str]) -> str:
    """Did you mean ...? Else the first few names: a checkpoint has hundreds."""
    speakable = [known for known in names if known.isprintable()]
    question = did_you_mean(name, speakable)
    return question if question.startswith("did you mean") else f"known: {listed(names)}"


def tensors(contents: Contents) -> list[str]:
    """The names of what is a tensor; where nothing is, of everything, so that reading it says what it is instead."""
    return [name for name, entry in contents.entries.items() if entry.numeric] or list(contents.entries)


def read(contents: Contents, names: Iterable[str]) -> dict[str, Tensor]:
    """These tensors, once it is known that they fit in memory together."""
    entries = {name: contents.entries[name] for name in names}
    size, available = sum(entry.size for entry in entries.values()), psutil.virtual_memory().available
    if size > available:
        figures = f"needs {in_bytes(size)}; {in_bytes(available)} of memory is available"
        raise problem(contents.path, figures, "save only what is needed")
    with reading(contents.path):
        return {name: entry.read() for name, entry in entries.items()}
