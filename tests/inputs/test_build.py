"""From a config to tensors: shapes, files, numbers written out, correlations, tokens."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from attncli.errors import InputError
from attncli.inputs.build import Inputs
from attncli.inputs.device import resolve_device
from attncli.studies.study import tokens_of
from tests.experiments import inputs_of, result_of

ROLES = ("queries", "keys", "values")


def shaped(queries: list[int], keys: list[int], values: list[int] | None = None, **keys_of_data: Any) -> Inputs:
    data: dict[str, Any] = {"queries": {"shape": queries}, "keys": {"shape": keys}, **keys_of_data}
    if values is not None:
        data["values"] = {"shape": values}
    return inputs_of(data=data)


def refused(folder: Path | None = None, /, **keys: Any) -> list[str]:
    """The problems that making the inputs of an experiment gives."""
    with pytest.raises(InputError) as caught:
        inputs_of(folder, **keys)
    return [str(problem) for problem in caught.value.problems]


def refused_data(**data: Any) -> list[str]:
    return refused(data={"queries": {"shape": [2, 3, 4]}, "keys": {"shape": [2, 5, 4]}, **data})


@pytest.mark.parametrize(
    ("queries", "keys", "values", "leading"),
    [
        ([3, 4], [5, 6], [5, 7], [1]),
        ([2, 3, 4], [2, 5, 6], [2, 5, 7], [2]),
        ([1, 3, 4], [2, 5, 6], [1, 5, 7], [2]),
        ([2, 3, 4], [5, 6], [1, 5, 7], [2]),
        ([3, 4], [2, 5, 6], [2, 5, 7], [2]),
        ([2, 8, 3, 4], [2, 8, 5, 6], [2, 8, 5, 7], [2, 8]),
        ([2, 8, 3, 4], [2, 1, 5, 6], [1, 8, 5, 7], [2, 8]),
        ([2, 8, 3, 4], [5, 6], [1, 5, 7], [2, 8]),
        ([1, 1, 3, 4], [2, 1, 5, 6], [1, 8, 5, 7], [2, 8]),
        ([2, 3, 4, 3, 4], [1, 3, 1, 5, 6], [5, 7], [2, 3, 4]),
        ([1, 1, 4], [1, 1, 4], [1, 1, 1], [1]),
    ],
)
def test_leading_axes(queries: list[int], keys: list[int], values: list[int], leading: list[int]) -> None:
    shapes = dict(zip(ROLES, (queries, keys, values), strict=True))
    inputs = inputs_of(data={role: {"shape": shape, "fill": "arange"} for role, shape in shapes.items()})
    for role, shape in shapes.items():
        counted = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        repeated = np.broadcast_to(counted, (*leading, *shape[-2:]))
        np.testing.assert_array_equal(getattr(inputs, role).numpy(), repeated, strict=True)
    assert inputs.valid.shape == (*leading, queries[-2], keys[-2])


@pytest.mark.parametrize(
    ("queries", "keys", "values", "problems"),
    [
        (
            [2, 3, 4],
            [3, 5, 4],
            [3, 5, 4],
            [
                "data.queries: got shape [2, 3, 4] beside keys [3, 5, 4], values [3, 5, 4]; "
                "expected equal leading axes, or of size 1, which are repeated"
            ],
        ),
        (
            [2, 3, 4],
            [2, 5, 4],
            [2, 6, 4],
            ["data.values: got 6 values; expected 5, one for each key"],
        ),
        (
            [2, 8, 3, 4],
            [2, 5, 4],
            [2, 8, 6, 4],
            [
                "data.keys: got shape [2, 5, 4] beside queries [2, 8, 3, 4], values [2, 8, 6, 4]; "
                "expected equal leading axes, or of size 1, which are repeated",
                "data.values: got 6 values; expected 5, one for each key",
            ],
        ),
    ],
)
def test_shapes_that_do_not_fit(queries: list[int], keys: list[int], values: list[int], problems: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        shaped(queries, keys, values)
    assert [str(problem) for problem in caught.value.problems] == problems


def test_values_that_are_left_out_are_drawn_like_the_keys() -> None:
    shape = [2, 5, 4]
    keys = {"shape": shape, "fill": "uniform", "low": 5.0, "high": 6.0}
    left_out = inputs_of(data={"queries": {"shape": [1, 3, 4]}, "keys": keys})
    written = inputs_of(data={"queries": {"shape": [1, 3, 4]}, "keys": keys, "values": keys})
    assert torch.equal(left_out.values, written.values)
    assert not torch.equal(left_out.values, left_out.keys)
    assert 5 <= float(left_out.values.min()) <= float(left_out.values.max()) <= 6


def test_values_are_normal_where_the_keys_are_not_drawn() -> None:
    keys = [[[100.0, 101.0]] * 5]
    left_out = inputs_of(data={"queries": {"shape": [1, 3, 2]}, "keys": keys})
    normal = {"shape": [1, 5, 2], "fill": "normal"}
    written = inputs_of(data={"queries": {"shape": [1, 3, 2]}, "keys": keys, "values": normal})
    assert torch.equal(left_out.values, written.values)
    assert float(left_out.values.abs().max()) < 6


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_numbers_written_out(dtype: str) -> None:
    inputs = inputs_of(
        data={"queries": [[1, 2.5], [-3, 0.1]], "keys": [[[1e-3, 10**30]], [[0, 7]]], "values": [[[1]], [[2]]]},
        dtype=dtype,
    )
    stored = getattr(torch, dtype)
    queries = torch.tensor([[1, 2.5], [-3, 0.1]], dtype=torch.float64).to(stored)
    assert torch.equal(inputs.queries, queries.expand(2, 2, 2))
    assert torch.equal(inputs.keys, torch.tensor([[[1e-3, 1e30]], [[0, 7]]], dtype=torch.float64).to(stored))
    assert inputs.values.tolist() == [[[1.0]], [[2.0]]]


def test_a_number_beyond_floating_point() -> None:
    assert refused_data(queries=[[1, 10**400, 1, 1]]) == [
        "data.queries: got an integer that no floating-point number can hold; expected numbers up to 1.8e308"
    ]


def test_not_a_number_and_infinity_written_out() -> None:
    keys = [[[float("nan"), float("inf")]]]
    inputs = inputs_of(data={"queries": {"shape": [1, 1, 2]}, "keys": keys, "values": [[[1.0]]]})
    assert inputs.keys.isnan().tolist() == [[[True, False]]]
    assert inputs.keys.isinf().tolist() == [[[False, True]]]


def save_pt(tensor: Tensor, path: Path) -> None:
    torch.save({"x": tensor}, path)


WRITERS: dict[str, Callable[[Tensor, Path], object]] = {
    "x.npy": lambda tensor, path: np.save(path, tensor.numpy()),
    "x.npz": lambda tensor, path: np.savez(path, x=tensor.numpy()),
    "x.safetensors": lambda tensor, path: save_file({"x": tensor}, path),
    "x.pt": save_pt,
    "x.csv": lambda tensor, path: np.savetxt(path, tensor[0].numpy(), fmt="%.17g", delimiter=","),
}


@pytest.mark.parametrize("name", WRITERS)
def test_files(name: str, tmp_path: Path) -> None:
    tensor = torch.randn(1, 5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    WRITERS[name](tensor, tmp_path / name)
    inputs = inputs_of(
        tmp_path, data={"queries": {"shape": [2, 3, 4]}, "keys": {"file": name}, "values": {"file": name}}
    )
    assert torch.equal(inputs.keys, tensor.float().expand(2, 5, 4))
    assert torch.equal(inputs.values, inputs.keys)


def test_a_file_with_several_tensors(tmp_path: Path) -> None:
    tensors = {role: torch.full((2, 5, 4), float(index)) for index, role in enumerate(ROLES)}
    save_file(tensors, tmp_path / "qkv.safetensors")
    data = {role: {"file": "qkv.safetensors", "tensor": role} for role in ROLES}
    inputs = inputs_of(tmp_path, data=data)
    assert [float(getattr(inputs, role).mean()) for role in ROLES] == [0.0, 1.0, 2.0]


def test_integers_in_files_are_numbers_like_others(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(8, dtype=np.int32).reshape(1, 2, 4))
    inputs = inputs_of(tmp_path, data={"queries": {"shape": [1, 3, 4]}, "keys": {"file": "x.npy"}})
    assert inputs.keys.dtype == torch.float32
    assert inputs.keys.tolist() == [[[0, 1, 2, 3], [4, 5, 6, 7]]]


@pytest.mark.parametrize("shape", [(), (4,), (0, 4), (2, 0, 4)])
def test_files_that_are_no_rows_of_features(shape: tuple[int, ...], tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros(shape))
    problems = refused(tmp_path, data={"queries": {"shape": [1, 3, 4]}, "keys": {"file": "x.npy"}})
    expected = "expected at least two axes, rows and features, none of size 0"
    assert problems == [f"data.keys.file: got a tensor of shape {list(shape)}; {expected}"]


def test_files_are_all_looked_for(tmp_path: Path) -> None:
    data = {"queries": {"file": "q.npy"}, "keys": {"file": "k.npy"}, "values": {"file": "v.npy"}}
    paths = [problem.partition(":")[0] for problem in refused(tmp_path, data=data)]
    assert paths == ["data.queries.file", "data.keys.file", "data.values.file"]


def correlated(other: str, rho: float = 0.5, shape: list[int] | None = None) -> dict[str, Any]:
    source: dict[str, Any] = {"fill": "correlated", "with": other, "rho": rho}
    return source if shape is None else {**source, "shape": shape}


def test_correlated_tensors_wait_for_each_other() -> None:
    chain = inputs_of(
        data={"queries": correlated("values", 1), "keys": correlated("queries", -1), "values": {"shape": [2, 5, 4]}}
    )
    assert torch.equal(chain.queries, chain.values)
    assert torch.equal(chain.keys, -chain.values)


def test_correlated_over_more_leading_axes() -> None:
    data = {"queries": {"shape": [5, 4]}, "keys": correlated("queries", 1, [2, 3, 5, 4])}
    inputs = inputs_of(data=data)
    assert inputs.keys.shape == (2, 3, 5, 4)
    assert torch.equal(inputs.keys, inputs.queries)


def test_correlated_with_a_file(tmp_path: Path) -> None:
    np.save(tmp_path / "q.npy", np.arange(10.0).reshape(5, 2))
    inputs = inputs_of(tmp_path, data={"queries": {"file": "q.npy"}, "keys": correlated("queries", -1)})
    assert torch.equal(inputs.keys, -torch.arange(10.0).reshape(1, 5, 2))


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (
            {"queries": correlated("keys"), "keys": correlated("queries")},
            "data.queries.with: got keys, which depends on queries in turn; expected a tensor that does not",
        ),
        (
            {"keys": correlated("keys")},
            "data.keys.with: got keys, which depends on keys in turn; expected a tensor that does not",
        ),
        (
            {"keys": correlated("queries", shape=[2, 3, 5])},
            "data.keys.shape: got [2, 3, 5], correlated with queries of shape [2, 3, 4]; "
            "expected the same shape; leave out `shape` to take it over",
        ),
        (
            {"keys": correlated("queries", shape=[3, 4])},
            "data.keys.shape: got [3, 4], correlated with queries of shape [2, 3, 4]; "
            "expected the same shape; leave out `shape` to take it over",
        ),
    ],
)
def test_correlations_that_cannot_be(data: dict[str, Any], problem: str) -> None:
    assert refused_data(**data) == [problem]


@pytest.mark.parametrize(
    ("tokens", "problems"),
    [
        ({"queries": ["a", "b", "c"], "keys": [["a"] * 5, ["b"] * 5]}, []),
        ({"queries": ["a", "b"]}, ["tokens.queries: got 2 names; expected 3, one per row"]),
        ({"keys": [["a"] * 5]}, ["tokens.keys: got 1 list; expected 2, one per batch element, or a single list"]),
        ({"keys": [["a"] * 5, ["b"] * 4]}, ["tokens.keys[1]: got 4 names; expected 5, one per row"]),
        (
            {"queries": [], "keys": ["a"]},
            [
                "tokens.queries: got 0 names; expected 3, one per row",
                "tokens.keys: got 1 name; expected 5, one per row",
            ],
        ),
    ],
)
def test_tokens_are_counted(tokens: dict[str, Any], problems: list[str]) -> None:
    data = {"queries": {"shape": [2, 3, 4]}, "keys": {"shape": [2, 5, 4]}}
    if problems:
        assert refused(data=data, tokens=tokens) == problems
    else:
        inputs_of(data=data, tokens=tokens)


def test_tokens_of_the_result_are_one_list_for_each_batch_element() -> None:
    data = {"queries": {"shape": [2, 1, 4]}, "keys": {"shape": [2, 2, 4]}}
    result = result_of(data=data, tokens={"queries": ["q"], "keys": [["a", "b"], ["c", "d"]]})
    assert tokens_of(result).queries == [["q"], ["q"]]
    assert tokens_of(result).keys == [["a", "b"], ["c", "d"]]
    assert tokens_of(result_of(data=data)).queries is None


def test_lengths_mask_and_tokens_are_reported_together() -> None:
    problems = refused(
        data={"queries": {"shape": [2, 3, 4]}, "keys": {"shape": [2, 5, 4]}, "valid_lens": [2, 6]},
        mask={"causal": True},
        tokens={"keys": ["a"]},
    )
    assert problems == [
        "data.valid_lens[1]: got 6; expected an integer in 0..5, the number of keys",
        "mask.causal: got true for 3 queries and 5 keys; expected top_left or bottom_right, "
        "which differ where the numbers are not equal",
        "tokens.keys: got 1 name; expected 5, one per row",
    ]


def test_the_cpu_and_the_best_device(monkeypatch: pytest.MonkeyPatch) -> None:
    def there(cuda: int, mps: bool) -> None:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: cuda)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)

    there(cuda=0, mps=False)
    assert [str(resolve_device(name)) for name in ("auto", "cpu")] == ["cpu", "cpu"]
    there(cuda=2, mps=False)
    assert [str(resolve_device(name)) for name in ("auto", "cpu", "cuda", "cuda:1")] == [
        "cuda",
        "cpu",
        "cuda",
        "cuda:1",
    ]
    there(cuda=0, mps=True)
    assert [str(resolve_device(name)) for name in ("auto", "mps")] == ["mps", "mps"]
    assert str(resolve_device("auto", torch.float64)) == "cpu"


@pytest.mark.parametrize(
    ("name", "cuda", "mps", "dtype", "there"),
    [
        ("cuda", 0, False, "float32", "cpu"),
        ("cuda:0", 0, False, "float32", "cpu"),
        ("cuda:2", 2, False, "float32", "cpu, cuda:0, cuda:1"),
        ("mps", 1, False, "float32", "cpu, cuda:0"),
        ("cuda", 0, True, "float32", "cpu, mps"),
    ],
)
def test_devices_that_are_not_there(
    name: str, cuda: int, mps: bool, dtype: str, there: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
    with pytest.raises(InputError) as caught:
        resolve_device(name, getattr(torch, dtype))
    assert str(caught.value) == f'device: got "{name}"; expected one of the devices here: {there}; or auto'


def test_mps_has_no_float64(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    with pytest.raises(InputError, match='device: got "mps"; mps has no float64; expected one of'):
        resolve_device("mps", torch.float64)


def test_a_device_that_is_not_there_and_bad_inputs_are_reported_together() -> None:
    with pytest.raises(InputError) as caught:
        result_of(data={"queries": {"shape": [2, 3, 4]}, "keys": {"shape": [3, 5, 4]}}, device="cuda:77")
    assert [problem.path for problem in caught.value.problems] == [("device",), ("data", "queries")]
