"""Read masks, check the shapes of masks and biases, and convert -inf in a bias to a mask."""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from attncli.core.numbers import several
from attncli.errors import InputError, got, in_ranges

MOST_TEXTS = 8  # whose keys are listed in a note


def broadcasts(shape: Sequence[int], to: Sequence[int]) -> bool:
    """Whether a tensor of one shape can be broadcast to another shape."""
    pairs = zip(reversed(shape), reversed(to), strict=False)
    return len(shape) <= len(to) and all(size in (1, most) for size, most in pairs)


def read_mask(
    stored: Tensor,
    scores: tuple[int, ...],
    name: str,
    note: Callable[[str], None],
    *,
    invert: bool = False,
    cure: str = "add `invert: true`",
) -> Tensor:
    """Return a mask for scores (b, ..., n, m) as booleans, True = may attend, with as many axes as the scores.

    `stored` has booleans, or the integers 0 and 1. Its shape is (n, m), (m,), (b, m) for the keys of each batch
    element, or has further leading axes; the result keeps axes of size 1. `note` is called with a sentence that begins
    with `name` and says how the shape was read, unless it is (..., n, m). If `invert`, True in the file means that a
    query may not attend to the key; otherwise a mask that may be meant so gets a note that ends with the `cure`,
    unless that is empty.

    Raises:
        InputError: the mask has other numbers, or a shape that does not fit the scores.
    """
    mask, reading = _shaped(stored, scores)
    is_float, numbers = stored.is_floating_point(), stored.to(torch.float64)  # torch compares these
    if is_float or not bool(((numbers == 0) | (numbers == 1)).all()):
        content = "floats" if is_float else "integers other than 0 and 1"
        cure = "numbers to add to scores, where -inf masks, go under `data: {bias: ...}`"
        raise InputError.of(
            f"got {content}; expected True and False, or the integers 1 and 0, True = may attend; {cure}"
        )
    if reading:
        note(f"{name}: shape {list(stored.shape)}, read as {reading}")
    if invert:
        return ~mask.bool()
    if cure and may_be_inverted(mask.bool()):
        note(f"{name}: {_kept_keys(mask.bool(), scores)}; if 1 means to ignore a key, {cure}")
    return mask.bool()


def may_be_inverted(mask: Tensor) -> bool:
    """Whether a mask (..., n, m) has rows without keys, or zeros only at the beginning or the end of each row.

    So is a mask of padding read as its opposite. A mask without zeros is not.
    """
    rows = mask.flatten(0, -2).int()
    rises, falls = (rows.diff() >= 0).all(-1), (rows.diff() <= 0).all(-1)
    return not bool(mask.all()) and (bool((rows == 0).all(-1).any()) or bool((rises | falls).all()))


def _kept_keys(mask: Tensor, scores: tuple[int, ...]) -> str:
    """Return words for the keys that each text keeps: `text 0 keeps keys 2 to 3, text 1 key 3`."""
    texts = list[str]()
    for index, text in enumerate(mask[:MOST_TEXTS]):
        rows = text.flatten(0, -2).expand(-1, scores[-1]) if text.ndim > 1 else text[None]
        keys, empty = rows.any(0).nonzero().flatten().tolist(), int((~rows.any(-1)).sum())
        numbers = in_ranges(keys).replace(" or ", " and ")
        visible = f"{'keys' if len(keys) > 1 else 'key'} {numbers}" if keys else "no key"
        note = f" ({empty} of {several(len(rows), 'query')} none)" if keys and empty else ""
        name = f"text {index}" if len(mask) == scores[0] else "each text"
        texts.append(f"{name}{'' if index else ' keeps'} {visible}{note}")
    return ", ".join(texts) + (f", and so on to text {len(mask) - 1}" if len(mask) > MOST_TEXTS else "")


def _shaped(mask: Tensor, scores: tuple[int, ...]) -> tuple[Tensor, str]:
    """Return the mask with as many axes as the scores, and words that say how its shape was read."""
    b, *middle, n, m = scores
    shape_in_file, rank = list(mask.shape), len(scores)
    while mask.ndim > rank and 1 in mask.shape[1:-2]:  # drop an axis for heads if the scores have none
        mask = mask.squeeze(mask.shape.index(1, 1))
    shape = list(mask.shape)
    fits, of_keys = len(shape) > 0 and broadcasts(shape, scores), shape == [b, m]
    readings = dict[str, list[int]]()  # full shapes by reading
    if of_keys and not fits:
        readings["(batch, keys)"] = [b, *(1 for _ in middle), 1, m]
    elif len(shape) == 3 and rank == 4 and shape[0] > 1:
        if broadcasts(shape, (b, n, m)):
            readings["(batch, queries, keys)"] = [shape[0], 1, *shape[1:]]
        if fits:
            readings["(heads, queries, keys)"] = [1, *shape]
    elif fits:
        is_square = of_keys and b > 1
        name = "(queries, keys), the same for all batch elements" if is_square else ""
        readings[name] = [1] * (rank - len(shape)) + shape
    if not readings:
        expected = f"expected {[n, m]}, {list(scores)}, or {[b, m]} for the keys of each batch element"
        repeated = f"an axis of size 1 is repeated{_reshaped(shape_in_file, scores)}"
        raise InputError.of(f"got shape {shape_in_file}; {expected}; {repeated}")
    if len(readings) > 1:
        batch, heads = readings.values()
        cure = f"save it as {batch} for batch elements, or as {heads} for heads"
        raise InputError.of(f"got shape {shape}, which fits both batch elements and heads; {cure}")
    ((reading, full),) = readings.items()
    return mask.reshape(full), reading


def _reshaped(shape: Sequence[int], scores: tuple[int, ...]) -> str:
    """Return the cure of a shape (batch * heads, n, m), whose first axis joins the leading axes of the scores."""
    leading = list(scores[:-2])
    is_joined = len(shape) == 3 and shape[0] == math.prod(leading) and broadcasts(shape[1:], scores[-2:])
    return f"; reshape (batch * heads, n, m) to {[*leading, *shape[1:]]}" if is_joined else ""


def bias_shape(shape: tuple[int, ...], scores: tuple[int, ...], note: Callable[[str], None]) -> tuple[int, ...]:
    """Return the `shape` of a bias with leading axes of size 1 added, up to the rank of the scores (b, ..., n, m).

    `note` is called with a sentence if the shape is ambiguous.

    Raises:
        InputError: the bias does not broadcast to the scores.
    """
    if not broadcasts(shape, scores):
        cure = ""
        if len(scores) > 3 and len(shape) == len(scores) - 1 and shape[0] == scores[0]:
            cure = f"one bias per batch element has the shape {[shape[0], 1, *shape[1:]]}"
        cure = cure or _reshaped(shape, scores).removeprefix("; ")
        raise InputError.of(got(list(shape), f"expected a shape that broadcasts to the scores {list(scores)}", cure))
    if len(shape) == 3 and len(scores) == 4 and shape[0] == scores[0] == scores[1] > 1:
        note(f"data.bias: shape {list(shape)} is read as (heads, n, m), the same for all batch elements")
    return (1,) * (len(scores) - len(shape)) + shape
