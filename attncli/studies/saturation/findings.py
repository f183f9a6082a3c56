"""The findings of the study `saturation`: one for each scorer, and one that explains small norms."""

import math
from collections.abc import Sequence

from attncli.catalogue.normalizer_entries import DEFAULT_NORMALIZER
from attncli.core.numbers import finite, number
from attncli.results import Finding, Result, Row, by_label, in_sentence, label_finding
from attncli.studies.pairs.findings import change, finding_numbers, power_law

NORM, WEIGHT = "jacobian_median", "max_weight_median"
SATURATED = 0.5  # saturation is explained if the mean largest weight reaches this
NUMBERS = ("d", NORM, WEIGHT, "query_gradient_median")  # of a sentence
FEWEST_ROWS = 10  # the quartiles of fewer rows do not tell how far their median is from the true one
# Half-width of the 95 % interval of the median of normal rows, in distances of their quartiles / sqrt(rows).
MEDIAN_95 = 1.96 / 1.349 * math.sqrt(math.pi / 2)
HIDES = 1.5  # how many times the median a mean must be to hide it


def saturation_findings(result: Result, uniform: float) -> list[Finding]:
    """Return a finding for each label, and one that explains small norms of softmax.

    `uniform` is the norm of the Jacobian of softmax for uniform weights.
    """
    findings = [_label_sentence(label, rows, result) for label, rows in by_label(result.records).items()]
    peaked = [
        row
        for row in result.records
        if row["normalizer"] == DEFAULT_NORMALIZER
        and finite([row["max_weight"]])
        and row["max_weight"] >= SATURATED
        and row[NORM] < uniform
    ]
    if peaked:
        most = max(peaked, key=lambda record: record["jacobian_mean"] / max(record[NORM], 1e-300))
        text = (
            "Why: a softmax with all weight on one key passes no gradient; "
            f"uniform weights over {most['keys']} keys have norm {number(uniform, 3)}"
        )
        if most["jacobian_mean"] > HIDES * most[NORM]:
            head = f"{place} of " if (place := result.place(most)) else ""
            where = f"{head}{in_sentence(most['label'], result.random)} at d = {most['d']}"
            mean, middle = number(most["jacobian_mean"], 3), number(most[NORM], 3)
            text += f"; the mean hides this: {mean} for {where}, with median {middle}"
        findings.append(Finding(f"{text}.", None, {"uniform_norm": uniform}))
    return findings


def _label_sentence(label: str, rows: Sequence[Row], result: Result) -> Finding:
    name = in_sentence(label, result.random)
    measured = [row for row in rows if finite([row[NORM]]) and finite([row["max_weight"]])]
    measured.sort(key=lambda row: int(row["d"]))
    if not measured:
        return label_finding(label, ["there are no finite weights"], {}, name)
    norms, ends = change(result, measured, NORM, _margins(measured, "jacobian"))
    weights, also = change(result, measured, WEIGHT, _margins(measured, "max_weight"))
    if len(measured) == 1:
        weights = number(measured[0][WEIGHT], 2)  # d is in the sentence already
    numbers = finding_numbers(result, [row for row in measured if row in ends or row in also], NUMBERS)
    if (power := power_law(measured, NORM)) is not None:
        norms, numbers = f"{norms}, like d^{power:.2f}", numbers | {"power": power}
    clauses = [f"median norm of the {rows[0]['normalizer']} Jacobian {norms}", f"median largest weight {weights}"]
    return label_finding(label, clauses, numbers, name)


def _margins(rows: Sequence[Row], key: str) -> list[float]:
    """Return the half-width of the 95 % interval of each row's median, estimated from its quartiles."""
    if min(row["rows"] for row in rows) < FEWEST_ROWS:
        return [math.inf] * len(rows)
    return [MEDIAN_95 * (row[f"{key}_q75"] - row[f"{key}_q25"]) / math.sqrt(row["rows"]) for row in rows]
