"""Figures of the `train` study over several seeds, and its settings, in words."""

import math
from collections.abc import Sequence

from attncli.runs.records import TrainResult
from attncli.show.numbers import MISSING, counted, figure, significant
from attncli.studies.study import Record


def mean_and_range(record: Record, name: str) -> str:
    """`0.84 (0.78–0.94)`, or `1.00` alone where all seeds read the same."""
    middle, low, high = (share(record[f"{name}{end}"]) for end in ("", "_min", "_max"))
    return middle if middle == low == high else f"{middle} ({low}–{high})"


def share(value: float | None) -> str:
    """With two decimals, and never 1.00 where something is missing from it."""
    if value is None or not math.isfinite(value):
        return MISSING if value is None else f"{value:g}"
    text = f"{value:.2f}"
    return ">0.99" if text == "1.00" and value < 1 else text


def measured(value: float | None) -> str:
    """To three digits."""
    return figure(value, 3)


def steps(value: float | None) -> str:
    """How many, or `-` where it was never."""
    return MISSING if value is None else significant(value, 6)


def least_loss(classes: int) -> float:
    """The cross-entropy of one-hot values as logits where all is right: 1 for the right class and 0 for the others."""
    return math.log1p((classes - 1) / math.e)


def reached(record: Record) -> str:
    """How many of the seeds got to 90 %."""
    return f"{record['reached_90']} of {record['seeds']}"


def task(result: TrainResult) -> str:
    """What was learnt."""
    settings = result.settings
    return (
        f"associative recall: {counted(settings['keys'])} keys of {counted(settings['vocabulary'])} symbols, "
        f"{counted(settings['classes'])} values, embeddings of size {counted(settings['embedding'])}"
    )


def learning(result: TrainResult) -> str:
    """How it was learnt."""
    settings = result.settings
    optimizer = {"adam": "Adam", "sgd": "SGD"}.get(settings["optimizer"], settings["optimizer"])
    return (
        f"{optimizer}, learning rate {settings['lr']:g}, {several(settings['steps'], 'step')} of "
        f"{several(settings['batch'], 'sequence')}, {several(settings['seeds'], 'seed')}, {settings['dtype']}"
    )


def of_equal_weights(result: TrainResult, keys: int) -> float:
    """The accuracy of one who has learnt nothing."""
    return float(result.settings["equal_weights"][str(keys)])


def several(count: int, name: str) -> str:
    """`1 step`, `800 steps`."""
    return f"{counted(count)} {name}{'' if count == 1 else 's'}"


def trained_with(result: TrainResult, records: Sequence[Record]) -> list[Record]:
    """The rows of tests with as many keys as the models were trained with."""
    return [record for record in records if record["keys"] == result.settings["keys"]]


def keys_tested(records: Sequence[Record]) -> list[int]:
    """The numbers of keys that was tested with, in the order of the rows."""
    return list(dict.fromkeys(record["keys"] for record in records))


def sizes_of(records: Sequence[Record]) -> list[int]:
    """The sizes d, the smallest first."""
    return sorted({record["d"] for record in records})
