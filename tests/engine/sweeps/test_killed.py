"""The command may end at any moment: finished points are kept, and a resumed sweep has the same result."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil
import pytest

import attncli
from attncli.engine.runs.run_folder import JOURNAL
from attncli.engine.sweeps.journal import read_journal
from tests.cli import attncli as command
from tests.cli import experiment, good, heed_interrupts, results
from tests.engine.sweeps.jobs import figures, table

ROOT = Path(attncli.__file__).parents[1]
LONG = 120.0  # seconds; nothing takes so long, unless it is broken
POINTS = 24
SLOW, NEVER = "tests.engine.sweeps.jobs:Slow", "tests.engine.sweeps.jobs:NeverEnds"


def until(check: Callable[[], object]) -> None:
    end = time.monotonic() + LONG
    while not check():
        assert time.monotonic() < end
        time.sleep(0.01)


def start(*args: object, engine: Sequence[object] = ("--jobs", 2), pictures: bool = False) -> "subprocess.Popen[str]":
    """Start the command in a new process group, as a terminal does."""
    line = [sys.executable, "-m", "attncli", "sweep", *map(str, (*args, *engine)), "--quiet"]
    line += [] if pictures else ["--no-plots"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        line, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True, preexec_fn=heed_interrupts
    )


def ended(process: "subprocess.Popen[str]") -> tuple[int, str]:
    """Return the exit code and the text on stderr."""
    _, told = process.communicate(timeout=LONG)
    return process.returncode, told


def signalled(process: "subprocess.Popen[str]", number: int) -> None:
    """Send SIGINT or SIGHUP to all processes, as a terminal does, or SIGTERM to the first, as a scheduler does."""
    (os.kill if number == signal.SIGTERM else os.killpg)(process.pid, number)


def lines(folder: Path) -> list[bytes]:
    """Return the lines of the journal."""
    path = folder / JOURNAL
    return path.read_bytes().splitlines(keepends=True) if path.exists() else []


def killed(*args: object, folder: Path, rows: int) -> None:
    """Start a sweep, kill it when `rows` points are finished, and assert that no process is left."""
    process = start(*args)
    until(lambda: len(lines(folder)) >= rows or process.poll() is not None)
    family = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    ended(process)
    until(lambda: not any(each.is_running() and each.status() != psutil.STATUS_ZOMBIE for each in family))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return a config, and the folder of its sweep without any interruption."""
    folder = tmp_path_factory.mktemp("undisturbed")
    config = experiment(folder / "slow.yaml", scorers=[{"scorer": SLOW}])
    assert ended(start(config, "--over", f"seed=0..{POINTS - 1}", "--out", folder / "out")) == (0, "")
    assert len(table(folder / "out")) == POINTS
    return config, folder / "out"


@pytest.mark.parametrize("moments", [[1, 13], pytest.param(range(1, 21), marks=pytest.mark.nightly)], ids=len)
def test_killed_at_moments(undisturbed: tuple[Path, Path], tmp_path: Path, moments: Sequence[int]) -> None:
    (config, alone), out = undisturbed, tmp_path / "out"
    what: Sequence[object] = [config, "--over", f"seed=0..{POINTS - 1}", "--out", out]
    for rows in moments:
        before = lines(out)
        killed(*what, folder=out, rows=rows)
        assert lines(out)[: len(before)] == before
        what = ["--resume", out]
    with (out / JOURNAL).open("ab") as journal:
        journal.write(b'{"key": "torn')
    assert ended(start("--resume", out)) == (0, "")
    found, expected = (figures(list(read_journal(folder))) for folder in (out, alone))
    assert found == expected  # `figures` asserts that no point is there twice
    assert table(out) == table(alone)
    assert not [path for path in out.iterdir() if path.name.startswith(".")]


def test_a_signal_while_processes_load_libraries_is_one_line(tmp_path: Path) -> None:
    out = tmp_path / "out"
    process = start(experiment(tmp_path / "some.yaml"), "--over", "seed=0..5", "--out", out)
    until(lambda: len(psutil.Process(process.pid).children()) == 2)  # the server that forks them, and a tracker
    signalled(process, signal.SIGINT)
    message = f"interrupted; what was finished is in {out}/; `attncli sweep --resume {out}` goes on\n"
    assert ended(process) == (130, message)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_keeps_what_is_finished(number: int, code: int, tmp_path: Path) -> None:
    config, out = experiment(tmp_path / "some_never_end.yaml"), tmp_path / "out"
    scorers = f"scorers[0].scorer=dot,'{NEVER}'"
    process = start(config, "--over", scorers, "--over", "seed=0..5", "--out", out, pictures=True)
    until(lambda: len(lines(out)) == 6 or process.poll() is not None)
    into = ["--out", out, "--overwrite"]
    for args in (["sweep", "--resume", out], ["sweep", config, "--over", "seed=0..5", *into], ["run", config, *into]):
        refused = command(*args)
        assert (refused.exit_code, "into which a sweep writes" in refused.stderr) == (2, True)
    assert good("sweep", "--status", out) == "6 of 12 points done\n"
    family = psutil.Process(process.pid).children(recursive=True)
    signalled(process, number)
    exit_code, told = ended(process)
    assert (exit_code, told.count("\n")) == (code, 1)
    assert told.startswith(f"interrupted; what was finished is in {out}/; `attncli sweep --resume ")
    assert told.endswith(f"; `attncli figure {out}` draws it\n")
    assert not (out / "sweep.png").exists(), "who ends a sweep waits for no picture"
    until(lambda: not any(each.is_running() and each.status() != psutil.STATUS_ZOMBIE for each in family))
    assert len(table(out)) == len(lines(out)) == 6
    assert results(out)["interrupted"] is True
