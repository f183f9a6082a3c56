"""Heads of keys and values shared by several heads of queries, against slow loops and torch's kernel."""

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention
from torch.testing import assert_close

from tests.experiments import call_inputs, result_of

B, H, N, M, D = 2, 6, 3, 5, 4


def data(keys: int) -> dict[str, Any]:
    """Return a config with six heads of queries and `keys` heads of keys."""
    return {"queries": {"shape": [B, H, N, D]}, "keys": {"shape": [B, keys, M, D]}, "grouped": True}


@pytest.mark.parametrize(("keys", "values"), [(2, 2), (3, 3), (1, 1), (6, 6), (2, 3), (3, None)])
def test_each_head_of_keys_is_for_consecutive_heads_of_queries(keys: int, values: int | None) -> None:
    given = {} if values is None else {"values": {"shape": [B, values, M, 7]}}
    inputs = call_inputs(data=data(keys) | given)
    assert inputs.valid.shape == (B, H, N, M)
    for name, count in (("keys", keys), ("values", values or keys)):
        few = {"queries": {"shape": [B, 1, N, D]}, "keys": {"shape": [B, count, M, D]}}
        few |= given if name == "values" else {}
        drawn, full = getattr(call_inputs(data=few), name), getattr(inputs, name)
        assert full.shape[:2] == (B, H)
        assert drawn.shape[:2] == (B, count)
        for head in range(H):
            assert torch.equal(full[:, head], drawn[:, head * count // H])


def test_weights_and_output_are_those_of_torch() -> None:
    queries, keys, values = (torch.randn(B, h, n, D, dtype=torch.float64) for h, n in ((H, N), (2, M), (2, M)))
    given = {"queries": queries.tolist(), "keys": keys.tolist(), "values": values.tolist(), "grouped": True}
    result = result_of(data=given, scorers=[{"scorer": "scaled_dot"}], dtype="float64")
    expected = scaled_dot_product_attention(queries, keys, values, enable_gqa=True)
    assert_close(result.tensors["scaled_dot/output"], expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("keys", [{}, {"keys": np.ones((B, 2, M, D)).tolist()}], ids=["drawn", "written"])
def test_values_left_out_are_drawn_like_the_keys_as_given(keys: dict[str, Any]) -> None:
    written = call_inputs(data=data(2) | keys | {"values": {"shape": [B, 2, M, D]}})
    assert torch.equal(call_inputs(data=data(2) | keys).values, written.values)
