"""NumPy's .npy: one array, and the stream format of every member of an .npz."""

import io
import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from numpy.lib import format as npy_format
from torch import Tensor

from attncli.inputs.formats.contents import Contents, Entry, bare
from attncli.inputs.formats.problems import broken, parsing, unusable
from attncli.inputs.formats.tensors import SAVE_PARTS
from attncli.units import in_bytes

LONGEST_HEADER = 4096  # bytes; 64 axes of 20 digits each need 1400
SAVE_NUMBERS = "save an array of numbers"
SAVE_BFLOAT16 = "if it is bfloat16, which NumPy does not know, save it as .safetensors or .pt"
UNUSABLE = {  # by dtype.kind
    "c": ("complex numbers", SAVE_PARTS),
    "O": ("Python objects, which are never loaded since they may run code", SAVE_NUMBERS),
    "U": ("text", SAVE_NUMBERS),
    "S": ("text", SAVE_NUMBERS),
    "T": ("text", SAVE_NUMBERS),
    "M": ("dates", SAVE_NUMBERS),
    "m": ("spans of time", SAVE_NUMBERS),
    "V": ("raw bytes", SAVE_BFLOAT16),
}
USABLE = "biuf"  # booleans, whole numbers, floats
NO_TENSORS = "OUSTMm"


@dataclass(frozen=True)
class Header:
    """What stands before the numbers."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    length: int  # bytes of the header itself

    @property
    def size(self) -> int:
        """Bytes of the numbers, by Python's integers: a header may claim more than 64 bits can count."""
        return math.prod(self.shape) * self.dtype.itemsize


def contents(path: Path) -> Contents:
    """The one array of a .npy."""
    with path.open("rb") as stream:
        header = read_header(path, stream)
    return bare(path, entry(path, None, header, path.stat().st_size, lambda: path.open("rb")))


def read_header(path: Path, stream: IO[bytes]) -> Header:
    """Shape and dtype, from the first bytes of the stream alone, however long the header claims to be."""
    head = io.BytesIO(stream.read(LONGEST_HEADER))
    with parsing(path):
        version = npy_format.read_magic(head)
        read = npy_format.read_array_header_1_0 if version == (1, 0) else npy_format.read_array_header_2_0
        shape, _, dtype = read(head, max_header_size=LONGEST_HEADER)
    if any(size < 0 for size in shape):
        raise broken(path, f"its header declares the shape {shape}")
    return Header(shape, dtype, head.tell())


Opener = Callable[[], AbstractContextManager[IO[bytes]]]


def entry(path: Path, name: str | None, header: Header, length: int, opened: Opener) -> Entry:
    """An array as an entry of the file; `length` is that of its stream in bytes, `opened` opens it."""

    def read() -> Tensor:
        with parsing(path), opened() as stream:
            array = npy_format.read_array(stream, allow_pickle=False, max_header_size=LONGEST_HEADER)
            return torch.from_numpy(native(array))

    def refuse() -> Tensor:
        raise unusable(path, name, what, header.dtype.str if kind == "V" else str(header.dtype), cure)

    kind = header.dtype.kind
    if kind not in USABLE:
        what, cure = ("records", "save each field alone") if header.dtype.names else UNUSABLE[kind]
        return Entry(refuse, numeric=kind not in NO_TENSORS)
    if header.size != length - header.length:
        figures = (
            f"its header declares {in_bytes(header.size)} of numbers, {in_bytes(length - header.length)} are there"
        )
        raise broken(path, figures)
    return Entry(read, header.size)


def native(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The array in this machine's byte order, row after row, in a dtype that torch has."""
    if array.dtype == np.bool_:  # a byte other than 0 and 1 would be neither true nor false
        return np.asarray(array.view(np.uint8) != 0, order="C")
    wide = array.dtype.kind == "f" and array.dtype.itemsize > 8  # long double
    dtype = np.dtype(np.float64) if wide else array.dtype.newbyteorder("=")
    return np.asarray(array, dtype=dtype, order="C")
