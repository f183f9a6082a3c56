"""Norms of whole Jacobians in many digits, gradients against differences, and rows without weights or numbers."""

import math
from collections.abc import Callable, Sequence
from decimal import Decimal, localcontext
from typing import Any

import pytest
import torch
from torch import Tensor

from attncli.errors import InputError
from attncli.normalizers import NORMALIZERS
from attncli.normalizers._base import norm_of_softmax
from attncli.normalizers.softmax import Softmax
from attncli.scorers import SCORERS
from attncli.studies.saturation.rows import query_gradient, row_figures, row_weights
from tests.normalizers.catalogue import VARIANTS
from tests.reference import ORACLES, Vector, inner, slopes, softmax
from tests.scorers.catalogue import make, normal
from tests.studies.pairs.samples import swept


def exact_norm(row: Sequence[float]) -> float:
    """Return the norm of the Jacobian for one row of scores, entry by entry, with 400 digits."""
    with localcontext() as context:
        context.prec = 400
        powers = [Decimal(score).exp() for score in row]
        p = [power / sum(powers) for power in powers]
        squares = [((p[i] if i == j else 0) - p[i] * p[j]) ** 2 for i in range(len(p)) for j in range(len(p))]
        return float(sum(squares, Decimal(0)).sqrt())


@pytest.mark.parametrize("gap", [0.0, 1.0, 20.0, 40.0, 100.0, 229.0])
@pytest.mark.parametrize("m", [2, 5, 64])
def test_jacobian_of_nearly_one_weight(m: int, gap: float) -> None:
    """Norms are exact down to 1e-100, where diag(p) - p p^T in float64 has no correct digit."""
    row = (normal(m, seed=3, dtype=torch.float64) / 4).tolist()
    row[m // 2] = max(row) + gap
    scores = torch.tensor([row], dtype=torch.float64)
    found = row_weights(scores, None, torch.zeros_like(scores), Softmax())[-1].item()
    assert found == pytest.approx(exact_norm(row), rel=1e-9)
    if gap > 200:
        assert 0 < found < 1e-97
    assert norm_of_softmax(torch.tensor([[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]).double()).tolist() == [0.0, 0.0]


def slow_gradient(
    name: str, scorer: Any, query: Tensor, keys: Tensor, values: Vector, weigh: Callable[[Vector], Vector] = softmax
) -> float:
    """Return the length of the gradient of sum_j p_j v_j at one query (d,), by central differences of the oracles."""

    def pooled(query: list[float]) -> list[float]:
        row = ORACLES[name](scorer, torch.tensor([query], dtype=torch.float64), keys)[0].tolist()
        return [inner(weigh(row), values)]

    return math.hypot(*(slope for (slope,) in slopes(pooled, query.tolist())))


@pytest.mark.parametrize("name", SCORERS)
def test_query_gradient_of_queries_that_share_their_keys(name: str) -> None:
    rows, m, d = 4, 6, 3
    scorer = make(name, d).double()
    queries, keys, values = (
        normal(*shape, seed=seed, dtype=torch.float64) for seed, shape in enumerate([(rows, d), (m, d), (rows, m)])
    )
    queries.requires_grad_()
    found = scorer(queries, keys)
    _, sent, _ = row_weights(found, None, values, Softmax())
    lengths = query_gradient(found, sent, queries)
    assert lengths is not None
    for row in range(rows):
        wanted = slow_gradient(name, scorer, queries.detach()[row], keys, values[row].tolist())
        assert lengths[row].item() == pytest.approx(wanted, rel=1e-7, abs=1e-9)


def test_no_gradient_where_torch_cannot_follow() -> None:
    queries = normal(2, 3).requires_grad_()
    sent = normal(2, 2, dtype=torch.float64)
    assert query_gradient(torch.zeros(2, 2), sent, queries) is None
    elsewhere = torch.zeros(2, 2, requires_grad=True) * 2
    assert query_gradient(elsewhere, sent, queries) is None


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
