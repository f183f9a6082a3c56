"""Masks as people save them: the meaning of their content and shapes, against slow loops, and the notes about it."""

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from attncli.errors import InputError
from attncli.sources.masks import read_mask
from tests.experiments import Notes, call_inputs, result_of
from tests.scorers.catalogue import normal

B, H, N, M = 2, 4, 3, 5
ALLOWED = torch.tensor([[1, 1, 0, 0, 1], [1, 1, 1, 0, 1], [1, 0, 1, 0, 0]]).bool()  # n m


def read(given: Tensor, scores: tuple[int, ...] = (B, N, M)) -> tuple[list[Any], list[str]]:
    """Return the mask for every pair, and the notes about it."""
    said: list[str] = []
    mask = read_mask(given, scores, "m.npy", said.append)
    assert mask.dtype == torch.bool
    assert mask.ndim == len(scores)
    return mask.expand(scores).tolist(), said


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.int8, torch.uint8, torch.uint16])
def test_contents(dtype: torch.dtype) -> None:
    assert read(ALLOWED.to(dtype)) == ([ALLOWED.tolist()] * B, [])


@pytest.mark.parametrize("wrong", [torch.full((N, M), 2), -ALLOWED.long()], ids=str)
def test_what_is_no_mask(wrong: Tensor) -> None:
    with pytest.raises(InputError, match=r"^got integers other than 0 and 1; expected True and False, or"):
        read(wrong)


def random_mask(*shape: int) -> Tensor:
    return torch.from_numpy(np.asarray(np.random.default_rng(3).random(shape) < 0.5))


Seen = Callable[[Tensor, int, int, int, int], Tensor]
SHAPES: dict[tuple[tuple[int, ...], tuple[int, ...]], tuple[Seen, str]] = {  # of the scores, and of the mask
    ((B, N, M), (M,)): (lambda t, i, h, q, k: t[k], ""),
    ((B, N, M), (N, 1)): (lambda t, i, h, q, k: t[q, 0], ""),
    ((B, N, M), (B, N, M)): (lambda t, i, h, q, k: t[i, q, k], ""),
    ((B, N, M), (B, 1, 1, M)): (lambda t, i, h, q, k: t[i, 0, 0, k], ""),
    ((B, N, M), (B, M)): (lambda t, i, h, q, k: t[i, k], "shape [2, 5], read as (batch, keys)"),
    ((N, N, M), (N, M)): (
        lambda t, i, h, q, k: t[q, k],
        "shape [3, 5], read as (queries, keys), the same for all batch elements",
    ),
    ((B, H, N, M), (N, M)): (lambda t, i, h, q, k: t[q, k], ""),
    ((B, H, N, M), (B, 1, 1, M)): (lambda t, i, h, q, k: t[i, 0, 0, k], ""),
    ((B, H, N, M), (1, H, N, 1)): (lambda t, i, h, q, k: t[0, h, q, 0], ""),
    ((B, H, N, M), (B, M)): (lambda t, i, h, q, k: t[i, k], "shape [2, 5], read as (batch, keys)"),
    ((B, H, N, M), (B, N, M)): (lambda t, i, h, q, k: t[i, q, k], "shape [2, 3, 5], read as (batch, queries, keys)"),
    ((B, H, N, M), (B, 1, M)): (lambda t, i, h, q, k: t[i, 0, k], "shape [2, 1, 5], read as (batch, queries, keys)"),
    ((B, H, N, M), (H, N, M)): (lambda t, i, h, q, k: t[h, q, k], "shape [4, 3, 5], read as (heads, queries, keys)"),
}


@pytest.mark.parametrize("shapes", SHAPES)
def test_shapes(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    seen, said = SHAPES[shapes]
    scores, given = shapes[0], random_mask(*shapes[1])
    with_heads = scores if len(scores) == 4 else (scores[0], 1, *scores[1:])
    mask, notes = read(given, scores)
    found = torch.tensor(mask).reshape(with_heads)
    for i, h, q, k in product(*map(range, with_heads)):
        assert found[i, h, q, k] == seen(given, i, h, q, k)
    assert [text for text in notes if "invert" not in text] == ([f"m.npy: {said}"] if said else [])


@pytest.mark.parametrize(
    ("scores", "shape", "message"),
    [
        ((B, N, M), (M, N), r"got shape \[5, 3\]; expected \[3, 5\], \[2, 3, 5\], or \[2, 5\] for the keys"),
        ((B, N, M), (), r"got shape \[\]"),
        ((B, N, M), (B, H, N, M), r"got shape \[2, 4, 3, 5\]"),
        ((B, H, N, M), (3, N, M), r"got shape \[3, 3, 5\]; expected"),
        ((H, H, N, M), (H, N, M), r"both batch elements and heads; save it as \[4, 1, 3, 5\] .* \[1, 4, 3, 5\]"),
    ],
)  # fmt: skip
def test_shapes_that_do_not_fit(scores: tuple[int, ...], shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(random_mask(*shape), scores)


NOTED: list[tuple[Any, tuple[int, ...], str]] = [
    ([[1, 1, 0, 0], [0, 1, 1, 1]], (2, 3, 4), "text 0 keeps keys 0 to 1, text 1 keys 1 to 3;"),
    ([[1, 0, 1, 0], [0, 0, 0, 0]], (2, 3, 4), "text 0 keeps keys 0 and 2, text 1 no key;"),
    (np.triu(np.ones((3, 4), int), 2), (2, 3, 4), "each text keeps keys 2 to 3 (1 of 3 queries none);"),
    ([0, 0, 1, 1], (2, 3, 4), "each text keeps keys 2 to 3;"),
    (np.triu(np.ones((40, 40), int)), (40, 1, 40), "text 7 keys 7 to 39, and so on to text 39;"),
    *((mask, (2, 3, 4), "") for mask in (np.ones((2, 4), int), [[1, 0, 1, 1], [1, 1, 1, 1]])),
    ([[[1, 0, 0, 1]] * 3, [[1, 1, 1, 1]] * 3], (2, 3, 4), ""),
]


@pytest.mark.parametrize(("mask", "scores", "words"), NOTED, ids=lambda value: str(value)[:20].replace("\n", ""))
def test_a_mask_that_may_be_the_opposite_is_noted(mask: Any, scores: tuple[int, ...], words: str) -> None:
    notes = " ".join(read(torch.tensor(mask), scores)[1])
    assert ("`invert: true`" in notes) is (words != "")
    assert words in notes


def test_masks_of_a_config(tmp_path: Path) -> None:
    within = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]]).bool()  # b m
    np.savez(tmp_path / "masks.npz", mine=ALLOWED.numpy(), keys=within.numpy())
    data, progress = {"queries": {"shape": [B, N, 4]}, "keys": {"shape": [B, M, 4]}}, Notes()
    for tensor, expected in (("mine", ALLOWED), ("keys", within[:, None])):
        mask = {"file": "masks.npz", "tensor": tensor}
        assert torch.equal(call_inputs(tmp_path, data=data, mask=mask).valid.whole, expected.expand(B, N, M))
        result_of(tmp_path, progress, data=data, mask=mask)
    assert progress.notes == [
        "masks.npz: keys: shape [2, 5], read as (batch, keys)",
        "masks.npz: keys: text 0 keeps keys 0 to 4, text 1 keys 0 to 2; if 1 means to ignore a key, add `invert: true`",
    ]


def sdpa(tensors: dict[str, Tensor], **mask: Any) -> Tensor:
    queries, keys, values = tensors.values()
    return torch.nn.functional.scaled_dot_product_attention(queries, keys, values, **mask)


def module(tensors: dict[str, Tensor], **mask: Any) -> Tensor:
    """Return the output of a module with one head that projects nothing."""
    layer = torch.nn.MultiheadAttention(4, 1, bias=False, batch_first=True)
    layer.in_proj_weight.data, layer.out_proj.weight.data = torch.eye(4).repeat(3, 1), torch.eye(4)
    output: Tensor = layer(*tensors.values(), **mask)[0]
    return output.detach()


OF_TORCH: dict[str, tuple[Callable[..., Tensor], str, tuple[int, ...], dict[str, Any]]] = {
    "function": (sdpa, "attn_mask", (2, 3, 5), {}),
    "padding of the module": (module, "key_padding_mask", (2, 5), {"invert": True}),
    "mask of the module": (module, "attn_mask", (3, 5), {"invert": True}),
}


@pytest.mark.parametrize("case", OF_TORCH)
def test_masks_as_torch_means_them(case: str, tmp_path: Path) -> None:
    """The rows of the table in the documentation, without rows that have no key."""
    attend, name, shape, keys = OF_TORCH[case]
    mask = normal(*shape, seed=4) > 0
    mask[..., :2] = torch.tensor([True, False])
    np.save(tmp_path / "mask.npy", mask.numpy())
    tensors = {role: normal(2, n, 4, seed=n) for role, n in (("queries", 3), ("keys", 5), ("values", 5))}
    data = {role: {"file": f"{role}.npy"} for role in tensors}
    for role, tensor in tensors.items():
        np.save(tmp_path / f"{role}.npy", tensor.numpy())
    found = result_of(tmp_path, data=data, mask={"file": "mask.npy", **keys}, scorers=[{"scorer": "scaled_dot"}])
    torch.testing.assert_close(
        found.tensors["scaled_dot/output"], attend(tensors, **{name: mask}), rtol=1e-5, atol=1e-6
    )
