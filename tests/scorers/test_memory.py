"""What additive attention is for here: never to hold the n x m x h hidden units of the textbook form at once."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from attncli.scorers import additive
from tests.scorers.catalogue import make, normal


class Recorder(TorchFunctionMode):
    """The number of entries of the largest tensor that is made."""

    def __init__(self) -> None:
        super().__init__()
        self.largest = 0

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        self.largest = max(self.largest, result.numel() if isinstance(result, Tensor) else 0)
        return result


def largest_tensor(n: int, m: int, h: int, *leading: int) -> int:
    scorer, queries, keys = make("additive", 4, num_hiddens=h), normal(*leading, n, 4), normal(*leading, m, 4, seed=1)
    with torch.no_grad(), Recorder() as recorder:
        scorer(queries, keys)
    assert recorder.largest >= n * m, "the recorder sees at least the scores"
    return int(recorder.largest)


@pytest.mark.parametrize(("n", "m"), [(24, 40), (2, 480), (480, 2)])
def test_holds_a_tile_and_the_scores(n: int, m: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(additive, "TILE_BYTES", 1000 * 4)
    h = 8
    inputs, scores = 2 * 3 * max(n, m) * h, 2 * 3 * n * m
    assert largest_tensor(n, m, h, 2, 3) <= max(1000, inputs, scores) < 2 * 3 * n * m * h


def test_the_tile_as_shipped() -> None:
    n, m, h = 300, 300, 64
    assert largest_tensor(n, m, h) * 4 <= additive.TILE_BYTES < n * m * h * 4
