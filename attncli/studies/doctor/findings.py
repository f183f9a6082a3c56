"""The findings of the study `doctor`: a sentence for each check, faults first, and for layers with too few keys."""

import itertools
import math

from attncli.core.numbers import number, several
from attncli.errors import listed
from attncli.results import Finding, Result, by_label, group, in_sentence
from attncli.studies.doctor.checks import BATCH, CHECKS, FEWEST_IN_SIGHT, FEWEST_KEYS, FEWEST_QUERIES
from attncli.studies.doctor.columns import DoctorFacts

MOST_NAMED = 3


def doctor_findings(result: Result) -> list[Finding]:
    """Return a sentence for each check with findings, for labels without findings, and for small layers.

    A sentence has the most extreme heads first; NaN is the most extreme of all. The first of a check has its meaning.
    """
    heads, found = by_label(result.heads), group(result.records, ["check", "label"])
    names = {label: in_sentence(label, result.random) for label in (heads if len(heads) > 1 else result.random)}
    findings, last, said = list[Finding](), list[Finding](), set[str]()
    for check, label in itertools.product(CHECKS, heads):
        rows = found.get((check.key, label), [])
        rows.sort(key=lambda row: (math.isnan(row["value"]), row["value"]), reverse=not check.is_below)
        for listing in [[row] for row in rows] if check is BATCH else [rows][: len(rows)]:  # each side of the padding
            places = [f"{where} ({number(row['value'], 2)})" for row in listing if (where := result.place(row))]
            places[:1] = [place.replace("(", f"({' '.join(check.heading.split())} ") for place in places[:1]]
            has_count = check is not BATCH and all(row["head"] is not None for row in listing)
            count = f" in {len(listing)} of {several(len(heads[label]), 'head')}" if has_count else ""
            fault = "fault, " if any(row["kind"] == "fault" for row in listing) else ""
            meaning = check.meaning if check.key == "duplicate" else listing[0]["about"]
            where = listed(places, MOST_NAMED, "; ") or number(listing[0]["value"], 2)
            text = f"{fault}{check.key}{count}: {where}.{'' if meaning in said else f' {meaning}'}"
            said.add(meaning)
            numbers = {"count": len(listing), "heads": len(heads[label]), "most": listing[0]["value"]}
            of_kind = last if check is BATCH and not fault else findings  # the user may not pad on that side
            of_kind.append(Finding(f"{names[label]}: {text}" if label in names else text, label, numbers))
    findings += last
    quiet = [label for label in heads if not any(finding.label == label for finding in findings)]
    layers = DoctorFacts.of(result).unjudged
    if quiet:
        of = ", ".join(names[label] for label in quiet if label in names)
        text = f"{'No fault' if layers else 'Nothing'} found in {several(len(heads[quiet[0]]), 'head')}"
        findings.append(Finding(f"{text} with {of}." if of else f"{text}."))
    if layers:
        numbers_of_layers = [str(result.layers[layer]) for layer in layers if layer is not None]
        has_uniform = any(row["uniform"] is not None for row in result.heads if row["layer"] in layers)
        text = f"Only faults were checked{' of some heads' if has_uniform else ''}"
        if numbers_of_layers:
            text += f" in {'layers' if len(numbers_of_layers) > 1 else 'layer'} {listed(numbers_of_layers, MOST_NAMED)}"
        text += f": other checks need {FEWEST_QUERIES} queries with finite weights on {FEWEST_IN_SIGHT} keys or more"
        findings.append(Finding(f"{text}, one of them on {FEWEST_KEYS} or more.", numbers={"layers": len(layers)}))
    return findings
