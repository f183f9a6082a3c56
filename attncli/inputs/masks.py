"""Read masks: booleans, 0 and 1, or numbers added to scores; for pairs of query and key, or for padding of keys.

A note says how a mask was read unless it is plain booleans (..., n, m).
"""

import re
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from attncli.errors import InputError
from attncli.models.call import LOW

PADDING = re.compile(r"(is_)?pad(s|ding)?(_mask)?|(\w+_)?key_padding_mask")  # names of masks that are True at padding


def marks_padding(name: str) -> bool:
    """Whether a mask with this name marks padding with True."""
    return PADDING.fullmatch(name.lower()) is not None


def broadcasts(shape: Sequence[int], to: Sequence[int]) -> bool:
    """Whether a tensor of one shape can be broadcast to another shape."""
    pairs = zip(reversed(shape), reversed(to), strict=False)
    return len(shape) <= len(to) and all(size in (1, most) for size, most in pairs)


def read_mask(
    given: Tensor, scores: tuple[int, ...], name: str, note: Callable[[str], None], called: str = ""
) -> Tensor:
    """Return a mask for scores (b, ..., n, m) as booleans, True = may attend, with as many axes as the scores.

    `given` has booleans, or 0 and 1; True or 1 means padding if `marks_padding(called)`, else that the query may attend
    to the key. Or `given` has 0 and numbers of at most -10000, such as -inf, as added to scores. Its shape is (n, m),
    (m,), (b, m) for the keys of each batch element, or has further leading axes; the result keeps axes of size 1.
    `note` is called with `name`, the name in messages, and how the mask was read, unless it is booleans (..., n, m).

    Raises:
        InputError: the mask has other numbers, or a shape that does not fit the scores.
    """
    is_padding = marks_padding(called)
    mask, shape = _shaped(given, scores, is_padding)
    mask, content = _content(mask, is_padding)
    if reading := "; ".join(filter(None, (content, shape))):
        note(f"{name}: {reading}")
    return mask


def _content(given: Tensor, is_padding: bool) -> tuple[Tensor, str]:
    """Return the mask as booleans, True = may attend, and words that say how its numbers were read."""
    if given.dtype == torch.bool:
        return (~given, "booleans, read as True = padding") if is_padding else (given, "")
    is_float = given.is_floating_point()
    kind, numbers = ("floats", given) if is_float else ("integers", given.to(torch.int64))  # torch compares these
    zero, one, low = numbers == 0, numbers == 1, numbers <= LOW
    infinite = is_float and bool((numbers.isneginf() | ~low).all())
    there = {"0": zero, "1": one, "-inf" if infinite else "-10000 or less": low}
    content = f"{kind} of {' and '.join(name for name, each in there.items() if bool(each.any()))}, read as"
    # Floats that are all 0 are read as added to scores, which masks nothing; integers that are all 0, as 0 and 1.
    if bool((zero | low).all()) and (is_float or bool(low.any())):
        return zero, f"{content} 0 = may attend"
    if bool((zero | one).all()):
        return (zero, f"{content} 1 = padding") if is_padding else (one, f"{content} 1 = may attend")
    other = numbers[~(zero | one | low)]
    found = f"{other[0].item():g}" if len(other) else f"1 beside {numbers[low][0].item():g}"
    expected = "expected True and False or 1 and 0, True = may attend, or 0 and -inf, which are added to scores"
    cure = "a bias that is no mask goes under `data: {bias: ...}`"
    raise InputError.of(f"got {kind} with {found}; {expected}; {cure}")


def _shaped(mask: Tensor, scores: tuple[int, ...], is_padding: bool) -> tuple[Tensor, str]:
    """Return the mask with as many axes as the scores, and words that say how its shape was read."""
    b, *middle, n, m = scores
    given, rank = list(mask.shape), len(scores)
    while mask.ndim > rank and 1 in mask.shape[1:-2]:  # drop an axis for heads if the scores have none
        mask = mask.squeeze(mask.shape.index(1, 1))
    shape = list(mask.shape)
    fits, of_keys = len(shape) > 0 and broadcasts(shape, scores), shape == [b, m]
    readings = dict[str, list[int]]()  # full shapes by reading
    if of_keys and (is_padding or not fits):
        readings["(batch, keys)"] = [b, *(1 for _ in middle), 1, m]
    elif len(shape) == 3 and rank == 4 and shape[0] > 1:
        if broadcasts(shape, (b, n, m)):
            readings["(batch, queries, keys)"] = [shape[0], 1, *shape[1:]]
        if fits:
            readings["(heads, queries, keys)"] = [1, *shape]
    elif fits:
        is_square = of_keys and b > 1
        readings["(queries, keys), the same for all batch elements" * is_square] = [1] * (rank - len(shape)) + shape
    if not readings:
        expected = f"expected {[n, m]}, {list(scores)}, or {[b, m]} for the keys of each batch element"
        raise InputError.of(f"got shape {given}; {expected}; an axis of size 1 is repeated")
    if len(readings) > 1:
        batch, heads = readings.values()
        cure = f"save it as {batch} for batch elements, or as {heads} for heads"
        raise InputError.of(f"got shape {shape}, which fits both batch elements and heads; {cure}")
    ((reading, full),) = readings.items()
    return mask.reshape(full), f"shape {given}, read as {reading}" if reading else ""
