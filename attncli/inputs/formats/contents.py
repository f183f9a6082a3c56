"""What a tensor file holds, before any of it is read into memory."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor


@dataclass(frozen=True)
class Entry:
    """One thing in a file.

    `read` gives a tensor of its own (nothing of it is shared with the file), or the InputError that says why not.
    """

    read: Callable[[], Tensor]
    size: int = 0  # bytes that reading needs
    numeric: bool = True  # text, objects and dates are no tensors: passed over unless asked for by name


@dataclass(frozen=True)
class Contents:
    """A file's entries by name; `bare` where it is one tensor without a name (listed under the file's stem)."""

    path: Path
    entries: Mapping[str, Entry]
    bare: bool = False


def bare(path: Path, entry: Entry) -> Contents:
    """The contents of a file that is one tensor."""
    return Contents(path, {path.stem: entry}, bare=True)
