"""Read masks: booleans, or integers of 0 and 1, for pairs of query and key, or for the keys of each batch element."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from attncli.errors import InputError


def broadcasts(shape: Sequence[int], to: Sequence[int]) -> bool:
    """Whether a tensor of one shape can be broadcast to another shape."""
    pairs = zip(reversed(shape), reversed(to), strict=False)
    return len(shape) <= len(to) and all(size in (1, most) for size, most in pairs)


def read_mask(stored: Tensor, scores: tuple[int, ...], name: str, note: Callable[[str], None]) -> Tensor:
    """Return a mask for scores (b, ..., n, m) as booleans, True = may attend, with as many axes as the scores.

    `stored` has booleans, or the integers 0 and 1. Its shape is (n, m), (m,), (b, m) for the keys of each batch
    element, or has further leading axes; the result keeps axes of size 1. `note` is called with a sentence that begins
    with `name` and says how the shape was read, unless it is (..., n, m).

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
    return mask.bool()


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
        readings["(queries, keys), the same for all batch elements" * is_square] = [1] * (rank - len(shape)) + shape
    if not readings:
        expected = f"expected {[n, m]}, {list(scores)}, or {[b, m]} for the keys of each batch element"
        raise InputError.of(f"got shape {shape_in_file}; {expected}; an axis of size 1 is repeated")
    if len(readings) > 1:
        batch, heads = readings.values()
        cure = f"save it as {batch} for batch elements, or as {heads} for heads"
        raise InputError.of(f"got shape {shape}, which fits both batch elements and heads; {cure}")
    ((reading, full),) = readings.items()
    return mask.reshape(full), reading
