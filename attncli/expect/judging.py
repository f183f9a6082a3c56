"""From a result and what was expected of it to verdicts."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import torch
from torch import Tensor

from attncli.config.expectations import Expectation, factor_of, share_of
from attncli.errors import InputError
from attncli.expect.asking import asked, other_of, same, table_of, without_ones
from attncli.studies.study import STAGES, Record, Result, Rows

ULPS = 8  # units in the last place that rounding may cost


@dataclass(frozen=True)
class Limits:
    """The numbers that are accepted: from `low` to `high`, either None where there is no bound.

    `strict` leaves out the bounds themselves.
    """

    low: float | None = None
    high: float | None = None
    strict: bool = False

    def accept(self, number: float) -> bool:
        """Whether the number is one of them."""
        if self.strict and number in (self.low, self.high):
            return False
        return (self.low is None or number >= self.low) and (self.high is None or number <= self.high)


@dataclass(frozen=True)
class Verdict:
    """One expectation of one row.

    `index` is the expectation's place in `expect`; `where` what tells the row, one value a column; `expected` the keys
    of the YAML that say what is expected, with the other row's figure as `value` where there is one; `got` a number,
    text, true or false, for a whole stage nested lists. `holds` is None where the row or the figure is not there to be
    judged, which `problem` says; `reason` says in words why an expectation fails that numbers alone do not explain.
    """

    index: int
    claim: str | None
    source: str | None
    where: Record
    metric: str
    expected: Record
    got: Any
    holds: bool | None
    reason: str | None = None
    limits: Limits | None = None
    problem: InputError | None = None

    @property
    def record(self) -> Record:
        """The row of results.json."""
        keys = ("claim", "source", "where", "metric", "expected", "got", "holds", "reason")
        return {key: getattr(self, key) for key in keys}


def judge(result: Result, expectations: Sequence[Expectation], expected: Rows) -> list[Verdict]:
    """A verdict for every row of every expectation; nothing is raised: what cannot be judged says so.

    `expected` has the rows that were to come; a result that was interrupted lacks some of them.
    """
    shapes: dict[str, dict[str, Sequence[int]]] = {}
    for name, tensor in result.tensors.items() if expected.shapes else ():
        label, _, stage = name.rpartition("/")
        shapes.setdefault(label, {})[stage] = tensor.shape
    rows = replace(expected, records=result.records, comparisons=result.comparisons, shapes=shapes)
    missing = expected if result.interrupted else None
    return [
        verdict
        for index, expectation in enumerate(expectations)
        for verdict in _verdicts(index, expectation, result, rows, missing)
    ]


def _verdicts(
    index: int, expectation: Expectation, result: Result, rows: Rows, expected: Rows | None
) -> Iterator[Verdict]:
    """The verdicts of one expectation; `expected` only where the work was interrupted: then rows may be missing."""
    metric = expectation.metric
    head = (index, expectation.claim, expectation.source)
    unasked = Verdict(*head, expectation.where, metric, expectation.expected, None, None)
    try:
        found = asked(expectation, rows)
    except InputError as error:
        if expected is not None:
            yield replace(unasked, reason="interrupted before it was measured")
        else:
            yield replace(unasked, reason=error.problems[0].message, problem=error)
        return
    if expected is not None and _lacks_rows(expectation, rows, expected):
        yield replace(unasked, reason="interrupted before all rows were measured that it may ask about")
        return
    for row, others in found:
        where = {column: row[column] for column in expectation.where}
        blank = Verdict(*head, where, metric, expectation.expected, row.get(metric), None)
        if rows.shapes and metric in STAGES:
            yield _stage_verdict(blank, expectation, result, row["label"])
        else:
            yield _verdict(_beside(blank, expectation.kind, others), expectation, [other[metric] for other in others])


def _lacks_rows(expectation: Expectation, rows: Rows, expected: Rows) -> bool:
    """Whether rows are missing that an expectation may ask about, as far as that was known before the work.

    Then a row that it finds need not be the only one, and the whole result might have refused it.
    """
    there = table_of(expectation, rows)
    wheres = [where for where in (expectation.where, other_of(expectation)) if where is not None]
    return any(
        not any(all(found.get(column) == value for column, value in row.items()) for found in there)
        for row in table_of(expectation, expected)
        if any(_may_be(row, where) for where in wheres)
    )


def _may_be(row: Record, where: Mapping[str, Any]) -> bool:
    """Whether a row has the values that are asked for; columns that are not known yet may."""
    return all(
        any(same(row[column], value) for value in (wanted if isinstance(wanted, list) else [wanted]))
        for column, wanted in where.items()
        if column in row
    )


def _beside(blank: Verdict, kind: str, others: Sequence[Record]) -> Verdict:
    """With the row that it is compared with, where a list asked for several."""
    if len(others) != 1:
        return blank
    return replace(blank, expected=blank.expected | {kind: {name: others[0][name] for name in blank.expected[kind]}})


def _verdict(blank: Verdict, expectation: Expectation, others: Sequence[Any]) -> Verdict:
    """The verdict of one figure."""
    got = blank.got
    if any(_is_missing(figure) for figure in (got, *others)):
        reason = "no figure" if _is_missing(got) else "no figure to compare with"
        return replace(blank, holds=False, reason=reason)
    if expectation.kind == "equal":
        return replace(blank, holds=same(got, expectation.equal))
    if others:
        blank = replace(blank, expected={**blank.expected, "value": _hardest(expectation, others)})
    limits = _limits_of(expectation, others)
    if limits is None:
        return replace(blank, holds=False, reason="no factor of a negative number")
    return replace(blank, holds=limits.accept(got), limits=limits)


def _is_missing(figure: Any) -> bool:
    return figure is None or (isinstance(figure, float) and not math.isfinite(figure))


def _hardest(expectation: Expectation, others: Sequence[float]) -> float:
    """The number that another must be above or below: of several rows the one that is hardest to pass."""
    if expectation.kind == "above":
        return max(others) if others else float(expectation.above)  # type: ignore[arg-type]
    return min(others) if others else float(expectation.below)  # type: ignore[arg-type]


def _limits_of(expectation: Expectation, others: Sequence[float]) -> Limits | None:
    """The limits, worked out in decimals, so that 0.8 is within 0.1 of 0.7.

    None where a factor of a negative number is asked for, which says nothing.
    """
    if expectation.kind == "between":
        low, high = expectation.between or (None, None)
        return Limits(low, high)
    if expectation.kind == "about":
        middle, share = _exact(expectation.about or 0.0), share_of(expectation.within)
        margin = _exact(expectation.within or 0.0) if share is None else abs(middle) * _exact(share)
        return Limits(float(middle - margin), float(middle + margin))
    return _beyond(_hardest(expectation, others), expectation.by, upwards=expectation.kind == "above")


def _beyond(number: float, by: float | str | None, upwards: bool) -> Limits | None:
    """From a number on, up or down: by some amount at least, by a factor at least, or by anything that is not 0."""
    factor = factor_of(by)
    if factor is not None and number < 0:
        return None
    if factor is not None:
        bound = _exact(number) * _exact(factor) if upwards else _exact(number) / _exact(factor)
    else:
        bound = _exact(number) + _exact(by or 0.0) if upwards else _exact(number) - _exact(by or 0.0)
    strict = by is None or (factor is not None and number == 0)
    return Limits(float(bound), None, strict) if upwards else Limits(None, float(bound), strict)


def _exact(number: float | str) -> Decimal:
    """The number as people write it."""
    return Decimal(str(number))


def _stage_verdict(blank: Verdict, expectation: Expectation, result: Result, label: str) -> Verdict:
    """Whether a whole stage (..., n, m) is what someone has written down, leading axes of size 1 aside.

    A cell may be off by `within`, a number or a share of the cell as in `5 %`; without it by ULPS units in the last
    place of the largest number expected, in the dtype of the queries. NaN equals NaN.
    """
    stage, dtype = result.tensors[f"{label}/{expectation.metric}"], result.inputs["queries"].dtype
    wanted = torch.tensor(expectation.equal, dtype=torch.float64)
    wanted = wanted.reshape(without_ones(wanted.shape))
    got = stage.detach().cpu().double().reshape(wanted.shape)
    allowed = _allowed(wanted, expectation.within, max(torch.finfo(dtype).eps, torch.finfo(stage.dtype).eps))
    alike = (got == wanted) | ((got - wanted).abs() <= allowed) | (got.isnan() & wanted.isnan())
    if bool(alike.all()):
        return replace(blank, got=got.tolist(), holds=True)
    excess = ((got - wanted).abs() - allowed).nan_to_num(torch.inf).masked_fill(alike, -torch.inf)
    place = [int(index) for index in torch.unravel_index(excess.argmax(), excess.shape)]
    here = f"at {place} {float(got[tuple(place)]):.7g} in place of {float(wanted[tuple(place)]):.7g}"
    reason = f"{int((~alike).sum())} of {alike.numel()} numbers differ, most {here}"
    return replace(blank, got=got.tolist(), holds=False, reason=reason)


def _allowed(wanted: Tensor, within: float | str | None, eps: float) -> Tensor:
    share = share_of(within)
    if share is not None:
        return wanted.abs() * share
    if within is None:
        within = ULPS * eps * float(wanted.nan_to_num(0.0, 0.0, 0.0).abs().max())
    return torch.full_like(wanted, float(within))
