"""Files that are missing, wrong, damaged or dangerous: each gives its message and does no harm."""

import random
import struct
import zipfile
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import psutil
import pytest
import torch
from torch import Tensor

from attncli.core.files import read_tensor, read_tensors
from attncli.errors import InputError
from tests.sources.broken import FLOATS, NPY, SAFE, array, call, pickled, pt, safetensors, zipped

NPZ, PT = zipped({"q.npy": NPY}), pt({"q": torch.from_numpy(FLOATS)})
CODE = (
    "holds Python objects, which are not loaded, as they may run code; save tensors alone, such as model.state_dict()"
)
DENSE = "expected real numbers; save it dense, as float32"
NOTHING = "holds no tensors of real numbers; expected at least one"
PACKED = zipped({"a/data.pkl": b"\x80\x02N."}, zipfile.ZIP_DEFLATED)
# An array of bfloat16, of the package ml_dtypes, is saved as raw bytes.
RAW = array(np.zeros((2, 3), dtype="V2"))
HOLDS_RAW = "holds raw bytes, |V2, as NumPy stores bfloat16 or float8; expected real numbers; save it as float32, or in"
FLOAT8 = safetensors({"\x1b[2Jq": {"dtype": "F8_E5M2", "shape": [1], "data_offsets": [0, 1]}}, bytes(1))
WRONG = [
    ("q.npz", PT, NOTHING),
    ("q.safetensors", safetensors({}), NOTHING),
    ("q.bin", PT, "expected a file ending in .npy, .npz, .safetensors, .pt, .pth, .csv"),
    ("q.pt", PACKED, "a PyTorch file that was packed again; save it again with torch.save"),
    ("q.safetensors", FLOAT8, f'its tensor "\\u001b[2Jq" holds entries of type float8_e5m2; {DENSE}'),
    ("q.pt", pt(torch.eye(2).to_sparse()), f"holds a tensor that is not dense (float32); {DENSE}"),
    ("q.pt", pt(torch.ones(2) * 1j), f"holds entries of type complex64; {DENSE}"),
    ("q.npy", RAW, f"{HOLDS_RAW} a .safetensors file"),
    ("q.npz", zipped({"r.npy": RAW, "q.npy": NPY}), f'its array "r" {HOLDS_RAW} a .safetensors file'),
    ("q.pt", pickled(call("os", "system", "touch harm")), CODE),
]


def refusal(path: Path) -> str:
    """Return the message of the error, which is the same for both readers."""
    with pytest.raises(InputError) as caught:
        read_tensor(path)
    with pytest.raises(InputError) as again:
        read_tensors(path)
    assert str(again.value) == str(caught.value)
    assert [problem.path for problem in caught.value.problems] == [("file",)]
    return caught.value.problems[0].message


@pytest.mark.parametrize(("name", "content", "message"), WRONG, ids=lambda value: ascii(value)[:30])
def test_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, content: bytes, message: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_bytes(content)
    assert refusal(Path(name)) == f'got "{name}"; {message}'
    assert list(tmp_path.iterdir()) == [tmp_path / name]


def npy(descr: Any, shape: Any, data: bytes = b"") -> bytes:
    """Return a .npy file with any content of the header, right or wrong."""
    header = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


DAMAGED = [
    *[("q.npy", other) for other in (SAFE, npy("<f4", (-1, -6), bytes(24)), npy("<f4", (1,) * 70, bytes(4)))],
    ("q.npz", zipped({"q.npy": npy("<f8", (1 << 62, 1 << 62), bytes(1))})),
    ("q.npz", NPZ.replace(FLOATS.tobytes(), FLOATS.tobytes()[::-1])),  # the checksum is another
    ("q.pth", pickled(b"]" * 5000 + b"a" * 4999)),
    ("q.pt", pickled(b"ctorch\nFloatTensor\n(J\x00\x00\x01\x00tR")),  # asks torch for 65,536 numbers
]


@pytest.mark.parametrize(("name", "content"), DAMAGED, ids=lambda value: ascii(value)[:30])
def test_damaged(tmp_path: Path, name: str, content: bytes) -> None:
    """The libraries' messages on damage differ between versions; ours is always one short printable line."""
    (tmp_path / name).write_bytes(content)
    message = refusal(tmp_path / name)
    assert message.startswith(f'got "{name}"; damaged, or not a {Path(name).suffix} file (')
    assert message.endswith("); create or copy it again")
    assert message.isprintable()
    assert len(message) < 220


def damage(content: bytes, draw: random.Random) -> bytes:
    """Return the content with some bytes changed, most of them near its beginning, and its end cut off at times."""
    damaged = bytearray(content)
    for _ in range(draw.choice([1, 1, 4, 20])):
        place = min(int(draw.expovariate(1 / draw.choice([60, 1000]))), len(damaged) - 1)
        damaged[place] = draw.choice([0, 1, 0x7F, 0xFF, draw.randrange(256)])
    return bytes(damaged[: draw.choice([len(damaged)] * 4 + [draw.randrange(len(damaged))])])


CONTENTS = {"q.npy": NPY, "q.npz": NPZ, "q.safetensors": SAFE, "q.pt": PT, "q.csv": b"0,1,2\n"}


@pytest.mark.parametrize("name", CONTENTS)
def test_damage_gives_an_error_or_a_tensor(tmp_path: Path, name: str) -> None:
    draw = random.Random(name)
    outcomes = set()
    for _ in range(150):
        (tmp_path / name).write_bytes(damage(CONTENTS[name], draw))
        tensors = dict[str, Tensor]()
        with suppress(InputError):
            tensors = read_tensors(tmp_path / name)
        assert all(type(tensor) is Tensor and tensor.numel() < 1000 for tensor in tensors.values())
        outcomes.add(bool(tensors))
    assert outcomes == {True, False}


@pytest.mark.parametrize("name", [*CONTENTS, "repeated.pt"])
def test_too_large_for_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The last has one number that is repeated."""
    (tmp_path / name).write_bytes(CONTENTS.get(name) or pt(torch.ones(1).expand(200)))
    memory = SimpleNamespace(available=20, total=1 << 40)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory)
    needs = {"q.csv": "360", "q.npz": "152", "repeated.pt": "800"}.get(name, "24")
    assert refusal(tmp_path / name) == (
        f'got "{name}"; needs {needs} bytes; 20 bytes of memory is available; save only what is needed'
    )
    memory.available = 1 << 30
    assert read_tensor(tmp_path / name).numel() in (3, 6, 200)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (PermissionError(13, "Permission denied"), "cannot be read (Permission denied)"),
        (MemoryError(), "needs more memory than is available; save only what is needed"),
    ],
)
def test_what_the_system_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, message: str
) -> None:
    (tmp_path / "q.npy").write_bytes(NPY)
    monkeypatch.setattr(np, "load", Mock(side_effect=error))
    assert refusal(tmp_path / "q.npy") == f'got "q.npy"; {message}'


def test_a_link_to_nothing(tmp_path: Path) -> None:
    (tmp_path / "lost.npy").symlink_to("nowhere.npy")
    assert refusal(tmp_path / "lost.npy") == 'got "lost.npy"; a link to a file that is not there; expected a file'
