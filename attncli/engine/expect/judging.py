"""Judge whether the expectations of a result hold."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import torch

from attncli.config.expectations import Expectation, by_factor, relative_share
from attncli.engine.expect.selecting import select_rows, without_ones
from attncli.errors import InputError
from attncli.results import Result, Row, tensor_name

ULPS = 8  # allowed rounding error of stages, in units in the last place


class Limits(NamedTuple):
    """The smallest and the largest accepted value of a metric, both inclusive."""

    low: float = -math.inf
    high: float = math.inf

    def accept(self, number: float) -> bool:
        """Whether `number` is within the limits."""
        return self.low <= number <= self.high


@dataclass(frozen=True)
class Verdict:
    """The verdict on one expectation for one row of the result.

    `index` is the position in the list `expect`, and `where` identifies the row. `expected` has the YAML keys of the
    bound, such as `above`, and under `value` the metric of the row to compare with, if any. `got` is the metric's
    value, nested lists for a stage. `holds` is None if the expectation could not be judged, because of `problem` or an
    interruption. `reason` explains a failure in words.
    """

    index: int
    expectation: Expectation
    where: Row
    expected: Row
    got: Any = None
    holds: bool | None = None
    reason: str | None = None
    limits: Limits | None = None
    problem: InputError | None = None

    @property
    def record(self) -> Row:
        """The row for `expectations` in results.json."""
        claim, source, metric = self.expectation.claim, self.expectation.source, self.expectation.metric
        head = {"claim": claim, "source": source, "where": self.where, "metric": metric}
        return {**head, "expected": self.expected, "got": self.got, "holds": self.holds, "reason": self.reason}


def judge(result: Result, expectations: Sequence[Expectation]) -> list[Verdict]:
    """Return a verdict for every row of every expectation. Errors become verdicts with a `problem`.

    If the run was interrupted, all verdicts have `holds` None.
    """
    return [verdict for index, each in enumerate(expectations) for verdict in _verdicts(index, each, result)]


def _verdicts(index: int, expectation: Expectation, result: Result) -> Iterator[Verdict]:
    """Yield a verdict for each row that an expectation selects."""
    metric, kind, expected = expectation.metric, expectation.kind, expectation.expected
    unjudged = Verdict(index, expectation, expectation.where, expected)
    if result.interrupted:
        yield replace(unjudged, reason="interrupted before it was measured")
        return
    try:
        selected = select_rows(expectation, result)
    except InputError as error:
        yield replace(unjudged, reason=error.problems[0].message, problem=error)
        return
    for row, other in selected:
        if other is not None:
            expected = expected | {kind: {column: other[column] for column in expectation.other_row}}
        where = {column: row[column] for column in expectation.where}
        verdict = replace(unjudged, where=where, expected=expected, got=row.get(metric))
        if kind == "equal" and isinstance(expectation.equal, list):
            yield _verdict_of_stage(verdict, result, row)
        else:
            yield _verdict_of_figure(verdict, [] if other is None else [other.get(metric)])


def _verdict_of_figure(verdict: Verdict, others: Sequence[Any]) -> Verdict:
    got, expectation = verdict.got, verdict.expectation
    kind, by = expectation.kind, expectation.by
    if not all(map(_is_measured, (got, *others))):
        return replace(verdict, holds=False, reason=f"no value{' to compare with' if _is_measured(got) else ''}")
    if kind in ("between", "about", "equal"):
        limits = _limits_around(expectation)
    else:
        (limit,) = others or [getattr(expectation, kind)]
        if others:
            verdict = replace(verdict, expected=verdict.expected | {"value": limit})
        if limit < 0 and by_factor(by) is not None:
            return replace(verdict, holds=False, reason="no factor of a negative number")
        limits = _limits_beyond(limit, by, kind == "above")
    return replace(verdict, holds=limits.accept(got), limits=limits)


def _is_measured(figure: object) -> bool:
    return isinstance(figure, int | float) and not isinstance(figure, bool) and math.isfinite(figure)


def _limits_around(expectation: Expectation) -> Limits:
    """Return the limits given by `equal`, by `between`, or by `about` and `within`."""
    if isinstance(expectation.equal, int | float):
        return Limits(expectation.equal, expectation.equal)
    if expectation.between is not None:
        return Limits(*expectation.between)
    middle, share = _exact(expectation.about or 0.0), relative_share(expectation.within)
    margin = _exact(expectation.within or 0.0) if share is None else abs(middle) * _exact(share)
    return Limits(float(middle - margin), float(middle + margin))


def _limits_beyond(number: float, by: float | str | None, upwards: bool) -> Limits:
    """Return limits of values above `number` (below unless `upwards`) by at least the amount or factor `by`, if any."""
    factor, amount = by_factor(by), 0.0 if by is None or isinstance(by, str) else by
    if factor is not None:
        bound = _exact(number) * _exact(factor) if upwards else _exact(number) / _exact(factor)
    else:
        bound = _exact(number) + _exact(amount) if upwards else _exact(number) - _exact(amount)
    limit = float(bound)
    if by is None or (factor is not None and number == 0):  # the number itself is not accepted
        limit = math.nextafter(limit, math.inf if upwards else -math.inf)
    return Limits(low=limit) if upwards else Limits(high=limit)


def _exact(number: float | str) -> Decimal:
    """Return the number as a Decimal, for which 0.7 + 0.1 is exactly 0.8."""
    return Decimal(str(number))


def _verdict_of_stage(verdict: Verdict, result: Result, row: Row) -> Verdict:
    """Return the verdict on a stage's tensor, compared with the expected values; leading axes of size 1 are ignored.

    The tolerance of each value is `within`, by default ULPS units in the last place of the largest expected value, in
    the coarser dtype of queries and stage. NaN equals NaN.
    """
    expectation, layer = verdict.expectation, row.get("layer")
    stage = result.tensors[tensor_name(row["label"], expectation.metric, layer=layer)]
    wanted = torch.tensor(expectation.equal, dtype=torch.float64)
    wanted = wanted.reshape(without_ones(wanted.shape))
    got = stage.detach().cpu().double().reshape(wanted.shape)
    within = expectation.within
    if within is None:
        queries = result.inputs[tensor_name("queries", layer=layer)]
        eps = max(torch.finfo(tensor.dtype).eps for tensor in (queries, stage))
        within = ULPS * eps * float(wanted.nan_to_num(0.0, 0.0, 0.0).abs().max())
    alike = (got == wanted) | ((got - wanted).abs() <= float(within)) | (got.isnan() & wanted.isnan())
    if bool(alike.all()):
        return replace(verdict, got=got.tolist(), holds=True)
    excess = (got - wanted).abs().nan_to_num(torch.inf).masked_fill(alike, -torch.inf)
    index = list(map(int, np.unravel_index(int(excess.argmax()), excess.shape)))
    here = f"at {index}: got {float(got[tuple(index)]):.7g}, expected {float(wanted[tuple(index)]):.7g}"
    reason = f"{int((~alike).sum())} of {alike.numel()} numbers differ, most {here}"
    return replace(verdict, got=got.tolist(), holds=False, reason=reason)
