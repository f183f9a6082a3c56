"""Files that are sound but hold no numbers, run code or would fill the memory: each has its message, none does harm."""

import os
import struct
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import psutil
import pytest
import torch
from torch import Tensor, nn

from attncli.inputs.files import read_tensor
from tests.inputs.broken import (
    AGAIN,
    FLOATS,
    NPY,
    NPZ,
    PT,
    SAFE,
    array,
    call,
    integer,
    npy,
    pickled,
    pt,
    refusal,
    safetensors,
    short,
    text,
    zipped,
)

NEVER = "which are never loaded since they may run code"
SAVE = "save tensors alone, for instance model.state_dict(), with torch.save or as .safetensors"
COMPLEX = "save its real and imaginary parts as two tensors"
NO_NUMBERS = [
    ("q.npy", array(FLOATS * 1j), f"holds complex numbers (complex64); expected numbers; {COMPLEX}"),
    ("q.npy", array(np.array(["the"])), "holds text (<U3); expected numbers; save an array of numbers"),
    ("q.npy", array(np.array([b"the"])), "holds text (|S3); expected numbers; save an array of numbers"),
    ("q.npy", npy("T", (2,), bytes(32)), "holds text (StringDType()); expected numbers; save an array of numbers"),
    (
        "q.npy",
        array(np.array(["2024"], "M8[D]")),
        "holds dates (datetime64[D]); expected numbers; save an array of numbers",
    ),
    (
        "q.npy",
        array(np.array([1], "m8[s]")),
        "holds spans of time (timedelta64[s]); expected numbers; save an array of numbers",
    ),
    (
        "q.npy",
        array(np.zeros(2, [("x", "f4"), ("\x1b[31m", "f4")])),
        "holds records (|V8); expected numbers; save each field alone",
    ),
    (
        "q.npy",
        npy("|V2", (3,), bytes(6)),
        "holds raw bytes (|V2); expected numbers; "
        "if it is bfloat16, which NumPy does not know, save it as .safetensors or .pt",
    ),
    (
        "q.npy",
        array(np.array([None])),
        f"holds Python objects, {NEVER} (object); expected numbers; save an array of numbers",
    ),
    (
        "q.npz",
        zipped({"words.npy": array(np.array(["the"]))}),
        'its tensor "words" holds text (<U3); expected numbers; save an array of numbers',
    ),
    (
        "q.safetensors",
        safetensors({"q": {"dtype": "C64", "shape": [1], "data_offsets": [0, 8]}}, bytes(8)),
        f'its tensor "q" holds complex numbers (complex64); expected numbers; {COMPLEX}',
    ),
    (
        "q.safetensors",
        safetensors({"\x1b[2Jq": {"dtype": "F8_E5M2", "shape": [1], "data_offsets": [0, 1]}}, bytes(1)),
        'its tensor "\\u001b[2Jq" holds numbers of a rare kind (float8_e5m2); expected numbers; '
        "save tensor.to(torch.float32)",
    ),
    ("q.pt", pt(torch.eye(2).to_sparse()), "holds a sparse tensor (float32); expected numbers; save tensor.to_dense()"),
    (
        "q.pt",
        pt(torch.ones(2, device="meta")),
        "holds a shape without numbers (float32); expected numbers; save it with its numbers",
    ),
    ("q.pt", pt(torch.ones(2) * 1j), f"holds complex numbers (complex64); expected numbers; {COMPLEX}"),
]

DANGEROUS = [
    ("q.pt", pt(nn.Linear(1, 1)), f"holds Python objects (torch.nn.modules.linear.Linear), {NEVER}; {SAVE}"),
    ("q.pt", pickled(call("os", "system", text("touch harm"))), f"holds Python objects (os.system), {NEVER}; {SAVE}"),
    (
        "q.pt",
        pickled(call("builtins", "bytearray", integer(1 << 45))),
        f"holds Python objects (bytearray), {NEVER}; {SAVE}",
    ),
    (
        "q.pt",
        pickled(call("torch", "FloatTensor", integer(1 << 16))),
        f"damaged or cut short (it describes more numbers than it holds); {AGAIN}",
    ),
    ("q.pt", pickled(b"]" * 100 + b"a" * 99), f"holds containers nested more than 32 deep; {SAVE}"),
    ("q.pt", pickled(b"]" + b"q\x00h\x00\x86" * 30), f"holds a tree of more than 100000 parts; {SAVE}"),
    ("q.pt", zipped({"a/constants.pkl": b"", "a/data.pkl": b""}), f"a TorchScript program, which is never run; {SAVE}"),
]


@pytest.mark.parametrize(("name", "content", "message"), NO_NUMBERS + DANGEROUS, ids=short)
def test_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, content: bytes, message: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_bytes(content)
    assert refusal(Path(name)) == f'got "{name}"; {message}'
    assert list(tmp_path.iterdir()) == [tmp_path / name]


@pytest.mark.filterwarnings("ignore:.*(nested|quantized) tensor")  # both are going out of use
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8),
            "holds quantized numbers (qint8); expected numbers; save tensor.dequantize()",
        ),
        (
            lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
            "holds a nested tensor (float32); expected numbers; save it padded: tensor.to_padded_tensor(0)",
        ),
    ],
)
def test_tensors_of_a_rare_kind(tmp_path: Path, make: Callable[[], Tensor], message: str) -> None:
    torch.save(make(), tmp_path / "q.pt")
    assert refusal(tmp_path / "q.pt") == f'got "q.pt"; {message}'


def test_torch_is_told_to_load_no_code_and_to_map_the_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: dict[str, Any] = {}
    load = torch.load
    monkeypatch.setattr(torch, "load", lambda path, **options: told.update(options) or load(path, **options))
    (tmp_path / "q.pt").write_bytes(PT)
    assert read_tensor(tmp_path / "q.pt").tolist() == FLOATS.tolist()
    assert told == {"map_location": "cpu", "weights_only": True, "mmap": True}


def test_numpy_is_told_to_load_no_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[object] = []
    read = np.lib.format.read_array

    def spy(file: Any, *, allow_pickle: bool, **options: Any) -> Any:
        told.append(allow_pickle)
        return read(file, allow_pickle=allow_pickle, **options)

    monkeypatch.setattr(np.lib.format, "read_array", spy)
    (tmp_path / "q.npy").write_bytes(NPY)
    assert read_tensor(tmp_path / "q.npy").tolist() == FLOATS.tolist()
    assert told == [False]


@pytest.mark.parametrize("name", ["q.npy", "q.npz", "q.safetensors", "q.pt", "q.csv"])
def test_too_large_for_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    content = {".npy": NPY, ".npz": NPZ, ".safetensors": SAFE, ".pt": PT, ".csv": b"0,1,2\n"}[Path(name).suffix]
    (tmp_path / name).write_bytes(content)
    memory = SimpleNamespace(available=20, total=1 << 40)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory)
    needs = "48" if name == "q.csv" else "24"
    assert refusal(tmp_path / name) == (
        f'got "{name}"; needs {needs} bytes; 20 bytes of memory is available; save only what is needed'
    )
    memory.available = 1 << 30
    assert read_tensor(tmp_path / name).numel() in (3, 6)


@pytest.mark.parametrize("name", ["q.npy", "q.npz", "q.pt"])
def test_a_small_file_with_a_large_claim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A file with a hole, an archive that claims a gigabyte, one number broadcast to as many."""
    path = tmp_path / name
    header = npy("<f4", (1 << 28,))
    if name == "q.npy":
        path.write_bytes(header)
        os.truncate(path, len(header) + (1 << 30))
    elif name == "q.npz":
        archive = bytearray(zipped({"q.npy": header}))
        struct.pack_into("<I", archive, archive.find(b"PK\x01\x02") + 24, len(header) + (1 << 30))
        path.write_bytes(archive)
    else:
        torch.save(torch.ones(1).expand(1 << 28), path)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=1 << 20, total=1 << 40))
    needs = "needs 1.0 GiB; 1.0 MiB of memory is available"
    assert refusal(path) == f'got "{name}"; {needs}; save only what is needed'


@pytest.mark.parametrize(("name", "content"), [("q.safetensors", SAFE), ("q.pt", PT)])
def test_a_file_larger_than_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, content: bytes
) -> None:
    (tmp_path / name).write_bytes(content)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=1 << 40, total=40))
    monkeypatch.setattr(psutil, "swap_memory", lambda: SimpleNamespace(total=10))
    held = f"{len(content)} bytes" if len(content) < 1024 else f"{len(content) / 1024:.1f} KiB"
    assert refusal(tmp_path / name) == (
        f'got "{name}"; holds {held}; there are 50 bytes of memory; save only the tensors that are needed'
    )
