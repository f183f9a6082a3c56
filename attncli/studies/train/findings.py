"""What the study `train` found: one sentence a scorer, and why the worst of them has stopped learning."""

import math
from collections.abc import Sequence

from attncli.show.numbers import counted, finite, several, short
from attncli.studies.study import Finding, Record, by_label
from attncli.studies.train.columns import mean_and_range

SAME = 0.02  # mean accuracies that differ by no more are called alike
WRONG, STUCK = 0.02, 1e-3  # where more of the answers are wrong, a gradient that is smaller is told
OPTIMIZERS = {"adam": "Adam", "sgd": "SGD"}


def described(settings: Record) -> str:
    """What was learnt, and how."""
    return (
        f"associative recall: {counted(settings['keys'])} keys of {counted(settings['vocabulary'])} symbols, "
        f"{counted(settings['classes'])} values, embeddings of size {counted(settings['embedding'])}; "
        f"{OPTIMIZERS[settings['optimizer']]}, learning rate {settings['lr']:g}, {several(settings['steps'], 'step')} "
        f"of {several(settings['batch'], 'sequence')}, {several(settings['seeds'], 'seed')}, {settings['dtype']}"
    )


def findings_of(summary: Sequence[Record], settings: Record) -> list[Finding]:
    """From the rows over the seeds."""
    rows = sorted(summary, key=lambda row: int(row["d"]))
    trained = [row for row in rows if row["keys"] == settings["keys"]]
    others = by_label([row for row in rows if row["keys"] != settings["keys"] and finite([row["accuracy"]])])
    found = [_of_label(label, of_label, others.get(label, [])) for label, of_label in by_label(trained).items()]
    stuck = [row for row in trained if row["accuracy"] < 1 - WRONG and row["gradient_norm"] < STUCK]
    if stuck:
        found.append(_why(min(stuck, key=lambda row: float(row["accuracy"])), math.log(settings["keys"])))
    return found


def _of_label(label: str, rows: Sequence[Record], others: Sequence[Record]) -> Finding:
    """Its accuracy at the smallest and the largest d, the least in between, and with other numbers of keys."""
    numbers: Record = {"d": [row["d"] for row in rows], "accuracy": [row["accuracy"] for row in rows]}
    if lost := [str(row["d"]) for row in rows if not finite([row["accuracy"]])]:
        return Finding(f"{label}: no accuracy at d = {', '.join(lost)}: the losses are not finite.", label, numbers)
    tested = [row for row in others if row["d"] == rows[-1]["d"]]
    numbers |= {"accuracy_with_keys": {str(row["keys"]): row["accuracy"] for row in tested}} if tested else {}
    more = [f", with {row['keys']} keys {mean_and_range(row)}" for row in tested]
    return Finding(f"{label}: accuracy {_course(rows)}{''.join(more)}.", label, numbers)


def _course(rows: Sequence[Record]) -> str:
    """`1.00 at d = 16, 0.84 (0.78–0.94) at d = 1024`."""
    if len(rows) > 1 and len({mean_and_range(row) for row in rows}) == 1:
        return f"{mean_and_range(rows[0])} at every d"
    least = min(rows, key=lambda row: float(row["accuracy"]))
    ends = [rows[0], rows[-1]][: len(rows)]
    lower = least["accuracy"] < min(row["accuracy"] for row in ends) - SAME
    return ", ".join(
        f"{mean_and_range(row)} at d = {row['d']}" for row in ([rows[0], least, rows[-1]] if lower else ends)
    )


def _why(row: Record, uniform: float) -> Finding:
    """The worst of those that make mistakes, and that no gradient reaches any more."""
    numbers = {name: row[name] for name in ("d", "accuracy", "gradient_norm", "start_entropy", "entropy")}
    return Finding(
        f"{row['label']} has stopped learning at d = {row['d']}: its gradient norm is {short(row['gradient_norm'])}. "
        f"Entropy of its weights: {short(row['start_entropy'])} nats at the start, {short(row['entropy'])} at the end; "
        f"equal weights have {short(uniform)}.",
        row["label"],
        numbers | {"entropy_of_equal_weights": uniform},
    )
