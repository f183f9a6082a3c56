"""What the study `attention` found: which scorers agree, and which differ most."""

import math
from collections.abc import Sequence

from attncli.show.numbers import significant
from attncli.studies.study import Finding, Record

SAME = 1e-6  # bits: weights that are apart by less differ by rounding only


def findings_of(comparisons: Sequence[Record]) -> list[Finding]:
    """The pair of scorers whose weights are furthest apart; or that none are."""
    known = [row for row in comparisons if row["js_divergence"] is not None and math.isfinite(row["js_divergence"])]
    if not known:
        return []
    furthest = max(known, key=lambda row: float(row["js_divergence"]))
    a, b, bits, agreed = (furthest[key] for key in ("a", "b", "js_divergence", "top1_agreement"))
    numbers = {"a": a, "b": b, "js_divergence": bits, "top1_agreement": agreed}
    if bits < SAME:
        alike = f"{a} and {b} give" if len(comparisons) == 1 else "All scorers give"
        return [Finding(f"{alike} the same weights.", numbers=numbers)]
    which = "differ" if len(comparisons) == 1 else "differ most"
    text = f"{a} and {b} {which}: JS divergence {significant(bits, 3)} bits; largest weight at the same key in"
    return [Finding(f"{text} {agreed:.0%} of the rows.", numbers=numbers)]
