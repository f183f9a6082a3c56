import pytest
import torch

from attncli.precision import at_least_float32, computing_dtype

HALF, SINGLE, DOUBLE = torch.float16, torch.float32, torch.float64


@pytest.mark.parametrize(
    ("stored", "wanted"), [(HALF, SINGLE), (torch.bfloat16, SINGLE), (SINGLE, SINGLE), (DOUBLE, DOUBLE)]
)
def test_computes_in_float32_or_float64(stored: torch.dtype, wanted: torch.dtype) -> None:
    assert computing_dtype(stored) == wanted
    (tensor,) = at_least_float32(torch.ones(2, dtype=stored))
    assert tensor.dtype == wanted


def test_one_float64_makes_all_float64() -> None:
    tensors = at_least_float32(torch.ones(1, dtype=HALF), torch.ones(1, dtype=DOUBLE), torch.ones(1))
    assert [tensor.dtype for tensor in tensors] == [DOUBLE] * 3


def test_what_is_right_already_is_not_copied() -> None:
    tensor = torch.ones(3)
    assert at_least_float32(tensor)[0] is tensor
