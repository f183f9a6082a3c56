"""The findings of the study `swap`: the replacements that change outputs most, hardly, or more than no attention."""

import math
from collections.abc import Sequence

from attncli.catalogue.plans import PLAN
from attncli.core.numbers import finite, number, several
from attncli.errors import listed
from attncli.models.swap import UNIFORM, ZERO
from attncli.results import Finding, Result, Row, by_label, in_sentence, label_finding
from attncli.studies.swap.columns import SwapFacts, limited_keys, measured_columns
from attncli.studies.swap.options import REFERENCES

HARDLY = 0.01  # relative L2 below which a layer or head hardly matters
ERRORS = 2  # standard errors by which an entry is worse than no attention
MOST_NAMED = 5
ALONE = ("all", "layer", "head")  # places that do not overlap others
WAYS = {  # to choose layers: the beginning of a clause, and how it names a place
    "layer": ("one layer at a time", "in {}"),
    "head": ("one head at a time", "in {}"),
    "up_to": ("layers added from the first one", "up to {}"),
    "from": ("layers added from the last one", "from {} on"),
}


def swap_findings(result: Result) -> list[Finding]:
    """Return a sentence for each entry, and one about layers or heads that may as well be uniform."""
    groups = by_label(result.records)
    zero = {_place(row): row for row in groups.get(ZERO, ())}
    findings = [_label_sentence(label, rows, result, zero) for label, rows in groups.items() if label not in REFERENCES]
    for by in ("layer", "head"):
        rows = [row for row in groups.get(UNIFORM, ()) if row["by"] == by and row["relative_l2"] is not None]
        hardly = [row for row in rows if row["relative_l2"] < HARDLY]
        if len(rows) > 1 and hardly:
            what = f"{len(hardly)} of {several(len(rows), by)} may as well have uniform weights"
            text = f"{what}, which change the output by less than {100 * HARDLY:g} %: {_listed(hardly, result)}."
            findings.append(Finding(text, None, {"count": len(hardly)}))
    return findings


def _label_sentence(label: str, rows: Sequence[Row], result: Result, zero: dict[object, Row]) -> Finding:
    clauses, numbers, facts = list[str](), Row(), SwapFacts.of(result)
    is_plan = rows[0]["scorer"] == PLAN  # it leaves other layers alone
    for row in rows:
        if row["by"] == "all":
            clauses.append(_effect(row, facts) if is_plan else f"in {facts.all_layers} {_effect(row, facts)}")
            numbers["relative_l2"] = row["relative_l2"]
    key = facts.main.key
    words = ("the change is highest", "lowest") if facts.main.signed else ("most",) if is_plan else ("most", "least")
    for by, (way, where) in WAYS.items():
        measured = sorted((row for row in rows if row["by"] == by and finite([row[key]])), key=lambda row: row[key])
        ends = [measured[-1], measured[0]] if len(measured) > 1 else []
        places = [f"{where.format(result.place(row))} ({_amount(row, key)})" for row in ends]
        if ends and ends[0][key] != ends[1][key]:
            clauses.append(f"{way} {', '.join(map(' '.join, zip(words, places, strict=False)))}")
        elif ends or (measured and not clauses):
            at = "at each place" if ends else where.format(result.place(measured[0]))
            clauses.append(f"{way} {_amount(measured[0], key)} {at}")
        numbers |= {f"{word}_by_{by}": row[key] for word, row in zip(("most", "least"), ends, strict=False)}
    for row in rows:
        if row["by"] == "within":
            clauses.append(_plan(row, facts))
            numbers |= {column.key: row[column.key] for column in measured_columns(row)}
    pairs = [(row, zero[_place(row)]) for row in rows if row["by"] in ALONE and _place(row) in zero]
    worse = [row for row, none in pairs if _is_above(row, none, key)]
    if worse and not (facts.metric or is_plan):
        clauses.append(f"worse than no attention in {_listed(worse, result)}")
    name = in_sentence(label, result.random) + (f" ({result.formulas[label]})" if is_plan else "")
    return label_finding(label, clauses or ["no result"], numbers, name)


def _effect(row: Row, facts: SwapFacts) -> str:
    """Return the effect of an entry in all layers on the user's metric, the model's loss or its output, in words."""
    for key, name, unit in (("metric", facts.metric, ""), ("loss", "the loss", " nats")):
        change = row.get(f"{key}_change")
        if name is not None and change is not None:
            error = row[f"{key}_change_se"]
            margin = "" if error is None else f" ± {number(error, 2)}"
            if math.isnan(change):
                return f"makes {name} NaN"
            if change == 0:
                return f"leaves {name} at {number(row[key], 4)}{unit}"
            verb = "raises" if change > 0 else "lowers"
            return f"{verb} {name} by {number(abs(change), 3)}{margin}{unit}, to {number(row[key], 4)}"
    if row["relative_l2"] == 0:
        return "leaves the output as it is"
    text = f"changes the output by {_amount(row, 'relative_l2')}"
    if row.get("rank_correlation") is not None:
        text += f" (similarities of texts keep a rank correlation of {number(row['rank_correlation'], 2)})"
    return text


def _plan(row: Row, facts: SwapFacts) -> str:
    """Return how many layers take an entry within the limit, on the texts that chose them and on the others."""
    (key, chosen), limit = limited_keys(facts.kind), facts.within or 0.0
    bound = f"{limit:g} nats" if facts.kind == "language" else f"{100 * limit:g} %"
    if not row["layers"]:
        return f"no layer within {bound}, so no plan"
    verdict = "holds" if finite([row[key]]) and row[key] <= limit else "does not hold"
    others = f"{_amount(row, key)} on {several(facts.held_out or 0, 'other')}"
    texts = f"{_amount(row, chosen)} on the texts that chose them, {others}"
    return f"{several(row['layers'], 'layer')} within {bound}: {texts}, where the bound {verdict}"


def _is_above(row: Row, other: Row, key: str) -> bool:
    """Whether a number is above another by more than ERRORS standard errors of the difference, if it has errors.

    Both are of the same texts and may be correlated: the error of their difference is at most the sum of theirs.
    """
    values, errors = ([each.get(name, 0.0) for each in (row, other)] for name in (key, f"{key}_se"))
    return len(finite(values + errors)) == 4 and values[0] - values[1] > ERRORS * sum(errors)


def _amount(row: Row, key: str) -> str:
    """Return a change with its standard error, if it has one."""
    error = row.get(f"{key}_se")
    if key in ("relative_l2", "chosen_l2") and finite([row[key]]) and row[key] < 100:
        return f"{number(100 * row[key], 2)} %"
    return number(row[key], 2) + ("" if error is None else f" ± {number(error, 2)}")


def _place(row: Row) -> object:
    return row["by"], row["layer"], row["head"]


def _listed(rows: Sequence[Row], result: Result) -> str:
    """Return the places of rows, such as `layers 1 and 4` or `layer 1, head 0; layer 1, head 2 and 3 more`."""
    if len(rows) == 1 or any(row["layer"] is None or row["head"] is not None for row in rows):
        return listed([result.place(row) or "all layers" for row in rows], MOST_NAMED, "; ")
    numbers = [str(result.layers[row["layer"]]) for row in rows]
    end = "" if len(numbers) > MOST_NAMED else f" and {numbers.pop()}"
    return f"layers {listed(numbers, MOST_NAMED)}{end}"
