"""Checks around the code of users: it may raise anything, return anything and write to its arguments."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from attncli.attention import at_least_float32
from attncli.errors import InputError, ran_out
from attncli.normalizers import Normalizer
from attncli.scorers._custom import raised


class OwnNormalizer(Normalizer):
    """A user's normaliser with checks. It never sees the scores of keys that are not valid; its parameters are fixed.

    Weights of queries without a valid key are set to 0.
    """

    def __init__(self, normalizer: nn.Module) -> None:
        super().__init__()
        self.normalizer = normalizer.eval().requires_grad_(False)

    @property
    def formula(self) -> Any:
        """The user's normaliser."""
        return self.normalizer

    def forward(self, scores: Tensor, valid: Tensor | None = None) -> Tensor:
        """Return the weights (..., n, m).

        Raises:
            InputError: the normaliser fails, returns no dense real tensor of this shape, writes to its arguments,
                gives a weight to a key that is not valid, or weights that are not finite for finite scores.
        """
        every = torch.ones((), dtype=torch.bool, device=scores.device)
        valid = (every if valid is None else valid).expand(scores.shape)
        masked = scores.masked_fill(~valid, 0.0)
        version = masked._version
        with calling("the normaliser"):
            weights: Tensor = self.normalizer(masked, valid.clone())
        _check_made(weights, scores.shape, "normaliser", "weights")
        if masked._version != version:
            raise InputError.of("the normaliser changed its scores, which are shown, too; expected a new tensor")
        weights = weights.to(scores.dtype).masked_fill(~valid.any(-1, keepdim=True), 0.0)
        is_sound = masked.isfinite().all(-1, keepdim=True)
        _refuse_weights(weights, ~valid & (weights != 0) & is_sound, "for a key that is not valid; expected 0")
        _refuse_weights(weights, ~weights.isfinite() & is_sound, "for finite scores; expected a finite number")
        weights = weights.masked_fill(~valid, 0.0)
        if scores.requires_grad and not weights.requires_grad:  # it rounds, or uses detach: its gradient is 0
            weights = weights + scores.masked_fill(valid | ~valid, 0.0)
        return weights

    def steps(self, scores: Tensor, valid: Tensor | None = None) -> dict[str, Tensor] | None:
        """Return the steps of the user's normaliser, if it has any."""
        steps: Callable[..., dict[str, Tensor]] | None = getattr(self.normalizer, "steps", None)
        return None if steps is None else steps(scores, valid)


def _refuse_weights(weights: Tensor, wrong: Tensor, expected: str) -> None:
    if bool(wrong.any()):
        index = wrong.nonzero()[0].tolist()
        message = f"the normaliser gave a weight of {float(weights.detach()[*index]):.4g} {expected}"
        raise InputError.of(message, ["weights", *index])


def raw_scores(scorer: Callable[[Tensor, Tensor], Tensor], queries: Tensor, keys: Tensor) -> Tensor:
    """Return the raw scores (..., n, m), computed in float32 at least, after checks: a user's scorer may do anything.

    Raises:
        InputError: the scorer fails, returns no dense real tensor of this shape, or writes to its arguments.
    """
    queries, keys = at_least_float32(queries, keys)
    shape = (*queries.shape[:-1], keys.shape[-2])
    versions = [_version(tensor) for tensor in (queries, keys)]
    with calling("the scorer"):
        scores = scorer(queries, keys)
    _check_made(scores, shape, "scorer", "scores")
    if versions != [_version(tensor) for tensor in (queries, keys)]:
        raise InputError.of("the scorer changed its queries or keys, which other scorers use too; expected new tensors")
    return at_least_float32(scores)[0]


def _check_made(result: object, shape: tuple[int, ...], by: str, what: str) -> None:
    """Raise an InputError unless a user's class made a dense real tensor of this shape."""
    if not isinstance(result, Tensor) or tuple(result.shape) != shape:
        description = f"shape {list(result.shape)}" if isinstance(result, Tensor) else type(result).__name__
        raise InputError.of(f"the {by} gave {description}; expected {what} of shape {list(shape)}")
    if result.layout != torch.strided or result.device.type == "meta" or result.is_complex():
        place = f"{result.dtype} {what} ({result.layout}, on {result.device})"
        raise InputError.of(f"the {by} gave {place}; expected dense real numbers")


def _version(tensor: Tensor) -> int | None:
    """Return how often a tensor was written to; None for a tensor made in inference mode, which has no counter."""
    return None if tensor.is_inference() else tensor._version


@contextmanager
def calling(what: str) -> Iterator[None]:
    """Turn any exception of the user's code into an InputError; interrupts and out-of-memory errors pass through."""
    try:
        yield
    except BaseException as error:  # sys.exit among it
        if isinstance(error, InputError | KeyboardInterrupt) or ran_out(error):
            raise
        raise InputError.of(f"{what} gave {raised(error)}") from error
