"""Tensors out of files (.npy .npz .safetensors .pt .csv), whatever is in them: a good tensor or an InputError."""

import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from itertools import islice
from pathlib import Path

import psutil
from torch import Tensor

from attncli.errors import InputError, got, in_bytes, show
from attncli.inputs.formats import Entries, broken, entries_of, printable, problem

MOST_NAMES = 10  # names of tensors that a message lists
MOST_NEIGHBOURS = 2000  # names in the same folder that are compared with a mistyped one


def read_tensor(path: Path, name: str | None = None) -> Tensor:
    """One tensor of a file, on the CPU, contiguous, in its own dtype, sharing nothing with the file.

    `name` picks among the tensors of .npz, .safetensors and .pt; it may be left out where there is only one. Big-endian
    numbers become native, long doubles float64. A CSV is (rows, columns), int64 where every number is whole, else
    float64.

    Raises:
        InputError: below `file` for a file that is missing, broken, too large, of another kind or not all numbers;
            below `tensor` for a name that is missing, unknown or out of place. Code in a file is never run.
    """
    entries = _entries(path)
    chosen = _choose(path, entries, name)
    return _read(path, entries, [chosen])[chosen]


def read_tensors(path: Path) -> dict[str, Tensor]:
    """All tensors of a file by name, each as `read_tensor` gives it.

    A file of one nameless tensor (.npy, .csv, some .pt) gives it under the file's stem. Dicts and lists in a .pt give
    dotted names (`state_dict.W.weight`). What is no number in an .npz is passed over.

    Raises:
        InputError: below `file`, as `read_tensor`.
    """
    entries = _entries(path)
    return {name or path.stem: tensor for name, tensor in _read(path, entries, entries).items()}


def _entries(path: Path) -> Entries:
    """What a file holds, by its ending; nothing is read but headers."""
    with _reading(path):
        if not path.exists() and not path.is_symlink():
            raise _missing(path)
        if not path.is_file():  # reading a pipe would wait forever, a device might never end
            what = "a folder" if path.is_dir() else "neither a file nor a link to one"
            raise problem(path, f"{what}; expected a file")
        with path.open("rb") as file:
            head = file.read(64)
        if not head:
            raise problem(path, "an empty file (0 bytes)", "make it or copy it again")
        entries = entries_of(path, head)
    if not entries:
        raise problem(path, "holds no tensors; expected at least one")
    return entries


def _missing(path: Path) -> InputError:
    """There is no such file: where it was looked for, and which one in that folder has nearly its name."""
    folder = path.parent.absolute()
    shown = folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder
    if not folder.is_dir():
        return problem(path, f"no such folder: {shown}")
    names = {other.stem: other.name for other in islice(folder.iterdir(), MOST_NEIGHBOURS)}  # endings are alike
    near = get_close_matches(path.stem, names, n=1)
    where = "" if shown == Path() else f" in {shown}"
    return problem(path, f"no such file{where}", f"did you mean `{names[near[0]]}`?" if near else "")


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Around everything that reads a file: what the system or a library refuses is an InputError."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except InputError:
        raise
    except MemoryError as error:
        raise problem(path, "needs more memory than there is", "save only what is needed") from error
    except OSError as error:
        raise problem(path, f"cannot be read ({error.strerror or error})") from error
    except Exception as error:  # what parsers raise on broken bytes is written down nowhere (zlib.error, TokenError...)
        line = re.sub(r" at 0x[0-9a-f]+", "", str(error)).partition("\n")[0]
        raise broken(path, printable(f"{type(error).__name__}: {line}".rstrip(": "))) from error


def _choose(path: Path, entries: Entries, name: str | None) -> str | None:
    """The name of the one tensor that is meant; None where the file's only tensor has none."""
    known = [printable(each) for each in entries if each is not None]
    listed = ", ".join(known[:MOST_NAMES]) + (f" and {len(known) - MOST_NAMES} more" if len(known) > MOST_NAMES else "")
    if name is None and len(entries) == 1:
        return next(iter(entries))
    if name in entries:
        return name
    if name is None:
        what, cure = f"holds {len(known)} tensors ({listed})", "give tensor: NAME"
    elif None in entries:
        what, cure = "holds one tensor without a name", "leave tensor out"
    else:
        near = get_close_matches(name, known, n=1)
        what, cure = "holds no tensor of this name", f"did you mean `{near[0]}`?" if near else f"known: {listed}"
    raise InputError.of(got(name, f"{show(path.name)} {what}", cure), ["tensor"])


def _read(path: Path, entries: Entries, names: Iterable[str | None]) -> Mapping[str | None, Tensor]:
    """These tensors, once it is known that they fit in memory together."""
    chosen = {name: entries[name] for name in names}
    size, available = sum(entry.size for entry in chosen.values()), psutil.virtual_memory().available
    if size > available:
        figures = f"needs {in_bytes(size)}; {in_bytes(available)} of memory is available"
        raise problem(path, figures, "save only what is needed")
    with _reading(path):
        return {name: entry.read() for name, entry in chosen.items()}
