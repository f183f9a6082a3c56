"""Points in processes of this machine: the same metrics on any number of processes; a death costs only one point."""

import multiprocessing
from multiprocessing.process import BaseProcess

import pytest

from attncli.engine.sweeps.processes import on_processes
from attncli.engine.sweeps.work import run_point
from tests.engine.sweeps.jobs import bad, figures, jobs

DEATHS = {
    "EndsBadly": "its process ended with exit code 5",
    "IsKilled": "its process ended with SIGKILL, as when memory runs out",
}
ERRORS = {
    "Leaves": "scorers[0]: the scorer gave SystemExit: 3 (line ",
    "EatsMemory": "out of memory: RuntimeError: ",
}


def test_the_processes_change_no_figure() -> None:
    points = jobs(6)
    alone, one, two = (
        list(rows) for rows in (map(run_point, points), on_processes(points, 1), on_processes(points, 2))
    )
    assert {row["key"] for row in alone} == {each["key"] for each in points}
    assert figures(alone) == figures(one) == figures(two)
    assert len({str(figure) for figure in figures(one).values()}) == 6


def test_what_is_wrong_with_points_is_theirs_alone() -> None:
    points = [bad(name) for name in (*DEATHS, *ERRORS)]
    mixed = [each for pair in zip(points, jobs(4), strict=True) for each in pair]
    rows = {row["key"]: row for row in on_processes(mixed, 2)}
    assert len(rows) == 8
    assert figures([row for key, row in rows.items() if "-" in key]) == figures(list(on_processes(jobs(4), 1)))
    assert {name: rows[name]["error"] for name in DEATHS} == DEATHS
    assert {rows[name]["status"] for name in DEATHS} == {"died"}
    for name, error in ERRORS.items():
        assert rows[name]["status"] == "failed"
        assert rows[name]["error"].startswith(error)
        assert "\n" not in rows[name]["error"]


def test_a_point_that_never_ends() -> None:
    never, good = on_processes([bad("NeverEnds")], 1, 0.5), on_processes(jobs(1), 1, 1e6)
    (row,) = never
    assert (row["status"], row["error"]) == ("failed", "took longer than 0.5 s, the timeout")
    assert row["seconds"] >= 0.5
    assert [row["status"] for row in good] == ["done"]


def test_processes_end_with_the_iterator() -> None:
    rows = on_processes([*jobs(1), bad("NeverEnds")], 1)
    next(rows)
    assert workers()
    rows.close()
    assert not workers()


def test_stdout_is_left_clean(capfd: pytest.CaptureFixture[str]) -> None:
    (row,) = on_processes([bad("Prints")], 1)
    assert row["status"] == "done"
    assert "from the scorer" not in capfd.readouterr().out


def workers() -> list[BaseProcess]:
    """Return the processes of the pool; others, such as a browser's, are no children of `multiprocessing`."""
    return [process for process in multiprocessing.active_children() if process.name == "pebble_pool_worker"]
