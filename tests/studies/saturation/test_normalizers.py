"""Saturation with each normaliser: rows without weights, and scores that are no numbers."""

import math
from typing import Any

import pytest
import torch

from attncli.errors import InputError
from attncli.normalizers import NORMALIZERS
from attncli.studies.saturation.rows import row_figures
from tests.normalizers.catalogue import VARIANTS
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
