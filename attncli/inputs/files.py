"""Read tensors of numbers from .npy, .npz, .safetensors, .pt and .csv files.

Headers are checked first, so an unsuitable file is refused before memory is allocated. Code in a file is never run.
"""

import io
import math
import pickle
import re
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeAlias
from zipfile import ZIP_STORED, ZipFile, ZipInfo

import numpy as np
import torch
from numpy.lib import format as npy_format
from safetensors import safe_open
from torch import Tensor

from attncli.config.opening import UnfitFileError, check_regular, open_file
from attncli.errors import InputError, did_you_mean, got, in_bytes, listed, printable, refusal, shortened, show
from attncli.inputs.device import too_large

MOST_NEIGHBOURS = 2000  # names in the same folder that are compared with a mistyped one
MOST_AXES = 64  # torch cannot compute with more
LONGEST_HEADER = 4096  # bytes of a .npy header; 64 axes of 20 digits each need 1400
LONGEST_TENSOR_NAME = 500  # characters; names in large models have about 100
CSV_MEMORY = 20  # bytes per byte of text, at most: "1," is a number of 8 bytes, in a buffer that grows by copies
SEPARATORS = ";,\t"  # of a CSV, by priority: the first that occurs in the first row, else spaces
NUMBERS = "biuf"  # numpy.dtype.kind of numbers
CODE = "which are not loaded, as they may run code"
SAVE_TENSORS = "save tensors alone, for instance model.state_dict(), with torch.save or as .safetensors"


class Entry(NamedTuple):
    """A tensor in a file that is not read yet: its size in bytes, and a function that reads it into new memory."""

    size: int
    read: Callable[[], Tensor]


Entries: TypeAlias = Mapping[str | None, Entry]  # by name; the name is None in formats without names


def read_tensor(path: Path, name: str | None = None) -> Tensor:
    """Return one tensor of a file as a contiguous copy on the CPU.

    `name` selects a tensor of .npz, .safetensors and .pt files; it may be None if there is only one. The dtype
    of the file is kept, except that long double becomes float64. A CSV file gives (rows, columns), int64 if every
    number is whole, else float64.

    Raises:
        InputError: with the path `file` if the file is missing, broken, too large, of an unknown format or not all
            numbers; with the path `tensor` if `name` is missing or unknown, or given for a tensor without a name.
    """
    return TensorFile.opened(path).read(name)


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Return all tensors of a file by name, each as `read_tensor` returns it.

    A tensor without a name gets the file's stem as its name. Tensors in dicts and lists of a .pt have dotted names
    (`state_dict.W.weight`). Arrays of an .npz that hold no real numbers do not count.

    Raises:
        InputError: with the path `file`, as in `read_tensor`.
    """
    file = TensorFile.opened(path)
    return {name or path.stem: tensor for name, tensor in file.read_all(file.entries).items()}


@dataclass(frozen=True)
class TensorFile:
    """A tensor file with a checked header. Tensors are read when requested."""

    path: Path
    entries: Entries

    @classmethod
    def opened(cls, path: Path) -> "TensorFile":
        """Read and check the header of a file.

        Raises:
            InputError: with the path `file`, as in `read_tensor`.
        """
        with _reading(path):
            try:
                check_regular(path)
            except (FileNotFoundError, NotADirectoryError):
                raise _missing(path) from None
            if path.suffix.lower() not in FORMATS:
                raise problem(path, f"expected a file ending in {', '.join(FORMATS)}")
            entries = FORMATS[path.suffix.lower()](path)
        if not entries:
            raise problem(path, "holds no tensors of real numbers; expected at least one")
        if any(name and len(name) > LONGEST_TENSOR_NAME for name in entries):
            raise problem(
                path, f"holds a tensor with a name of more than {LONGEST_TENSOR_NAME} characters", "rename it"
            )
        return cls(path, entries)

    def __contains__(self, name: str) -> bool:
        return name in self.entries

    def read(self, name: str | None = None) -> Tensor:
        """Return one tensor as `read_tensor` does.

        Raises:
            InputError: as in `read_tensor`.
        """
        if name is None and len(self.entries) == 1:
            (name,) = self.entries
        if name not in self.entries:
            known = [entry for entry in self.entries if entry is not None]
            if name is None:
                message, cure = f"holds {len(known)} tensors ({listed(known)})", "give tensor: NAME"
            elif not known:
                message, cure = "holds one tensor without a name", "leave tensor out"
            else:
                message, cure = "holds no tensor of real numbers with this name", did_you_mean(name, known)
            raise InputError.of(got(name, f"{show(self.path.name)} {message}", cure), ["tensor"])
        return self.read_all([name])[name]

    def read_all(self, names: Collection[str | None]) -> Mapping[str | None, Tensor]:
        """Return the tensors with these names. Raise InputError if together they do not fit in memory."""
        if reason := too_large(sum(self.entries[name].size for name in names), torch.device("cpu")):
            raise problem(self.path, reason, "save only what is needed")
        with _reading(self.path):
            tensors = {name: self.entries[name].read() for name in names}
        if (most := max(tensor.ndim for tensor in tensors.values())) > MOST_AXES:
            limit = f"expected {MOST_AXES} at most, with which torch can compute"
            raise problem(self.path, f"holds a tensor of {most} axes; {limit}")
        return tensors


def _missing(path: Path) -> InputError:
    if path.is_symlink():
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
    """Turn every exception of the system or a library in the `with` block into an InputError about the file."""
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    except InputError:
        raise
    except MemoryError as error:
        raise problem(path, "needs more memory than is available", "save only what is needed") from error
    except UnfitFileError as error:
        raise problem(path, error.kind, "expected a file") from error
    except OSError as error:
        raise problem(path, f"cannot be read ({refusal(error)})") from error
    except Exception as error:  # parsers document no errors for broken bytes (zlib.error, TokenError, ...)
        line = re.sub(r" at 0x[0-9a-f]+", "", str(error)).partition("\n")[0]
        raise broken(path, shortened(printable(f"{type(error).__name__}: {line}".rstrip(": ")))) from error


def problem(path: Path, message: str, cure: str = "") -> InputError:
    """Return an InputError about a file, with the path `file`."""
    return InputError.of(got(path.name or str(path), message, cure), ["file"])


def broken(path: Path, reason: str) -> InputError:
    """Return the InputError for a file that is damaged or not of the format that its ending claims."""
    return problem(path, f"damaged, or not a {path.suffix.lower()} file ({reason})", "create or copy it again")


def _named(path: Path, entries: list[tuple[str | None, Entry]]) -> Entries:
    named = dict(entries)
    if len(named) < len(entries):
        twice = next(name for name, count in Counter(name for name, _ in entries).items() if count > 1)
        raise problem(path, f"holds two tensors of the name {show(twice)}", "rename one of them")
    return named


def _npy(path: Path) -> Entries:
    dtype, entry = _array(path, path.stat().st_size, lambda: open_file(path))
    _refuse_raw_bytes(path, "", dtype)
    if dtype.kind not in NUMBERS:
        content = f"Python objects, {CODE}" if dtype.kind == "O" else f"entries of type {dtype.name}"
        raise problem(path, f"holds {content}; expected real numbers", "save an array of numbers")
    return {None: entry}


def _npz(path: Path) -> Entries:
    with open_file(path) as file, ZipFile(file) as archive:
        members = [member for member in archive.infolist() if member.filename.endswith(".npy")]
    arrays = [(info.filename[:-4], *_array(path, info.file_size, partial(_member, path, info))) for info in members]
    for name, dtype, _ in arrays:
        _refuse_raw_bytes(path, f"its array {show(name)} ", dtype)
    return _named(path, [(name, entry) for name, dtype, entry in arrays if dtype.kind in NUMBERS])


def _refuse_raw_bytes(path: Path, holder: str, dtype: np.dtype[Any]) -> None:
    """Raise InputError for the bytes that NumPy makes of bfloat16 and float8, for which it has no name."""
    if dtype.kind == "V" and dtype.fields is None and dtype.itemsize <= 2:
        content = f"{holder}holds raw bytes, {dtype.str}, as NumPy stores bfloat16 or float8; expected real numbers"
        raise problem(path, content, "save it as float32, or in a .safetensors file")


@contextmanager
def _member(path: Path, member: ZipInfo) -> Iterator[IO[bytes]]:
    with open_file(path) as file, ZipFile(file) as archive, archive.open(member) as stream:
        yield stream


def _array(
    path: Path, length: int, opened: Callable[[], AbstractContextManager[IO[bytes]]]
) -> tuple[np.dtype[Any], Entry]:
    """Return the dtype and the Entry of an array in the .npy format. `opened` opens a stream of `length` bytes."""
    with opened() as stream:
        head = io.BytesIO(stream.read(LONGEST_HEADER))
    is_first = npy_format.read_magic(head) == (1, 0)
    read_header = npy_format.read_array_header_1_0 if is_first else npy_format.read_array_header_2_0
    shape, _, dtype = read_header(head, max_header_size=LONGEST_HEADER)
    declared, there = math.prod(shape) * dtype.itemsize, length - head.tell()  # Python's integers have no limit
    if declared != there and dtype.kind in NUMBERS:
        raise broken(path, f"its header declares {in_bytes(declared)} of numbers, {in_bytes(there)} are there")

    def read() -> Tensor:
        with opened() as stream:
            return torch.from_numpy(_native(np.load(stream, allow_pickle=False)))

    return dtype, Entry(declared, read)


def _native(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the array in native byte order and C order, in a dtype that torch has."""
    if array.dtype == np.bool_:  # bytes other than 0 and 1 become True
        return np.asarray(array.view(np.uint8) != 0, order="C")
    wide = array.dtype.kind == "f" and array.dtype.itemsize > 8  # long double
    return np.asarray(array, dtype=np.dtype(np.float64) if wide else array.dtype.newbyteorder("="), order="C")


def _safetensors(path: Path) -> Entries:
    """Return the tensors of a .safetensors file, memory-mapped but not read. The library safetensors checks sizes."""
    with safe_open(path, framework="pt") as file:
        return {name: _tensor(path, name, file.get_tensor(name)) for name in file.keys()}  # noqa: SIM118  not a dict


def _pt(path: Path) -> Entries:
    """Return the tensors of a .pt file, memory-mapped but not read, by dotted names such as `state_dict.W.weight`."""
    with open_file(path) as file, ZipFile(file) as archive:
        if any(member.compress_type != ZIP_STORED for member in archive.infolist()):  # torch unpacks any amount
            raise problem(path, "a PyTorch file that was packed again", "save it again with torch.save")
        is_saved = any(name.endswith("data.pkl") for name in archive.namelist())
    if not is_saved:
        raise problem(path, "a zip archive that torch.save did not write", SAVE_TENSORS)
    try:
        loaded = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except pickle.UnpicklingError as error:
        if names := torch.serialization.get_unsafe_globals_in_checkpoint(path):
            raise problem(path, f"holds Python objects ({listed(names)}), {CODE}", SAVE_TENSORS) from error
        raise broken(path, "its pickle cannot be read") from error
    tensors = _flat(loaded, "", set())
    return _named(path, [(name or None, _tensor(path, name, tensor)) for name, tensor in tensors])


def _flat(node: object, name: str, seen: set[int]) -> Iterator[tuple[str, Tensor]]:
    """Yield (dotted name, tensor) for each tensor in `node`, which has the given name, and in containers inside it.

    Each list, tuple and dict is visited only once.
    """
    if isinstance(node, Tensor):
        yield name, node
    elif isinstance(node, list | tuple | dict) and id(node) not in seen:
        seen.add(id(node))
        for key, child in node.items() if isinstance(node, dict) else enumerate(node):
            yield from _flat(child, f"{name}.{key}" if name else str(key), seen)


def _tensor(path: Path, name: str, tensor: Tensor) -> Entry:
    """Return the Entry of a memory-mapped tensor; `read` raises an InputError unless the tensor is dense and real."""
    dtype = tensor.dtype
    dense = tensor.layout == torch.strided and not (tensor.is_meta or tensor.is_nested or tensor.is_quantized)

    def read() -> Tensor:
        if not dense or dtype.is_complex or (dtype.is_floating_point and dtype.itemsize < 2):
            numbers = str(dtype).removeprefix("torch.")
            holder = f"its tensor {show(name)} " if name else ""
            content = f"entries of type {numbers}" if dense else f"a tensor that is not dense ({numbers})"
            raise problem(path, f"{holder}holds {content}; expected real numbers", "save it dense, as float32")
        if tensor.untyped_storage().nbytes() > path.stat().st_size:  # a pickle may ask torch for memory of any size
            raise broken(path, "its header describes more numbers than the file holds")
        return tensor.detach().as_subclass(Tensor).resolve_neg().clone(memory_format=torch.contiguous_format)

    # A broadcast tensor is small in the file and large once copied, so its storage does not count.
    return Entry(tensor.numel() * tensor.element_size() if dense else 0, read)


def _csv(path: Path) -> Entries:
    """Return the matrix of a CSV file: a row per line, separated by `,`, `;`, tabs or spaces; `#` begins a comment."""
    return {None: Entry(CSV_MEMORY * path.stat().st_size, partial(_matrix, path))}


def _matrix(path: Path) -> Tensor:
    line = 0  # the line where NumPy stops if a line is wrong

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
        message = f"line {line} is no row of numbers ({reason})"
        raise problem(path, message, "expected one matrix row per line; header lines begin with #") from error
    if not matrix.size:
        raise problem(path, "holds no numbers", "write one matrix row per line")
    is_whole = bool((np.abs(matrix) < 2**53).all() and (matrix == np.floor(matrix)).all())
    return torch.from_numpy(matrix.astype(np.int64) if is_whole else matrix)


FORMATS: dict[str, Callable[[Path], Entries]] = {
    ".npy": _npy, ".npz": _npz, ".safetensors": _safetensors, ".pt": _pt, ".pth": _pt, ".csv": _csv,
}  # fmt: skip
