"""Read tensors of numbers from .npy, .npz, .safetensors, .pt and .csv files. Code in a file is never run."""

import io
import pickle
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias
from zipfile import ZIP_STORED, ZipFile

import numpy as np
import torch
from safetensors import safe_open
from torch import Tensor

from attncli.core.device import too_large
from attncli.core.opening import UnfitFileError, check_regular, open_file
from attncli.errors import InputError, did_you_mean, got, listed, printable, refusal, shortened, show

MOST_NEIGHBOURS = 2000  # names in the same folder that are compared with a mistyped one
CSV_MEMORY = 60  # bytes for a byte of text, at most: "1," is a number of 8 bytes beside its text
SEPARATORS = ";,\t"  # of a CSV, by priority: the first that occurs in the first row, else spaces
NUMBERS = "biuf"  # numpy.dtype.kind of numbers
SAVE_LESS = "save only what is needed"

Array: TypeAlias = np.ndarray[Any, Any]
Entries: TypeAlias = Mapping[str | None, Tensor | Array]  # by name; the name is None in formats without names


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
    return {name or path.stem: file.read(name) for name in file.entries}


@dataclass(frozen=True)
class TensorFile:
    """A tensor file. Its tensors are mapped into memory where the format lets them, and copied on request."""

    path: Path
    entries: Entries

    @classmethod
    def opened(cls, path: Path) -> "TensorFile":
        """Open a file.

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
            names = [entry for entry in self.entries if entry is not None]
            if name is None:
                message, cure = f"holds {len(names)} tensors ({listed(names)})", "give tensor: NAME"
            elif not names:
                message, cure = "holds one tensor without a name", "leave tensor out"
            else:
                message, cure = "holds no tensor of real numbers with this name", did_you_mean(name, names)
            raise InputError.of(got(name, f"{show(self.path.name)} {message}", cure), ["tensor"])
        stored = self.entries[name]
        with _reading(self.path):
            return (
                _from_torch(self.path, name, stored) if isinstance(stored, Tensor) else _from_numpy(self.path, stored)
            )


def _missing(path: Path) -> InputError:
    if path.is_symlink():
        return problem(path, "a link to a file that is not there", "expected a file")
    folder = path.parent.absolute()
    relative = folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder
    if not folder.is_dir():
        return problem(path, f"no such folder: {relative}")
    names = {other.stem: other.name for other in islice(folder.iterdir(), MOST_NEIGHBOURS)}  # endings are alike
    near = get_close_matches(path.stem, names, n=1)
    where = "" if relative == Path() else f" in {relative}"
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
        raise problem(path, "needs more memory than is available", SAVE_LESS) from error
    except UnfitFileError as error:
        raise problem(path, error.kind, "expected a file") from error
    except OSError as error:
        raise problem(path, f"cannot be read ({refusal(error)})") from error
    except Exception as error:  # libraries document no errors for broken bytes (zlib.error, TokenError, ...)
        if isinstance(error, pickle.UnpicklingError) or "Python objects" in str(error):
            content = "holds Python objects, which are not loaded, as they may run code"
            raise problem(path, content, "save tensors alone, such as model.state_dict()") from error
        line = re.sub(r" at 0x[0-9a-f]+", "", str(error)).partition("\n")[0]
        raise broken(path, shortened(printable(f"{type(error).__name__}: {line}".rstrip(": ")))) from error


def problem(path: Path, message: str, cure: str = "") -> InputError:
    """Return an InputError about a file, with the path `file`."""
    return InputError.of(got(path.name or str(path), message, cure), ["file"])


def broken(path: Path, reason: str) -> InputError:
    """Return the InputError for a file that is damaged or not of the format that its ending claims."""
    return problem(path, f"damaged, or not a {path.suffix.lower()} file ({reason})", "create or copy it again")


def _check_memory(path: Path, size: int) -> None:
    """Raise InputError if the memory has no room for so many bytes."""
    if reason := too_large(size, torch.device("cpu")):
        raise problem(path, reason, SAVE_LESS)


def _npy(path: Path) -> Entries:
    array = np.load(path, mmap_mode="r", allow_pickle=False)
    if not isinstance(array, np.ndarray):
        raise broken(path, "a zip archive, such as .npz")
    if array.dtype.kind not in NUMBERS:
        raise _no_numbers(path, "", array.dtype)
    return {None: array}


def _npz(path: Path) -> Entries:
    arrays = dict[str | None, Array]()
    with open_file(path) as file, ZipFile(file) as archive:
        members = {info.filename: info for info in archive.infolist() if info.filename.endswith(".npy")}
        _check_memory(path, sum(info.file_size for info in members.values()))
        for name in members:
            with archive.open(name) as stream:
                try:
                    array = np.lib.format.read_array(stream, allow_pickle=False)
                except ValueError as error:
                    if not str(error).startswith("Object arrays"):
                        raise
                    continue  # Python objects, which do not count
            if _is_raw(array.dtype):
                raise _no_numbers(path, f"its array {show(name[:-4])} ", array.dtype)
            if array.dtype.kind in NUMBERS:
                arrays[name[:-4]] = array
    return arrays


def _is_raw(dtype: np.dtype[Any]) -> bool:
    """Whether a dtype has bytes without a meaning: NumPy makes it of bfloat16 and float8."""
    return dtype.kind == "V" and dtype.fields is None and dtype.itemsize <= 2


def _no_numbers(path: Path, holder: str, dtype: np.dtype[Any]) -> InputError:
    content, cure = f"entries of type {dtype.name}", "save an array of numbers"
    if _is_raw(dtype):
        content = f"raw bytes, {dtype.str}, as NumPy stores bfloat16 or float8"
        cure = "save it as float32, or in a .safetensors file"
    return problem(path, f"{holder}holds {content}; expected real numbers", cure)


def _from_numpy(path: Path, array: Array) -> Tensor:
    """Return a copy in native byte order and C order, in a dtype that torch has."""
    _check_memory(path, array.nbytes)
    if array.dtype == np.bool_:  # bytes other than 0 and 1 become True
        return torch.from_numpy(np.array(array.view(np.uint8) != 0, order="C"))
    is_wide = array.dtype.kind == "f" and array.dtype.itemsize > 8  # long double
    dtype = np.dtype(np.float64) if is_wide else array.dtype.newbyteorder("=")
    return torch.from_numpy(np.array(array, dtype=dtype, order="C"))


def _safetensors(path: Path) -> Entries:
    with safe_open(path, framework="pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  not a dict


def _pt(path: Path) -> Entries:
    """Return the tensors of a .pt file by dotted names such as `state_dict.W.weight`."""
    with open_file(path) as file, ZipFile(file) as archive:
        if any(member.compress_type != ZIP_STORED for member in archive.infolist()):  # mapped, they are other numbers
            raise problem(path, "a PyTorch file that was packed again", "save it again with torch.save")
    loaded = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    return {name or None: tensor for name, tensor in _flat(loaded, "", set())}


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


def _from_torch(path: Path, name: str | None, tensor: Tensor) -> Tensor:
    """Return a copy of a memory-mapped tensor; raise InputError unless it is dense and real."""
    dtype, numbers = tensor.dtype, str(tensor.dtype).removeprefix("torch.")
    is_dense = tensor.layout == torch.strided and not (tensor.is_meta or tensor.is_nested or tensor.is_quantized)
    if not is_dense or dtype.is_complex or (dtype.is_floating_point and dtype.itemsize < 2):
        holder = f"its tensor {show(name)} " if name else ""
        content = f"entries of type {numbers}" if is_dense else f"a tensor that is not dense ({numbers})"
        raise problem(path, f"{holder}holds {content}; expected real numbers", "save it dense, as float32")
    if tensor.untyped_storage().nbytes() > path.stat().st_size:  # a pickle may ask torch for memory of any size
        raise broken(path, "its header describes more numbers than the file holds")
    _check_memory(path, tensor.numel() * tensor.element_size())  # a tensor that repeats a number is small in the file
    return tensor.detach().as_subclass(Tensor).resolve_neg().clone(memory_format=torch.contiguous_format)


def _csv(path: Path) -> Entries:
    """Return the matrix of a CSV file: a row per line, separated by `,`, `;`, tabs or spaces; `#` begins a comment."""
    _check_memory(path, CSV_MEMORY * path.stat().st_size)
    try:
        with io.TextIOWrapper(open_file(path), encoding="utf-8-sig") as file:
            rows = [line for line in file if line.partition("#")[0].strip(" \r\n")]
        first = rows[0].partition("#")[0] if rows else ""
        separator = next((mark for mark in SEPARATORS if mark in first), None)
        matrix = np.loadtxt(rows, delimiter=separator, quotechar='"', ndmin=2)
    except ValueError as error:
        expected = "expected one matrix row per line, in UTF-8; header lines begin with #"
        raise problem(path, f"no matrix ({shortened(printable(str(error)))})", expected) from error
    if not matrix.size:
        raise problem(path, "holds no numbers", "write one matrix row per line")
    is_whole = bool((np.abs(matrix) < 2**53).all() and (matrix == np.floor(matrix)).all())
    return {None: matrix.astype(np.int64) if is_whole else matrix}


FORMATS: dict[str, Callable[[Path], Entries]] = {
    ".npy": _npy, ".npz": _npz, ".safetensors": _safetensors, ".pt": _pt, ".pth": _pt, ".csv": _csv,
}  # fmt: skip
