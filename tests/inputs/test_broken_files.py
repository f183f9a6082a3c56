"""Files of another kind than they say, and damaged ones: each has its message."""

import io
import pickle
import random
import struct
import zipfile
from pathlib import Path

import pytest
import torch
from torch import Tensor

from attncli.errors import InputError
from attncli.inputs.files import read_tensors
from tests.inputs.broken import (
    AGAIN,
    FLOATS,
    LFS,
    NPY,
    NPZ,
    PT,
    SAFE,
    call,
    integer,
    npy,
    npy_with,
    pickled,
    pt,
    refusal,
    safetensors,
    short,
    tensor,
    zipped,
)

SAVE = "save tensors alone, for instance model.state_dict(), with torch.save or as .safetensors"
ENDINGS = "expected a file ending in .npy, .npz, .safetensors, .pt, .pth, .csv"
PICKLE = pickle.dumps(FLOATS)


def old_pt() -> bytes:
    """What PyTorch wrote before 1.6."""
    stream = io.BytesIO()
    torch.save(torch.from_numpy(FLOATS), stream, _use_new_zipfile_serialization=False)
    return stream.getvalue()


OTHER_KINDS = [
    ("q.npy", NPZ, "not a .npy file: it looks like a NumPy archive (.npz); rename it to end in .npz"),
    ("q.npy", PT, "not a .npy file: it looks like a PyTorch file; rename it to end in .pt"),
    ("q.npy", SAFE, "not a .npy file: it looks like a safetensors file; rename it to end in .safetensors"),
    (
        "q.npy",
        b"1,2\n3,4\n",
        "not a .npy file: it looks like text; if it is a table of numbers, rename it to end in .csv",
    ),
    (
        "q.npy",
        "\ufeff1,é\n".encode(),
        "not a .npy file: it looks like text; if it is a table of numbers, rename it to end in .csv",
    ),
    ("q.npy", LFS, "not a .npy file: it looks like a Git LFS pointer and not the data; fetch the data: git lfs pull"),
    ("q.csv", LFS, "not a .csv file: it looks like a Git LFS pointer and not the data; fetch the data: git lfs pull"),
    (
        "q.npz",
        b" <!DOCTYPE html><title>404</title>",
        "not a .npz file: it looks like a web page (HTML); download the file itself",
    ),
    ("q.npz", NPY, "not a .npz file: it looks like a NumPy array (.npy); rename it to end in .npy"),
    ("q.npz", PT, "not a .npz file: it looks like a PyTorch file; rename it to end in .pt"),
    ("q.pt", NPZ, "not a .pt file: it looks like a NumPy archive (.npz); rename it to end in .npz"),
    ("q.pth", SAFE, "not a .pth file: it looks like a safetensors file; rename it to end in .safetensors"),
    (
        "q.pt",
        old_pt(),
        "not a .pt file: it looks like a PyTorch file from before version 1.6; "
        "load it and save it again with today's torch.save",
    ),
    (
        "q.pt",
        PICKLE,
        "not a .pt file: it looks like a Python pickle, which is never loaded since it may run code; "
        "save it as .npy or .safetensors",
    ),
    ("q.pt", b"\x1f\x8b\x08\x00", "not a .pt file: it looks like a gzip file; unpack it: gunzip"),
    (
        "q.safetensors",
        b"\x89HDF\r\n\x1a\n",
        "not a .safetensors file: it looks like an HDF5 file; convert it to .npy or .safetensors",
    ),
    ("q.csv", NPY, "not a .csv file: it looks like a NumPy array (.npy); rename it to end in .npy"),
    ("q.csv", "1,2".encode("utf-16"), "not a .csv file: it looks like UTF-16 text; save it as UTF-8"),
    ("q.csv", zipped({"xl/a.xml": b""}), "not a .csv file: it looks like a zip archive; unpack it"),
    ("q.bin", PT, f"{ENDINGS}; it looks like a PyTorch file: rename it to end in .pt"),
    ("q", NPY, f"{ENDINGS}; it looks like a NumPy array (.npy): rename it to end in .npy"),
    ("q.dat", b"\x00\x01\x02\xff", ENDINGS),
]

BROKEN = [
    ("q.npy", b"", f"an empty file (0 bytes); {AGAIN}"),
    ("q.csv", b"", f"an empty file (0 bytes); {AGAIN}"),
    (
        "q.npy",
        NPY[:-1],
        f"damaged or cut short (its header declares 24 bytes of numbers, 23 bytes are there); {AGAIN}",
    ),
    (
        "q.npy",
        NPY + b"\0",
        f"damaged or cut short (its header declares 24 bytes of numbers, 25 bytes are there); {AGAIN}",
    ),
    (
        "q.npy",
        npy("<f8", (1 << 20, 1 << 20)),
        f"damaged or cut short (its header declares 8.0 TiB of numbers, 0 bytes are there); {AGAIN}",
    ),
    (
        "q.npz",
        zipped({"q.npy": npy("<f8", (1 << 62, 1 << 62), bytes(1))}),
        f"damaged or cut short (its header declares 1.5e+23 PiB of numbers, 1 byte are there); {AGAIN}",
    ),
    (
        "q.npy",
        npy("<f4", (-1, -6), bytes(24)),
        f"damaged or cut short (its header declares the shape (-1, -6)); {AGAIN}",
    ),
    ("q.npz", zipped({}), "holds no tensors; expected at least one"),
    (
        "q.npz",
        zipped({"a.npy": NPY, "b.npy": NPY}).replace(b"b.npy", b"a.npy"),
        "holds several arrays of one name; save it again",
    ),
    ("q.npz", zipped({"notes.txt": b"-"}), "holds no tensors; expected at least one"),
    (
        "q.npz",
        zipped({"q.npy": NPY}, zipfile.ZIP_LZMA),
        "packed in a way that NumPy does not use; save it with numpy.savez_compressed",
    ),
    ("q.pt", zipped({"a/data.txt": b"-"}), f"a zip archive that torch.save did not write; {SAVE}"),
    (
        "q.pt",
        zipped({"a/data.pkl": b"\x80\x02N."}, zipfile.ZIP_DEFLATED),
        "a PyTorch file that was packed again; load it and save it again with torch.save",
    ),
    ("q.pt", pickled(b"N)R"), f"damaged or cut short (its pickle makes no sense); {AGAIN}"),
    ("q.pt", pt({"epoch": 3}), "holds no tensors; expected at least one"),
    (
        "q.pt",
        pt({"a": {"b": torch.ones(1)}, "a.b": torch.ones(1)}),
        "holds two tensors that would be named a.b; rename one",
    ),
    ("q.safetensors", safetensors({}), "holds no tensors; expected at least one"),
]


@pytest.mark.parametrize(("name", "content", "message"), OTHER_KINDS + BROKEN, ids=short)
def test_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, content: bytes, message: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_bytes(content)
    assert refusal(Path(name)) == f'got "{name}"; {message}'
    assert list(tmp_path.iterdir()) == [tmp_path / name]


DAMAGED = [
    *[("q.npy", NPY[:length]) for length in (1, 7, 9, 50)],
    *[("q.npz", NPZ[:length]) for length in (5, 40, -30, -1)],
    *[("q.pt", PT[:length]) for length in (5, 70, -30, -1)],
    *[("q.safetensors", SAFE[:length]) for length in (9, 20, 30, -1)],
    ("q.npz", NPZ.replace(FLOATS.tobytes(), FLOATS.tobytes()[::-1])),  # the checksum is another
    ("q.npz", NPZ.replace(b"PK\x01\x02", b"PK\x01\x03")),
    ("q.npz", zipped({"q.npy": npy_with(b"(" * 4000)})),
    ("q.npy", npy_with(b"-" * 4000 + b"1")),
    ("q.npy", npy_with(b" " * 60_000)),
    ("q.npy", npy_with(b"{'shape': (2,", version=2)),
    ("q.npy", npy_with(b"\xff", version=3)),
    ("q.npy", npy("<f4", (2,), bytes(8), version=9)),
    ("q.npy", npy("<f4", "(2**40,)", bytes(8))),
    ("q.npy", npy("<f4", (1,) * 70, bytes(4))),
    ("q.npy", npy("<q4", (2,), bytes(8))),
    ("q.npy", b"\x00\xff garbage"),
    ("q.pt", pickled(b"\x00")),
    ("q.pt", pickled(tensor(4, (1 << 40,), (1,)))),
    ("q.pt", pickled(tensor(1 << 40, (1 << 40,), (1,)))),
    ("q.pt", pickled(tensor(4, (2,), (-1,)))),
    ("q.pt", pickled(tensor(4, (1 << 62, 1 << 62), (0, 0)))),
    ("q.pt", pickled(call("torch", "FloatTensor", integer(1 << 45)))),
    ("q.safetensors", struct.pack("<Q", 1 << 31) + b"{}"),
    ("q.safetensors", safetensors(b"[" * 5000)),
    ("q.safetensors", safetensors(b'{"a":' * 5000)),
    ("q.safetensors", safetensors({"q": {"dtype": "F32", "shape": [1 << 40], "data_offsets": [0, 1 << 42]}})),
    ("q.safetensors", safetensors({"q": {"dtype": "F32", "shape": [1 << 62] * 2, "data_offsets": [0, 4]}}, bytes(4))),
    ("q.safetensors", safetensors({"q": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}, bytes(4))),
    ("q.safetensors", safetensors({"q": {"dtype": "F31", "shape": [1], "data_offsets": [0, 4]}}, bytes(4))),
]


@pytest.mark.parametrize(("name", "content"), DAMAGED, ids=short)
def test_damaged(tmp_path: Path, name: str, content: bytes) -> None:
    """What the libraries say about damage differs between versions; that it stays one short printable line does not."""
    (tmp_path / name).write_bytes(content)
    message = refusal(tmp_path / name)
    assert message.startswith(f'got "{name}"; damaged or cut short (')
    assert message.endswith(f"); {AGAIN}")
    assert message.isprintable()
    assert len(message) < 220


def damage(content: bytes, draw: random.Random) -> bytes:
    """The content with some bytes changed, lost or cut off."""
    damaged = bytearray(content)
    for _ in range(draw.choice([1, 1, 4, 20])):
        place = (
            min(int(draw.expovariate(1 / 60)), len(damaged) - 1)
            if draw.random() < 0.5
            else draw.randrange(len(damaged))
        )
        damaged[place] = draw.choice([0, 1, 0x7F, 0xFF, draw.randrange(256)])
    if draw.random() < 0.2:
        del damaged[draw.randrange(len(damaged)) :]
    return bytes(damaged)


@pytest.mark.parametrize(
    ("name", "content"),
    [("q.npy", NPY), ("q.npz", NPZ), ("q.safetensors", SAFE), ("q.pt", PT), ("q.csv", b"1,2.5,nan\n-3,inf,6\n" * 4)],
    ids=short,
)
def test_damage_gives_an_error_or_a_tensor(tmp_path: Path, name: str, content: bytes) -> None:
    draw = random.Random(name)
    outcomes = set()
    for _ in range(150):
        (tmp_path / name).write_bytes(damage(content, draw))
        try:
            tensors = read_tensors(tmp_path / name)
        except InputError:
            outcomes.add("refused")
        else:
            outcomes.add("read")
            assert all(type(tensor) is Tensor and tensor.numel() < 1000 for tensor in tensors.values())
    assert outcomes == {"refused", "read"}
