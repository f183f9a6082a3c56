"""The study `train` with custom scorers: independent seeds, and errors that name the scorer."""

from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn

from attncli.errors import InputError
from tests.studies.train.small import result_of


class Mine(nn.Module):
    """queries W keys"""

    def __init__(self, query_size: int, key_size: int, *, power: int = 1) -> None:
        super().__init__()
        self.matrix = nn.Parameter(torch.randn(query_size, key_size))
        self.unused = nn.Parameter(torch.zeros(2))

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        assert not self.training
        return queries @ self.matrix @ keys.mT + 0 * torch.rand(1)


class Noisy(Mine):
    drawn: ClassVar[list[Tensor]] = []

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        noise = torch.randn(len(queries), len(keys), dtype=queries.dtype)
        self.drawn.append(noise)
        return nn.functional.dropout(queries, 0.3) @ self.matrix @ keys.mT + noise


class Backwards(Mine):
    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        scores = super().forward(queries, keys)
        scores.register_hook(refuse)  # type: ignore[no-untyped-call]
        return scores


def refuse(gradient: Tensor) -> None:
    raise KeyError("gradient")


class Detached(Mine):
    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        return super().forward(queries, keys).detach()


def test_own_scorers_learn_in_modules_of_their_own() -> None:
    keys: dict[str, Any] = {"scorers": [f"{__name__}:Mine"], "steps": 60, "batch": 20, "seeds": 2, "lr": 0.02}
    result = result_of(**keys)
    assert result_of(**keys).records == result.records
    first, last = (result.tensors["Mine/4/loss"][:, place] for place in (0, -1))
    assert bool((last < first - 0.05).all())
    assert len({row["loss"] for row in result.records}) == 2
    assert {row["parameters"] for row in result.records} == {2 * 4 * 5 + 4 * 4 + 2}


def test_own_scorers_draw_for_each_seed_alone() -> None:
    """Other seeds, scorers and sizes change no bit, except of the gradient's norm, a sum in another order."""
    keys: dict[str, Any] = {"steps": 20, "dtype": "float64"}
    Noisy.drawn.clear()
    alone = result_of(scorers=[f"{__name__}:Noisy"], seeds=1, **keys)
    assert len({float(noise[0, 0]) for noise in Noisy.drawn}) == len(Noisy.drawn) > 20, (
        "other random numbers at every call"
    )
    many = result_of(scorers=[f"{__name__}:Mine", f"{__name__}:Noisy"], d=[2, 4], seeds=3, **keys)
    assert many.formulas == {"Mine": "queries W keys", "Noisy": "Noisy"}
    for name in ("accuracy", "loss", "entropy"):
        assert torch.equal(alone.tensors[f"Noisy/4/{name}"][0], many.tensors[f"Noisy/4/{name}"][0]), name
    norms = [result.tensors["Noisy/4/gradient_norm"][0] for result in (alone, many)]
    torch.testing.assert_close(norms[0], norms[1], rtol=1e-12, atol=0)
    again = result_of(scorers=[f"{__name__}:Noisy:label=other"], seeds=1, **keys)
    assert not torch.equal(again.tensors["other/4/loss"][0], alone.tensors["Noisy/4/loss"][0])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Backwards", "the gradient of the scorer gave KeyError: 'gradient' (line "),
        (
            "Detached",
            "the scorer gave scores without a gradient, so nothing can be learnt; expected differentiable scor",
        ),
    ],
)
def test_own_scorers_that_cannot_learn_are_named(name: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        result_of(scorers=["dot", f"{__name__}:{name}"])
    assert str(caught.value).startswith(f"scorers[1]: {message}")
