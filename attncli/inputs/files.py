"""Tensors out of files (.npy .npz .safetensors .pt .csv), whatever is in them: a good tensor or an InputError.

Headers are read first, so that a file is refused before it takes memory. Nothing in a file is ever run.
"""

import io
import math
import os
import pickle
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeAlias
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

import numpy as np
import psutil
import torch
from numpy.lib import format as npy_format
from safetensors import safe_open
from torch import Tensor

from attncli.config.opening import UnfitFileError, check_regular, open_file
from attncli.errors import InputError, did_you_mean, got, in_bytes, listed, printable, refusal, shortened, show

MOST_AXES = 64  # torch keeps tensors of more, and computes with none of them
MOST_NEIGHBOURS = 2000  # names in the same folder that are compared with a mistyped one
LONGEST_HEADER = 4096  # bytes of a .npy header; 64 axes of 20 digits each need 1400
LONGEST_TENSOR_NAME = 500  # characters; those of large models have about 100
MOST_NODES = 100_000  # dicts, lists, tensors and whatever else of a .pt: a small pickle can describe a tree without end
CSV_MEMORY = 20  # bytes for one byte of text, at most: "1," is a number of 8 bytes, in a buffer that grows by copies
SEPARATORS = ";,\t"  # of a CSV: the first of them that the first row has; spaces where it has none
NUMBERS = "biuf"  # kinds of NumPy's dtypes
NEVER = "which are not loaded, as they may run code"
SAVE_TENSORS = "save tensors alone, for instance model.state_dict(), with torch.save or as .safetensors"


class Entry(NamedTuple):
    """A tensor in a file: the bytes that reading it takes, and what reads it into memory of its own."""

    size: int
    read: Callable[[], Tensor]


Entries: TypeAlias = Mapping[str | None, Entry]  # by name; None where the file is one tensor without a name


def read_tensor(path: Path, name: str | None = None) -> Tensor:
    """One tensor of a file, on the CPU, contiguous, in its own dtype, sharing nothing with the file.

    `name` picks among the tensors of .npz, .safetensors and .pt; it may be left out where there is only one. Big-endian
    numbers become native, long doubles float64. A CSV is (rows, columns), int64 where every number is whole, else
    float64.

    Raises:
        InputError: below `file` for a file that is missing, broken, too large, of another kind or not all numbers;
            below `tensor` for a name that is missing, unknown or out of place. Code in a file is never run.
    """
    return TensorFile.opened(path).read(name)


def read_tensors(path: Path) -> dict[str, Tensor]:
    """All tensors of a file by name, each as `read_tensor` gives it.

    A file of one nameless tensor (.npy, .csv, some .pt) gives it under the file's stem. Dicts and lists in a .pt give
    dotted names (`state_dict.W.weight`). What is no number in an .npz is passed over.

    Raises:
        InputError: below `file`, as `read_tensor`.
    """
    entries = _entries(path)
    return {name or path.stem: tensor for name, tensor in _read(path, entries, entries).items()}


@dataclass(frozen=True)
class TensorFile:
    """A file whose header has been read and checked, once; each tensor is read when `read` asks for it."""

    path: Path
    entries: Entries

    @classmethod
    def opened(cls, path: Path) -> "TensorFile":
        """The file at `path`.

        Raises:
            InputError: below `file`, as `read_tensor`.
        """
        return cls(path, _entries(path))

    def __contains__(self, name: str) -> bool:
        return name in self.entries

    def read(self, name: str | None = None) -> Tensor:
        """One tensor, as `read_tensor` gives it.

        Raises:
            InputError: as `read_tensor`.
        """
        chosen = _choose(self.path, self.entries, name)
        return _read(self.path, self.entries, [chosen])[chosen]


def _entries(path: Path) -> Entries:
    """What a file holds, by its ending; nothing is read but headers."""
    with _reading(path):
        try:
            check_regular(path)
        except (FileNotFoundError, NotADirectoryError):
            raise _missing(path) from None
        if path.suffix.lower() not in FORMATS:
            raise problem(path, f"expected a file ending in {', '.join(FORMATS)}")
        entries = FORMATS[path.suffix.lower()](path)
    if not entries:
        raise problem(path, "holds no tensors; expected at least one")
    for name in entries:
        if name is not None and len(name) > LONGEST_TENSOR_NAME:
            what = f"holds a tensor whose name {show(name)} has {len(name):,} characters"
            raise problem(path, f"{what}; expected at most {LONGEST_TENSOR_NAME}", "rename it")
    return entries


def _missing(path: Path) -> InputError:
    if os.path.lexists(path):
        return problem(path, "a link to a file that is not there", "expected a file")
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
        raise problem(path, "needs more memory than is available", "save only what is needed") from error
    except UnfitFileError as error:
        raise problem(path, error.kind, "expected a file") from error
    except OSError as error:
        raise problem(path, f"cannot be read ({refusal(error)})") from error
    except Exception as error:  # what parsers raise on broken bytes is written down nowhere (zlib.error, TokenError...)
        line = re.sub(r" at 0x[0-9a-f]+", "", str(error)).partition("\n")[0]
        raise broken(path, shortened(printable(f"{type(error).__name__}: {line}".rstrip(": ")))) from error


def _choose(path: Path, entries: Entries, name: str | None) -> str | None:
    """The name of the one tensor that is meant; None where the file's only tensor has none."""
    if name is None and len(entries) == 1:
        return next(iter(entries))
    if name in entries:
        return name
    known = [each for each in entries if each is not None]
    if name is None:
        what, cure = f"holds {len(known)} tensors ({listed(known)})", "give tensor: NAME"
    elif None in entries:
        what, cure = "holds one tensor without a name", "leave tensor out"
    else:
        what, cure = "holds no tensor of this name", did_you_mean(name, known)
    raise InputError.of(got(name, f"{show(path.name)} {what}", cure), ["tensor"])


def _read(path: Path, entries: Entries, names: Iterable[str | None]) -> Mapping[str | None, Tensor]:
    """These tensors, once it is known that they fit in memory together."""
    chosen = {name: entries[name] for name in names}
    size, available = sum(entry.size for entry in chosen.values()), psutil.virtual_memory().available
    if size > available:
        figures = f"needs {in_bytes(size)}; {in_bytes(available)} of memory is available"
        raise problem(path, figures, "save only what is needed")
    with _reading(path):
        tensors = {name: entry.read() for name, entry in chosen.items()}
    if most := max((tensor.ndim for tensor in tensors.values() if tensor.ndim > MOST_AXES), default=0):
        raise problem(
            path, f"holds a tensor of {most} axes; expected {MOST_AXES} at most, with which torch can compute"
        )
    return tensors


def problem(path: Path, what: str, cure: str = "") -> InputError:
    """Something is wrong with the file."""
    return InputError.of(got(path.name or str(path), what, cure), ["file"])


def broken(path: Path, reason: str) -> InputError:
    """The file's bytes make no sense, for what its ending says."""
    return problem(path, f"damaged, or not a {path.suffix.lower()} file ({reason})", "create or copy it again")


def _named(path: Path, entries: Iterable[tuple[str | None, Entry]]) -> Entries:
    named: dict[str | None, Entry] = {}
    for name, entry in entries:
        if name in named:
            raise problem(path, f"holds two tensors of the name {show(name)}", "rename one of them")
        named[name] = entry
    return named


def _npy(path: Path) -> Entries:
    dtype, entry = _array(path, path.stat().st_size, lambda: open_file(path))
    if dtype.kind not in NUMBERS:
        what = f"Python objects, {NEVER}" if dtype.kind == "O" else f"entries of type {dtype.name}"
        raise problem(path, f"holds {what}; expected real numbers", "save an array of numbers")
    return {None: entry}


def _npz(path: Path) -> Entries:
    """The arrays of numbers in an .npz by name; everything else is passed over."""
    with open_file(path) as file, ZipFile(file) as archive:
        members = [member for member in archive.infolist() if member.filename.endswith(".npy")]
    if any(member.compress_type not in (ZIP_STORED, ZIP_DEFLATED) for member in members):
        # Others may ask for gigabytes before the first byte.
        raise problem(path, "compressed in a way that NumPy does not use", "save it with numpy.savez_compressed")
    arrays = [(each.filename[:-4], *_array(path, each.file_size, partial(_member, path, each))) for each in members]
    return _named(path, ((name, entry) for name, dtype, entry in arrays if dtype.kind in NUMBERS))


@contextmanager
def _member(path: Path, member: ZipInfo) -> Iterator[IO[bytes]]:
    with open_file(path) as file, ZipFile(file) as archive, archive.open(member) as stream:
        yield stream


def _array(
    path: Path, length: int, opened: Callable[[], AbstractContextManager[IO[bytes]]]
) -> tuple[np.dtype[Any], Entry]:
    """An array in NumPy's format, in a stream of `length` bytes; only the header is read, however long it claims to be.

    Its claims are compared in Python's integers: they may be more than 64 bits can count.
    """
    with opened() as stream:
        head = io.BytesIO(stream.read(LONGEST_HEADER))
    is_first = npy_format.read_magic(head) == (1, 0)
    read_header = npy_format.read_array_header_1_0 if is_first else npy_format.read_array_header_2_0
    shape, _, dtype = read_header(head, max_header_size=LONGEST_HEADER)
    declared, there = math.prod(shape) * dtype.itemsize, length - head.tell()
    if declared != there and dtype.kind in NUMBERS:
        raise broken(path, f"its header declares {in_bytes(declared)} of numbers, {in_bytes(there)} are there")

    def read() -> Tensor:
        with opened() as stream:
            return torch.from_numpy(_native(np.load(stream, allow_pickle=False)))

    return dtype, Entry(declared, read)


def _native(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The array in this machine's byte order, row after row, in a dtype that torch has."""
    if array.dtype == np.bool_:  # a byte other than 0 and 1 would be neither true nor false
        return np.asarray(array.view(np.uint8) != 0, order="C")
    wide = array.dtype.kind == "f" and array.dtype.itemsize > 8  # long double
    return np.asarray(array, dtype=np.dtype(np.float64) if wide else array.dtype.newbyteorder("="), order="C")


def _safetensors(path: Path) -> Entries:
    """The tensors by name, mapped and not read; the library checks every size against the file's."""
    with safe_open(path, framework="pt") as file:
        return {name: _tensor(path, name, file.get_tensor(name)) for name in file.keys()}  # noqa: SIM118  it is no dict


def _pt(path: Path) -> Entries:
    """The tensors of a .pt, mapped and not read; those in containers under dotted names (`state_dict.W.weight`)."""
    with open_file(path) as file, ZipFile(file) as archive:
        if any(member.compress_type != ZIP_STORED for member in archive.infolist()):  # torch unpacks any amount
            raise problem(path, "a PyTorch file that was packed again", "save it again with torch.save")
        pickles = [archive.read(name) for name in archive.namelist() if name.endswith("data.pkl")]
    if not pickles:
        raise problem(path, "a zip archive that torch.save did not write", SAVE_TENSORS)
    if any(b"bytearray\n" in text for text in pickles):  # the one thing torch admits that takes any amount of memory
        raise _objects(path, ["bytearray"])
    try:
        loaded = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except pickle.UnpicklingError as error:
        names = torch.serialization.get_unsafe_globals_in_checkpoint(path)
        raise (_objects(path, names) if names else broken(path, "its pickle cannot be read")) from error
    found = ((name or None, tensor) for name, tensor in _flat(path, loaded, "", iter(range(MOST_NODES))))
    return _named(path, ((name, _tensor(path, name, tensor)) for name, tensor in found))


def _objects(path: Path, names: list[str]) -> InputError:
    return problem(path, f"holds Python objects ({listed(names)}), {NEVER}", SAVE_TENSORS)


def _flat(path: Path, node: object, name: str, budget: Iterator[int]) -> Iterator[tuple[str, Tensor]]:
    """Tensors by dotted name, in the order of the file; what is neither tensor nor container is passed over."""
    if next(budget, None) is None:
        raise problem(path, f"holds more than {MOST_NODES} dicts, lists and tensors", SAVE_TENSORS)
    if isinstance(node, Tensor):
        yield name, node
    items = enumerate(node) if isinstance(node, list | tuple) else node.items() if isinstance(node, dict) else ()
    for key, child in items:
        yield from _flat(path, child, f"{name}.{key}" if name else str(key), budget)


def _tensor(path: Path, name: str | None, tensor: Tensor) -> Entry:
    """A mapped tensor as an entry of the file."""
    dtype = tensor.dtype
    dense = tensor.layout == torch.strided and not (tensor.is_meta or tensor.is_nested or tensor.is_quantized)

    def read() -> Tensor:
        if not dense or dtype.is_complex or (dtype.is_floating_point and dtype.itemsize < 2):
            numbers = str(dtype).removeprefix("torch.")
            holder = "" if name is None else f"its tensor {show(name)} "
            what = f"entries of type {numbers}" if dense else f"a tensor that is not dense ({numbers})"
            raise problem(path, f"{holder}holds {what}; expected real numbers", "save it dense, as float32")
        if tensor.untyped_storage().nbytes() > path.stat().st_size:  # a pickle may ask torch for memory of any size
            raise broken(path, "its header describes more numbers than the file holds")
        return tensor.detach().as_subclass(Tensor).resolve_neg().clone(memory_format=torch.contiguous_format)

    # A broadcast tensor is small in the file and large once copied: its own size counts, not that of its storage.
    return Entry(tensor.numel() * tensor.element_size() if dense else 0, read)


def _csv(path: Path) -> Entries:
    """One matrix row a line, separated by commas, semicolons, tabs or spaces; `#` begins a comment; no header line."""
    return {None: Entry(CSV_MEMORY * path.stat().st_size, partial(_matrix, path))}


def _matrix(path: Path) -> Tensor:
    """The rows and columns: int64 where every number is whole, else float64; always two axes."""
    line = 0  # NumPy takes one at a time: the last is the one that it refuses

    def rows(file: IO[str]) -> Iterator[str]:
        nonlocal line
        for text in file:
            line += 1
            if row := text.partition("#")[0].strip(" \r\n"):
                yield row

    try:
        with io.TextIOWrapper(open_file(path), encoding="utf-8-sig") as file:
            others = rows(file)
            first = next(others, "")
            separator = next((mark for mark in SEPARATORS if mark in first), None)
            matrix = np.loadtxt(chain([first], others), delimiter=separator, comments=None, quotechar='"', ndmin=2)
    except UnicodeDecodeError as error:
        raise problem(path, "not text in UTF-8", "save it as UTF-8") from error
    except ValueError as error:
        reason = shortened(printable(str(error).partition(" at row")[0]))
        what = f"line {line} is no row of numbers ({reason})"
        raise problem(path, what, "expected one matrix row per line; header lines begin with #") from error
    if not matrix.size:
        raise problem(path, "holds no numbers", "write one matrix row per line")
    is_whole = bool((np.abs(matrix) < 2**53).all() and (matrix == np.floor(matrix)).all())
    return torch.from_numpy(matrix.astype(np.int64) if is_whole else matrix)


FORMATS: dict[str, Callable[[Path], Entries]] = {
    ".npy": _npy, ".npz": _npz, ".safetensors": _safetensors, ".pt": _pt, ".pth": _pt, ".csv": _csv,
}  # fmt: skip
