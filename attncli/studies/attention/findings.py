"""The findings of the study `attention`: scorers that agree, and the largest differences."""

from collections.abc import Collection, Sequence

from attncli.core.numbers import TIE, finite, number, percent
from attncli.models.inputs import Inputs
from attncli.results import Finding, Row, in_sentence

SAME = 1e-6  # bits; smaller divergences are rounding


def attention_findings(
    lessons: Sequence[Finding],
    comparisons: Sequence[Row],
    head_comparisons: Sequence[Row],
    random: Collection[str] = (),
    even: Collection[str] = (),
) -> list[Finding]:
    """Return the lessons, then the pair of scorers with the largest difference of weights, overall and by head.

    Scorers that agree up to rounding are named, unless a lesson about all scorers says why they do. `random` has the
    labels with random parameters, and `even` the labels with equal weights for all keys, which have no largest weight.
    """
    random = {*random}.difference(even)  # their parameters have no effect
    measured = [row for row in comparisons if finite([row["js_divergence"]])]
    if not measured:
        return [*lessons]
    furthest = _furthest(measured)
    a, b, bits, agreed = (furthest[key] for key in ("a", "b", "js_divergence", "top1_agreement"))
    numbers = {"a": a, "b": b, "js_divergence": bits, "top1_agreement": agreed}
    if bits < SAME:
        if any(lesson.label is None for lesson in lessons):
            return [*lessons]
        if len(measured) < len(comparisons):
            return [*lessons, *_alike(comparisons)]
        alike = f"{a} and {b} give" if len(comparisons) == 1 else "All scorers give"
        but = "" if all(map(_are_same, comparisons)) else ", up to a factor for each query"
        return [*lessons, Finding(f"{alike} the same weights{but}.", numbers=numbers)]
    which = "differ" if len(measured) == 1 else "differ most"
    text = f"{in_sentence(a, random)} and {in_sentence(b, random)} {which}: JS divergence {number(bits, 3)} bits"
    if agreed is not None and a not in even and b not in even:
        text += f"; largest weight at the same key in {percent(agreed)} of the rows"
    findings = [*lessons, *_alike(comparisons), Finding(f"{text}.", numbers=numbers)]
    if head := _head(head_comparisons):
        several = len({row["batch"] for row in head_comparisons}) > 1
        where = f"head {head['head']}" + (f" of batch element {head['batch']}" if several else "")
        a, b = (in_sentence(head[key], random) for key in ("a", "b"))
        text = f"Of all heads {a} and {b} differ most in {where}"
        numbers = {key: head[key] for key in ("a", "b", "batch", "head", "js_divergence")}
        findings.append(Finding(f"{text}: JS divergence {number(head['js_divergence'], 3)} bits.", numbers=numbers))
    return findings


def fault_findings(inputs: Inputs, where: str = "") -> list[Finding]:
    """Return a finding for each of queries, keys and values with numbers that are not finite; `where` stands before it.

    The first such number is named.
    """
    weights = "queries whose weights are not finite are left out of the figures"
    outputs = "queries whose outputs are not finite are left out of the differences of outputs"
    return [
        Finding(f"{where}{fault}; {outputs if role == 'values' else weights}.") for role, fault in inputs.faults.items()
    ]


def _alike(comparisons: Sequence[Row]) -> list[Finding]:
    """Return a finding for each scorer that has the same weights as a scorer before it."""
    same = dict[str, str]()
    for row in comparisons:
        if _are_same(row):
            same.setdefault(row["b"], row["a"])
    return [Finding(f"{b} gives the same weights as {a}.", b, {"of": a}) for b, a in same.items()]


def _are_same(row: Row) -> bool:
    """Whether two scorers have the same weights, up to rounding; divergences ignore the sum of the weights."""
    bits, largest = finite([row["js_divergence"]]), finite([row["max_abs_difference"]])
    return bool(bits and largest) and bits[0] < SAME and largest[0] < TIE


def _furthest(comparisons: Sequence[Row]) -> Row:
    return max(comparisons, key=lambda row: float(row["js_divergence"]))


def _head(head_comparisons: Sequence[Row]) -> Row | None:
    """Return the row of the head with the largest difference; None if the pair differs alike in all heads."""
    measured = [row for row in head_comparisons if finite([row["js_divergence"]])]
    if len({row["head"] for row in measured}) < 2:
        return None
    head = _furthest(measured)
    of_pair = [row for row in measured if (row["a"], row["b"]) == (head["a"], head["b"])]
    return head if len({number(row["js_divergence"], 3) for row in of_pair}) > 1 else None
