"""Sizes of the `bench` study: which ones change, how a place is named, and what all have in common."""

import math
from collections.abc import Iterable, Sequence

from attncli.studies.study import Record

KEYS = ("n", "m", "d", "batch", "heads")  # what is the same for all implementations that are compared
Size = tuple[int, ...]  # one number for each of KEYS


def size_of(record: Record) -> Size:
    """The record's sizes, which order by n first."""
    return tuple(record[key] for key in KEYS)


def name_of(record: Record) -> str:
    """`label/implementation/measure/sizes`, as raw times are kept."""
    hidden = "-" if record["num_hiddens"] is None else record["num_hiddens"]
    sizes = (record["n"], record["m"], record["d"], hidden, record["batch"], record["heads"])
    return f"{record['label']}/{record['implementation']}/{record['measure']}/{'x'.join(map(str, sizes))}"


def sizes_of(records: Iterable[Record]) -> list[Size]:
    """All different ones, from the smallest n to the largest."""
    return sorted(set(map(size_of, records)))


def of_measure(records: Iterable[Record], measure: str) -> list[Record]:
    """The records of one measure."""
    return [record for record in records if record["measure"] == measure]


def measures_of(records: Iterable[Record]) -> list[str]:
    """In their order."""
    return list(dict.fromkeys(record["measure"] for record in records))


def timed(record: Record) -> bool:
    """Whether there is a time to show."""
    return record["seconds"] is not None and math.isfinite(record["seconds"]) and record["seconds"] > 0


def changing(records: Sequence[Record]) -> list[str]:
    """Those of KEYS that have several values; m only where it is not n throughout."""
    found = [key for key in KEYS if len({record[key] for record in records}) > 1]
    return [key for key in found if key != "m" or not _square(records)]


def _square(records: Sequence[Record]) -> bool:
    return all(record["m"] == record["n"] for record in records)


def place(record: Record, keys: Sequence[str]) -> str:
    """`n = 512`, or with other sizes that change `n = 512, d = 64`."""
    others = [f"{key} = {record[key]}" for key in keys if key != "n"]
    return ", ".join([f"n = {record['n']}", *others])


def constants(records: Sequence[Record]) -> list[str]:
    """The sizes that are not named anywhere else, because they never change."""
    left_out = changing(records)
    fixed = [key for key in KEYS if key != "n" and key not in left_out and records[0][key] is not None]
    facts = [f"{key} = {'n' if key == 'm' and _square(records) else records[0][key]}" for key in fixed]
    hidden = {record["num_hiddens"] for record in records if record["num_hiddens"] is not None}
    return [*facts, *(f"num_hiddens = {size}" for size in hidden if len(hidden) == 1)]


def picture_axis(records: Sequence[Record]) -> str:
    """What the picture has from left to right: n, or where there is a single n the first size that changes."""
    return next(iter(changing(records)), "n")


def pictured(records: Sequence[Record], axis: str) -> list[Record]:
    """The records of the one combination of all sizes but `axis` with most times, and of these the largest."""
    keys = [key for key in changing(records) if key != axis]
    groups: dict[Size, list[Record]] = {}
    for record in records:
        groups.setdefault(tuple(record[key] for key in keys), []).append(record)
    return groups[max(groups, key=lambda sizes: (sum(map(timed, groups[sizes])), sizes))]
