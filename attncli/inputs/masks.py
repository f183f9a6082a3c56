"""Masks as people have them: booleans, zeros and ones, or numbers to add, for queries and keys or for padding alone.

What is read in one way and could be meant in another is told in one line.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from attncli.capturing.record import LOW
from attncli.errors import InputError

PADDING = re.compile(r"(is_)?pad(s|ding)?(_mask)?|(\w+_)?key_padding_mask")  # names of masks whose True is padding
TORCH = re.compile(r"(\w+_)?key_padding_mask")  # those of torch, where True is padding beyond doubt


class Reading(NamedTuple):
    """What a mask is, and how that is read; nothing is said where `what` is empty."""

    mask: Tensor
    what: str = ""
    meaning: str = ""


def marks_padding(name: str) -> bool:
    """Whether True means padding in a mask of this name."""
    return PADDING.fullmatch(name.lower()) is not None


def read_mask(
    given: Tensor, scores: tuple[int, ...], name: str, note: Callable[[str], None], called: str = ""
) -> Tensor:
    """A mask for scores (b, ..., n, m) as booleans, True = may attend, with as many axes as the scores.

    It holds booleans, or 0 and 1, where True is padding if the tensor is `called` so; or 0 and -inf, or -10000 and
    less, which are to be added to scores. It is (n, m), (m,), (b, m) for padding, or has leading axes, too; axes of
    size 1 are not repeated. `name` is what `note` calls it.

    Raises:
        InputError: it holds something else, or does not fit the scores.
    """
    is_padding = marks_padding(called)
    shaped = _shaped(given, scores, is_padding)
    content = _content(shaped.mask, is_padding)
    if content.meaning.endswith("padding") and not TORCH.fullmatch(called.lower()):
        _refuse_if_turned(content.mask)
    words = [f"{each.what}, read as {each.meaning}" for each in (content, shaped) if each.what]
    if words:
        note(f"{name}: {'; '.join(words)}")
    return content.mask


def _content(given: Tensor, is_padding: bool) -> Reading:
    """Which keys may be attended to."""
    if given.dtype == torch.bool:
        return Reading(~given, "booleans", "True = padding") if is_padding else Reading(given)
    is_float = given.is_floating_point()
    kind, numbers = ("floats", given) if is_float else ("integers", given.to(torch.int64))  # which torch can compare
    zero, one, low = numbers == 0, numbers == 1, numbers <= LOW
    infinite = is_float and bool((numbers.isneginf() | ~low).all())
    there = {"0": zero, "1": one, "-inf" if infinite else "-10000 or less": low}
    what = f"{kind} of {' and '.join(name for name, each in there.items() if bool(each.any()))}"
    # Floats of 0 alone are taken as added, which masks nothing; integers of 0 alone as 0 and 1.
    if bool((zero | low).all()) and (is_float or bool(low.any())):
        return Reading(zero, what, "0 = may attend")
    if bool((zero | one).all()):
        return Reading(zero, what, "1 = padding") if is_padding else Reading(one, what, "1 = may attend")
    other = numbers[~(zero | one | low)]
    found = f"{other[0].item():g}" if len(other) else f"1 beside {numbers[low][0].item():g}"
    expected = "expected True and False or 1 and 0, True = may attend, or 0 and -inf, which are added to scores"
    cure = "a bias that is no mask goes under `data: {bias: ...}`"
    raise InputError.of(f"got {kind} with {found}; {expected}; {cure}")


def _shaped(mask: Tensor, scores: tuple[int, ...], is_padding: bool) -> Reading:
    """The mask with as many axes as the scores."""
    b, m, rank, given = scores[0], scores[-1], len(scores), list(mask.shape)
    while mask.ndim > rank and 1 in mask.shape[1:-2]:  # an axis for heads, where there are none
        mask = mask.squeeze(mask.shape.index(1, 1))
    if mask.ndim == 3 and rank == 4 and len(mask) > 1:
        return _batch_or_heads(mask, scores)
    fits = 0 < mask.ndim <= rank and _broadcasts(mask, scores[rank - mask.ndim :])
    if tuple(mask.shape) == (b, m) and (is_padding or not fits):
        return Reading(mask.reshape(b, *(1,) * (rank - 2), m), f"shape {given}", "(batch, keys)")
    if not fits:
        raise _other_shape(given, scores)
    aligned = mask.reshape((1,) * (rank - mask.ndim) + tuple(mask.shape))
    if tuple(mask.shape) == (b, m) and b > 1:
        return Reading(aligned, f"shape {given}", "(queries, keys), the same for all batch elements")
    return Reading(aligned)


def _batch_or_heads(mask: Tensor, scores: tuple[int, ...]) -> Reading:
    """A mask (x, n, m) for scores (b, heads, n, m)."""
    x, n, m = mask.shape
    of_batch, of_heads = (_broadcasts(mask, (size, *scores[2:])) for size in scores[:2])
    if of_batch and of_heads:
        cure = f"save it as {[x, 1, n, m]} for batch elements, or as {[1, x, n, m]} for heads"
        raise InputError.of(f"got shape {[x, n, m]}, which fits both batch elements and heads; {cure}")
    if of_batch:
        return Reading(mask[:, None], f"shape {[x, n, m]}", "(batch, queries, keys)")
    if of_heads:
        return Reading(mask[None], f"shape {[x, n, m]}", "(heads, queries, keys)")
    raise _other_shape([x, n, m], scores)


def _other_shape(given: list[int], scores: tuple[int, ...]) -> InputError:
    b, n, m = scores[0], *scores[-2:]
    expected = f"expected {[n, m]}, {list(scores)}, or {[b, m]} for the keys of each batch element"
    return InputError.of(f"got shape {given}; {expected}; an axis of size 1 is repeated")


def _broadcasts(mask: Tensor, shape: tuple[int, ...]) -> bool:
    return mask.ndim == len(shape) and all(size in (1, most) for size, most in zip(mask.shape, shape, strict=True))


def _refuse_if_turned(allowed: Tensor) -> None:
    """Nothing but padding is rare, no padding is common: a mask with the former and without the latter is turned."""
    if bool((~allowed).all(-1).any()) and not bool(allowed.all(-1).any()):
        expected = "expected True = padding in a tensor of this name, which leaves some query without a key"
        raise InputError.of(f"got True at every key; {expected}; if True = may attend, call it `mask`")
