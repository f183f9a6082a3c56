"""Published weights, sinks, and limits of options where normalisers coincide."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from attncli.attention import Rules
from attncli.core.masks import Valid
from attncli.normalizers import NORMALIZERS
from tests.margins import last_digit
from tests.normalizers.catalogue import mask
from tests.scorers.catalogue import normal


def weights(name: str, scores: Tensor, valid: Tensor | None = None, **options: Any) -> Tensor:
    found: Tensor = NORMALIZERS[name](**options)(scores, valid)
    return found


# Of the scores [-2, 0, 1/2]. The first three stand in the README of the package entmax. Below, by hand: powers of e are
# 0.135335, 1, 1.648721, powers of 3 (which exp(ln(3) s) is) 1/9, 1, 1.732051; sigmoid is 1 / (1 + 3 exp(-s)).
PUBLISHED = [
    ("softmax", {}, [0.0486, 0.3592, 0.5922]),
    ("sparsemax", {}, [0.0, 0.25, 0.75]),
    ("entmax", {}, [0.0, 0.3260, 0.6740]),
    ("entmax", {"alpha": 2}, [0.0, 0.25, 0.75]),
    ("softmax_plus_one", {}, [0.0358, 0.2643, 0.4357]),  # over 1 + 2.784056
    ("sigmoid", {}, [0.0432, 0.25, 0.3547]),
    ("sigmoid", {"bias": 0.0}, [0.1192, 0.5, 0.6225]),
    ("ssmax", {}, [0.0391, 0.3517, 0.6092]),  # over 2.843162
    ("relu", {}, [0.0, 0.0, 1 / 6]),
    ("softpick", {}, [0.0, 0.0, 0.4286]),  # 0.648721 over 0.648721 + 0.864665
    ("stick_breaking", {}, [0.0225, 0.1888, 0.6225]),  # shares 0.119203, 0.5, 0.622459
    ("uniform", {}, [1 / 3, 1 / 3, 1 / 3]),
]


@pytest.mark.parametrize(("name", "options", "wanted"), PUBLISHED)
def test_published(name: str, options: dict[str, Any], wanted: list[float]) -> None:
    found = weights(name, torch.tensor([[-2.0, 0.0, 0.5]]), **options)
    torch.testing.assert_close(found, torch.tensor([wanted]), rtol=0, atol=last_digit(1e-4))


def test_sinks_of_heads_and_of_the_model_add_up() -> None:
    """A list has a sink for each head; the model's own is one more term of the denominator."""
    scores, sinks = normal(2, 3, 4, 5, dtype=torch.float64), [0.5, -1.0, 2.0]
    seen, each = torch.arange(5) < torch.tensor([[1], [3], [5], [2]]), torch.tensor(sinks).double()[:, None, None]
    powers = scores.exp().where(seen, 0.0)
    total = powers.sum(-1, keepdim=True) + each.exp()
    torch.testing.assert_close(weights("softmax_plus_one", scores, seen, sink=sinks), powers / total)
    own = normal(1, 3, 1, 1, seed=1, dtype=torch.float64)
    valid = Valid(scores.shape, mask=seen)
    rules = Rules(valid, normalizer=NORMALIZERS["softmax_plus_one"](sink=sinks), sinks=own)
    torch.testing.assert_close(rules.stages(scores)["weights"], powers / (total + own.exp()))
    rules = replace(rules, normalizer=NORMALIZERS["stick_breaking"]())  # the sink gets what the keys leave
    torch.testing.assert_close(rules.stages(scores)["weights"], weights("stick_breaking", scores, seen))


VALID = mask(20, 9)
VALID[3] = False
SCORES = 2 * normal(20, 9, dtype=torch.float64)


def test_entmax_becomes_softmax_and_sparsemax() -> None:
    for alpha in (1.0, 1 + 1e-12, 1 + 1e-9, 1 + 1e-7, 2.0, 2 + 1e-9, 2 - 1e-9):
        limit, bound = ("softmax", 1e-6) if alpha < 1.5 else ("sparsemax", 1e-7)
        found = weights("entmax", SCORES, VALID, alpha=alpha)
        torch.testing.assert_close(found, weights(limit, SCORES, VALID), rtol=0, atol=bound)
