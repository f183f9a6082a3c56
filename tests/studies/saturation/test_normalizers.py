"""Saturation of every normaliser: slow oracles and their differences, autograd, and closed forms."""

import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attncli.errors import InputError
from attncli.inputs.seeding import generator
from attncli.normalizers import NORMALIZERS, Normalizer
from attncli.stopping import Progress
from attncli.studies.saturation.rows import jacobian_norm, row_figures, row_weights
from attncli.studies.saturation.study import run
from tests import reference
from tests.common.pairs.samples import by_place, prepared, swept
from tests.normalizers.catalogue import VARIANTS, score, scorer_of, within_reach
from tests.scorers.catalogue import normal

D, KEYS, ROWS = 3, 5, 6
EVERY = pytest.mark.parametrize(("name", "options"), VARIANTS)
Row = Sequence[float]


def entry(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    return {"scorer": scorer_of(name), "normalizer": {"normalizer": name, **options}}


def slow_jacobian(name: str, options: Mapping[str, Any], row: Row) -> float:
    """Return the Frobenius norm of the Jacobian, by central differences of the oracle."""
    columns = reference.slopes(lambda scores: reference.NORMALIZERS[name](scores, **options), row)
    return math.hypot(*(slope for column in columns for slope in column))


def slow_gradient(name: str, options: Mapping[str, Any], query: Row, keys: Sequence[Row], values: Row) -> float:
    """Return the length of the gradient of sum_j p_j v_j of dot products at the query, by central differences."""

    def pooled(query: Row) -> Row:
        weights = reference.NORMALIZERS[name]([score(name, query, key) for key in keys], **options)
        return [reference.inner(weights, values)]

    return math.hypot(*(slope for (slope,) in reference.slopes(pooled, query)))


@EVERY
def test_records_are_those_of_slow_rows(name: str, options: dict[str, Any]) -> None:
    ready = prepared("saturation", d=[2, D], keys=KEYS, rows=ROWS, scorers=[entry(name, options)], dtype="float64")
    result, point = run(ready, Progress()), ready.points[1]
    (pairs,) = (point.pairs.of_job(job) for job in point.pairs.jobs)
    values = torch.empty(ROWS, KEYS, dtype=torch.float64).normal_(generator=generator(0, f"saturation.values.{D}.0"))
    found: dict[str, list[float]] = {
        "jacobian": [],
        "query_gradient": [],
        "entropy": [],
        "weight_sum": [],
        "max_weight": [],
    }
    for query, keys, own in zip(pairs.queries[:, 0].tolist(), pairs.keys.tolist(), values.tolist(), strict=True):
        row = [score(name, query, key) for key in keys]
        weights = reference.NORMALIZERS[name](row, **options)
        total = math.fsum(weights)
        found["jacobian"].append(slow_jacobian(name, options, row))
        found["query_gradient"].append(slow_gradient(name, options, query, keys, own))
        found["weight_sum"].append(total)
        found["max_weight"].append(max(weights))
        if total:
            found["entropy"].append(reference.entropy([weight / total for weight in weights]) / math.log(KEYS))
    record = by_place(result)[result.labels[0], D, None]
    assert (record["normalizer"], record["rows"]) == (name, ROWS)
    wanted = {f"{key}_median": statistics.median(numbers) for key, numbers in found.items() if key != "weight_sum"}
    wanted |= {key: statistics.fmean(found[key]) for key in ("entropy", "weight_sum", "max_weight")}
    wanted["jacobian_mean"] = statistics.fmean(found["jacobian"])
    assert {key: record[key] for key in wanted} == pytest.approx(wanted, rel=1e-5, abs=1e-7)


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


def test_no_row_has_a_weight() -> None:
    """Scores of `gaussian` are at most 0."""
    result = swept("saturation", d=[2], keys=4, rows=20, scorers=[{"scorer": "gaussian", "normalizer": "relu"}])
    (record,) = result.records
    assert (record["rows"], record["weight_sum"], record["jacobian_median"], record["query_gradient_median"]) == (
        20,
        0,
        0,
        0,
    )
    assert (record["entropy"], record["entropy_median"], record["effective_keys"]) == (None, None, None)


@EVERY
def test_scores_that_are_not_a_number_are_told(name: str, options: dict[str, Any]) -> None:
    scores = torch.tensor([[math.nan, 1.0, 2.0], [0.0, 1.0, 2.0]])
    figures = row_figures(scores, None, scores, torch.zeros(2, 3).double(), NORMALIZERS[name](**options))
    for key in ("entropy", "weight_sum", "jacobian"):
        assert figures[key].isnan().tolist() == [name != "uniform", False], key  # uniform ignores scores


def test_a_negative_score_beside_sum_is_refused_with_its_label() -> None:
    with pytest.raises(
        InputError, match=r"^scorers\[0\]: dot_sum: got a score of -\d.*; the normaliser sum needs"
    ) as error:
        swept("saturation", d=[2], keys=4, rows=20, scorers=[{"scorer": "dot", "normalizer": "sum"}])
    assert len(error.value.problems) == 1


@pytest.mark.catalogue("normalizers")
def test_masks_and_heads_of_real_tensors(tmp_path: Path) -> None:
    """Only two valid keys of the first query and four of the second count."""
    valid = torch.tensor([[True, True, False, False], [True] * 4])
    torch.save({"queries": normal(1, 2, 3), "keys": normal(1, 4, 3, seed=1), "mask": valid[None]}, tmp_path / "x.pt")
    for name in NORMALIZERS:
        (record,) = swept("saturation", source=tmp_path / "x.pt", scorers=[entry(name, {})]).records
        queries, keys = normal(1, 2, 3)[0].tolist(), normal(1, 4, 3, seed=1)[0].tolist()
        rows = [[score(name, query, key) for key in keys] for query in queries]
        weights = [reference.NORMALIZERS[name](row) for row in (rows[0][:2], rows[1])]
        assert record["weight_sum"] == pytest.approx(statistics.fmean(map(math.fsum, weights)), rel=1e-6)
        wanted = statistics.fmean(slow_jacobian(name, {}, row) for row in (rows[0][:2], rows[1]))
        assert record["jacobian_mean"] == pytest.approx(wanted, rel=1e-4)


def test_why_names_a_normalizer_that_passes_nothing_where_one_key_has_all() -> None:
    """The weights of relu have no bound and its gradient is constant; uniform weights have no gradient."""
    findings = {
        name: swept("saturation", d=[512], keys=16, rows=300, scorers=[entry(name, {})]).findings
        for name in NORMALIZERS
    }
    whys = {name: found[-1].text for name, found in findings.items() if found[-1].label is None}
    in_closed_form = {
        name for name, normalizer in NORMALIZERS.items() if normalizer.jacobian_norm is not Normalizer.jacobian_norm
    }
    assert whys.keys() == in_closed_form - {"relu", "uniform"}
    assert whys["entmax"].startswith(
        "Why: an entmax with all weight on one key passes no gradient; uniform weights over 16 keys have"
    )
    uniform = next(each.numbers["uniform_norm"] for each in findings["sparsemax"] if each.label is None)
    assert uniform == pytest.approx(math.sqrt(15))
