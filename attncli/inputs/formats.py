"""The formats of tensor files: what a file holds, known from its headers. Nothing in a file is ever run."""

import csv
import io
import math
import pickle
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, NamedTuple, TextIO, TypeAlias
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
CSV_MEMORY = 8  # bytes for one byte of text, at most: "1,1,1" takes two a number, eight in memory, some more to convert
SEPARATORS = ";,\t"  # of a CSV: the first of them that the first row has; spaces where it has none
NEVER = "which are never loaded since they may run code"
SAVE_TENSORS = "save tensors alone, for instance model.state_dict(), with torch.save or as .safetensors"
DTYPES = {
    *(torch.bool, torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.int8, torch.int16, torch.int32),
    *(torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64),
}
WEB_PAGE = "a web page (HTML); download the file itself"
LOOKS = {  # how files begin that are often found under a wrong name
    b"\x93NUMPY": "a NumPy array; rename it to end in .npy",
    b"PK\x03\x04": "a zip archive; rename it to end in .npz (NumPy) or .pt (PyTorch)",
    b"version https://git-lfs": "a Git LFS pointer and not the data; fetch the data: git lfs pull",
    b"<!DOCTYPE": WEB_PAGE,
    b"<html": WEB_PAGE,
    **dict.fromkeys(
        (b"\x80\x02", b"\x80\x04"),
        "a Python pickle, which is never loaded since it may run code; save it as .npy or .safetensors",
    ),
    b"\xff\xfe": "UTF-16 text; save it as UTF-8",
}


class Entry(NamedTuple):
    """One thing in a file, not read yet.

    `size` is the bytes that reading takes. `read` gives a tensor that shares nothing with the file, or raises an
    InputError. Text, objects and dates are not `is_numeric`: they are passed over unless asked for by name.
    """

    size: int
    read: Callable[[], Tensor]
    is_numeric: bool = True


Entries: TypeAlias = Mapping[str | None, Entry]  # by name; None where the file is one tensor without a name


class Format(NamedTuple):
    """What is in a file of this format, and whether a file that begins with these bytes may be one."""

    entries: Callable[[Path], Entries]
    begins: Callable[[bytes], bool] = lambda head: head.startswith(b"PK")


def problem(path: Path, what: str, cure: str = "") -> InputError:
    """Something is wrong with the file."""
    return InputError.of(got(path.name or str(path), what, cure), ["file"])


def broken(path: Path, reason: str) -> InputError:
    """The file is of the right kind, but its bytes make no sense."""
    return problem(path, f"damaged or cut short ({reason})", "make it or copy it again")


def unusable(path: Path, name: str | None, what: str, cure: str) -> InputError:
    """The file is fine, but what it holds (or its tensor of this name) is no plain tensor of numbers."""
    holder = "" if name is None else f"its tensor {printable(show(name))} "
    return problem(path, f"{holder}holds {what}; expected real numbers", cure)


def printable(text: str) -> str:
    """Text out of a file, not too long, with its control characters spelt out: a terminal would obey them."""
    text = text if text.isprintable() else ascii(text)[1:-1]
    return text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 1] + "…"


def look_of(head: bytes) -> str | None:
    """What a file looks like that begins so, and what to do about it; None where nobody can tell."""
    head = head.lstrip().lower()
    return next((words for start, words in LOOKS.items() if head.startswith(start.lower())), None)


def _npy(path: Path) -> Entries:
    return {None: _array(path, None, path.stat().st_size, lambda: path.open("rb"))}


def _npz(path: Path) -> Entries:
    """The arrays of an .npz by name; other members are passed over."""
    with ZipFile(path) as archive:
        members = [member for member in archive.infolist() if member.filename.endswith(".npy")]
    return {member.filename[:-4]: _member(path, member) for member in members}


def _member(path: Path, member: ZipInfo) -> Entry:
    if member.compress_type not in (ZIP_STORED, ZIP_DEFLATED):  # others may ask for gigabytes before the first byte
        raise problem(path, "packed in a way that NumPy does not use", "save it with numpy.savez_compressed")
    return _array(path, member.filename[:-4], member.file_size, lambda: ZipFile(path).open(member))


def _array(path: Path, name: str | None, length: int, opened: Callable[[], IO[bytes]]) -> Entry:
    """An array in NumPy's format, in a stream of `length` bytes; only the header is read, however long it claims to be.

    Its claims are compared in Python's integers: they may be more than 64 bits can count.
    """
    with opened() as stream:
        head = io.BytesIO(stream.read(LONGEST_HEADER))
    is_first = npy_format.read_magic(head) == (1, 0)
    read_header = npy_format.read_array_header_1_0 if is_first else npy_format.read_array_header_2_0
    shape, _, dtype = read_header(head, max_header_size=LONGEST_HEADER)
    if dtype.kind not in "biuf":

        def refuse() -> Tensor:
            what = f"Python objects, {NEVER}" if dtype.kind == "O" else f"entries of type {dtype.name}"
            raise unusable(path, name, what, "save an array of numbers")

        return Entry(0, refuse, is_numeric=dtype.kind not in "OUSTMm")
    if any(size < 0 for size in shape):
        raise broken(path, f"its header declares the shape {shape}")
    declared, there = math.prod(shape) * dtype.itemsize, length - head.tell()
    if declared != there:
        raise broken(path, f"its header declares {in_bytes(declared)} of numbers, {in_bytes(there)} are there")

    def read() -> Tensor:
        with opened() as stream:
            return torch.from_numpy(_native(np.load(stream, allow_pickle=False)))

    return Entry(declared, read)


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
        if not any(name.endswith("data.pkl") for name in archive.namelist()):
            raise problem(path, "a zip archive that torch.save did not write", SAVE_TENSORS)
        pickles = [archive.read(name) for name in archive.namelist() if name.endswith("data.pkl")]
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
    numbers = str(tensor.dtype).removeprefix("torch.")
    dense = tensor.layout == torch.strided and not (tensor.is_meta or tensor.is_nested or tensor.is_quantized)

    def read() -> Tensor:
        if not dense or tensor.dtype not in DTYPES:
            what = f"entries of type {numbers}" if dense else f"a tensor that is not dense ({numbers})"
            raise unusable(path, name, what, "save it dense, as float32")
        if tensor.untyped_storage().nbytes() > path.stat().st_size:  # a pickle may ask torch for memory of any size
            raise broken(path, "it describes more numbers than it holds")
        return tensor.detach().as_subclass(Tensor).resolve_neg().clone(memory_format=torch.contiguous_format)

    # A broadcast tensor is small in the file and large once copied: its own size counts, not that of its storage.
    return Entry(tensor.numel() * tensor.element_size() if dense else 0, read)


def _csv(path: Path) -> Entries:
    """One matrix row a line, separated by commas, semicolons, tabs or spaces; `#` begins a comment; no header line."""
    return {None: Entry(CSV_MEMORY * path.stat().st_size, lambda: _matrix(path))}


def _matrix(path: Path) -> Tensor:
    """The rows and columns: int64 where every number is whole, else float64; always two axes."""
    try:
        with path.open(encoding="utf-8-sig") as file:
            first = next(_lines(file), (0, ""))[1]
            if not first:
                raise problem(path, "holds no numbers", "write one matrix row a line")
            separator = next((mark for mark in SEPARATORS if mark in first), None)
            for dtype in (np.int64, np.float64):
                file.seek(0)
                with suppress(ValueError, DeprecationWarning), warnings.catch_warnings():
                    warnings.simplefilter("error")  # NumPy reads 1.5 as an integer, and only warns
                    rows = (line for _, line in _lines(file))
                    return torch.from_numpy(np.loadtxt(rows, dtype, delimiter=separator, quotechar='"', ndmin=2))
            file.seek(0)
            raise _no_matrix(path, file, separator)
    except UnicodeDecodeError as error:
        raise problem(path, "not text in UTF-8", "save it as UTF-8") from error


def _lines(file: TextIO) -> Iterator[tuple[int, str]]:
    """The lines that hold something besides a comment, with their numbers in the file."""
    for number, line in enumerate(file, start=1):
        text = line.partition("#")[0].strip(" \r\n")
        if text.strip():
            yield number, text


def _no_matrix(path: Path, file: TextIO, separator: str | None) -> InputError:
    """The first cell that is no number, or the first row of another length."""
    columns = first = 0
    for number, text in _lines(file):
        cells = next(csv.reader([text], delimiter=separator)) if separator else text.split()
        wrong = next((column for column, cell in enumerate(cells) if not _is_number(cell)), None)
        if wrong is not None:
            cell, place = cells[wrong].strip(), f"in line {number}, column {wrong + 1} of {show(path.name)}"
            cure = ""
            if cell.lower() in ("true", "false"):
                cure = "; write 1 for true and 0 for false"
            elif re.fullmatch(r"[+-]?\d*,\d+", cell):
                cure = "; write decimals with a point"
            elif not columns and not any(map(_is_number, cells)):
                cure = "; there is no header line: remove it, or begin it with #"
            return InputError.of(f"got {printable(show(cell or None))} {place}; expected a number{cure}", ["file"])
        if columns and len(cells) != columns:
            message = f"got {len(cells)} number{'s' * (len(cells) != 1)} in line {number} of {show(path.name)}"
            expected = f"expected {columns}, as in line {first}; one matrix row a line"
            return InputError.of(f"{message}; {expected}", ["file"])
        columns, first = columns or len(cells), first or number
    return broken(path, "no table of numbers")


def _is_number(cell: str) -> bool:
    with suppress(ValueError):
        float(cell)
        return "_" not in cell  # `1_000` is Python, and nobody's CSV
    return False


FORMATS = {
    ".npy": Format(_npy, lambda head: head.startswith(b"\x93NUMPY")),
    ".npz": Format(_npz),
    ".safetensors": Format(_safetensors, lambda head: head[8:9] == b"{"),
    ".pt": Format(_pt),
    ".pth": Format(_pt),
    ".csv": Format(_csv, lambda head: look_of(head) is None),
}
