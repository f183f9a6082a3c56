"""Convert -inf in the bias that is added to the scores of every scorer to a mask."""

from collections.abc import Callable
from dataclasses import replace

from torch import Tensor

from attncli.errors import InputError, got
from attncli.masks import Valid


def without_infinities(
    bias: Tensor, valid: Valid, shape: tuple[int, ...], note: Callable[[str], None]
) -> tuple[Tensor, Valid]:
    """Return the bias with -inf replaced by 0, and `valid` without the pairs of query and key that -inf masks.

    `bias` has all axes of the scores; `shape` is the shape of the bias in the user's file or list. NaN and +inf are
    also replaced by 0, if the pair is not valid. `note` is called with the number of -inf, if any.

    Raises:
        InputError: a valid pair has NaN or +inf; the path in the error is the index of the first in the user's tensor.
    """
    hidden, wrong = bias.isneginf(), bias.isnan() | bias.isposinf()
    count = int(hidden.sum())
    if count:
        note(f"data.bias: {count} of {bias.numel()} numbers are -inf, which masks these keys")
        valid = replace(valid, mask=~hidden if valid.mask is None else valid.mask & ~hidden)
    if bool(wrong.any()):
        _check_valid_pairs(bias, wrong, valid, shape)
    return bias.masked_fill(hidden | wrong, 0.0), valid


def _check_valid_pairs(bias: Tensor, wrong: Tensor, valid: Valid, shape: tuple[int, ...]) -> None:
    for element in range(valid.shape[0]):  # one at a time, since the mask of all may be large
        part = slice(element, element + 1)
        here, tile = wrong[part] if len(wrong) > 1 else wrong, valid.tile(part)
        seen = (here if tile is None else here & tile).nonzero()
        if len(seen):
            first = [element, *seen[0].tolist()[1:]]
            index = [at if size > 1 else 0 for at, size in zip(first, bias.shape, strict=True)]
            dtype = str(bias.dtype).removeprefix("torch.")
            expected = f"expected a finite number that {dtype} holds, or -inf, which masks the key"
            raise InputError.of(got(bias[tuple(index)].item(), expected), index[bias.ndim - len(shape) :])
