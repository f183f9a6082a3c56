"""Mean and variance of the scores of real queries and keys."""

from functools import partial

import torch
from torch import Tensor

from attncli.runs.records import Histogram
from attncli.studies.pairs.real_pairs import RealPart
from attncli.studies.pairs.sweep import Point, Prepared, scores_of, slices
from attncli.studies.progress import Counter, Progress
from attncli.studies.study import Record
from attncli.studies.variance.records import histograms_of, real_record
from attncli.studies.variance.tally import Edges, edges_around, pooled, tally


def measure_real(prepared: Prepared, threads: int, progress: Progress) -> tuple[list[Record], dict[str, Histogram]]:
    """All pairs of the real tensors, head by head; a second pass counts them for the histograms."""
    assert prepared.real is not None
    real, point = prepared.real, prepared.points[0]
    heads, scorers = range(real.queries.shape[1]), len(point.scorers)
    counter = Counter(2 * real.count(), progress)
    work, both = partial(_scores, prepared, point), partial(_scores_and_differences, prepared, point)
    none: list[Edges | None] = [None] * (2 * scorers)
    by_head = [tally(both, real.parts(head), none, threads, counter.of(f"head {head}")) for head in heads]
    edges = edges_around(pooled(by_head)[:scorers])
    every = (part for head in heads for part in real.parts(head))
    histograms = histograms_of(prepared, tally(work, every, edges, threads, counter.of("histograms")), point.d)
    records = []
    for index, (entry, scorer) in enumerate(zip(prepared.options.scorers, point.scorers, strict=True)):
        for head, tallies in enumerate(by_head):
            moments, within = tallies[index].moments, tallies[scorers + index].moments
            records.append(real_record(entry, scorer, head if real.heads else None, point.d, moments, within))
    return records, histograms


def _scores(prepared: Prepared, point: Point, part: RealPart) -> list[Tensor]:
    """Every scorer's scores of the valid pairs."""
    return [each if part[2] is None else each[part[2]] for each in _whole_scores(prepared, point, part)]


def _whole_scores(prepared: Prepared, point: Point, part: RealPart) -> list[Tensor]:
    """Every scorer's scores (rows, m)."""
    queries, keys, _ = part
    scores = [scores_of(prepared, point, queries[some], keys) for some in slices(prepared, len(queries), len(keys))]
    return [torch.cat(each) for each in zip(*scores, strict=True)]


def _scores_and_differences(prepared: Prepared, point: Point, part: RealPart) -> list[Tensor]:
    """Every scorer's scores of the valid pairs, and then those less the mean of their row."""
    scores, valid = _whole_scores(prepared, point, part), part[2]
    differences = [_less_row_mean(each.cpu().double(), None if valid is None else valid.cpu()) for each in scores]
    return [*(scores if valid is None else [each[valid] for each in scores]), *differences]


def _less_row_mean(scores: Tensor, valid: Tensor | None) -> Tensor:
    """Differences from the mean over the valid keys of scores (rows, m), at the valid pairs."""
    if valid is None:
        return scores - scores.mean(-1, keepdim=True)
    means = scores.where(valid, 0.0).sum(-1, keepdim=True) / valid.sum(-1, keepdim=True)
    return (scores - means)[valid]
