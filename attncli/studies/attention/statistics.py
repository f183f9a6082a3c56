"""Statistics of one scorer's weights, and how far two scorers' weights and outputs are apart."""

import math
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from attncli.studies.study import TIE, Record

AT_A_TIME = 2**18  # weights that are in float64 at the same time
OF_WEIGHTS = ("js_divergence", "top1_agreement", "max_abs_difference")


def _rows(*matrices: Tensor, empty: Tensor | None = None) -> Iterator[tuple[Tensor, ...]]:
    """The matrices (..., n, m), all of one shape, as chunks of rows in float64 on the CPU.

    Without the rows that `empty` (..., n) marks.
    """
    m = matrices[0].shape[-1]
    flat = [matrix.reshape(-1, m) for matrix in matrices]
    others = None if empty is None else ~empty.reshape(-1).cpu()
    step = max(AT_A_TIME // m, 1)
    for start in range(0, flat[0].shape[0], step):
        chunk = slice(start, start + step)
        rows = tuple(matrix[chunk].to("cpu", torch.float64) for matrix in flat)
        if others is not None:
            rows = tuple(matrix[others[chunk]] for matrix in rows)
        if len(rows[0]):
            yield rows


def _entropy(weights: Tensor) -> Tensor:
    nats: Tensor = torch.special.entr(weights).sum(-1)  # rows
    return nats


def weight_statistics(weights: Tensor, empty: Tensor) -> Record:
    """Means over the non-empty rows of weights (..., n, m); `empty` (..., n) marks the others. None if all are empty.

    `entropy` is in nats, `effective_keys` the exponential of a row's entropy, `max_weight` a row's largest weight.
    """
    rows, sums = 0, {"entropy": 0.0, "effective_keys": 0.0, "max_weight": 0.0}
    for (chunk,) in _rows(weights, empty=empty):
        nats = _entropy(chunk)
        rows += len(chunk)
        sums["entropy"] += float(nats.sum())
        sums["effective_keys"] += float(nats.exp().sum())
        sums["max_weight"] += float(chunk.amax(-1).sum())
    return {name: total / rows if rows else None for name, total in sums.items()}


def score_statistics(scores: Tensor, valid: Tensor) -> Record:
    """Mean and standard deviation (divided by their number, not one less) of the scores at valid cells."""
    count, mean, squares = 0, 0.0, 0.0
    for chunk, allowed in _rows(scores, valid):
        blocked = allowed == 0
        new = blocked.numel() - int(blocked.sum())
        if new == 0:
            continue
        new_mean = float(chunk.masked_fill(blocked, 0.0).sum()) / new
        deviations = (chunk - new_mean).masked_fill(blocked, 0.0)
        # Chan, Golub and LeVeque 1983: merging the moments of two sets without cancellation.
        difference = new_mean - mean
        squares += float(deviations.square().sum()) + difference * difference * count * new / (count + new)
        mean += difference * new / (count + new)
        count += new
    if count == 0:
        return {"score_mean": None, "score_std": None}
    return {"score_mean": mean, "score_std": math.sqrt(squares / count) if squares >= 0 else math.nan}


def compare(stages_a: Mapping[str, Tensor], stages_b: Mapping[str, Tensor], empty: Tensor) -> Record:
    """How far two scorers' `weights` (..., n, m) and `output` (..., n, v) are apart; means over the non-empty rows.

    `js_divergence` is the Jensen-Shannon divergence in bits, 0 for equal and 1 for disjoint weights (Lin 1991);
    `top1_agreement` the share of rows in which a key comes first in both, where weights equal up to rounding share the
    first place; `max_abs_difference` the largest over all cells; `output_difference` the relative L2 distance
    |output_a - output_b| / |output_a|, None where that is x / 0. Without weights only the last is known.
    """
    distance = _relative_distance(stages_a["output"], stages_b["output"], empty)
    if "weights" not in stages_a:
        return {**dict.fromkeys(OF_WEIGHTS), "output_difference": distance}
    rows, bits, agreed, largest = 0, 0.0, 0.0, 0.0
    for p, q in _rows(stages_a["weights"], stages_b["weights"], empty=empty):
        rows += len(p)
        divergence = _entropy((p + q) / 2) - (_entropy(p) + _entropy(q)) / 2
        bits += float(divergence.clamp(min=0).sum()) / math.log(2)
        agreed += int(((p >= p.amax(-1, True) * (1 - TIE)) & (q >= q.amax(-1, True) * (1 - TIE))).any(-1).sum())
        furthest = float((p - q).abs().max())
        largest = furthest if math.isnan(furthest) else max(largest, furthest)
        agreed = agreed if math.isfinite(furthest) else math.nan
    return {
        "js_divergence": bits / rows if rows else None,
        "top1_agreement": agreed / rows if rows else None,
        "max_abs_difference": largest if rows else None,
        "output_difference": distance,
    }


def _relative_distance(a: Tensor, b: Tensor, empty: Tensor) -> float | None:
    if bool(empty.all()):
        return None
    distance = length = 0.0
    for x, y in _rows(a, b, empty=empty):
        distance += float((x - y).square().sum())
        length += float(x.square().sum())
    return math.sqrt(distance / length) if length else 0.0 if distance == 0 else None
