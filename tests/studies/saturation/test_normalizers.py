"""Saturation with each normaliser: rows without weights, scores that are no numbers, and the sentence on gradients."""

import math
from typing import Any

import pytest
import torch

from attncli.errors import InputError
from attncli.normalizers import NORMALIZERS, Normalizer
from attncli.studies.saturation.rows import row_figures
from tests.normalizers.catalogue import VARIANTS, scorer_of
from tests.studies.pairs.samples import swept


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


@pytest.mark.parametrize(("name", "options"), VARIANTS)
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
