"""What the softmax lets through, in one sentence for each scorer, and why."""

from collections.abc import Iterator, Sequence

from attncli.show.numbers import finite, short, significant
from attncli.studies.pairs.findings import change
from attncli.studies.saturation.rows import uniform_norm
from attncli.studies.study import Finding, Record, by_label

NORM = "jacobian_median"
SATURATED = 0.5  # mean largest weight from which saturation is worth an explanation
HIDES = 1.5  # how many times the median a mean must be to hide it


def findings_of(records: Sequence[Record]) -> list[Finding]:
    """One finding for each label, and why a norm is small where that is so."""
    found = [_of_label(label, rows) for label, rows in by_label(records).items()]
    return [*found, *_why(records)]


def _of_label(label: str, rows: Sequence[Record]) -> Finding:
    known = [row for row in rows if finite([row[NORM]]) and finite([row["max_weight"]])]
    if not known:
        return Finding(f"{label}: the weights are no finite numbers, or there are none.", label)
    found, numbers = change(known, NORM, ("d", NORM, "max_weight", "query_gradient_median"))
    weights = " to ".join(dict.fromkeys(significant(weight, 2) for weight in numbers["max_weight"]))
    text = f"{label}: median norm of the softmax Jacobian {found}; largest weight {weights} on average."
    return Finding(text, label, numbers)


def _why(records: Sequence[Record]) -> Iterator[Finding]:
    """From the weights at both ends, all alike or all on one key, and how far the mean hides the median."""
    keys = {record["keys"] for record in records}
    peaked = [record for record in records if finite([record["max_weight"]]) and record["max_weight"] >= SATURATED]
    if len(keys) != 1 or not peaked:
        return
    norm = uniform_norm(keys.pop())
    text = f"Why: no gradient passes a softmax with all weight on one key; uniform weights have norm {short(norm)}"
    most = max(peaked, key=lambda record: record["jacobian_mean"] / max(record["jacobian_median"], 1e-300))
    if most["jacobian_mean"] > HIDES * most["jacobian_median"]:
        mean, median = (short(most[f"jacobian_{kind}"]) for kind in ("mean", "median"))
        head = "" if most["head"] is None else f"head {most['head']} of "
        text += f"; means hide that: {mean} for {head}{most['label']} at d = {most['d']}, where the median is {median}"
    yield Finding(f"{text}.", None, {"uniform_norm": norm})
