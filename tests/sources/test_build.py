"""From a config to tensors: shapes, shared heads, files, nested lists, correlations, tokens."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from attncli.core.device import resolve_device
from attncli.errors import InputError
from tests.experiments import call_inputs, result_of

ROLES = ("queries", "keys", "values")
NAN, INF = float("nan"), float("inf")
B, H, N, M, D = 2, 6, 3, 5, 4


@pytest.mark.parametrize(
    ("queries", "keys", "values", "leading"),
    [
        ([3, 4], [5, 6], [5, 7], [1]),
        ([3, 4], [2, 5, 6], [1, 5, 7], [2]),
        ([2, 8, 3, 4], [2, 1, 5, 6], [1, 8, 5, 7], [2, 8]),
        ([2, 3, 4, 3, 4], [1, 3, 1, 5, 6], [5, 7], [2, 3, 4]),
    ],
)
def test_leading_axes(queries: list[int], keys: list[int], values: list[int], leading: list[int]) -> None:
    shapes = dict(zip(ROLES, (queries, keys, values), strict=True))
    inputs = call_inputs(data={role: {"shape": shape, "fill": "arange"} for role, shape in shapes.items()})
    for role, shape in shapes.items():
        counted = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        repeated = np.broadcast_to(counted, (*leading, *shape[-2:]))
        np.testing.assert_array_equal(getattr(inputs, role).numpy(), repeated, strict=True)
    assert inputs.valid.shape == (*leading, queries[-2], keys[-2])


@pytest.mark.parametrize(
    ("queries", "keys", "values"),
    [
        ([1, 3, 4], *({"shape": [2, 5, 4], "fill": "uniform", "low": 5.0, "high": 6.0},) * 2),
        ([1, 3, 2], [[[100.0, 101.0]] * 5], {"shape": [1, 5, 2], "fill": "normal"}),  # these keys are not drawn
        ([B, H, N, D], *({"shape": [B, 2, M, D]},) * 2),  # of shared heads, two are drawn
        ([B, H, N, D], np.ones((B, 2, M, D)).tolist(), {"shape": [B, 2, M, D]}),
    ],
    ids=["drawn", "written", "shared", "written and shared"],
)
def test_values_that_are_left_out_are_drawn_like_the_keys_as_given(queries: list[int], keys: Any, values: Any) -> None:
    data = {"queries": {"shape": queries}, "keys": keys, "grouped": len(queries) == 4}
    left_out, written = call_inputs(data=data), call_inputs(data={**data, "values": values})
    assert torch.equal(left_out.values, written.values)
    assert not torch.equal(left_out.values, left_out.keys)


@pytest.mark.parametrize(("keys", "values"), [(2, 2), (3, 3), (1, 1), (6, 6), (2, 3), (3, None)])
def test_each_head_of_keys_is_for_consecutive_heads_of_queries(keys: int, values: int | None) -> None:
    given = {} if values is None else {"values": {"shape": [B, values, M, 7]}}
    data = {"queries": {"shape": [B, H, N, D]}, "keys": {"shape": [B, keys, M, D]}, "grouped": True}
    inputs = call_inputs(data=data | given)
    assert inputs.valid.shape == (B, H, N, M)
    for name, count in (("keys", keys), ("values", values or keys)):
        few = {"queries": {"shape": [B, 1, N, D]}, "keys": {"shape": [B, count, M, D]}}
        few |= given if name == "values" else {}
        drawn, full = getattr(call_inputs(data=few), name), getattr(inputs, name)
        assert full.shape[:2] == (B, H)
        assert drawn.shape[:2] == (B, count)
        for head in range(H):
            assert torch.equal(full[:, head], drawn[:, head * count // H])


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_numbers_written_out(dtype: str) -> None:
    inputs = call_inputs(
        data={"queries": [[1, 2.5], [-3, 0.1]], "keys": [[[1e-3, 10**30]], [[0, 7]]], "values": [[[NAN]], [[-INF]]]},
        dtype=dtype,
    )
    stored = getattr(torch, dtype)
    queries = torch.tensor([[1, 2.5], [-3, 0.1]], dtype=torch.float64).to(stored)
    assert torch.equal(inputs.queries, queries.expand(2, 2, 2))
    assert torch.equal(inputs.keys, torch.tensor([[[1e-3, 1e30]], [[0, 7]]], dtype=torch.float64).to(stored))
    torch.testing.assert_close(inputs.values, torch.tensor([[[NAN]], [[-INF]]], dtype=stored), equal_nan=True)
    with pytest.raises(ValueError, match="got an integer that no floating-point number can hold"):
        call_inputs(data={"queries": [[1, 10**400]], "keys": {"shape": [1, 2]}})


def test_files(tmp_path: Path) -> None:
    """Tensors of files are rounded to the dtype and repeated over the batch; integers are converted, too."""
    keys = torch.randn(1, 5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    save_file({"keys": keys, "values": torch.arange(5)[:, None]}, tmp_path / "kv.safetensors")
    data = {role: {"file": "kv.safetensors", "tensor": role} for role in ("keys", "values")}
    inputs = call_inputs(tmp_path, data={"queries": {"shape": [2, 3, 4]}, **data})
    assert torch.equal(inputs.keys, keys.float().expand(2, 5, 4))
    assert torch.equal(inputs.values, torch.arange(5.0)[:, None].expand(2, 5, 1))


def correlated(other: str, rho: float, **shape: list[int]) -> dict[str, Any]:
    return {"fill": "correlated", "with": other, "rho": rho, **shape}


def test_correlated_tensors_are_drawn_last_and_may_have_more_leading_axes() -> None:
    data = {"queries": correlated("values", 1), "keys": correlated("values", -1), "values": {"shape": [2, 5, 4]}}
    both = call_inputs(data=data)
    assert torch.equal(both.queries, both.values)
    assert torch.equal(both.keys, -both.values)
    inputs = call_inputs(data={"queries": {"shape": [5, 4]}, "keys": correlated("queries", 1, shape=[2, 3, 5, 4])})
    assert inputs.keys.shape == (2, 3, 5, 4)
    assert torch.equal(inputs.keys, inputs.queries)


TWO, OTHER = ["a", "b"], ["a", "c"]


@pytest.mark.parametrize(
    ("tokens", "queries", "keys"),
    [
        ({"queries": TWO, "keys": [TWO, OTHER]}, [TWO, TWO], [TWO, OTHER]),
        (TWO, [TWO, TWO], [TWO, TWO]),
        ([TWO, OTHER], [TWO, OTHER], [TWO, OTHER]),
        ({}, None, None),
    ],
)
def test_tokens_of_the_result_are_one_list_for_each_batch_element(tokens: Any, queries: Any, keys: Any) -> None:
    data = {"queries": {"shape": [2, 2, 4]}, "keys": {"shape": [2, 2, 4]}}
    found = result_of(data=data, tokens=tokens).tokens_in()
    assert (found.queries, found.keys) == (queries, keys)


@pytest.mark.parametrize(
    ("cuda", "mps", "names", "missing"),
    [
        (0, False, {"auto": "cpu", "cpu": "cpu"}, "cuda"),
        (2, False, {"auto": "cuda", "cpu": "cpu", "cuda": "cuda", "cuda:1": "cuda:1"}, "cuda:2"),
        (0, True, {"auto": "mps", "mps": "mps"}, "mps"),  # which has no float64
    ],
)
def test_devices(cuda: int, mps: bool, names: dict[str, str], missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
    assert {name: str(resolve_device(name)) for name in names} == names
    assert str(resolve_device("auto", torch.float64)) == ("cuda" if cuda else "cpu")
    with pytest.raises(InputError, match=f'got "{missing}".*; expected auto or a device of this machine: cpu'):
        resolve_device(missing, torch.float64)


def test_a_device_that_is_not_there_and_bad_inputs_are_reported_together() -> None:
    with pytest.raises(InputError) as caught:
        result_of(data={"queries": {"shape": [2, 3, 4]}, "keys": {"shape": [3, 5, 4]}}, device="cuda:77")
    assert [problem.path for problem in caught.value.problems] == [("device",), ("data", "queries")]
