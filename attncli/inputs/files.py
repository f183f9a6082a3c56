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

from attncli.errors import InputError, did_you_mean, got, in_bytes, show
from attncli.inputs.formats import FORMATS, Entries, broken, look_of, printable, problem

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
    dotted names (`state_dict.W.weight`). Text, dates and objects beside the tensors of an .npz are passed over.

    Raises:
        InputError: below `file`, as `read_tensor`.
    """
    entries = _entries(path)
    return {name or path.stem: tensor for name, tensor in _read(path, entries, _numeric(entries)).items()}


def _entries(path: Path) -> Entries:
    """What a file holds, by its ending; nothing is read but headers."""
    with _reading(path):
        head = _head(path)
        ending, look = path.suffix.lower(), look_of(head)
        if ending not in FORMATS:
            cure = f"it looks like {look}" if look else ""
            raise problem(path, f"expected a file ending in {', '.join(FORMATS)}", cure)
        if not FORMATS[ending].begins(head):
            raise problem(path, f"not a {ending} file" + (f": it looks like {look}" if look else ""))
        entries = FORMATS[ending].entries(path)
    if not entries:
        raise problem(path, "holds no tensors; expected at least one")
    return entries


def _head(path: Path) -> bytes:
    """The first bytes of a regular file that is neither empty nor larger than the machine."""
    if not path.exists() and not path.is_symlink():
        raise _missing(path)
    if not path.is_file():  # reading a pipe would wait forever, a device might never end
        raise problem(path, f"{'a folder' if path.is_dir() else 'neither a file nor a link to one'}; expected a file")
    size, memory = path.stat().st_size, psutil.virtual_memory().total + psutil.swap_memory().total
    if size > memory:
        figures = f"holds {in_bytes(size)}; there are {in_bytes(memory)} of memory"
        raise problem(path, figures, "save only the tensors that are needed")
    with path.open("rb") as file:
        head = file.read(64)
    if not head:
        raise problem(path, "an empty file (0 bytes)", "make it or copy it again")
    return head


def _missing(path: Path) -> InputError:
    """There is no such file: where it was looked for, and which one in that folder has nearly its name."""
    folder = path.parent.absolute()
    shown = folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder
    if not folder.is_dir():
        return problem(path, f"no such folder: {shown}")
    names = sorted(neighbour.name for neighbour in islice(folder.iterdir(), MOST_NEIGHBOURS))
    stems = {Path(name).stem: name for name in names}  # endings are alike, and would make all names near
    closest = get_close_matches(path.stem, stems, n=1)
    where = "" if shown == Path() else f" in {shown}"
    return problem(path, f"no such file{where}", f"did you mean `{stems[closest[0]]}`?" if closest else "")


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
    if name is None:
        names = _numeric(entries)
        if len(names) > 1:
            raise _name_problem(path, None, f"holds {len(names)} tensors ({_listed(names)})", "give tensor: NAME")
        return names[0]
    if None in entries:
        raise _name_problem(path, name, "holds one tensor without a name", "leave tensor out")
    if name not in entries:
        question = did_you_mean(name, [known for known in entries if known and known.isprintable()])
        cure = question if question.startswith("did you mean") else f"known: {_listed(entries)}"
        raise _name_problem(path, name, "holds no tensor of this name", cure)
    return name


def _name_problem(path: Path, name: str | None, what: str, cure: str) -> InputError:
    return InputError.of(got(name, f"{show(path.name)} {what}", cure), ["tensor"])


def _listed(names: Iterable[str | None]) -> str:
    """The first few names, and how many more there are: a checkpoint has hundreds."""
    every = [printable(name or "") for name in names]
    more = len(every) - MOST_NAMES
    return ", ".join(every[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def _numeric(entries: Entries) -> list[str | None]:
    """The names of what is a tensor; where nothing is, of everything, for reading it then says what it is instead."""
    return [name for name, entry in entries.items() if entry.is_numeric] or list(entries)


def _read(path: Path, entries: Entries, names: Iterable[str | None]) -> Mapping[str | None, Tensor]:
    """These tensors, once it is known that they fit in memory together."""
    chosen = {name: entries[name] for name in names}
    size, available = sum(entry.size for entry in chosen.values()), psutil.virtual_memory().available
    if size > available:
        figures = f"needs {in_bytes(size)}; {in_bytes(available)} of memory is available"
        raise problem(path, figures, "save only what is needed")
    with _reading(path):
        return {name: entry.read() for name, entry in chosen.items()}
