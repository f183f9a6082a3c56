"""Rows of an engine are saved one by one until there is a reason to stop."""

from collections.abc import Generator, Sequence
from pathlib import Path

import pytest

from attncli.engine.sweeps.journal import Journal, read_journal
from attncli.engine.sweeps.running import journal_rows
from attncli.engine.sweeps.work import EngineLostError
from attncli.results import Row
from attncli.runtime import Progress


class Told(Progress):
    """Progress that records its steps."""

    def __init__(self) -> None:
        self.steps = list[tuple[int, int, str]]()

    def step(self, done: int, total: int, what: str) -> None:
        self.steps.append((done, total, what))


def engine(errors: Sequence[str | None], lost: str | None = None) -> Generator[Row]:
    for number, error in enumerate(errors):
        status = "failed" if error else "done"
        yield {"key": f"p{number}", "status": status, "error": error, "seconds": 0, "host": "here", "records": []}
    if lost:
        raise EngineLostError(lost)


def stopped(folder: Path, rows: Generator[Row], points: int, fail_fast: bool = False) -> tuple[str | None, int]:
    """Return the reason for the stop, and the number of kept rows."""
    with Journal(folder, swept(points)) as journal:
        reason = journal_rows(rows, journal, Progress(), fail_fast)
    return reason, len(list(read_journal(folder)))


def swept(points: int) -> dict[str, Row]:
    return {f"p{number}": {"d": number} for number in range(points)}


@pytest.mark.parametrize(
    ("errors", "points", "expected"),
    [
        ([None, None, None, None], 4, (None, 4)),
        (["got 1; no", "got 22; no", "got 1.5; no", None], 4, ("the first 3 points fail alike: got 1.5; no", 3)),
        (["no", "no", "no"], 3, (None, 3)),  # there are no others to spare
        (["no", "no", "other", None], 4, (None, 4)),
        ([None, "no", "no", "no", "no"], 5, (None, 5)),
    ],
)
def test_the_first_points_may_fail_alike(
    tmp_path: Path, errors: list[str | None], points: int, expected: tuple[str | None, int]
) -> None:
    assert stopped(tmp_path, engine(errors), points) == expected


def test_fail_fast(tmp_path: Path) -> None:
    reason, kept = stopped(tmp_path, engine([None, "bad", None]), 3, fail_fast=True)
    assert (reason, kept) == ("d = 1: bad; --fail-fast ends the sweep", 2)


def test_a_lost_engine_ends_with_its_words(tmp_path: Path) -> None:
    assert stopped(tmp_path, engine([None, None], lost="gone"), 3) == ("gone", 2)


def test_every_row_is_told(tmp_path: Path) -> None:
    told = Told()
    with Journal(tmp_path, swept(4)) as journal:
        journal_rows(engine([None, "bad"]), journal, told)
    assert told.steps == [(1, 4, "about 0 s left"), (2, 4, "1 failed, about 0 s left")]


def test_the_engine_ends_whatever_happens(tmp_path: Path) -> None:
    ended = []

    def rows() -> Generator[Row]:
        try:
            yield from engine([None, None])
        finally:
            ended.append(True)

    class Pressed(Progress):
        def step(self, done: int, total: int, what: str) -> None:
            raise KeyboardInterrupt

    with Journal(tmp_path, swept(2)) as journal, pytest.raises(KeyboardInterrupt):
        journal_rows(rows(), journal, Pressed())
    assert ended
    assert [row["key"] for row in read_journal(tmp_path)] == ["p0"]
