"""A run folder appears complete or not at all, and never replaces anything else."""

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

import pytest

from attncli.engine.runs.run_folder import Destination, new_folder, save_file_at
from attncli.errors import InputError
from tests.cli import names_in

pytestmark = pytest.mark.usefixtures("here")

STARTED = datetime(2024, 2, 29, 23, 59, 58)
STAMP = "2024-02-29T23-59-58"
FILES = ["config.yaml", "results.json", "weights.csv"]


def to(out: Path | None, overwrite: bool = False) -> Destination:
    return Destination(out, overwrite, command="attncli", started=STARTED)


def write_run(out: Path | None = None, *, name: str = "d2l", text: str = "", overwrite: bool = False) -> Path:
    """Write a run folder with the files of a run, as a run does."""
    with new_folder(name, to(out, overwrite)) as folder:
        for name in ("config.yaml", "weights.csv"):
            (folder.path / name).write_text(text)
        (folder.path / "results.json").write_text(json.dumps({"attncli": "0", "files": FILES}))
    return folder.target


def test_folders_appear_complete_and_a_taken_time_gets_a_number(here: Path) -> None:
    with new_folder("d2l", to(None)) as folder:
        (folder.path / "config.yaml").write_text("0")
        assert not (here / "outputs" / "d2l" / STAMP).exists()
    places = [folder.target, *(write_run(text=str(index)) for index in (1, 2))]
    names = [STAMP, f"{STAMP}-2", f"{STAMP}-3"]
    assert places == [here / "outputs" / "d2l" / name for name in names]
    assert [(place / "config.yaml").read_text() for place in places] == ["0", "1", "2"]
    assert sorted(path.name for path in places[0].parent.iterdir()) == [*names, "latest"]
    assert str((places[0].parent / "latest").readlink()) == names[-1], "relative, so that outputs/ can be moved"


def test_a_folder_called_latest_stays(here: Path) -> None:
    latest = here / "outputs" / "d2l" / "latest"
    latest.mkdir(parents=True)
    write_run()
    assert names_in(latest) == []


CHILD = """
import os, signal, sys
from datetime import datetime
from pathlib import Path
from attncli.engine.runs.run_folder import Destination, new_folder, save_file_at

def wait(folder):
    print(folder, flush=True)
    sys.stdin.read()

def picture(path):
    path.write_text("half")
    wait(path.parent)

def run(out):
    with new_folder("d2l", Destination(out, True, command="attncli", started=datetime(2024, 1, 1))) as folder:
        (folder.path / "config.yaml").write_text("new")
        (folder.path / "results.json").write_text('{"attncli": "0", "files": ["config.yaml", "results.json"]}')
        wait(folder.path.parent)

"""
REPLACING = """
rename = Path.rename
Path.rename = lambda path, place: os.kill(os.getpid(), signal.SIGKILL) if path.name == "new" else rename(path, place)
"""


@contextmanager
def child(code: str) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Start a process that stops in the middle of writing until its stdin is closed; yield it and its hidden folder."""
    command = [sys.executable, "-c", CHILD + code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process, Path(process.stdout.readline().rstrip())
        process.kill()


WRITERS = [
    ("run(None)", lambda: write_run()),
    ("run(Path('there'))", lambda: write_run(Path("there"), overwrite=True)),
    ("save_file_at(Path('a.png'), picture)", lambda: save_file_at(Path("b.png"), lambda path: path.touch())),
]


@pytest.mark.parametrize(("code", "again"), WRITERS, ids=["outputs", "out", "picture"])
def test_the_next_removes_what_killed_ones_left_and_leaves_living_ones_alone(
    code: str, again: Callable[[], object]
) -> None:
    with child(code) as (killed, left), child(code) as (living, used):
        assert left.parent == used.parent
        again()
        assert left.exists()
        assert used.exists()
        killed.kill()
        killed.wait()
        assert left.exists()
        again()
        assert not left.exists()
        assert used.exists()
        living.communicate(timeout=300)
        assert living.returncode == 0
        assert not [path for path in used.parent.iterdir() if path.name.startswith(".")]


def test_a_run_that_is_killed_while_it_replaces_another(here: Path) -> None:
    write_run(Path("run"), text="old")
    with child(f"{REPLACING}run(Path('run'))") as (killed, left):
        killed.communicate(timeout=300)
    assert names_in(here / "run") == [], "it is gone for now"
    write_run(Path("other"))
    assert (here / "run" / "config.yaml").read_text() == "old"
    assert not left.exists()


@pytest.mark.parametrize("out", ["deep/er/new", "empty", "deep/../new"])
def test_out_that_is_new_or_empty(out: str, here: Path) -> None:
    (here / "empty").mkdir()
    (here / "deep").mkdir()
    assert write_run(Path(out)) == (here / out).resolve()
    assert names_in(here / out) == FILES
    assert not (here / "outputs").exists()
    assert not [name for name in names_in(here) if "." in Path(name).name[:1]], "nothing hidden is left"


STRANGE = 'which has "mine.txt", not a file of a run; expected a new or empty folder'
IN_USE = "which is in use and cannot be replaced as a whole; expected a new folder inside it"
TAKEN = {
    "mine": STRANGE,
    "no run": STRANGE,
    "file": "a file; expected a folder that is new or empty",
    "link": "a link; expected a folder that is new or empty",
    ".": IN_USE,
    "disk": IN_USE,
}


@pytest.mark.parametrize("out", TAKEN)
def test_out_that_is_taken(out: str, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "disk").mkdir()
    for name, results in (("mine", "[1]"), ("no run", '{"files": ["mine.txt"]}')):
        (here / name).mkdir()
        (here / name / "mine.txt").write_text("mine")
        (here / name / "results.json").write_text(results)
    (here / "file").write_text("mine")
    (here / "link").symlink_to("disk")
    monkeypatch.setattr(os.path, "ismount", lambda path: Path(path).name == "disk")
    before = names_in(here)
    for overwrite in (False, True):
        with pytest.raises(InputError) as caught, new_folder("d2l", to(Path(out), overwrite)):
            pytest.fail("the work began")
        assert str(caught.value) == f'--out: got "{out}", {TAKEN[out]}'
    assert names_in(here) == before
    assert write_run(Path("disk/new")) == here / "disk" / "new"


def test_a_run_is_replaced_as_a_whole_or_stays(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_run(Path("run"), text="old")
    with pytest.raises(InputError, match="which holds a run"):
        write_run(Path("run"))
    with suppress(KeyboardInterrupt), new_folder("d2l", to(Path("run"), True)) as folder:
        (folder.path / "file").write_text("")
        raise KeyboardInterrupt
    rename = Path.rename

    def fails(path: Path, target: Path) -> Path:
        if path.name == "new":
            raise OSError(errno.EIO, "Input/output error")
        return rename(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", fails)
        with pytest.raises(InputError, match="cannot write there: Input/output error"):
            write_run(Path("run"), text="new", overwrite=True)
    for text in ("old", "new"):
        assert (here / "run" / "config.yaml").read_text() == text
        assert names_in(here) == ["run", *(f"run/{name}" for name in FILES)]
        write_run(Path("run"), text="new", overwrite=True)


def test_out_that_is_filled_while_the_work_goes_on(here: Path) -> None:
    with new_folder("d2l", to(Path("run"), True)) as folder:
        (folder.path / "config.yaml").write_text("ours")
        (here / "run").mkdir()
        (here / "run" / "theirs").write_text("")
    assert folder.target == here / "run-2"
    assert names_in(here) == ["run", "run-2", "run-2/config.yaml", "run/theirs"]
