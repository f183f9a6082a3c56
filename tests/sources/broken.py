"""Damaged and wrong tensor files, written byte by byte if no library would write them."""

import io
import json
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from attncli.core.files import read_tensor, read_tensors
from attncli.errors import InputError

AGAIN = "create or copy it again"


def refusal(path: Path) -> str:
    """Return the message of the error, which is the same for both readers."""
    with pytest.raises(InputError) as caught:
        read_tensor(path)
    with pytest.raises(InputError) as again:
        read_tensors(path)
    assert str(again.value) == str(caught.value)
    assert [problem.path for problem in caught.value.problems] == [("file",)]
    return caught.value.problems[0].message


def short(value: str | bytes) -> str:
    """Return a short text for the name of a test."""
    return value[:40] if isinstance(value, str) else f"{len(value)} bytes"


def npy(descr: Any, shape: Any, data: bytes = b"", version: int = 1) -> bytes:
    """Return a .npy file with any content of the header, right or wrong."""
    header = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return npy_with(header, data, version)


def npy_with(header: bytes, data: bytes = b"", version: int = 1) -> bytes:
    """Return a .npy file with this header."""
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", len(header)) + header + data


def zipped(members: dict[str, bytes] | list[tuple[str, bytes]], packing: int = zipfile.ZIP_STORED) -> bytes:
    """Return a zip archive."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", packing) as archive:
        for name, content in members.items() if isinstance(members, dict) else members:
            archive.writestr(name, content)
    return stream.getvalue()


def safetensors(header: Any, data: bytes = b"") -> bytes:
    """Return a .safetensors file with any header, right or wrong."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def pt(content: Any) -> bytes:
    """Return the content as torch.save writes it."""
    stream = io.BytesIO()
    torch.save(content, stream)
    return stream.getvalue()


def array(content: Any) -> bytes:
    """Return the content as numpy.save writes it."""
    stream = io.BytesIO()
    np.save(stream, content)
    return stream.getvalue()


def objects() -> bytes:
    """Return an array of Python objects as numpy.save writes it."""
    stream = io.BytesIO()
    np.save(stream, np.array([{}], dtype=object), allow_pickle=True)
    return stream.getvalue()


def pickled(instructions: bytes, data: bytes = bytes(16)) -> bytes:
    """Return a .pt file with this pickle and one storage of 16 bytes."""
    members = {"a/data.pkl": b"\x80\x02" + instructions + b".", "a/byteorder": b"little", "a/data/0": data}
    return zipped(members | {"a/version": b"3\n"})


def call(module: str, name: str, *arguments: bytes) -> bytes:
    """Return pickle instructions that call a function."""
    return f"c{module}\n{name}\n".encode() + tuple_of(*arguments) + b"R"


def tuple_of(*items: bytes) -> bytes:
    return b"(" + b"".join(items) + b"t"


def integer(number: int) -> bytes:
    return b"\x8a\x08" + struct.pack("<q", number)


def text(words: str) -> bytes:
    return b"X" + struct.pack("<I", len(words.encode())) + words.encode()


def tensor(numel: int, size: tuple[int, ...], stride: tuple[int, ...]) -> bytes:
    """Return pickle instructions that make a float32 tensor of the storage, whatever its content."""
    storage = tuple_of(text("storage"), b"ctorch\nFloatStorage\n", text("0"), text("cpu"), integer(numel)) + b"Q"
    shape, steps = tuple_of(*map(integer, size)), tuple_of(*map(integer, stride))
    hooks = call("collections", "OrderedDict")
    return call("torch._utils", "_rebuild_tensor_v2", storage, integer(0), shape, steps, b"\x89", hooks)


FLOATS = np.arange(6, dtype=np.float32).reshape(2, 3)
NPY = array(FLOATS)
NPZ = zipped({"q.npy": NPY})
PT = pt({"q": torch.from_numpy(FLOATS)})
SAFE = safetensors({"q": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}}, FLOATS.tobytes())
LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 3\n"
