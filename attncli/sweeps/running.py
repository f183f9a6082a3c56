"""From jobs to a journal: what an engine gives is kept as it comes, and told."""

import re
from collections.abc import Generator
from contextlib import closing

from attncli.studies.progress import Progress
from attncli.studies.study import Record
from attncli.sweeps.journal import Journal

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
