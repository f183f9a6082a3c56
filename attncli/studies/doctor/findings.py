"""The findings of the study `doctor`: a sentence for each check, faults first, and for layers with too few keys."""

import math
from collections.abc import Iterator, Sequence

from attncli.errors import listed
from attncli.numbers import number, several
from attncli.results import Finding, Result, Row, by_label, in_sentence
from attncli.studies.doctor.checks import CHECKS, FEWEST_IN_SIGHT, FEWEST_KEYS, FEWEST_QUERIES, Check
from attncli.studies.doctor.columns import DoctorFacts

MOST_NAMED = 3


def findings_of(result: Result) -> list[Finding]:
    """Return a sentence for each check with findings, for labels without findings, and for small layers."""
    groups, findings = by_label(result.records), list[Finding]()
    heads, random = by_label(result.heads), result.random
    named = heads if len(heads) > 1 else random  # labels that sentences name
    for check in CHECKS:
        for label, rows in groups.items():
            of_check = [row for row in rows if row["check"] == check.key]
            if of_check:
                prefix = f"{in_sentence(label, random)}: " if label in named else ""
                numbers = {
                    "count": len(of_check),
                    "heads": len(heads[label]),
                    "most": _ranked(of_check, check)[0]["value"],
                }
                findings.append(Finding(prefix + _sentence(check, of_check, len(heads[label]), result), label, numbers))
    quiet = [label for label in heads if label not in groups]
    if quiet:
        with_ = ", ".join(in_sentence(label, random) for label in quiet if label in named)
        of = f" with {with_}" if with_ else ""
        what = "No fault" if DoctorFacts.of(result).unjudged else "Nothing"
        findings.append(Finding(f"{what} found in {several(len(heads[quiet[0]]), 'head')}{of}."))
    return [*findings, *_untold(result)]


def _sentence(check: Check, rows: Sequence[Row], heads: int, result: Result) -> str:
    """Return a sentence with the heads that the check found, the most extreme first, and the finding's meaning."""
    named = [f"{name} ({number(row['value'], 2)})" for row in _ranked(rows, check) if (name := place(row, result))]
    extreme = listed(named, MOST_NAMED) or number(rows[0]["value"], 2)
    count = f" in {len(rows)} of {several(heads, 'head')}" if all(row["head"] is not None for row in rows) else ""
    fault = "fault, " if any(row["kind"] == "fault" for row in rows) else ""
    meaning = check.meaning if check.key == "duplicate" else _ranked(rows, check)[0]["about"]
    return f"{fault}{check.key}{count}: {extreme}. {meaning}"


def _ranked(rows: Sequence[Row], check: Check) -> list[Row]:
    """Return the rows, the most extreme first; NaN is the most extreme of all."""
    return sorted(rows, key=lambda row: (math.isnan(row["value"]), row["value"]), reverse=not check.is_below)


def place(row: Row, result: Result) -> str:
    """Return the place of a row in words, such as `layer 0 head 2`, with the number of the layer."""
    words = [] if row["layer"] is None else [f"layer {result.layers[row['layer']]}"]
    return " ".join(words + ([] if row["head"] is None else [f"head {row['head']}"]))


def _untold(result: Result) -> Iterator[Finding]:
    layers = DoctorFacts.of(result).unjudged
    if layers:
        numbers = [str(result.layers[layer]) for layer in layers if layer is not None]
        where = f" in layer{'s' * (len(numbers) > 1)} {listed(numbers, MOST_NAMED)}" if numbers else ""
        some = any(row["uniform"] is not None for row in result.heads if row["layer"] in layers)
        few = f"fewer than {FEWEST_QUERIES} queries have finite weights on {FEWEST_IN_SIGHT} keys or more"
        text = f"Cannot tell more than faults{' of some heads' * some}{where}: {few}, or none on {FEWEST_KEYS} or more."
        yield Finding(text, numbers={"layers": len(layers)})
