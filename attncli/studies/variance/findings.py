"""What the variance of each scorer is, in one sentence, and why that of q . k is so."""

import math
from collections.abc import Iterator, Sequence

from attncli.show.numbers import finite, significant, span
from attncli.studies.pairs.prepare import Prepared
from attncli.studies.pairs.trend import Trend
from attncli.studies.study import Finding, Record, by_label
from attncli.studies.variance.options import VarianceOptions
from attncli.studies.variance.theory import product_theory

SAME = 1e-6  # relative: theories that differ by less are the same
CHANCE = 0.01  # what comes by chance less often than this is not put down to chance
SHARED = 0.9  # the part of the variance within rows from which on it is not worth mentioning


def findings_of(prepared: Prepared[VarianceOptions], records: Sequence[Record]) -> list[Finding]:
    """One finding for each label, and of random entries why the variance of q . k is what it is."""
    scorers = dict(zip((entry.label for entry in prepared.options.scorers), prepared.points[0].scorers, strict=True))
    dots = {label for label, scorer in scorers.items() if getattr(scorer, "scales_dot_product", False)}
    if prepared.real is not None:
        return [_of_real(label, rows, label in dots) for label, rows in by_label(records).items()]
    compared = sum(row[z] is not None for row in records for z in ("z", "z_mean"))
    found = [_of_random(label, rows, compared) for label, rows in by_label(records).items()]
    return [*found, *(_why(prepared) if dots else ())]


def _of_random(label: str, rows: Sequence[Record], compared: int) -> Finding:
    """The variance at one size or over several, beside its theory."""
    known = sorted((row for row in rows if finite([row["variance"]])), key=lambda row: row["d"])
    if not known:
        return Finding(f"{label}: the variance is not a finite number.", label)
    first, last = known[0], known[-1]
    numbers = {key: last[key] for key in ("d", "variance", "theory_variance", "unit_scale", "z")}
    if first["d"] == last["d"]:
        found = f"{significant(last['variance'])} at d = {last['d']}"
        needed = _needed(last)
    else:
        trend = Trend([row["d"] for row in known], [row["variance"] for row in known])
        found, needed = str(trend), ""
        numbers |= {"smallest_d": first["d"], "smallest_d_variance": first["variance"], "power": trend.power}
    return Finding(
        f"{label}: variance {found}{_theory(first, last)}{needed}{_refuted(rows, compared)}.", label, numbers
    )


def _theory(first: Record, last: Record) -> str:
    start, end = first["theory_variance"], last["theory_variance"]
    if start is None or end is None:
        return ""
    limit = "about " if last["theory"] == "limit" else ""
    same = math.isclose(start, end, rel_tol=SAME)
    return f", theory {limit}{significant(end) if same else f'{significant(start)} to {significant(end)}'}"


def _needed(row: Record) -> str:
    """The scale that would make the variance 1, where it is not."""
    low, high = row["variance_ci"]
    is_one = math.isclose(row["theory_variance"], 1.0, rel_tol=SAME) if row["theory"] == "exact" else low <= 1 <= high
    if is_one or row["unit_scale"] is None:
        return ""
    return f"; a scale of {significant(row['unit_scale'])} would make it 1"


def _refuted(rows: Sequence[Record], compared: int) -> str:
    """The figure farthest from its theory, where chance is no reason: n comparisons make it n times as likely."""
    far = [(abs(row[z]), name, row) for row in rows for z, name in (("z", "variance"), ("z_mean", "mean")) if row[z]]
    far = [each for each in far if math.isfinite(each[0])]
    if not far:
        return ""
    z, name, row = max(far, key=lambda each: each[0])
    if compared * math.erfc(z / math.sqrt(2)) >= CHANCE:
        return ""
    return f"; its {name} at d = {row['d']} is {significant(z, 3)} standard errors from theory, too far for chance"


def _why(prepared: Prepared[VarianceOptions]) -> Iterator[Finding]:
    """From the mean and the variance of one product q_i k_i."""
    product = product_theory(prepared.entries)
    if prepared.entries.degrees_of_freedom <= 2 or product.mean is None or product.variance is None:
        return
    mean, variance = product.mean, product.variance
    cause = f"Why: each product q_i k_i has mean {significant(mean)} and variance {significant(variance)}, so q . k has"
    if abs(mean) < SAME:
        text = f"{cause} variance {_times(variance, 'd')}; 1/sqrt(d) makes it {significant(variance)}, 1/d makes it "
        text += f"{significant(variance)}/d."
    else:
        text = f"{cause} mean {_times(mean, 'd')} and variance {_times(variance, 'd')}; 1/sqrt(d) leaves mean "
        text += f"{_times(mean, 'sqrt(d)')} and variance {significant(variance)}, 1/d leaves mean {significant(mean)} "
        text += f"and variance {significant(variance)}/d."
    yield Finding(text, None, {"product_mean": mean, "product_variance": variance})


def _times(factor: float, size: str) -> str:
    return size if math.isclose(factor, 1.0, rel_tol=SAME) else f"{significant(factor)} {size}"


def _of_real(label: str, rows: Sequence[Record], is_dot: bool) -> Finding:
    """The variance of real scores, which part of it the softmax sees, and the scale for variance 1."""
    known = [row for row in rows if finite([row["variance"]])]
    if not known:
        return Finding(f"{label}: the variance is not a finite number.", label)
    needed = [row["unit_scale"] for row in known if row["unit_scale"] is not None]
    least, most = (pick(known, key=lambda row: float(row["variance"])) for pick in (min, max))
    numbers = {"variance": [least["variance"], most["variance"]], "unit_scale": needed}
    if not needed:
        return Finding(f"{label}: the scores do not vary, so no scale gives them variance 1.", label, numbers)
    found = f"variance {significant(most['variance'])}"
    if len(known) > 1:
        found = f"variance {significant(least['variance'])} (head {least['head']}) to {significant(most['variance'])} "
        found += f"(head {most['head']})"
    shares = [row["row_variance"] / row["variance"] for row in known if row["variance"] > 0]
    if min(shares) < SHARED:
        found += f", {_percent(shares)} of it within rows, where the softmax sees it"
    usual = f", where 1/sqrt(d) is {significant(known[0]['d'] ** -0.5)}" if is_dot else ""
    scale = f"scale of {span(needed)}" if len(set(needed)) == 1 else f"scale from {span(needed)}"
    return Finding(f"{label}: {found}; a {scale} would make it 1{usual}.", label, numbers)


def _percent(shares: Sequence[float]) -> str:
    low, high = (f"{100 * share:.0f}" for share in (min(shares), max(shares)))
    return f"{low} %" if low == high else f"{low} to {high} %"
