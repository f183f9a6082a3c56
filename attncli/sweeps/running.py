"""From jobs to a journal: what an engine gives is kept as it comes, and told."""

import re
from collections import Counter
from collections.abc import Generator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from attncli.config.sweep import as_data
from attncli.studies.progress import Progress
from attncli.studies.study import Record, Result
from attncli.sweeps.columns import default_metric, with_sweep
from attncli.sweeps.journal import STATES, Journal, rows_of
from attncli.sweeps.points import Plan

MISSING = "missing"  # the status of a point that the sweep did not come to
POINT = ("key", "sweep", "status", "error", "seconds", "host")
ALIKE = 3  # points that fail in the same way at the beginning, so that the others need not be tried


class EngineLostError(Exception):
    """What computes the points is gone, as a scheduler that was ended; the sweep can go on later."""


def keep(rows: Generator[Record], journal: Journal, progress: Progress, fail_fast: bool = False) -> str | None:
    """Write the rows of an engine into the journal; says why it stopped before the last, None where it did not.

    Raises:
        InputError: the journal cannot be written.
        KeyboardInterrupt: the user ended the sweep; what was finished is kept.
    """
    first, tally = list[str | None](), journal.tally
    try:
        with closing(rows):
            for row in rows:
                journal.add(row)
                progress.step(tally.finished, tally.total, tally.words)
                if fail_fast and row["error"]:
                    return f"{journal.named(row)}: {row['error']}; --fail-fast ends the sweep"
                if len(first) < ALIKE:
                    first.append(row["error"] and re.sub(r"[\d.]+", "0", row["error"]))
                    if len(first) == ALIKE and first[0] and len(set(first)) == 1 and tally.finished < tally.total:
                        return f"the first {ALIKE} points fail alike: {row['error']}"
    except EngineLostError as error:
        return str(error)
    return None


def result_of(plan: Plan, folder: Path, interrupted: bool = False) -> tuple[Result, list[Record]]:
    """The result of the points that are in the journal of a folder, in the order of the plan, and the state of all."""
    wanted = {point.key for point in plan.points}
    finished = {row["key"]: row for row in rows_of(folder) if row["key"] in wanted}
    records, points = list[Record](), list[Record]()
    for point in plan.points:
        row = finished.get(point.key, {"key": point.key, "status": MISSING, "records": []})
        points.append({**{key: row.get(key) for key in POINT}, "sweep": point.sweep})
        records += [with_sweep(point.sweep, record) for record in row["records"]]
    states = Counter(point["status"] for point in points)
    settings = {
        "sweep": as_data(plan.axes, plan.metric),
        "points": {state: states[state] for state in (*STATES, MISSING)},
    }
    result = Result(plan.options.study, plan.options.name, settings, records, interrupted=interrupted)
    return replace(result, settings={**settings, "metric": plan.metric or default_metric(result)}), points
