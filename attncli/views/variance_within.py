"""How much of the variance of real scores the softmax sees, as sentences: it sees only differences within a row."""

import math
from collections.abc import Sequence

from attncli.show.numbers import finite, printable, significant, span
from attncli.studies.study import Record

SMALLER = 0.9  # from which part of the variance on that within the rows is worth no sentence
ROUNDING = 1e-12  # a part of the variance that is no more than this is left by rounding


def within_rows(records: Sequence[Record]) -> list[str]:
    """At most two sentences for the heads of one label, or for the only row that it has."""
    known = [record for record in records if _comparable(record)]
    shared = [record for record in known if record["row_variance"] < SMALLER * record["variance"]]
    level = [record for record in shared if record["row_variance"] <= ROUNDING * record["variance"]]
    varying = [record for record in shared if record not in level]
    lines = [_level(level)] if level else []
    return lines + ([_shared(varying)] if varying else [])


def _comparable(record: Record) -> bool:
    return len(finite([record["variance"], record.get("row_variance")])) == 2 and record["variance"] > 0


def _level(records: Sequence[Record]) -> str:
    return f"{_name(records)}: all keys of a query have the same score, so no scale changes a weight."


def _shared(records: Sequence[Record]) -> str:
    """The row with the largest shared part, and the range of the scales of all."""
    record = min(records, key=lambda record: float(record["row_variance"] / record["variance"]))
    whole, within = record["variance"], record["row_variance"]
    scales = span(_scale(record) for record in records)
    scale = f"the scale would be {scales}" + (f" over {len(records)} heads" if len(records) > 1 else "")
    head = f" in head {record['head']}" if len(records) > 1 else ""
    return (
        f"{_name(records)}: of this variance {significant(whole - within)} of {significant(whole)}{head} is shared by "
        "all keys of a query, where the softmax does not see it; within a row it is "
        f"{significant(within, 3)}, for which {scale}."
    )


def _name(records: Sequence[Record]) -> str:
    """The label, with its head where it is a single one."""
    name, head = printable(records[0]["label"]), records[0]["head"]
    return name if head is None or len(records) > 1 else f"{name}, head {head}"


def _scale(record: Record) -> float:
    """What would give the differences within a row variance 1."""
    return float(record["scale"] / math.sqrt(record["row_variance"]))
