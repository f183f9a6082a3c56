"""Blocks below the first changed layer are not computed again; numbers are those of whole passes."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import attncli
from attncli.studies.swap import blocks
from tests.models.families import of_transformers
from tests.models.written import Computed
from tests.studies.swap.models import Strides

pytestmark = pytest.mark.filterwarnings("ignore")
BY = ("layer", "head", "up_to", "from")
ENTRIES: list[Any] = ["sparsemax", {"label": "plan", "plan": {"1": "cosine"}}]


class Block(nn.Module):
    def __init__(self, form: str) -> None:
        super().__init__()
        self.attention, self.form, self.runs = Strides(), form, 0

    def forward(self, x: Tensor | tuple[Tensor, None], shared: list[Tensor]) -> Any:
        self.runs += 1
        x = x[0] if isinstance(x, tuple) else x
        shared.append(x)
        added = self.attention(x + (shared[-2] if self.form == "needs the block before" and len(shared) > 1 else 0))
        x = x.add_(added) if self.form == "in place" else x + added
        return (x, None) if self.form == "tuples" else x


def deep(form: str) -> Any:
    """Return a model of four blocks."""

    def forward(module: Any, x: Tensor) -> Any:
        y, shared = x.clone(), list[Tensor]()
        for block in module.blocks:
            y = block(y, shared)
        return y[0] if isinstance(y, tuple) else y

    torch.manual_seed(0)
    return Computed(forward, blocks=nn.ModuleList(Block(form) for _ in range(4))).eval()


def runs(model: Any) -> int:
    return sum(block.runs for block in model.blocks)


def rows(model: nn.Module, inputs: Any, *by: str) -> dict[str, float]:
    """Return all numbers of a study, by label, place and column."""
    result = attncli.swap(model, inputs, scorers=ENTRIES, by=by, heads=[1] if "head" in by else None)
    keys = {"relative_l2", "largest", "loss_change", "kl", "rank_correlation"}
    numbers = dict[str, float]()
    for row in result.records:
        place = [row[key] for key in ("label", "by", "layer", "head")]
        numbers |= {f"{place} {key}": row[key] for key in keys & row.keys() if row[key] is not None}
    return numbers


def whole(monkeypatch: pytest.MonkeyPatch, model: nn.Module, inputs: Any, *by: str) -> dict[str, float]:
    """Return the numbers if no outputs of blocks may be stored."""
    with monkeypatch.context() as patch:
        patch.setattr(blocks, "STORED", 0)
        return rows(model, inputs, *by)


@pytest.mark.parametrize("kind", ["gqa", "bert", "albert", "t5"])
def test_models_of_transformers(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, inputs = of_transformers(kind)
    expected = whole(monkeypatch, model, inputs, "layer", "from")
    assert rows(model, inputs, "layer", "from") == pytest.approx(expected, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize(
    ("form", "kept", "saved"),
    [
        ("tensors", 4, [0, 1, 2, 3]),
        ("tuples", 4, [0, 1, 2, 3]),
        ("tensors", 2, [0, 0, 2, 2]),  # with memory for the outputs of two blocks
        ("tensors", 0, [0, 0, 0, 0]),
        ("in place", 4, None),
        ("needs the block before", 4, None),
    ],
)
def test_blocks_of_any_form(form: str, kept: int, saved: list[int] | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """`saved` are the blocks that are not computed again, by the number of the first changed one."""
    model, x = deep(form), torch.randn(2, 5, 32)
    expected, before = whole(monkeypatch, model, [x, x + 1], *BY), runs(model)
    monkeypatch.setattr(blocks, "STORED", 2 * kept * x.nbytes)
    assert rows(model, [x, x + 1], *BY) == pytest.approx(expected, rel=1e-6, abs=1e-6)
    if saved is not None:
        own_and_model, plain, check = 2 * 4, 4, 4 - saved[2] if kept else 0
        by_entry = 4 * 4 + 3 * sum(4 - each for each in saved)  # up_to; layer, head and from
        assert runs(model) - before == 2 * (own_and_model + plain + check + 4 * by_entry)
    assert all("forward" not in vars(block) for block in model.blocks)
