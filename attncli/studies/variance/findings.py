"""The findings of the study `variance`: one for each scorer, and one that explains the variance of q . k."""

import math
from collections.abc import Iterator, Sequence

from attncli.core.numbers import exact, finite, number
from attncli.results import Finding, Result, Row, by_label, in_sentence, label_finding
from attncli.studies.pairs.entries import Entries
from attncli.studies.pairs.findings import change, finding_numbers, over_sizes, power_law
from attncli.studies.pairs.study import PreparedPairs

SAME = 1e-6  # relative: theories that differ by less are the same
CHANCE = 0.01  # a deviation less probable than this is reported as significant
SHARED = 0.9  # a share of the variance within rows above this is not mentioned
NUMBERS = ("d", "variance", "theory_variance", "unit_scale", "z")


def variance_findings(prepared: PreparedPairs, result: Result) -> list[Finding]:
    """Return a finding for each label, and for random entries one that explains the variance of q . k."""
    compared = sum(row[z] is not None for row in result.records for z in ("z", "z_mean"))
    findings = [_label_sentence(label, rows, result, compared) for label, rows in by_label(result.records).items()]
    pairs = zip(prepared.points[0].entries, prepared.points[0].scorers, strict=True)
    dots = any(scorer.scales_dot_product and entry.qk_norm is None for entry, scorer in pairs)
    if prepared.is_real:
        return findings
    return [*findings, *[_why(prepared.entries)] * dots]


def _label_sentence(label: str, rows: Sequence[Row], result: Result, compared: int) -> Finding:
    name = in_sentence(label, result.random)
    rows = sorted((row for row in rows if finite([row["variance"]])), key=lambda row: row["d"])
    if not rows:
        return label_finding(label, ["the variance is not a finite number"], {}, name)
    intervals = [row["variance_ci"] or (row["variance"], row["variance"]) for row in rows]
    text, ends = change(result, rows, "variance", [(high - low) / 2 for low, high in intervals])
    numbers, power = finding_numbers(result, ends, NUMBERS), power_law(rows, "variance")
    if power is not None:
        text, numbers = f"{text}, like d^{power:.2f}", numbers | {"power": power}
    theory = [row["theory_variance"] for row in ends]
    if len(finite(theory)) == len(ends):
        values = dict.fromkeys(exact(value) for value in theory)
        text += f", theory {'about ' if rows[0]['theory'] == 'limit' else ''}{' to '.join(values)}"
    varied = [row for row in rows if row["row_variance"] is not None and row["variance"] > 0]
    shares = [row["row_variance"] / row["variance"] for row in varied]
    if shares and min(shares) < SHARED:
        percents = dict.fromkeys(f"{100 * share:.0f} %" for share in (min(shares), max(shares)))
        between = "between " if len(percents) > 1 else ""
        text += f", {between}{' and '.join(percents)} of it within rows (the rest does not change the softmax)"
    clauses, drift = [f"variance {text}"], _drift(rows)
    if drift:
        clauses.append(drift)
        numbers["mean"] = [row["mean"] for row in (rows[0], rows[-1])]
    return label_finding(label, [*clauses, *_needed(rows), *_refuted(rows, compared)], numbers, name)


def _drift(rows: Sequence[Row]) -> str:
    """Return a clause on the mean over several d, where theory knows it and it is not 0; else empty."""
    theory = [row["theory_mean"] for row in rows]
    if len(finite(theory)) < len(rows) or not any(theory) or not over_sizes(rows):
        return ""
    if math.isclose(theory[0], theory[-1], rel_tol=SAME):
        return f"its mean keeps to {exact(theory[0])}"
    first, last = (f"{number(row['mean'], 3)} (d = {row['d']})" for row in (rows[0], rows[-1]))
    return f"its mean drifts from {first} to {last}, theory {exact(theory[0])} to {exact(theory[-1])}"


def _needed(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a clause with the scale for variance 1, unless the variance is 1 or there are several d."""
    scales = finite(row["unit_scale"] for row in rows)
    low, high = rows[0]["variance_ci"] or (math.inf, math.inf)
    exact = rows[0]["theory_variance"] if rows[0]["theory"] == "exact" else None
    is_one = low <= 1 <= high if exact is None else math.isclose(exact, 1.0, rel_tol=SAME)
    if scales and not is_one and len({row["d"] for row in rows}) == 1:
        ends = list(dict.fromkeys(map(number, (min(scales), max(scales)))))
        yield f"a scale {'between' if ends[1:] else 'of'} {' and '.join(ends)} would give variance 1"


def _refuted(rows: Sequence[Row], compared: int) -> Iterator[str]:
    """Yield a clause on the largest deviation from theory, if it is significant among `compared` tests."""
    names = {"z": "variance", "z_mean": "mean"}
    far = [(abs(row[z]), name, row["d"]) for row in rows for z, name in names.items() if finite([row[z]])]
    z, name, d = max(far, default=(0.0, "", 0))
    if compared * math.erfc(z / math.sqrt(2)) < CHANCE and far:
        yield f"its {name} at d = {d} is {number(z, 3)} standard errors from theory, more than chance explains"


def _why(entries: Entries) -> Finding:
    """Return the finding that explains the moments of q . k by the mean and variance of one product q_i k_i."""
    numbers = dict(zip(("product_mean", "product_variance"), entries.moments(1).of_product(), strict=True))
    mean, variance = (exact(value) for value in numbers.values())
    text = f"Why: each product q_i k_i has mean {mean} and variance {variance}, so q . k has mean {_times(mean, 'd')} "
    text += f"and variance {_times(variance, 'd')}; scale 1/sqrt(d) gives mean {_times(mean, 'sqrt(d)')} and variance "
    text += f"{variance}, scale 1/d gives mean {mean} and variance {variance}/d."
    if numbers["product_mean"]:
        text += " So 1/sqrt(d) fits the variance and 1/d the mean: no scale fits both."
    return Finding(text, None, numbers)


def _times(factor: str, size: str) -> str:
    return {"0": "0", "1": size, "-1": f"-{size}"}.get(factor, f"{factor} {size}")
