"""What the weights of the softmax end as, and what its figures do not show, as sentences."""

import math
from collections.abc import Iterator, Sequence

from attncli.show.numbers import finite, printable, significant, span
from attncli.studies.study import Record
from attncli.views.sweep_tables import by_label

UNIFORM = 0.98  # entropy over ln m from which weights count as nearly uniform
PEAKED = 0.9  # mean largest weight from which one key counts as having nearly all weight
HIDES = 1.5  # how many times the median the mean must be to be said to hide it


def extremes(records: Sequence[Record]) -> list[str]:
    """Which scorers end with all weight on one key, and which with the same weight on every key."""
    last = [max(rows, key=lambda record: record["d"]) for rows in by_label(records).values()]
    if len({record["head"] for record in records}) > 1:
        return []  # heads differ, and the table has them all
    last = [record for record in last if record["rows"]]
    peaked = [record for record in last if record["max_weight"] >= PEAKED and record["keys"] > 1]
    uniform = [record for record in last if record["entropy"] >= UNIFORM]
    return [*_peaked(peaked), *_uniform(uniform)]


def _peaked(records: Sequence[Record]) -> Iterator[str]:
    if records:
        weights = span(record["max_weight"] for record in records)
        yield f"Nearly all weight is on one key: {_named(records)} (mean of the largest weight {weights})."


def _uniform(records: Sequence[Record]) -> Iterator[str]:
    """Uniform weights over m keys have a Jacobian of norm sqrt(m - 1) / m."""
    if not records:
        return
    keys = {record["keys"] for record in records}
    entropy = f"entropy over ln m {span(record['entropy'] for record in records)}"
    norm = f"; uniform weights over {min(keys)} keys have the norm {significant(uniform_norm(min(keys)), 3)}"
    yield (
        f"Weights are nearly uniform, so the scores hardly matter: {_named(records)} "
        f"({entropy}{norm if len(keys) == 1 else ''})."
    )


def uniform_norm(keys: int) -> float:
    """The Frobenius norm of diag(p) - p p^T at p = 1/m."""
    return math.sqrt(keys - 1) / keys


def _named(records: Sequence[Record]) -> str:
    return ", ".join(f"{printable(record['label'])} at d = {record['d']}" for record in records)


def hidden(records: Sequence[Record]) -> list[str]:
    """Where the mean of the norm says least about the median row."""
    pairs = [record for record in records if len(finite([record["jacobian_mean"], record["jacobian_median"]])) == 2]
    apart = [record for record in pairs if record["jacobian_mean"] > HIDES * record["jacobian_median"]]
    if not apart:
        return []
    record = max(apart, key=_ratio)
    mean, middle = (significant(record[f"jacobian_{kind}"], 3) for kind in ("mean", "median"))
    head = "" if record["head"] is None else f", head {record['head']}"
    return [
        f"The mean hides the effect: for {printable(record['label'])} at d = {record['d']}{head} the mean norm is "
        f"{mean}, the median {middle}; the rows that are still undecided carry the mean."
    ]


def _ratio(record: Record) -> float:
    middle: float = record["jacobian_median"]
    return float(record["jacobian_mean"] / middle) if middle > 0 else math.inf


def correlated(settings: Record) -> list[str]:
    """What a correlation means where every key has it."""
    if not settings.get("rho"):
        return []
    return [
        "All keys of a row are correlated with the query alike, which shifts their scores together and leaves the "
        "weights flatter: this is not one matching key among others."
    ]
