"""Judge a result by its expectations."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import torch

from attncli.common.study import STAGES, Record, Result, Rows
from attncli.config.expectations import Expectation, factor_of, share_of
from attncli.errors import InputError
from attncli.expect.asking import asked, same, without_ones

ULPS = 8  # units in the last place allowed for rounding


@dataclass(frozen=True)
class Limits:
    """The accepted numbers: from `low` to `high`, None for no bound, without the bounds themselves if `strict`."""

    low: float | None = None
    high: float | None = None
    strict: bool = False

    def accept(self, number: float) -> bool:
        """Whether a number is accepted."""
        if self.strict and number in (self.low, self.high):
            return False
        return (self.low is None or number >= self.low) and (self.high is None or number <= self.high)


@dataclass(frozen=True)
class Verdict:
    """The verdict on an expectation of one row.

    `index` is the position in `expect`; `where` identifies the row; `expected` has the keys of the bound, and the other
    row's metric as `value`; `got` is the value of the metric, nested lists for a whole stage. `holds` is None if row or
    metric is missing, for the reason in `problem`; `reason` explains a failure without numbers.
    """

    index: int
    expectation: Expectation
    where: Record
    expected: Record
    got: Any = None
    holds: bool | None = None
    reason: str | None = None
    limits: Limits | None = None
    problem: InputError | None = None

    @property
    def record(self) -> Record:
        """Its row in results.json."""
        claim, source, metric = self.expectation.claim, self.expectation.source, self.expectation.metric
        head = {"claim": claim, "source": source, "where": self.where, "metric": metric}
        return {**head, "expected": self.expected, "got": self.got, "holds": self.holds, "reason": self.reason}


def judge(result: Result, expectations: Sequence[Expectation], expected: Rows) -> list[Verdict]:
    """Return a verdict for every row of every expectation. Errors become verdicts with a `problem`.

    `expected` are the rows known before the work. A result that the user interrupted is not judged.
    """
    shapes: dict[str, dict[str, Sequence[int]]] = {}
    for name, tensor in result.tensors.items() if expected.shapes else ():
        label, _, stage = name.rpartition("/")
        shapes.setdefault(label, {})[stage] = tensor.shape
    rows = replace(
        expected,
        records=result.records,
        comparisons=result.comparisons,
        heads=result.heads,
        head_comparisons=result.head_comparisons,
        shapes=shapes,
    )
    verdicts = list[Verdict]()
    for index, expectation in enumerate(expectations):
        verdicts += _verdicts(Verdict(index, expectation, expectation.where, expectation.expected), result, rows)
    return verdicts


def _verdicts(open_verdict: Verdict, result: Result, rows: Rows) -> Iterator[Verdict]:
    """Yield the verdicts on the expectation in `open_verdict`."""
    expectation = open_verdict.expectation
    metric, kind = expectation.metric, expectation.kind
    if result.interrupted:
        yield replace(open_verdict, reason="interrupted before it was measured")
        return
    try:
        found = asked(expectation, rows)
    except InputError as error:
        yield replace(open_verdict, reason=error.problems[0].message, problem=error)
        return
    for row, others in found:
        where = {column: row[column] for column in expectation.where}
        of_row = replace(open_verdict, where=where, got=row.get(metric))
        if rows.shapes and metric in STAGES:
            yield _verdict_of_stage(of_row, result, row["label"])
            continue
        if len(others) == 1:  # for example from lists compared value by value
            other = {column: others[0][column] for column in of_row.expected[kind]}
            of_row = replace(of_row, expected=of_row.expected | {kind: other})
        yield _verdict_of_figure(of_row, [other[metric] for other in others])


def _verdict_of_figure(of_row: Verdict, others: Sequence[Any]) -> Verdict:
    got, expectation = of_row.got, of_row.expectation
    kind, by = expectation.kind, expectation.by
    if not _is_measured(got):
        return replace(of_row, holds=False, reason="no figure")
    if not all(map(_is_measured, others)):
        return replace(of_row, holds=False, reason="no figure to compare with")
    if kind == "equal":
        return replace(of_row, holds=same(got, expectation.equal))
    if kind == "between":
        low, high = expectation.between or (None, None)
        limits = Limits(low, high)
    elif kind == "about":
        middle, share = _exact(expectation.about or 0.0), share_of(expectation.within)
        margin = _exact(expectation.within or 0.0) if share is None else abs(middle) * _exact(share)
        limits = Limits(float(middle - margin), float(middle + margin))
    else:  # the hardest of several other rows
        hardest = (max if kind == "above" else min)(others or [getattr(expectation, kind)])
        if others:
            of_row = replace(of_row, expected=of_row.expected | {"value": hardest})
        if hardest < 0 and factor_of(by) is not None:
            return replace(of_row, holds=False, reason="no factor of a negative number")
        limits = _beyond(hardest, by, upwards=kind == "above")
    return replace(of_row, holds=limits.accept(got), limits=limits)


def _is_measured(figure: Any) -> bool:
    return figure is not None and not (isinstance(figure, float) and not math.isfinite(figure))


def _beyond(number: float, by: float | str | None, upwards: bool) -> Limits:
    """Return the limits above or below a number: by an amount, by a factor, or by any difference."""
    factor = factor_of(by)
    if factor is not None:
        bound = _exact(number) * _exact(factor) if upwards else _exact(number) / _exact(factor)
    else:
        bound = _exact(number) + _exact(by or 0.0) if upwards else _exact(number) - _exact(by or 0.0)
    strict = by is None or (factor is not None and number == 0)
    return Limits(float(bound), None, strict) if upwards else Limits(None, float(bound), strict)


def _exact(number: float | str) -> Decimal:
    """Return the number in decimals, in which 0.8 is within 0.1 of 0.7."""
    return Decimal(str(number))


def _verdict_of_stage(of_row: Verdict, result: Result, label: str) -> Verdict:
    """Compare a whole stage (..., n, m) with the expected numbers; leading axes of size 1 may be missing.

    The tolerance of a cell is `within`, a number or a percentage of the cell; the default is ULPS units in the last
    place of the largest expected number, in the dtype of the queries. NaN equals NaN.
    """
    expectation, stage = of_row.expectation, result.tensors[f"{label}/{of_row.expectation.metric}"]
    wanted = torch.tensor(expectation.equal, dtype=torch.float64)
    wanted = wanted.reshape(without_ones(wanted.shape))
    got = stage.detach().cpu().double().reshape(wanted.shape)
    within, share = expectation.within, share_of(expectation.within)
    if within is None:
        eps = max(torch.finfo(result.inputs["queries"].dtype).eps, torch.finfo(stage.dtype).eps)
        within = ULPS * eps * float(wanted.nan_to_num(0.0, 0.0, 0.0).abs().max())
    allowed = torch.full_like(wanted, float(within)) if share is None else wanted.abs() * share
    alike = (got == wanted) | ((got - wanted).abs() <= allowed) | (got.isnan() & wanted.isnan())
    if bool(alike.all()):
        return replace(of_row, got=got.tolist(), holds=True)
    excess = ((got - wanted).abs() - allowed).nan_to_num(torch.inf).masked_fill(alike, -torch.inf)
    place = [int(index) for index in torch.unravel_index(excess.argmax(), excess.shape)]
    here = f"at {place}: got {float(got[tuple(place)]):.7g}, expected {float(wanted[tuple(place)]):.7g}"
    reason = f"{int((~alike).sum())} of {alike.numel()} numbers differ, most {here}"
    return replace(of_row, got=got.tolist(), holds=False, reason=reason)
