"""What was learnt, as sentences."""

from collections.abc import Iterator, Mapping, Sequence

from attncli.runs.records import TrainResult
from attncli.show.numbers import finite, printable
from attncli.studies.study import Record
from attncli.views.sweep_tables import by_label
from attncli.views.train_numbers import keys_tested, mean_and_range, measured, share, sizes_of, trained_with

SAME = 0.02  # accuracies that differ by no more are called alike
LOST = 0.05  # a change of the accuracy that is worth a sentence
STUCK, ALIVE = 1e-3, 0.02  # a gradient that is smaller has died, of a model whose accuracy is further from 1


def sentences(result: TrainResult) -> list[str]:
    """Accuracy over d, where scorers part, what has stopped learning, and what more keys do."""
    summary = trained_with(result, result.comparisons)
    groups = by_label(summary)
    return [
        *(f"{printable(label)}: {_course(rows)}." for label, rows in groups.items()),
        *_parting(summary),
        *_stuck(groups),
        *_more_keys(result),
    ]


def _course(rows: Sequence[Record]) -> str:
    rows = sorted(rows, key=lambda row: int(row["d"]))
    values = finite(row["accuracy"] for row in rows)
    if len(values) < len(rows):
        lost = ", ".join(str(row["d"]) for row in rows if not finite([row["accuracy"]]))
        return f"no accuracy at d = {lost}, where losses are not finite"
    first, last = rows[0], rows[-1]
    if len(rows) == 1:
        return f"accuracy {_at(first)}"
    if max(values) - min(values) <= SAME:
        low, lowest = share(min(values)), share(min(row["accuracy_min"] for row in rows))
        if low == lowest == "1.00":
            return "accuracy 1.00 at every d, with every seed"
        return f"accuracy {_least(low)} at every d, and {_least(lowest)} with every seed"
    if abs(values[-1] - values[0]) <= LOST:
        least = rows[values.index(min(values))]
        between = "" if least in (first, last) else f", and lowest with {_at(least)}"
        return f"accuracy {_at(first)} and {_at(last)}{between}"
    return f"accuracy {'falls' if values[-1] < values[0] else 'rises'} from {_at(first)} to {_at(last)}"


def _least(share: str) -> str:
    return share if share.startswith(">") else f"{share} or more"


def _at(row: Record) -> str:
    return f"{mean_and_range(row, 'accuracy')} at d = {row['d']}"


def _parting(summary: Sequence[Record]) -> Iterator[str]:
    """Which labels are above which at the largest d that several have."""
    common = [d for d in sizes_of(summary) if len({row["label"] for row in summary if row["d"] == d}) > 1]
    if not common:
        return
    d = common[-1]
    rows = [row for row in summary if row["d"] == d and finite([row["accuracy"]])]
    for low in rows:
        above = [row for row in rows if row["accuracy_min"] > low["accuracy_max"]]
        if above:
            named, other = _listed([printable(row["label"]) for row in above]), printable(low["label"])
            seeds = ("every seed", "every seed") if low["seeds"] > 1 else ("the one seed", "that")
            yield f"at d = {d} {seeds[0]} of {named} is above {seeds[1]} of {other}."


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _stuck(groups: Mapping[str, Sequence[Record]]) -> Iterator[str]:
    """Models that make mistakes, and that no gradient reaches any more."""
    for label, rows in groups.items():
        found = [row for row in rows if row["accuracy"] < 1 - ALIVE and row["gradient_norm"] < STUCK]
        if found:
            last = max(found, key=lambda row: int(row["d"]))
            yield (
                f"{printable(label)} has stopped learning at d = {last['d']}: it is wrong in "
                f"{1 - last['accuracy']:.0%} of the tests, and the norm of its gradient is "
                f"{measured(last['gradient_norm'])}; its weights began with an entropy of "
                f"{measured(last['start_entropy'])} and end with {measured(last['entropy'])} nats."
            )


def _more_keys(result: TrainResult) -> Iterator[str]:
    """What other numbers of keys do at the largest d of each label."""
    trained = result.settings["keys"]
    for label, rows in by_label(result.comparisons).items():
        d = max(row["d"] for row in rows)
        by_keys = {row["keys"]: row for row in rows if row["d"] == d and finite([row["accuracy"]])}
        others = [keys for keys in keys_tested(rows) if keys != trained and keys in by_keys]
        if others and trained in by_keys:
            told = ", ".join(f"{mean_and_range(by_keys[keys], 'accuracy')} with {keys}" for keys in others)
            yield (
                f"{printable(label)}, trained with {trained} keys, at d = {d}: accuracy "
                f"{mean_and_range(by_keys[trained], 'accuracy')} with {trained} keys, {told}."
            )
