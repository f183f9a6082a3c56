"""The findings of the study `fit`: learnt options, errors before and after, and the heads that hardly need queries."""

from collections.abc import Sequence
from statistics import median
from typing import Any

from attncli.core.numbers import finite, number, several
from attncli.errors import listed
from attncli.results import Finding, Result, Row, by_label, label_finding
from attncli.studies.fit.columns import BEFORE, FitFacts
from attncli.studies.fit.options import KEYS_ALONE, REFERENCES, UNIFORM

OVERFITTED = 1.5  # times the divergence in training
HARDLY = 0.05  # nats: heads closer to `keys_alone` hardly look at their queries,
TIMES = 4  # unless `uniform` is close, too: at most so many times as far off
MOST_NAMED = 5


def fit_findings(result: Result) -> list[Finding]:
    """Return a sentence for each label, and one about heads that hardly look at their queries."""
    groups = by_label(result.records)
    findings = [_label_sentence(label, rows, result) for label, rows in groups.items() if label not in REFERENCES]
    heads = [row for row in groups.get(KEYS_ALONE, ()) if row["by"] == "head" and finite([row["kl"]])]
    uniform = {result.place(row): row["kl"] for row in groups.get(UNIFORM, ())}
    followed = [row for row in heads if row["kl"] < min(HARDLY, (uniform.get(result.place(row)) or 0.0) / TIMES)]
    if hardly := sorted(followed, key=lambda row: row["kl"]):
        names = listed([result.place(row) for row in hardly], MOST_NAMED, "; ")
        count = f"{len(hardly)} of {several(len(heads), 'head')}"
        off = f"with w . k they are less than {HARDLY} nats off, with equal weights over {TIMES} times as far"
        text = f"{count} hardly look at their queries: {off}: {names}."
        findings.append(Finding(text, None, {"count": len(hardly)}))
    return findings


def _label_sentence(label: str, rows: Sequence[Row], result: Result) -> Finding:
    heads, whole = [row for row in rows if row["by"] == "head"], [row for row in rows if row["by"] == "all"]
    has_kl = heads[0]["kl"] is not None
    key, error, unit = ("kl", "divergence", " nats") if has_kl else ("output_l2", "error", "")
    before, after = column_median(heads, key + BEFORE), column_median(heads, key)
    worst = max(heads, key=lambda row: row[key] or 0.0)
    numbers: Row = {key + BEFORE: before, key: after, "worst": worst[key]}
    clauses = list[str]()
    for option, values in _fitted_options(label, result).items():
        numbers[option] = median(values)
        ends = f" ({number([min(values), max(values)], 3)})" if len(values) > 1 else ""
        clauses.append(f"fitted {option} {number(median(values), 3)}{ends}")
    clauses.append(f"the median {error} of a head is {number(after, 3)}{unit}, unfitted {number(before, 3)}{unit}")
    clauses.append(f"the worst is {result.place(worst)} ({number(worst[key], 3)})")
    if outside := column_median(heads, "outside"):
        clauses.append(f"of the model's weight, {number(100 * outside, 2)} % is on keys that it cannot see (median)")
        numbers["outside"] = outside
    main = FitFacts.of(result).main
    quantity, unit, factor = ("loss", "nats", 1) if main == "loss_change" else ("output", "%", 100)
    for row in [] if main is None else [row for row in whole if len(finite([row[main], row[f"{main}{BEFORE}"]])) == 2]:
        new, old = (number(factor * row[f"{main}{end}"], 3) for end in ("", BEFORE))
        clauses.append(f"inside the model it changes the {quantity} by {new} {unit}, unfitted by {old} {unit}")
        numbers |= {f"{main}{end}": row[f"{main}{end}"] for end in ("", BEFORE)}
    held_out, trained = column_median(heads, "kl"), column_median(heads, "kl_train")
    if trained and held_out and before != after and held_out > OVERFITTED * trained:
        times = number(held_out / trained, 2)
        clauses.append(f"held-out texts are {times} times as far off as those in training: give more texts")
    return label_finding(label, clauses, numbers)


def column_median(rows: Sequence[Row], key: str) -> Any:
    """Return the median of a column over the rows with a finite number in it; None if there are none."""
    numbers = finite(row.get(key) for row in rows)
    return median(numbers) if numbers else None


def _fitted_options(label: str, result: Result) -> dict[str, list[float]]:
    """Return the numbers of each option that was fitted, of the heads of all layers."""
    options = dict[str, list[float]]()
    for name, of_heads in result.parameters.items():
        if name.startswith(f"{label}/") and of_heads.ndim == 1:
            options.setdefault(name.rpartition("/")[2], []).extend(of_heads.tolist())
    return options
