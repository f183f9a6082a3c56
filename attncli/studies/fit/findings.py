"""The findings of the study `fit`: learnt options, errors before and after, and the heads that hardly need queries."""

from collections.abc import Sequence
from statistics import median
from typing import Any

from attncli.config.scorer_entries import MODEL
from attncli.errors import listed
from attncli.numbers import finite, number, several
from attncli.results import Finding, Result, Row, by_label
from attncli.studies.fit.columns import BEFORE, FitFacts
from attncli.studies.fit.options import KEYS_ALONE, UNIFORM

OVERFITTED = 1.5  # times the divergence in training
HARDLY = 0.05  # nats: heads closer to `keys_alone` hardly look at their queries
MOST_NAMED = 5


def findings_of(result: Result) -> list[Finding]:
    """Return a sentence for each label, and one about heads that hardly look at their queries."""
    groups = by_label(result.records)
    named = [
        _of_label(label, rows, result) for label, rows in groups.items() if label not in (MODEL, UNIFORM, KEYS_ALONE)
    ]
    return [*named, *_of_keys_alone(groups.get(KEYS_ALONE, ()), result)]


def _of_label(label: str, rows: Sequence[Row], result: Result) -> Finding:
    heads, whole = [row for row in rows if row["by"] == "head"], [row for row in rows if row["by"] == "all"]
    key = "kl" if heads[0]["kl"] is not None else "output_l2"
    unit = " nats" if key == "kl" else " of the output"
    before, after = median_of(heads, key + BEFORE), median_of(heads, key)
    worst = max(heads, key=lambda row: row[key] or 0.0)
    numbers: Row = {f"{key}{BEFORE}": before, key: after, "worst": worst[key]}
    texts = [*_options(label, result, numbers)]
    amount = f"{number(before, 3)} to {number(after, 3)}{unit}"
    verb = "takes the median " + ("divergence" if key == "kl" else "error") + " of a head from"
    if before == after:
        texts.append(f"nothing to learn; a head is {number(after, 3)}{unit} off (median)")
    else:
        texts.append(f"fitting {verb} {amount}")
    texts.append(f"the worst is {_named(worst, result)} ({number(worst[key], 3)})")
    if outside := median_of(heads, "outside"):
        texts.append(f"of the model's weight, {number(100 * outside, 2)} % is on keys that it cannot see (median)")
        numbers["outside"] = outside
    if whole and (main := FitFacts.of(result).main) is not None:
        old, new = whole[0][main + BEFORE], whole[0][main]
        quantity = "loss" if main == "loss_change" else "output"
        if old is not None and new is not None:
            shown = [_amount(value, main) for value in (new, old)]
            texts.append(f"inside the model it changes the {quantity} by {shown[0]}, unfitted by {shown[1]}")
            numbers |= {main + BEFORE: old, main: new}
    held_out, trained = median_of(heads, "kl"), median_of(heads, "kl_train")
    if trained and held_out and before != after and held_out > OVERFITTED * trained:
        times = number(held_out / trained, 2)
        texts.append(f"held-out texts are {times} times as far off as those in training: give more texts")
    return Finding(f"{label}: {'; '.join(texts)}.", label, numbers)


def median_of(rows: Sequence[Row], key: str) -> Any:
    """Return the median of a column over the rows with a finite number in it; None if there are none."""
    numbers = finite(row.get(key) for row in rows)
    return median(numbers) if numbers else None


def _options(label: str, result: Result, numbers: Row) -> list[str]:
    """Return the medians and ranges of fitted options in words, and put the medians into `numbers`."""
    options = dict[str, list[float]]()
    for name, numbers_of_heads in result.parameters.items():
        option = name.rpartition("/")[2]
        if name.startswith(f"{label}/") and numbers_of_heads.ndim == 1:
            options.setdefault(option, []).extend(numbers_of_heads.tolist())
    texts = []
    for option, values in options.items():
        numbers[option] = median(values)
        ends = f" ({number(min(values), 3)} to {number(max(values), 3)})" if len(values) > 1 else ""
        texts.append(f"fitted {option} {number(median(values), 3)}{ends}")
    return texts


def _of_keys_alone(rows: Sequence[Row], result: Result) -> list[Finding]:
    heads = [row for row in rows if row["by"] == "head" and finite([row["kl"]])]
    hardly = sorted((row for row in heads if row["kl"] < HARDLY), key=lambda row: row["kl"])
    if not hardly:
        return []
    names = listed([_named(row, result) for row in hardly], MOST_NAMED)
    count = f"{len(hardly)} of {several(len(heads), 'head')}"
    text = f"{count} hardly look at their queries: with w . k they are less than {HARDLY} nats off: {names}."
    return [Finding(text, None, {"count": len(hardly)})]


def _named(row: Row, result: Result) -> str:
    return f"layer {result.layers[row['layer']]}, head {row['head']}"


def _amount(value: float, key: str) -> str:
    return f"{'+' * (value > 0)}{number(value, 3)} nats" if key == "loss_change" else f"{number(100 * value, 2)} %"
