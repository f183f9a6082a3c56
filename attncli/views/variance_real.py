"""Which scale real queries and keys would need, against 1/sqrt(d), as sentences."""

import math
from collections.abc import Sequence

from attncli.show.numbers import DOTS, finite, printable, significant, span
from attncli.studies.study import Record
from attncli.views.sweep_tables import by_label
from attncli.views.variance_within import within_rows

AS_INDEPENDENT = 0.02  # how far from 1 the variance per product may be


def scales_needed(records: Sequence[Record]) -> list[str]:
    """One sentence for q . k, whatever its scale, and one for each other label."""
    groups = by_label(records)
    dots = [rows for rows in groups.values() if rows[0]["scorer"] in DOTS]
    lines = [*_dots(dots[0]), *within_rows(dots[0])] if dots else []
    for label, rows in groups.items():
        if rows[0]["scorer"] not in DOTS:
            lines += [_other(label, rows), *within_rows(rows)]
    return lines


def _dots(records: Sequence[Record]) -> list[str]:
    """Of q . k the scale that is needed is the same whichever scale was used."""
    d = records[0]["d"]
    usual = f"1/sqrt(d) is {significant(d**-0.5)}"
    needed = [scale for scale in finite(record["unit_scale"] for record in records) if scale > 0]
    if not needed and any(not math.isfinite(record["variance"]) for record in records):
        return ["Some scores are NaN or infinite, so nothing can be said of q . k."]
    if not needed:
        return ["q . k does not vary, so no scale gives it variance 1."]
    lines = [f"For variance 1, q . k needs the scale {_range(needed)}, where {usual}{_heads(needed, records)}."]
    return [*lines, *_largest(records), _compared([1 / (scale**2 * d) for scale in needed])]


def _largest(records: Sequence[Record]) -> list[str]:
    """The heads with the largest and the smallest variance, where there are several."""
    known = [record for record in records if finite([record["unit_scale"]]) and record["unit_scale"] > 0]
    if len(known) < 2:
        return []
    least, most = (pick(known, key=lambda record: float(record["variance"])) for pick in (min, max))
    if least["variance"] == most["variance"]:
        return []
    return [f"The variance of q . k is largest in head {_needs(most)} and smallest in head {_needs(least)}."]


def _needs(record: Record) -> str:
    """The variance is that of q . k, without the scorer's own factor."""
    needed = record["unit_scale"]
    return f"{record['head']} ({significant(needed**-2)}, which needs the scale {significant(needed)})"


def _compared(ratios: Sequence[float]) -> str:
    """The variance of one product, that of independent entries of mean 0 and variance 1 being 1."""
    reference = "that of independent entries with mean 0 and variance 1"
    if max(abs(ratio - 1) for ratio in ratios) <= AS_INDEPENDENT:
        return f"The variance of q . k is {reference}, to within {AS_INDEPENDENT * 100:g} %."
    if len(ratios) == 1:
        std = significant(math.sqrt(ratios[0]), 3)
        return f"The variance of q . k is {significant(ratios[0], 3)} times {reference}; its std is {std} times theirs."
    return f"The variance of q . k is {span(ratios)} times {reference}, depending on the head."


def _other(label: str, records: Sequence[Record]) -> str:
    needed = [scale for scale in finite(record["unit_scale"] for record in records) if scale > 0]
    name = printable(label)
    if not needed:
        return f"{name}: the scores do not vary, so no scale gives them variance 1."
    used = _range(finite(record["scale"] for record in records) or [1.0])
    return f"{name}: variance 1 needs the scale {_range(needed)} in place of {used}{_heads(needed, records)}."


def _range(values: Sequence[float]) -> str:
    return significant(values[0]) if len(values) == 1 else span(values)


def _heads(needed: Sequence[float], records: Sequence[Record]) -> str:
    """How many heads a range is over, where not all of them have such a scale."""
    if len(needed) == len(records):
        return ""
    return f"; in {len(records) - len(needed)} of {len(records)} heads the scores do not vary"
