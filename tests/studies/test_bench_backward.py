"""Backward of scorers that have parameters without gradients, or no gradient at all."""

import sys
import types

import pytest
import torch
from torch import Tensor, nn

from tests.studies.bench import by_name, hurry, result_of


class Frozen(nn.Module):
    """w q.k"""

    def __init__(self, query_size: int, key_size: int) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.ones(1), requires_grad=False)

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        return queries @ keys.mT * self.w


class Detached(nn.Module):
    """q.k"""

    def __init__(self, query_size: int, key_size: int) -> None:
        super().__init__()

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        return (queries @ keys.mT).detach()


def test_all_others_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch)
    module = types.ModuleType("mine_backward")
    for scorer in (Frozen, Detached):
        setattr(module, scorer.__name__, scorer)
    monkeypatch.setitem(sys.modules, "mine_backward", module)
    scorers = ["mine_backward:Frozen", "mine_backward:Detached", "scaled_dot"]
    rows = by_name(result_of(scorers=[{"scorer": each} for each in scorers], measure=["scores"], backward=True))
    assert rows["Frozen/attncli"]["status"] == "timed"
    assert rows["scaled_dot/attncli"]["status"] == "timed"
    lost = rows["Detached/attncli"]
    reason = "its scores have no gradient (they are detached, or not made by torch); measure it without backward"
    assert (lost["status"], lost["reason"], lost["seconds"]) == ("not available", reason, None)
