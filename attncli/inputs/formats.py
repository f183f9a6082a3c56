"""The formats of tensor files: what a file holds, known from its headers. Nothing in a file is ever run."""

import csv
import io
import math
import pickle
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeAlias
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

import numpy as np
import torch
from numpy.lib import format as npy_format
from safetensors import safe_open
from torch import Tensor

from attncli.errors import InputError, got, in_bytes, show

LONGEST_HEADER = 4096  # bytes of a .npy header; 64 axes of 20 digits each need 1400
LONGEST_TEXT = 120  # characters of a name out of a file, or of a library's own words
MOST_NODES, DEEPEST = 100_000, 32  # dicts, lists and tensors of a .pt: a small pickle can describe a tree without end
CSV_MEMORY = 20  # bytes for one byte of text, at most: "1.,1.," takes three a number, which takes 40 and then 8 more
SEPARATORS = ";,\t"  # of a CSV: the first of them that the first row has; spaces where it has none
NUMBERS = "biuf"  # kinds of NumPy's dtypes
NEVER = "which are never loaded since they may run code"
SAVE_TENSORS = "save tensors alone, for instance model.state_dict(), with torch.save or as .safetensors"
LOOKS = {  # how files begin that are often found under a wrong name
    b"\x93NUMPY": "a NumPy array; rename it to end in .npy",
    b"PK\x03\x04": "a zip archive; rename it to end in .npz (NumPy) or .pt (PyTorch)",
    b"version https://git-lfs": "a Git LFS pointer and not the data; fetch the data: git lfs pull",
    b"<!DOCTYPE": "a web page (HTML); download the file itself",
    b"\x80": "a Python pickle, which is never loaded since it may run code; save it as .npy or .safetensors",
}


class Entry(NamedTuple):
    """A tensor in a file: the bytes that reading it takes, and what reads it into memory of its own."""

    size: int
    read: Callable[[], Tensor]


Entries: TypeAlias = Mapping[str | None, Entry]  # by name; None where the file is one tensor without a name


def problem(path: Path, what: str, cure: str = "") -> InputError:
    """Something is wrong with the file."""
    return InputError.of(got(path.name or str(path), what, cure), ["file"])


def broken(path: Path, reason: str) -> InputError:
    """The file is of the right kind, but its bytes make no sense."""
    return problem(path, f"damaged or cut short ({reason})", "make it or copy it again")


def printable(text: str) -> str:
    """Text out of a file, not too long, with its control characters spelt out: a terminal would obey them."""
    text = text if text.isprintable() else ascii(text)[1:-1]
    return text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 1] + "…"


def entries_of(path: Path, head: bytes) -> Entries:
    """The tensors of a file, which begins with these bytes; only its headers are read."""
    ending = path.suffix.lower()
    start = head.lstrip().lower()
    look = next((f"it looks like {words}" for each, words in LOOKS.items() if start.startswith(each.lower())), "")
    if ending not in FORMATS:
        raise problem(path, f"expected a file ending in {', '.join(FORMATS)}", look)
    entries, begins = FORMATS[ending]
    if not (begins(head) if begins else not look):
        raise problem(path, f"not a {ending} file" + (f": {look}" if look else ""))
    return entries(path)


def _is_zip(head: bytes) -> bool:
    return head.startswith(b"PK")


def _npy(path: Path) -> Entries:
    dtype, entry = _array(path, path.stat().st_size, lambda: path.open("rb"))
    if dtype.kind not in NUMBERS:
        what = f"Python objects, {NEVER}" if dtype.kind == "O" else f"entries of type {dtype.name}"
        raise problem(path, f"holds {what}; expected real numbers", "save an array of numbers")
    return {None: entry}


def _npz(path: Path) -> Entries:
    """The arrays of numbers in an .npz by name; everything else is passed over."""
    with ZipFile(path) as archive:
        members = [member for member in archive.infolist() if member.filename.endswith(".npy")]
    if any(member.compress_type not in (ZIP_STORED, ZIP_DEFLATED) for member in members):
        # Others may ask for gigabytes before the first byte.
        raise problem(path, "packed in a way that NumPy does not use", "save it with numpy.savez_compressed")
    arrays = {
        member.filename[:-4]: _array(path, member.file_size, partial(_member, path, member)) for member in members
    }
    return {name: entry for name, (dtype, entry) in arrays.items() if dtype.kind in NUMBERS}


@contextmanager
def _member(path: Path, member: ZipInfo) -> Iterator[IO[bytes]]:
    with ZipFile(path) as archive, archive.open(member) as stream:
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
    with ZipFile(path) as archive:
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
        raise (_objects(path, names) if names else broken(path, "its pickle makes no sense")) from error
    if isinstance(loaded, Tensor):
        return {None: _tensor(path, None, loaded)}
    return {name: _tensor(path, name, tensor) for name, tensor in _flat(path, loaded)}


def _objects(path: Path, names: list[str]) -> InputError:
    return problem(path, f"holds Python objects ({printable(', '.join(names))}), {NEVER}", SAVE_TENSORS)


def _flat(path: Path, loaded: object) -> Iterator[tuple[str, Tensor]]:
    """Tensors by dotted name, in the order of the file; what is neither tensor nor container is passed over."""
    waiting: list[tuple[tuple[str, ...], object]] = [((), loaded)]
    for _ in range(MOST_NODES):
        if not waiting:
            return
        keys, node = waiting.pop()
        if isinstance(node, Tensor):
            yield ".".join(keys), node
        if len(keys) > DEEPEST:
            break
        items = enumerate(node) if isinstance(node, list | tuple) else node.items() if isinstance(node, dict) else ()
        waiting += reversed([((*keys, str(key)), child) for key, child in items])
    raise problem(path, "holds a tree of containers that is too deep or too large", SAVE_TENSORS)


def _tensor(path: Path, name: str | None, tensor: Tensor) -> Entry:
    """A mapped tensor as an entry of the file."""
    dtype = tensor.dtype
    dense = tensor.layout == torch.strided and not (tensor.is_meta or tensor.is_nested or tensor.is_quantized)

    def read() -> Tensor:
        if not dense or dtype.is_complex or (dtype.is_floating_point and dtype.itemsize < 2):
            numbers = str(dtype).removeprefix("torch.")
            holder = "" if name is None else f"its tensor {printable(show(name))} "
            what = f"entries of type {numbers}" if dense else f"a tensor that is not dense ({numbers})"
            raise problem(path, f"{holder}holds {what}; expected real numbers", "save it dense, as float32")
        if tensor.untyped_storage().nbytes() > path.stat().st_size:  # a pickle may ask torch for memory of any size
            raise broken(path, "it describes more numbers than it holds")
        return tensor.detach().as_subclass(Tensor).resolve_neg().clone(memory_format=torch.contiguous_format)

    # A broadcast tensor is small in the file and large once copied: its own size counts, not that of its storage.
    return Entry(tensor.numel() * tensor.element_size() if dense else 0, read)


def _csv(path: Path) -> Entries:
    """One matrix row a line, separated by commas, semicolons, tabs or spaces; `#` begins a comment; no header line."""
    return {None: Entry(CSV_MEMORY * path.stat().st_size, partial(_matrix, path))}


def _matrix(path: Path) -> Tensor:
    """The rows and columns: int64 where every number is whole, else float64; always two axes."""
    rows: list[list[float]] = []
    separator, first = None, 0
    try:
        with path.open(encoding="utf-8-sig") as file:
            for number, line in enumerate(file, start=1):
                text = line.partition("#")[0].strip(" \r\n")
                if not text.strip():
                    continue
                if not rows:
                    separator, first = next((mark for mark in SEPARATORS if mark in text), None), number
                cells = next(csv.reader([text], delimiter=separator)) if separator else text.split()
                rows.append(_row(cells, number, path, is_first=not rows))
                if len(cells) != len(rows[0]):
                    message = f"got {len(cells)} number{'s' * (len(cells) != 1)} in line {number} of {show(path.name)}"
                    expected = f"expected {len(rows[0])}, as in line {first}; one matrix row a line"
                    raise InputError.of(f"{message}; {expected}", ["file"])
    except UnicodeDecodeError as error:
        raise problem(path, "not text in UTF-8", "save it as UTF-8") from error
    if not rows:
        raise problem(path, "holds no numbers", "write one matrix row a line")
    whole = all(isinstance(number, int) and -(2**63) <= number < 2**63 for row in rows for number in row)
    return torch.tensor(rows, dtype=torch.int64 if whole else torch.float64)


def _row(cells: list[str], line: int, path: Path, *, is_first: bool) -> list[float]:
    numbers = [_number(cell) for cell in cells]
    row = [number for number in numbers if number is not None]
    if len(row) < len(cells):
        column = numbers.index(None)
        cell = printable(show(cells[column].strip() or None))
        cure = "; a header line begins with #" if is_first and not row else ""
        place = f"in line {line}, column {column + 1} of {show(path.name)}"
        raise InputError.of(f"got {cell} {place}; expected a number{cure}", ["file"])
    return row


def _number(cell: str) -> float | None:
    for kind in (int, float):
        with suppress(ValueError):
            return None if "_" in cell else kind(cell)  # `1_000` is Python, and nobody's CSV
    return None


FORMATS: dict[str, tuple[Callable[[Path], Entries], Callable[[bytes], bool] | None]] = {
    ".npy": (_npy, lambda head: head.startswith(b"\x93NUMPY")),
    ".npz": (_npz, _is_zip),
    ".safetensors": (_safetensors, lambda head: head[8:9] == b"{"),
    ".pt": (_pt, _is_zip),
    ".pth": (_pt, _is_zip),
    ".csv": (_csv, None),
}
