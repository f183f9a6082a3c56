"""The findings of the study `swap`: the replacements that change outputs most, hardly, or more than no attention."""

import math
from collections.abc import Sequence

from attncli.config.plans import PLAN
from attncli.config.scorer_entries import MODEL
from attncli.errors import listed
from attncli.numbers import finite, number, several
from attncli.results import Finding, Result, Row, by_label, in_sentence
from attncli.studies.swap.columns import SwapFacts
from attncli.swapping import UNIFORM, ZERO

HARDLY = 0.01  # relative L2 below which a layer or head hardly matters
MOST_NAMED = 5
ALONE = ("all", "layer", "head")  # places that do not overlap others


def findings_of(result: Result) -> list[Finding]:
    """Return a sentence for each entry, and one about layers or heads that may as well be uniform."""
    groups = by_label(result.records)
    none = {_place(row): row for row in groups.get(ZERO, ())}
    findings = [
        _of_label(label, rows, result, none) for label, rows in groups.items() if label not in (MODEL, UNIFORM, ZERO)
    ]
    return [*findings, *_of_references(result, groups)]


def _of_label(label: str, rows: Sequence[Row], result: Result, none: dict[object, Row]) -> Finding:
    texts, numbers, facts = list[str](), Row(), SwapFacts.of(result)
    is_plan = rows[0]["scorer"] == PLAN  # it leaves other layers alone
    for row in rows:
        if row["by"] == "all":
            texts.append(_effect(row, result) if is_plan else f"in {facts.all_layers} {_effect(row, result)}")
            numbers["relative_l2"] = row["relative_l2"]
    key, order = facts.main.key, abs if facts.metric else float  # a high metric may be good or bad
    for by in ("layer", "head"):
        measured = [row for row in rows if row["by"] == by and finite([row[key]])]
        if len(measured) > 1:
            ends = {}
            for word, end in {"most": max, "least": min}.items() if not is_plan else [("most", max)]:
                row = end(measured, key=lambda row: order(row[key]))
                ends[f"{word} in {_named(row, result)} ({_amount(row, key)})"] = row[key]
                numbers[f"{word}_by_{by}"] = row[key]
            texts.append(f"one {by} at a time {', '.join(ends)}")
    is_comparable = not (facts.metric or is_plan)
    worse = [row for row in rows if _is_worse(row, none.get(_place(row)), key)] if is_comparable else []
    if worse:
        names = listed([_named(row, result) for row in worse], MOST_NAMED)
        texts.append(f"worse than no attention in {names}")
    name = in_sentence(label, result.random) + (f" ({result.formulas[label]})" if is_plan else "")
    return Finding(f"{name}: {'; '.join(texts) or 'no result'}.", label, numbers)


def _is_worse(row: Row, none: Row | None, key: str) -> bool:
    return row["by"] in ALONE and none is not None and len(finite([row[key], none[key]])) == 2 and row[key] > none[key]


def _effect(row: Row, result: Result) -> str:
    """Return the effect of an entry in all layers on the user's metric, the model's loss or its output, in words."""
    facts = SwapFacts.of(result)
    for key, name, unit in (("metric", facts.metric, ""), ("loss", "the loss", " nats")):
        change = row.get(f"{key}_change")
        if name is None or change is None:
            continue
        if math.isnan(change):
            return f"makes {name} NaN"
        if change == 0:
            return f"leaves {name} at {number(row[key], 4)}"
        error = f" ± {number(row[f'{key}_change_se'], 2)}" if row[f"{key}_change_se"] is not None else ""
        verb = "raises" if change > 0 else "lowers"
        return f"{verb} {name} by {number(abs(change), 3)}{error}{unit}, to {number(row[key], 4)}"
    text = f"changes the output by {_amount(row, 'relative_l2')}"
    if row.get("rank_correlation") is not None:
        text += f" (similarities of texts keep a rank correlation of {number(row['rank_correlation'], 2)})"
    return text


def _amount(row: Row, key: str) -> str:
    if row[key] is None or not math.isfinite(row[key]):
        return number(row[key])
    return f"{number(100 * row[key], 2)} %" if key == "relative_l2" and row[key] < 100 else number(row[key], 2)


def _of_references(result: Result, groups: dict[str, list[Row]]) -> list[Finding]:
    """Return a finding about layers and heads that may as well have uniform weights."""
    findings = []
    for by in ("layer", "head"):
        rows = [row for row in groups.get(UNIFORM, ()) if row["by"] == by and row["relative_l2"] is not None]
        hardly = [row for row in rows if row["relative_l2"] < HARDLY]
        if len(rows) > 1 and hardly:
            names = listed([_named(row, result) for row in hardly], MOST_NAMED)
            text = (
                f"{len(hardly)} of {several(len(rows), by)} may as well have uniform weights, which change the output"
            )
            findings.append(Finding(f"{text} by less than {100 * HARDLY:g} %: {names}.", None, {"count": len(hardly)}))
    return findings


def _place(row: Row) -> object:
    return row["by"], row["layer"], row["head"]


def _named(row: Row, result: Result) -> str:
    """Return the place of a row in words, with the number of its layer."""
    if row["by"] == "all":
        return "all layers"
    layer = f"layer {result.layers[row['layer']]}"
    if row["by"] in ("up_to", "from"):
        return f"all layers {row['by'].replace('_', ' ')} {layer.removeprefix('layer ')}"
    return layer if row["head"] is None else f"{layer} head {row['head']}"
