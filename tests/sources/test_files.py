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
from attncli.errors import InputError

NUMPY_DTYPES = ["?", "u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8"]
TORCH_DTYPES = [
    *(torch.bool, torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.int8, torch.int16, torch.int32),
    *(torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64),
]
QUERIES = torch.arange(6, dtype=torch.float32).reshape(2, 3) / 7
KEYS = torch.tensor([[1, 2], [3, 4]])


def same(got: Tensor, expected: Tensor) -> None:
    """Assert that a plain contiguous tensor has the same dtype, shape and numbers."""
    assert type(got) is Tensor
    assert got.is_contiguous()
    assert not got.requires_grad
    assert_close(got, expected, rtol=0, atol=0, equal_nan=True)


def array(dtype: str) -> np.ndarray[Any, Any]:
    """Return numbers that every dtype can hold, including a zero."""
    return np.array([[0, 1, 2], [100, 3, 7]]).astype(dtype)


def save(path: Path, content: Any) -> None:
    """Write tensors by name with the library for this ending."""
    if path.suffix == ".npz":
        np.savez(path, **{name: tensor.numpy() for name, tensor in content.items()})
    elif path.suffix == ".safetensors":
        save_file(content, path)
    else:
        torch.save(content, path)


@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
def test_npy_and_npz_keep_the_dtype(tmp_path: Path, dtype: str) -> None:
    expected = torch.from_numpy(array(dtype))
    for written in (array(dtype), array(dtype).astype(np.dtype(dtype).newbyteorder(">"))):
        np.save(tmp_path / "q.npy", written)
        same(read_tensor(tmp_path / "q.npy"), expected)
    for writer in (np.savez, np.savez_compressed):
        writer(tmp_path / "q.npz", queries=array(dtype), keys=array("f8") + 1)
        same(read_tensor(tmp_path / "q.npz", "queries"), expected)


@pytest.mark.parametrize("dtype", TORCH_DTYPES)
def test_safetensors_and_pt_keep_the_dtype(tmp_path: Path, dtype: torch.dtype) -> None:
    expected = torch.tensor([[0, 1, 2], [100, 3, 7]]).to(dtype)
    for ending in (".safetensors", ".pt", ".pth", ".PT"):
        save(tmp_path / f"q{ending}", {"queries": expected, "keys": KEYS})
        same(read_tensor(tmp_path / f"q{ending}", "queries"), expected)


@pytest.mark.parametrize(
    "written",
    [
        pytest.param(np.asfortranarray(array("f4")), id="column after column"),
        pytest.param(np.float64(3.5), id="no axis"),
        pytest.param(np.zeros((0, 3), np.float32), id="no row"),
        pytest.param(np.array([np.nan, np.inf, -np.inf, -0.0]), id="special"),
        pytest.param(np.zeros((1,) * 30, np.int8), id="30 axes"),
    ],
)
def test_npy_of_any_shape(tmp_path: Path, written: Any) -> None:
    np.save(tmp_path / "q.npy", written)
    same(read_tensor(tmp_path / "q.npy"), torch.tensor(written))


def test_a_long_double_becomes_float64(tmp_path: Path) -> None:
    np.save(tmp_path / "q.npy", np.array([1.5, np.finfo(np.longdouble).max], dtype=np.longdouble))
    same(read_tensor(tmp_path / "q.npy"), torch.tensor([1.5, np.inf], dtype=torch.float64))


def test_bytes_that_are_neither_true_nor_false_are_true(tmp_path: Path) -> None:
    np.save(tmp_path / "mask.npy", np.array([0, 1, 255], np.uint8).view(bool))
    assert read_tensor(tmp_path / "mask.npy").view(torch.uint8).tolist() == [0, 1, 1]


def test_a_nameless_tensor_is_called_like_its_file(tmp_path: Path) -> None:
    np.save(tmp_path / "keys.npy", KEYS.numpy())
    torch.save(KEYS, tmp_path / "values.pt")
    (tmp_path / "queries.csv").write_text("1,2\n3,4\n")
    for name in ("keys.npy", "values.pt", "queries.csv"):
        tensors = read_tensors(tmp_path / name)
        assert list(tensors) == [Path(name).stem]
        same(tensors[Path(name).stem], KEYS)


def test_containers_in_a_pt_give_dotted_names(tmp_path: Path) -> None:
    parameter = nn.Parameter(QUERIES.clone())
    content = {
        "epoch": 3,
        "note": "x",
        "state_dict": {"W.weight": parameter},
        "layers": [KEYS, (KEYS + 1, None)],
        7: KEYS,
    }
    torch.save(content, tmp_path / "run.pt")
    tensors = read_tensors(tmp_path / "run.pt")
    assert list(tensors) == ["state_dict.W.weight", "layers.0", "layers.1.0", "7"]
    same(tensors["state_dict.W.weight"], QUERIES)
    same(read_tensor(tmp_path / "run.pt", "layers.1.0"), KEYS + 1)


def test_views_in_a_pt_are_what_they_show(tmp_path: Path) -> None:
    torch.save({"turned": QUERIES.T, "repeated": QUERIES[:, :1].expand(2, 5), "part": QUERIES[1:]}, tmp_path / "v.pt")
    tensors = read_tensors(tmp_path / "v.pt")
    same(tensors["turned"], QUERIES.T.contiguous())
    same(tensors["repeated"], QUERIES[:, :1].repeat(1, 5))
    same(tensors["part"], QUERIES[1:].clone())


def test_what_has_no_real_numbers_in_an_npz_is_passed_over(tmp_path: Path) -> None:
    others = {"tokens": np.array(["the"]), "objects": np.array([{}], dtype=object), "complex": np.ones(2) * 1j}
    np.savez(tmp_path / "q.npz", allow_pickle=True, queries=QUERIES.numpy(), **others)
    assert list(read_tensors(tmp_path / "q.npz")) == ["queries"]
    same(read_tensor(tmp_path / "q.npz"), QUERIES)


@pytest.mark.parametrize("ending", [".npy", ".npz", ".safetensors", ".pt", ".csv"])
def test_nothing_is_shared_with_the_file(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"q{ending}"
    if ending == ".npy":
        np.save(path, QUERIES.numpy())
    elif ending == ".csv":
        np.savetxt(path, QUERIES.double().numpy(), delimiter=",")
    else:
        save(path, {"queries": QUERIES})
    before = path.read_bytes()
    tensor = read_tensor(path)
    kept = tensor.clone()
    with path.open("r+b") as file:  # in place, as a mapping would see it
        file.write(b"\xff" * len(before))
    assert_close(tensor, kept, rtol=0, atol=0)
    path.write_bytes(before)
    tensor.zero_()
    assert path.read_bytes() == before
    assert read_tensor(path).count_nonzero() == QUERIES.count_nonzero()


@pytest.mark.parametrize(
    "text",
    [
        "1,2\n3,4\n",
        "1 2\n  3   4 \n",
        "1,2\r\n3,4\r\n",
        "\ufeff1,2\n3,4\n",
        "# made by hand, é\n1,2 # first\n\n   \n3,4\n\n\n",
        '"1","2"\n"3","4"\n',
        "1.0 2\n3e0 4\n",
    ],
)
def test_a_csv_of_whole_numbers(tmp_path: Path, text: str) -> None:
    (tmp_path / "k.csv").write_text(text, encoding="utf-8", newline="")
    same(read_tensor(tmp_path / "k.csv"), KEYS)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1,2\n3,4.5\n", [[1, 2], [3, 4.5]]),
        ("1e-3;-2E5\n", [[0.001, -2e5]]),
        ("nan,inf,-inf\n", [[np.nan, np.inf, -np.inf]]),
        ("100000000000000000000,1\n", [[1e20, 1]]),
    ],
)
def test_a_csv_of_other_numbers_is_float64(tmp_path: Path, text: str, expected: list[list[float]]) -> None:
    (tmp_path / "k.csv").write_text(text)
    same(read_tensor(tmp_path / "k.csv"), torch.tensor(expected, dtype=torch.float64))


NAMES = {"queries": QUERIES, "keys": KEYS}


@pytest.mark.parametrize(
    ("content", "name", "message"),
    [
        (
            NAMES,
            "querys",
            'tensor: got "querys"; "q.pt" holds no tensor of real numbers with this name; did you mean `queries`?',
        ),
        (
            {"\x1b[31mred": KEYS, "keys": KEYS},
            None,
            'tensor: got nothing; "q.pt" holds 2 tensors (\\x1b[31mred, keys); give tensor: NAME',
        ),
    ],
)
def test_a_name_that_picks_nothing(tmp_path: Path, content: Any, name: str | None, message: str) -> None:
    torch.save(content, tmp_path / "q.pt")
    with pytest.raises(InputError) as caught:
        read_tensor(tmp_path / "q.pt", name)
    assert str(caught.value) == message
