"""The journal: one writer, whole lines, strict JSON; a second terminal can read it. It ends where a sweep stops."""

import json
import threading
from collections.abc import Generator
from datetime import datetime
from pathlib import Path

import pytest
from filelock import FileLock

from attncli.engine.runs.run_folder import JOURNAL, LOCK, is_locked
from attncli.engine.sweeps.journal import Journal, Tally, read_journal
from attncli.engine.sweeps.running import journal_rows
from attncli.engine.sweeps.work import EngineLostError
from attncli.errors import InputError
from attncli.results import Row
from attncli.runtime import Progress

SWEPT: dict[str, Row] = {"a": {"seed": 0}, "b": {"seed": 1}, "c": {"seed": 2}}


def row(key: str, error: str | None = None) -> Row:
    state = {"status": "failed" if error else "done", "error": error}
    return {"key": key, **state, "seconds": 1.0, "host": "here", "records": [{"x": None}]}


def written(folder: Path, *rows: Row) -> bytes:
    with Journal(folder, SWEPT) as journal:
        for each in rows:
            journal.add(each)
    return (folder / JOURNAL).read_bytes()


def test_a_line_is_there_as_soon_as_it_is_added(tmp_path: Path) -> None:
    with Journal(tmp_path, SWEPT) as journal:
        journal.add(row("b"))
        (line,) = (tmp_path / JOURNAL).read_text().splitlines()
        assert list(read_journal(tmp_path)) == [json.loads(line)]
    content = json.loads(line)
    assert datetime.fromisoformat(content.pop("finished")).tzinfo is not None
    assert content == {**row("b"), "sweep": {"seed": 1}}
    assert next(iter(content)) == "key"


def test_it_goes_on_where_it_was(tmp_path: Path) -> None:
    """Points that are not of the sweep do not count."""
    before = written(tmp_path, row("a"), row("b", "wrong"))
    with Journal(tmp_path, SWEPT) as journal:
        assert journal.tally.done == {"a"}
    assert written(tmp_path, row("b")).startswith(before)
    with Journal(tmp_path, {"b": {"seed": 1}, "new": {"seed": 7}}) as journal:
        assert (journal.tally.done, journal.tally.failures) == ({"b"}, "")
        assert (journal.tally.finished, journal.tally.total) == (1, 2)


@pytest.mark.parametrize("torn", [b'{"key": "b", "sta', b"\0\0\0"])
def test_a_torn_last_line_is_cut_off(tmp_path: Path, torn: bytes) -> None:
    before = written(tmp_path, row("a"))
    with (tmp_path / JOURNAL).open("ab") as file:
        file.write(torn)
    assert [each["key"] for each in read_journal(tmp_path)] == ["a"]
    assert (tmp_path / JOURNAL).read_bytes() == before + torn, "readers change nothing"
    written(tmp_path, row("b"))
    assert [each["key"] for each in read_journal(tmp_path)] == ["a", "b"]


WHOLE = {**row("b"), "sweep": {"seed": 1}, "finished": "2026-01-01T00:00:00+00:00"}
LINES = ["", "[" * 100_000, '{"key": "b"}', *(json.dumps({**WHOLE, key: "1"}) for key in ("status", "seconds"))]


@pytest.mark.parametrize("line", LINES)
def test_other_lines_are_named(tmp_path: Path, line: str) -> None:
    first = written(tmp_path, row("a"))
    damaged = first + line.encode() + b"\n" + first
    (tmp_path / JOURNAL).write_bytes(damaged)
    expected = (
        rf"{JOURNAL}:2: got .*; expected a finished point of a sweep; remove the line, and the sweep runs its point"
    )
    for read in (lambda: list(read_journal(tmp_path)), lambda: Journal(tmp_path, SWEPT)):
        with pytest.raises(InputError, match=expected):
            read()
    assert (tmp_path / JOURNAL).read_bytes() == damaged


def test_a_second_sweep_is_refused_and_readers_need_no_lock(tmp_path: Path) -> None:
    assert is_locked(tmp_path / LOCK) is False
    with Journal(tmp_path, SWEPT) as journal:
        assert is_locked(tmp_path / LOCK) is True
        with pytest.raises(InputError, match=rf'got "{tmp_path}", into which a sweep writes; .* --status'):
            Journal(tmp_path, SWEPT)
        journal.add(row("a"))
        assert len(list(read_journal(tmp_path))) == 1
    held = FileLock(tmp_path / LOCK, thread_local=False)
    held.acquire()  # as `--status` does for a moment
    threading.Timer(0.1, held.release).start()
    Journal(tmp_path, SWEPT).__exit__()
    assert is_locked(tmp_path / LOCK) is False


def test_what_cannot_be_written(tmp_path: Path) -> None:
    journal = Journal(tmp_path, SWEPT)
    with Path("/dev/full").open("wb", buffering=0) as journal._file, pytest.raises(InputError, match="No space left"):
        journal.add(row("a"))
    journal.__exit__()


def test_the_last_state_of_a_point_counts() -> None:
    tally = Tally(["0", "1", "2"])
    for point, state in (("0", "failed"), ("1", "died"), ("other", "done"), ("2", "failed"), ("0", "done")):
        tally.add(point, {"status": state})
    assert (tally.done, tally.finished, tally.failures) == ({"0"}, 3, "1 failed, 1 died")


ALIKE = "the first 3 points fail alike: got 1.5; no"


@pytest.mark.parametrize(
    ("errors", "lost", "fail_fast", "expected"),
    [
        ([None, None, None, None], None, False, (None, 4)),
        (["got 1; no", "got 22; no", "got 1.5; no", None], None, False, (ALIKE, 3)),
        (["no", "no", "no"], None, False, (None, 3)),  # there are no others to spare
        (["no", "no", "other", None], None, False, (None, 4)),
        ([None, "no", "no", "no", "no"], None, False, (None, 5)),
        ([None, "bad", None], None, True, ("seed = 1: bad; --fail-fast ends the sweep", 2)),
        ([None, None], "gone", False, ("gone", 2)),
    ],
)
def test_rows_are_journalled_until_there_is_a_reason_to_stop(
    tmp_path: Path, errors: list[str | None], lost: str | None, fail_fast: bool, expected: tuple[str | None, int]
) -> None:
    def engine() -> Generator[Row]:
        for number, error in enumerate(errors):
            yield row(str(number), error)
        if lost:
            raise EngineLostError(lost)

    with Journal(tmp_path, {str(number): {"seed": number} for number in range(len(errors))}) as journal:
        reason = journal_rows(engine(), journal, Progress(), fail_fast)
    assert (reason, len(list(read_journal(tmp_path)))) == expected
