"""Rows of an engine are saved one by one until there is a reason to stop."""

from collections.abc import Generator, Sequence
from pathlib import Path

import pytest

from attncli.engine.sweeps.journal import Journal, read_journal
from attncli.engine.sweeps.running import journal_rows
from attncli.engine.sweeps.work import EngineLostError
from attncli.results import Row
from attncli.runtime import Progress


def engine(errors: Sequence[str | None], lost: str | None = None) -> Generator[Row]:
    for number, error in enumerate(errors):
        status = "failed" if error else "done"
        yield {"key": f"p{number}", "status": status, "error": error, "seconds": 0, "host": "here", "records": []}
    if lost:
        raise EngineLostError(lost)


@pytest.mark.parametrize(
    ("errors", "lost", "fail_fast", "expected"),
    [
        ([None, None, None, None], None, False, (None, 4)),
        (
            ["got 1; no", "got 22; no", "got 1.5; no", None],
            None,
            False,
            ("the first 3 points fail alike: got 1.5; no", 3),
        ),
        (["no", "no", "no"], None, False, (None, 3)),  # there are no others to spare
        (["no", "no", "other", None], None, False, (None, 4)),
        ([None, "no", "no", "no", "no"], None, False, (None, 5)),
        ([None, "bad", None], None, True, ("d = 1: bad; --fail-fast ends the sweep", 2)),
        ([None, None], "gone", False, ("gone", 2)),
    ],
)
def test_rows_are_journalled_until_there_is_a_reason_to_stop(
    tmp_path: Path, errors: list[str | None], lost: str | None, fail_fast: bool, expected: tuple[str | None, int]
) -> None:
    with Journal(tmp_path, {f"p{number}": {"d": number} for number in range(len(errors))}) as journal:
        reason = journal_rows(engine(errors, lost), journal, Progress(), fail_fast)
    assert (reason, len(list(read_journal(tmp_path)))) == expected
