"""Good tensor files: the tensors read equal the tensors that numpy and torch wrote."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.testing import assert_close

from attncli.core.files import read_tensor, read_tensors

NUMPY_DTYPES = [
    *(torch.bool, torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.int8, torch.int16, torch.int32),
    *(torch.int64, torch.float16, torch.float32, torch.float64),
]
QUERIES = torch.arange(6, dtype=torch.float32).reshape(2, 3) / 7
KEYS = torch.tensor([[1, 2], [3, 4]])


def same(got: Tensor, expected: Tensor) -> None:
    """Assert that a plain contiguous tensor has the same dtype, shape and numbers."""
    assert type(got) is Tensor
    assert got.is_contiguous()
    assert not got.requires_grad
    assert_close(got, expected, rtol=0, atol=0, equal_nan=True)


def save(path: Path, **tensors: Tensor) -> None:
    """Write tensors by name with the library for this ending; where there are no names, the first alone."""
    first = next(iter(tensors.values()))
    if path.suffix == ".npy":
        np.save(path, first.numpy())
    elif path.suffix == ".csv":
        np.savetxt(path, first.numpy(), delimiter=",")
    elif path.suffix == ".npz":
        np.savez(path, allow_pickle=False, **{name: tensor.numpy() for name, tensor in tensors.items()})
    elif path.suffix == ".safetensors":
        save_file(tensors, path)
    else:
        torch.save(tensors, path)


@pytest.mark.parametrize("dtype", [*NUMPY_DTYPES, torch.bfloat16])
def test_every_format_keeps_the_dtype(tmp_path: Path, dtype: torch.dtype) -> None:
    expected = torch.tensor([[0, 1, 2], [100, 3, 7]]).to(dtype)
    endings = [".safetensors", ".pt", ".pth", ".PT", *([".npy", ".npz"] if dtype in NUMPY_DTYPES else [])]
    for ending in endings:
        save(tmp_path / f"q{ending}", queries=expected, keys=KEYS)
        same(read_tensor(tmp_path / f"q{ending}", None if ending == ".npy" else "queries"), expected)
    if dtype in NUMPY_DTYPES:
        array = expected.numpy()
        np.save(tmp_path / "q.npy", array.astype(array.dtype.newbyteorder(">")))
        same(read_tensor(tmp_path / "q.npy"), expected)
        np.savez_compressed(tmp_path / "q.npz", queries=array)
        same(read_tensor(tmp_path / "q.npz"), expected)


@pytest.mark.parametrize(
    "written",
    [
        np.asfortranarray(QUERIES.numpy()),
        np.float64(3.5),
        np.zeros((0, 3), np.float32),
        np.array([np.nan, -np.inf, -0.0]),
    ],
    ids=["column after column", "no axis", "no row", "special"],
)
def test_npy_of_any_shape(tmp_path: Path, written: Any) -> None:
    np.save(tmp_path / "q.npy", written)
    same(read_tensor(tmp_path / "q.npy"), torch.tensor(written))


def test_a_long_double_becomes_float64(tmp_path: Path) -> None:
    np.save(tmp_path / "q.npy", np.array([1.5, np.finfo(np.longdouble).max], dtype=np.longdouble))
    same(read_tensor(tmp_path / "q.npy"), torch.tensor([1.5, np.inf], dtype=torch.float64))


def test_a_nameless_tensor_is_called_like_its_file(tmp_path: Path) -> None:
    np.save(tmp_path / "keys.npy", KEYS.numpy())
    torch.save(KEYS, tmp_path / "values.pt")
    (tmp_path / "queries.csv").write_text("1,2\n3,4\n")
    for name in ("keys.npy", "values.pt", "queries.csv"):
        tensors = read_tensors(tmp_path / name)
        assert list(tensors) == [Path(name).stem]
        same(tensors[Path(name).stem], KEYS)


def test_containers_and_views_in_a_pt_have_dotted_names(tmp_path: Path) -> None:
    content = {
        "epoch": 3,
        "state_dict": {"W.weight": nn.Parameter(QUERIES.clone()), "turned": QUERIES.T},
        "layers": [KEYS, (KEYS[1:], None), QUERIES[:, :1].expand(2, 5)],
        7: KEYS,
    }
    torch.save(content, tmp_path / "run.pt")
    tensors = read_tensors(tmp_path / "run.pt")
    expected = {"state_dict.W.weight": QUERIES, "state_dict.turned": QUERIES.T.contiguous(), "layers.0": KEYS}
    expected |= {"layers.1.0": KEYS[1:].clone(), "layers.2": QUERIES[:, :1].repeat(1, 5), "7": KEYS}
    assert list(tensors) == list(expected)
    for name, tensor in expected.items():
        same(tensors[name], tensor)
        same(read_tensor(tmp_path / "run.pt", name), tensor)


def test_what_has_no_real_numbers_in_an_npz_is_passed_over(tmp_path: Path) -> None:
    others = {"tokens": np.array(["the"]), "objects": np.array([{}], dtype=object), "complex": np.ones(2) * 1j}
    np.savez(tmp_path / "q.npz", allow_pickle=True, queries=QUERIES.numpy(), **others)
    assert list(read_tensors(tmp_path / "q.npz")) == ["queries"]
    same(read_tensor(tmp_path / "q.npz"), QUERIES)


@pytest.mark.parametrize("ending", [".npy", ".npz", ".safetensors", ".pt", ".csv"])
def test_nothing_is_shared_with_the_file(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"q{ending}"
    save(path, queries=QUERIES)
    content, tensor = path.read_bytes(), read_tensor(path)
    before = tensor.clone()
    with path.open("r+b") as file:  # in place, as a mapping would see it
        file.write(b"\xff" * len(content))
    assert_close(tensor, before, rtol=0, atol=0)
    path.write_bytes(content)
    tensor.zero_()
    assert path.read_bytes() == content


NUMBERS = torch.tensor([[0.001, -2e5], [np.nan, np.inf], [1e20, 4.5]], dtype=torch.float64)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 2\n  3   4 \n", KEYS),
        ("\ufeff1,2\r\n3,4\r\n", KEYS),
        ("# é\n1,2 # first\n\n   \n3,4\n\n\n", KEYS),
        ('"1","2"\n"3","4"\n', KEYS),
        ("1.0;2\n3e0;4\n", KEYS),
        ("1e-3,-2E5\nnan,inf\n100000000000000000000,4.5\n", NUMBERS),
    ],
    ids=ascii,
)
def test_csv(tmp_path: Path, text: str, expected: Tensor) -> None:
    (tmp_path / "k.csv").write_text(text, encoding="utf-8", newline="")
    same(read_tensor(tmp_path / "k.csv"), expected)
