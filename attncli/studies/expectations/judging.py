"""From a result and what was expected of it to verdicts."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from attncli.config.expectations import Expectation
from attncli.errors import InputError
from attncli.runs.verdicts import Verdict
from attncli.studies.expectations.asking import asked
from attncli.studies.expectations.interrupted import lacks_rows
from attncli.studies.expectations.limits import hardest, limits_of
from attncli.studies.expectations.outlook import Outlook, outlook_of, same
from attncli.studies.expectations.stage_equality import compare_stage
from attncli.studies.expectations.stage_shapes import STAGES
from attncli.studies.study import Record, Result


def judge(result: Any, expectations: Sequence[Expectation], foreseen: Outlook | None = None) -> list[Verdict]:
    """A verdict for every row of every expectation; nothing is raised: what cannot be judged says so.

    `foreseen` has the rows that were to come, some of which a result that was interrupted lacks.
    """
    outlook = outlook_of(result)
    interrupted = getattr(result, "interrupted", False)
    return [
        verdict
        for index, expectation in enumerate(expectations)
        for verdict in _verdicts(index, expectation, result, outlook, (foreseen or outlook) if interrupted else None)
    ]


def _verdicts(
    index: int, expectation: Expectation, result: Any, outlook: Outlook, foreseen: Outlook | None
) -> Iterator[Verdict]:
    """The verdicts of one expectation; `foreseen` only where the work was interrupted: then rows may be missing."""
    metric, expected = expectation.metric, expectation.expected
    head = (index, expectation.claim, expectation.source)
    unasked = Verdict(*head, expectation.where, metric, expected, None, None)
    try:
        found = asked(expectation, outlook)
    except InputError as error:
        if foreseen is not None:
            yield replace(unasked, reason="interrupted before it was measured")
        else:
            yield replace(unasked, reason=error.problems[0].message, problem=error)
        return
    if foreseen is not None and lacks_rows(expectation, outlook, foreseen):
        yield replace(unasked, reason="interrupted before all rows were measured that it may ask about")
        return
    for row, others in found:
        where = {column: row[column] for column in expectation.where}
        blank = Verdict(*head, where, metric, expected, row.get(metric), None)
        if result.study == "attention" and metric in STAGES:
            yield _stage_verdict(blank, expectation, result, row["label"])
        else:
            yield _verdict(_beside(blank, expectation.kind, others), expectation, [other[metric] for other in others])


def _stage_verdict(blank: Verdict, expectation: Expectation, result: Result, label: str) -> Verdict:
    stage, kept = result.tensors[f"{label}/{expectation.metric}"], result.inputs["queries"].dtype
    compared = compare_stage(stage, expectation.equal, expectation.within, kept)
    return replace(blank, got=compared.got, holds=compared.reason is None, reason=compared.reason)


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
        blank = replace(blank, expected={**blank.expected, "value": hardest(expectation, others)})
    limits = limits_of(expectation, others)
    if limits is None:
        return replace(blank, holds=False, reason="no factor of a negative number")
    return replace(blank, holds=limits.accept(got), limits=limits)


def _is_missing(figure: Any) -> bool:
    return figure is None or (isinstance(figure, float) and not math.isfinite(figure))
