"""Masks as people save them: the meaning of their content and shapes, against slow loops, and the notes about it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import MultiheadAttention

from attncli.errors import InputError
from attncli.inputs.masks import marks_padding, read_mask
from tests.experiments import Notes, inputs_of, result_of

B, H, N, M = 2, 4, 3, 5
ALLOWED = torch.tensor([[1, 1, 0, 0, 1], [1, 1, 1, 0, 1], [1, 0, 1, 0, 0]]).bool()  # n m
INF = float("inf")
LOWEST = torch.finfo(torch.float32).min


def read(given: Tensor, scores: tuple[int, ...] = (B, N, M), called: str = "") -> tuple[list[Any], list[str]]:
    """Return the mask for every pair, and the notes about it."""
    said: list[str] = []
    mask = read_mask(given, scores, "m.npy", said.append, called)
    assert mask.dtype == torch.bool
    assert mask.ndim == len(scores)
    return mask.expand(scores).tolist(), said


def zeros_and(low: float) -> Tensor:
    """Return a mask of zeros and this number, to add to scores."""
    return torch.where(ALLOWED, 0.0, low)


CONTENTS: dict[str, tuple[Tensor, str]] = {
    "booleans": (ALLOWED, ""),
    "int64": (ALLOWED.long(), "integers of 0 and 1, read as 1 = may attend"),
    "uint8": (ALLOWED.to(torch.uint8), "integers of 0 and 1, read as 1 = may attend"),
    "uint16": (ALLOWED.to(torch.uint16), "integers of 0 and 1, read as 1 = may attend"),
    "float16": (ALLOWED.half(), "floats of 0 and 1, read as 1 = may attend"),
    "-inf": (zeros_and(-INF), "floats of 0 and -inf, read as 0 = may attend"),
    "-inf in float16": (zeros_and(-INF).half(), "floats of 0 and -inf, read as 0 = may attend"),
    "lowest float32": (zeros_and(LOWEST), "floats of 0 and -10000 or less, read as 0 = may attend"),
    "as BERT's first code": (zeros_and(-10000.0), "floats of 0 and -10000 or less, read as 0 = may attend"),
    "integers to add": (zeros_and(-10000.0).int(), "integers of 0 and -10000 or less, read as 0 = may attend"),
    "sums of two masks": (
        zeros_and(-INF) + torch.where(ALLOWED, -0.0, -1e9),
        "floats of 0 and -inf, read as 0 = may attend",
    ),
}


@pytest.mark.parametrize("name", CONTENTS)
def test_contents(name: str) -> None:
    given, said = CONTENTS[name]
    expected = [[[bool(ALLOWED[q, k]) for k in range(M)] for q in range(N)] for _ in range(B)]
    assert read(given) == (expected, [f"m.npy: {said}"] if said else [])


@pytest.mark.parametrize(
    ("given", "allowed", "said"),
    [
        (torch.zeros(N, M), True, "floats of 0, read as 0 = may attend"),
        (torch.ones(N, M), True, "floats of 1, read as 1 = may attend"),
        (torch.full((N, M), -INF), False, "floats of -inf, read as 0 = may attend"),
        (torch.zeros(N, M, dtype=torch.int64), False, "integers of 0, read as 1 = may attend"),
        (torch.ones(N, M, dtype=torch.int32), True, "integers of 1, read as 1 = may attend"),
        (torch.zeros(N, M, dtype=torch.bool), False, ""),
    ],
)
def test_one_number_everywhere(given: Tensor, allowed: bool, said: str) -> None:
    assert read(given) == ([[[allowed] * M] * N] * B, [f"m.npy: {said}"] if said else [])


@pytest.mark.parametrize(
    "wrong", [0.5, -1.0, -9999.0, INF, float("nan"), 2.0, [0.0, 1.0, -INF], [0.0, 1.0, float("nan")]]
)
def test_what_is_no_mask(wrong: Any) -> None:
    numbers = torch.zeros(N, M)
    numbers[0, : np.size(wrong)] = torch.tensor(wrong)
    with pytest.raises(InputError, match=r"^got floats with .*; expected True and False or 1 and 0, True = may attend"):
        read(numbers)


def some(*shape: int) -> Tensor:
    return torch.from_numpy(np.asarray(np.random.default_rng(3).random(shape) < 0.5))


Seen = Callable[[Tensor, int, int, int, int], Tensor]
SHAPES: dict[tuple[tuple[int, ...], tuple[int, ...]], tuple[Seen, str]] = {  # of the scores, and of the mask
    ((B, N, M), (M,)): (lambda t, i, h, q, k: t[k], ""),
    ((B, N, M), (1, M)): (lambda t, i, h, q, k: t[0, k], ""),
    ((B, N, M), (N, 1)): (lambda t, i, h, q, k: t[q, 0], ""),
    ((B, N, M), (B, N, M)): (lambda t, i, h, q, k: t[i, q, k], ""),
    ((B, N, M), (B, 1, M)): (lambda t, i, h, q, k: t[i, 0, k], ""),
    ((B, N, M), (1, N, M)): (lambda t, i, h, q, k: t[0, q, k], ""),
    ((B, N, M), (B, 1, 1, M)): (lambda t, i, h, q, k: t[i, 0, 0, k], ""),
    ((B, N, M), (B, M)): (lambda t, i, h, q, k: t[i, k], "shape [2, 5], read as (batch, keys)"),
    ((N, N, M), (N, M)): (
        lambda t, i, h, q, k: t[q, k],
        "shape [3, 5], read as (queries, keys), the same for all batch elements",
    ),
    ((1, N, M), (1, M)): (lambda t, i, h, q, k: t[0, k], ""),
    ((1, N, M), (1, 1, N, M)): (lambda t, i, h, q, k: t[0, 0, q, k], ""),
    ((B, H, N, M), (N, M)): (lambda t, i, h, q, k: t[q, k], ""),
    ((B, H, N, M), (B, H, 1, M)): (lambda t, i, h, q, k: t[i, h, 0, k], ""),
    ((B, H, N, M), (B, 1, 1, M)): (lambda t, i, h, q, k: t[i, 0, 0, k], ""),
    ((B, H, N, M), (1, H, N, 1)): (lambda t, i, h, q, k: t[0, h, q, 0], ""),
    ((B, H, N, M), (1, N, M)): (lambda t, i, h, q, k: t[0, q, k], ""),
    ((B, H, N, M), (B, M)): (lambda t, i, h, q, k: t[i, k], "shape [2, 5], read as (batch, keys)"),
    ((B, H, N, M), (B, N, M)): (lambda t, i, h, q, k: t[i, q, k], "shape [2, 3, 5], read as (batch, queries, keys)"),
    ((B, H, N, M), (B, 1, M)): (lambda t, i, h, q, k: t[i, 0, k], "shape [2, 1, 5], read as (batch, queries, keys)"),
    ((B, H, N, M), (H, N, M)): (lambda t, i, h, q, k: t[h, q, k], "shape [4, 3, 5], read as (heads, queries, keys)"),
}


@pytest.mark.parametrize("shapes", SHAPES)
def test_shapes(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    seen, said = SHAPES[shapes]
    scores, given = shapes[0], some(*shapes[1])
    with_heads = scores if len(scores) == 4 else (scores[0], 1, *scores[1:])
    expected = [
        [
            [[bool(seen(given, i, h, q, k)) for k in range(M)] for q in range(with_heads[2])]
            for h in range(with_heads[1])
        ]
        for i in range(with_heads[0])
    ]
    mask, notes = read(given, scores)
    assert torch.tensor(mask).reshape(with_heads).tolist() == expected
    assert notes == ([f"m.npy: {said}"] if said else [])


@pytest.mark.parametrize(
    ("scores", "shape", "message"),
    [
        ((B, N, M), (M, N), r"got shape \[5, 3\]; expected \[3, 5\], \[2, 3, 5\], or \[2, 5\] for the keys"),
        ((B, N, M), (B, N), r"got shape \[2, 3\]"),
        ((B, N, M), (N,), r"got shape \[3\]"),
        ((B, N, M), (), r"got shape \[\]"),
        ((B, N, M), (0, M), r"got shape \[0, 5\]"),
        ((B, N, M), (B, H, N, M), r"got shape \[2, 4, 3, 5\]"),
        ((B, H, N, M), (3, N, M), r"got shape \[3, 3, 5\]; expected"),
        ((H, H, N, M), (H, N, M), r"both batch elements and heads; save it as \[4, 1, 3, 5\] .* \[1, 4, 3, 5\]"),
    ],
)  # fmt: skip
def test_shapes_that_do_not_fit(scores: tuple[int, ...], shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(some(*shape), scores)


def test_names_of_padding() -> None:
    names = ["pad", "PAD", "padding", "is_pad", "pad_mask", "padding_mask", "key_padding_mask", "src_key_padding_mask"]
    assert all(marks_padding(name) for name in names)
    assert not any(marks_padding(name) for name in ["mask", "attention_mask", "padded", "not_pad", "pad_token_id", ""])


PADDED = torch.tensor([[0, 0, 0, 0, 0], [0, 0, 0, 1, 1]]).bool()  # b m


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (PADDED, "booleans, read as True = padding; shape [2, 5], read as (batch, keys)"),
        (PADDED.long(), "integers of 0 and 1, read as 1 = padding; shape [2, 5], read as (batch, keys)"),
        (
            torch.where(PADDED, -INF, 0.0),
            "floats of 0 and -inf, read as 0 = may attend; shape [2, 5], read as (batch, keys)",
        ),
    ],
)
def test_true_is_padding_in_a_tensor_of_that_name_as_torch_has_it(given: Tensor, said: str) -> None:
    """The name decides even if there are as many queries as batch elements."""
    mask, notes = read(given, (2, 2, M), "key_padding_mask")
    assert notes == [f"m.npy: {said}"]
    attention = MultiheadAttention(1, 1, batch_first=True)
    padding = given.bool() if not given.is_floating_point() else given
    _, weights = attention(*(torch.zeros(2, n, 1) for n in (2, M, M)), key_padding_mask=padding)
    assert mask == (weights > 0).tolist()


def notes_of(folder: Path, file: str, **mask: Any) -> list[str]:
    data, progress = {"queries": {"shape": [B, N, 4]}, "keys": {"shape": [B, M, 4]}}, Notes()
    result_of(folder, progress, data=data, mask={"file": file, **mask})
    return progress.notes


def test_masks_of_a_config(tmp_path: Path) -> None:
    np.savez(tmp_path / "masks.npz", mine=zeros_and(-INF).numpy(), key_padding_mask=PADDED.numpy())
    np.save(tmp_path / "padding.npy", ~PADDED.numpy())
    data = {"queries": {"shape": [B, N, 4]}, "keys": {"shape": [B, M, 4]}}

    def valid(**mask: str) -> Tensor:
        return inputs_of(tmp_path, data=data, mask=mask).valid.whole

    assert torch.equal(valid(file="masks.npz", tensor="mine"), ALLOWED.expand(B, N, M))
    for each in ({"file": "masks.npz", "tensor": "key_padding_mask"}, {"file": "padding.npy"}):
        assert torch.equal(valid(**each), ~PADDED[:, None].expand(B, N, M))
    assert notes_of(tmp_path, "masks.npz", tensor="mine") == [
        "masks.npz: mine: floats of 0 and -inf, read as 0 = may attend"
    ]
    assert notes_of(tmp_path, "padding.npy") == [
        "warning: padding.npy: True is read as may attend; if it is padding, save the opposite",
        "padding.npy: shape [2, 5], read as (batch, keys)",
    ]
