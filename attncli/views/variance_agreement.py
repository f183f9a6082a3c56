"""Whether the measured moments agree with their theory, as far as chance allows."""

import math
from collections.abc import Sequence

from attncli.show.numbers import DOTS, printable
from attncli.show.numbers import score as z_score
from attncli.studies.study import Record
from attncli.views.variance_intervals import holds

MULTIPLES = ("dot", "cosine", "vector_sum")  # scores without parameters, whose options are factors
CHANCE = 0.01  # what comes by chance less often than this is not put down to chance
CAUSES = (
    "theory and measurement differ, the samples are too few, or float32 rounds too coarsely, as it does where the mean "
    "is large against the spread (--dtype float64 cures that)"
)


def agreement(records: Sequence[Record]) -> list[str]:
    """How many intervals hold the theory, and whether the farthest figure is too far away for chance."""
    compared = [record for record in records if record["theory"] == "exact" or record["z_mean"] is not None]
    apart = _measured_apart(compared)
    counts = [_count(apart, name) for name in ("variance", "mean")]
    known = [count for count in counts if count]
    if not known:
        return []
    of_how_many = " and ".join(known)
    usual = "by chance about 1 in 20 falls outside"
    return [
        f"{of_how_many}{_once(compared)} have their theory within the 95 % interval; {usual}.",
        *_farthest(apart),
    ]


def _measured_apart(records: Sequence[Record]) -> list[Record]:
    """One record of every score and d, the farthest from theory: all scorers see the same draws, so multiples agree."""
    farthest: dict[tuple[str, int], Record] = {}
    for record in records:
        place = (_score(record), record["d"])
        if place not in farthest or _distance(record) > _distance(farthest[place]):
            farthest[place] = record
    return list(farthest.values())


def _score(record: Record) -> str:
    """The same word for all that are multiples of one score, else the label."""
    score = "dot" if record["scorer"] in DOTS else record["scorer"]
    return str(score if score in MULTIPLES else record["label"])


def _once(records: Sequence[Record]) -> str:
    """Which scores are there in several scaled forms, of which one is counted."""
    labels: dict[str, set[str]] = {}
    for record in records:
        labels.setdefault(_score(record), set()).add(record["label"])
    several = [score for score, forms in labels.items() if len(forms) > 1]
    forms = "its scaled forms" if len(several) == 1 else "their scaled forms"
    return f" ({', '.join(several)} and {forms} see the same draws and count once)" if several else ""


def _distance(record: Record) -> float:
    """The larger |z|, so far as multiples of one score have it in common."""
    z: list[float] = [record[key] or 0.0 for key in ("z", "z_mean")]
    return round(max(map(abs, z)), 3)


def _count(records: Sequence[Record], name: str) -> str:
    """As `32 of 33 variances`; empty where there is nothing to compare."""
    exact = [record for record in records if name == "mean" or record["theory"] == "exact"]
    pairs = [(record[f"{name}_ci"], record[f"theory_{name}"]) for record in exact]
    inside = [
        not any(map(math.isnan, interval)) and holds(interval, theory)
        for interval, theory in pairs
        if interval is not None and theory is not None
    ]
    if not inside:
        return ""
    plural = "" if len(inside) == 1 else "s"
    return f"{sum(inside)} of {len(inside)} {name}{plural}"


def _farthest(records: Sequence[Record]) -> list[str]:
    """The largest z of all variances and means. Bonferroni: n comparisons make chance at most n times as likely."""
    found = [
        (abs(record[key]), name, record)
        for record in records
        for key, name in (("z", "variance"), ("z_mean", "mean"))
        if record.get(key) is not None and not math.isnan(record[key])
    ]
    if not found:
        return []
    largest, name, record = max(found, key=lambda entry: entry[0])
    chance = len(found) * math.erfc(largest / math.sqrt(2))
    many = f"among {len(found)} comparisons" if len(found) > 1 else "in one comparison"
    place = f"{printable(record['label'])} at d = {record['d']}, {name}"
    verdict = f"too far to be chance {many}: {CAUSES}" if chance < CHANCE else f"{many} chance alone may do that"
    return [f"The largest |z| is {z_score(largest)} ({place}): {verdict}."]
