"""Statistics over the rows of attention weights: of all rows, and of each batch element and head."""

import math
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from torch import Tensor

from attncli.core.metrics import relative_norm
from attncli.results import Row
from attncli.studies.attention.rows import PairRows, ScorerRows

AVERAGED = [field.name for field in fields(ScorerRows) if field.name not in ("count", "mean", "squares", "entropy")]
OF_WEIGHTS = ("js_divergence", "top1_agreement", "max_abs_difference")
Metrics = dict[str, list[float | None]]  # of each group


class Groups:
    """Groups of rows (b, ..., n): one of all rows, or one for each batch element and head if `heads` are given.

    `empty` (b, ..., n) marks the rows without a valid key, which are left out, as are rows with numbers that are not
    finite. `heads` has the numbers of the heads.
    """

    def __init__(self, empty: Tensor, heads: Sequence[int | None] | None = None) -> None:
        self._head_rows = [Row()]
        if heads is not None:
            self._head_rows = [{"batch": batch, "head": head} for batch in range(len(empty)) for head in heads]
        self._kept = ~self._grouped(empty)
        self._empty_rows = (~self._kept).sum(-1).tolist()

    def of_scorer(self, rows: ScorerRows, is_bounded: bool = False) -> list[Row]:
        """Return a record for each group: mean and std of its scores, and means over its rows; None if it has no rows.

        `score_std` is the population standard deviation. `effective_keys` is the mean of exp(entropy). Entropies leave
        out rows in which all weights are 0, and are None if a weight is negative. `entropy_bound` is None unless
        `is_bounded`, which states that the weights are a softmax of the unchanged scores.
        """
        finite = self._kept & self._grouped(rows.is_finite)
        has_weights = finite & self._grouped(rows.has_weights)
        mean, deviation = self._moments(rows, finite)
        metrics = {
            "score_mean": mean,
            "score_std": deviation,
            "entropy": self._mean(rows.entropy, has_weights),
            "effective_keys": self._mean(rows.entropy.exp(), has_weights),
            **{name: self._mean(getattr(rows, name), finite) for name in AVERAGED},
        }
        bounds: list[float | None] = [None] * len(self._head_rows)
        if is_bounded:
            bounds = self._mean(_least_entropy(rows.count, rows.squares.sqrt()), has_weights)
        return self._records({**metrics, "empty_rows": self._empty_rows, "entropy_bound": bounds})

    def of_call(
        self, rows: ScorerRows, first_weights: Tensor | None, variances: Sequence[float | None], d: int
    ) -> list[Row]:
        """Return a record with the columns `OF_CALLS` for each group, given the variance of its products q . k.

        Unknown metrics are None, such as the share of the first key if `first_weights` (b, ..., n), the weights on it,
        are None.
        """
        has_weights = self._kept & self._grouped(rows.is_finite & rows.has_weights)
        most = self._sum(rows.count.clamp(min=1.0).log(), has_weights)
        shares = self._sum(rows.entropy, has_weights) / most
        first: list[float | None] = [None] * len(self._head_rows)
        if first_weights is not None:
            share = first_weights.double() / rows.weight_sum
            first = self._mean(share.masked_fill(rows.is_signed, math.nan), has_weights)
        metrics: dict[str, list[Any]] = {
            "entropy_share": _listed(shares, shares.isfinite()),
            "first_key": first,
            "variance_over_d": [None if variance is None else variance / d for variance in variances],
            "unit_scale": [variance**-0.5 if variance else None for variance in variances],
        }
        return self._records(metrics)

    def of_pair(self, weights: PairRows | None, outputs: Tensor) -> list[Row]:
        """Return a record for each group with the differences of two scorers, given `outputs` as from `output_rows`.

        `js_divergence` and `top1_agreement` are means over the rows in which neither scorer has weights of 0 only, and
        in which both have a top key; `js_divergence` is None if a weight is negative. `max_abs_difference` is the
        largest in the group. `output_change` is |output_a - output_b|, and `output_difference` is `output_change` /
        |output_a|, None if only the divisor is 0. If `weights` is None, all other metrics are None.
        """
        if weights is None:
            metrics: Metrics = {name: [None] * len(self._head_rows) for name in OF_WEIGHTS}
        else:
            has_weights = self._kept & self._grouped(weights.has_weights)
            has_top_key = has_weights & ~self._grouped(weights.top1_agreement).isnan()
            finite = self._kept & self._grouped(weights.max_abs_difference.isfinite())
            largest = self._grouped(weights.max_abs_difference).masked_fill(~finite, 0.0).amax(-1)
            metrics = {
                "js_divergence": self._mean(weights.js_divergence, has_weights),
                "top1_agreement": self._mean(weights.top1_agreement, has_top_key),
                "max_abs_difference": _listed(largest, finite.any(-1)),
            }
        finite = self._kept & self._grouped(outputs.isfinite().all(0))
        distances, lengths = (self._sum(values, finite) for values in outputs)
        has_rows = finite.any(-1)
        pairs = zip(distances.tolist(), lengths.tolist(), has_rows.tolist(), strict=True)
        metrics["output_difference"] = [
            relative_norm(distance, length) if has_row else None for distance, length, has_row in pairs
        ]
        return self._records({**metrics, "output_change": _listed(distances.sqrt(), has_rows)})

    def _grouped(self, rows: Tensor) -> Tensor:
        return rows.reshape(len(self._head_rows), -1)

    def _sum(self, rows: Tensor, counted: Tensor) -> Tensor:
        return self._grouped(rows).masked_fill(~counted, 0.0).sum(-1)

    def _mean(self, rows: Tensor, counted: Tensor) -> list[float | None]:
        means = self._sum(rows, counted) / counted.sum(-1)
        return _listed(means, counted.any(-1) & ~means.isnan())

    def _moments(self, rows: ScorerRows, finite: Tensor) -> tuple[list[float | None], list[float | None]]:
        """Return mean and standard deviation of each group's scores, by the method of Chan, Golub and LeVeque 1983."""
        of_rows = (rows.count, rows.mean, rows.squares)
        count, mean, squares = (self._grouped(values).masked_fill(~finite, 0.0) for values in of_rows)
        total = count.sum(-1)
        overall = (count * mean).sum(-1) / total
        between = count * (mean - overall[:, None]).square()
        deviation = ((squares + between).sum(-1) / total).sqrt()
        return _listed(overall, total > 0), _listed(deviation, total > 0)

    def _records(self, metrics: dict[str, list[Any]]) -> list[Row]:
        values = zip(*metrics.values(), strict=True)
        return [
            row | dict(zip(metrics, of_row, strict=True)) for row, of_row in zip(self._head_rows, values, strict=True)
        ]


def _least_entropy(count: Tensor, radius: Tensor) -> Tensor:
    """Return the least entropy of a softmax of `count` scores if their deviations from the mean have L2 norm `radius`.

    One high score and equal low scores have the least entropy (Zhai et al. 2023, arXiv:2303.06296, theorem 3.1).
    """
    others = (count - 1.0).clamp(min=0.0)
    gap = radius * (count / others.clamp(min=1.0)).sqrt()
    powers = others * (-gap).exp()
    return powers.log1p() + powers * gap / (1.0 + powers)


def _listed(metrics: Tensor, is_defined: Tensor) -> list[float | None]:
    return [
        metric if is_known else None for metric, is_known in zip(metrics.tolist(), is_defined.tolist(), strict=True)
    ]
