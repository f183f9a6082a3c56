"""The base class of normalisers, which states the default of each fact that a normaliser may have."""

import math
from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor, nn


class Normalizer(nn.Module):
    """A function from scores to weights; a subclass overrides the facts that differ for it.

    A normaliser is made with its options. Its `forward` takes scores (..., n, m) and `valid`, which is broadcast to
    them, or None, and returns weights (..., n, m) that are exactly 0 at invalid keys.
    """

    lowest_score = -math.inf  # a lower score at a valid key is an `InputError` with its place
    label = ""  # of the entry, for messages
    may_drop_keys = False  # the weight of a valid key can be exactly 0, whatever rounding does
    learnable: ClassVar[Mapping[str, tuple[float, float]]] = {}  # options that `attncli fit` learns, with their ranges

    @property
    def formula(self) -> Any:
        """The module with the options: this one, or the user's inside of one with checks."""
        return self

    def jacobian_norm(self, weights: Tensor, valid: Tensor | None = None) -> Tensor | None:
        """Return the Frobenius norm (..., n) of the Jacobian of each query's weights with respect to its scores.

        None if it has no closed form.
        """
        return None

    def steps(self, scores: Tensor, valid: Tensor | None = None) -> dict[str, Tensor] | None:
        """Return the steps of the formula by name, in their order, for `attncli explain`; None without steps.

        The last are the weights. For scores (n, m) each broadcasts to (n, m); a number of a whole query is (n, 1) or
        (1, 1). `sum of X` is the sum of the step `X`. Each query has a valid key.
        """
        return None
