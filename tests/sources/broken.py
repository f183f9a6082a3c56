"""Damaged and wrong tensor files, written byte by byte if no library would write them."""

import io
import json
import struct
import zipfile
from typing import Any

import numpy as np
import torch


def zipped(members: dict[str, bytes], packing: int = zipfile.ZIP_STORED) -> bytes:
    """Return a zip archive."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", packing) as archive:
        for name, content in members.items():
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


def pickled(instructions: bytes) -> bytes:
    """Return a .pt file with this pickle."""
    pickle = b"\x80\x02" + instructions + b"."
    return zipped({"a/data.pkl": pickle, "a/byteorder": b"little", "a/version": b"3\n"})


def call(module: str, name: str, argument: str = "") -> bytes:
    """Return pickle instructions that call a function with a text."""
    text = b"X" + struct.pack("<I", len(argument)) + argument.encode()
    return f"c{module}\n{name}\n".encode() + b"(" + text + b"tR"


FLOATS = np.arange(6, dtype=np.float32).reshape(2, 3)
NPY = array(FLOATS)
SAFE = safetensors({"q": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}}, FLOATS.tobytes())
