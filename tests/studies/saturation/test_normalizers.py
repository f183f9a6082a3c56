"""Saturation of every normaliser: slow oracles and their differences, autograd, and closed forms."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attncli.errors import InputError
from attncli.normalizers import NORMALIZERS, Normalizer
from attncli.studies.saturation.rows import jacobian_norm, row_figures, row_weights
from tests.normalizers.catalogue import VARIANTS, scorer_of, within_reach
from tests.scorers.catalogue import normal
from tests.studies.pairs.samples import swept

EVERY = pytest.mark.parametrize(("name", "options"), VARIANTS)


class Unknown(Normalizer):
    """A normaliser that does not know the norm of its Jacobian."""

    def __init__(self, normalizer: nn.Module) -> None:
        super().__init__()
        self.normalizer = normalizer

    def forward(self, scores: Tensor, valid: Tensor | None = None) -> Tensor:
        weights: Tensor = self.normalizer(scores, valid)
        return weights


@EVERY
def test_closed_forms_are_what_autograd_finds(name: str, options: dict[str, Any]) -> None:
    """Norms and gradients agree, with and without masked keys."""
    normalizer, values = NORMALIZERS[name](**options), normal(8, 7, seed=3).double()
    scores = within_reach(name, normal(8, 7).double())
    valid = torch.rand(8, 7, generator=torch.Generator().manual_seed(1)) < 0.7
    for mask in (None, valid):
        known, unknown = (row_weights(scores, mask, values, each) for each in (normalizer, Unknown(normalizer)))
        for one, other in zip(known, unknown, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-9)
        exact = scores.clone().requires_grad_()
        torch.testing.assert_close(jacobian_norm(normalizer(exact, mask), exact).detach(), unknown[2])


def norms(name: str, scores: Tensor) -> Tensor:
    return row_weights(scores, None, scores, NORMALIZERS[name]())[2]


def test_norms_by_hand() -> None:
    """Sigmoids have p (1 - p) on the diagonal, sparsemax has |S| keys that share, relu 1/m at positive scores."""
    scores, m = normal(9, 12).double() * 2.0, 12
    p = (scores - math.log(m)).sigmoid()
    torch.testing.assert_close(norms("sigmoid", scores), (p * (1 - p)).norm(dim=-1))
    support = (NORMALIZERS["sparsemax"]()(scores) > 0).sum(-1)
    assert len(set(support.tolist())) > 1
    torch.testing.assert_close(norms("sparsemax", scores), (support - 1).double().sqrt())
    torch.testing.assert_close(norms("relu", scores), (scores > 0).sum(-1).double().sqrt() / m)


def test_rows_without_a_weight_have_no_entropy() -> None:
    scores, values = torch.tensor([[1.0, 1.0, -3.0], [-1.0, -2.0, 0.0], [3.0, -1.0, -1.0]]), torch.zeros(3, 3).double()
    figures = row_figures(scores, None, scores, values, NORMALIZERS["relu"]())
    assert figures["entropy"].tolist() == pytest.approx([math.log(2) / math.log(3), 0.0])
    assert figures["effective_keys"].tolist() == pytest.approx([2.0, 1.0])
    assert figures["weight_sum"].tolist() == pytest.approx([2 / 3, 0.0, 1.0])
    assert figures["jacobian"].tolist() == pytest.approx([math.sqrt(2) / 3, 0.0, 1 / 3])
    entry = {"scorer": "gaussian", "normalizer": "relu"}  # with scores of 0 at most
    (record,) = swept("saturation", d=[2], keys=4, rows=20, scorers=[entry]).records
    assert [record[key] for key in ("rows", "weight_sum", "jacobian_median", "query_gradient_median")] == [20, 0, 0, 0]
    assert (record["entropy"], record["entropy_median"], record["effective_keys"]) == (None, None, None)


@EVERY
def test_scores_that_are_not_a_number_are_told(name: str, options: dict[str, Any]) -> None:
    scores = torch.tensor([[math.nan, 1.0, 2.0], [0.0, 1.0, 2.0]])
    figures = row_figures(scores, None, scores, torch.zeros(2, 3).double(), NORMALIZERS[name](**options))
    for key in ("entropy", "weight_sum", "jacobian"):
        assert figures[key].isnan().tolist() == [name != "uniform", False], key  # uniform ignores scores


def test_a_negative_score_beside_sum_is_refused_with_its_label() -> None:
    with pytest.raises(InputError, match=r"^scorers\[0\]: dot_sum: got a score of -\d.*; the normaliser sum needs"):
        swept("saturation", d=[2], keys=4, rows=20, scorers=[{"scorer": "dot", "normalizer": "sum"}])


def test_why_names_a_normalizer_that_passes_nothing_where_one_key_has_all() -> None:
    """The weights of relu have no bound and its gradient is constant; uniform weights have no gradient."""
    sizes: dict[str, Any] = {"d": [512], "keys": 16, "rows": 300}
    entries = {name: {"scorer": scorer_of(name), "normalizer": name} for name in NORMALIZERS}
    findings = {name: swept("saturation", scorers=[entry], **sizes).findings for name, entry in entries.items()}
    whys = {name: found[-1].text for name, found in findings.items() if found[-1].label is None}
    closed = {name for name, each in NORMALIZERS.items() if each.jacobian_norm is not Normalizer.jacobian_norm}
    assert whys.keys() == closed - {"relu", "uniform"}
    assert whys["entmax"].startswith(
        "Why: an entmax with all weight on one key passes no gradient; uniform weights over 16 keys have"
    )
    uniform = next(each.numbers["uniform_norm"] for each in findings["sparsemax"] if each.label is None)
    assert uniform == pytest.approx(math.sqrt(15))
