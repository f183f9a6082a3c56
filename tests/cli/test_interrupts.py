"""Signals stop a command and keep its rows; exceptions of the user's own code are errors of the input."""

import fcntl
import itertools
import json
import os
import pkgutil
import select
import signal
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import attncli as package
from attncli.runtime import Interrupted, signals
from tests.cli import attncli, experiment, good, heed_interrupts, names_in, refusal, results
from tests.studies.bench.small import hurry

pytestmark = pytest.mark.usefixtures("sketches")

KEPT = "interrupted; what was finished is kept, nothing else\n"
CODES: dict[int, int] = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}
MODULE = """
import os, signal, sys, time
from pathlib import Path
from torch import nn
from attncli.runtime import signals as arrived

ONCE = [0]


class Reason(BaseException):
    pass


def signals():
    for number in [ONCE.pop() for _ in ONCE[:1]]:
        os.kill(os.getpid(), number)


def presses():
    raise KeyboardInterrupt


def quits():
    sys.exit(3)


def fails():
    raise Reason("not today")


def stays():
    print("at work", file=sys.stderr, flush=True)
    while True:
        try:
            time.sleep(0.01)
        except BaseException:
            pass


def waits():
    Path("waits").touch()
    is_ignored = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    while arrived.first is None and not (is_ignored and Path("gone").exists()):
        time.sleep(0.01)


class Scorer(nn.Module):
    def __init__(self, query_size, key_size, *, deed: str, when: str = "run"):
        super().__init__()
        self.deed, self.when = globals()[deed], when
        if when == "made":
            self.deed()

    def forward(self, queries, keys):
        if self.when == "run" or (self.when == "four" and 4 in queries.shape[-2:]):
            self.deed()
        scores = queries @ keys.mT
        if self.when == "backward" and scores.requires_grad:
            scores.register_hook(lambda gradient: self.deed())
        return scores


def model():
    signals()
"""
STUDIES = {
    name: f"{name} {flags} --no-plots --quiet --out=out --scorer"
    for name, flags in {
        "bench": "--n=3 --d=2",
        "train": "--d=2 --steps=2 --batch=2 --seeds=1",
        "saturation": "--d=2",
        "variance": "--d=2 --samples=64",
    }.items()
}
GROWING: dict[str, dict[str, Any]] = {  # a second size, at which scorers with `when=four` are stopped
    "bench": {"n": [3, 4], "d": [2]},
    "saturation": {"d": [2, 4], "keys": 3},
    "variance": {"d": [2, 4], "samples": 64},
    "attention": {"data": {"queries": {"shape": [1, 4, 2]}, "keys": {"shape": [1, 3, 2]}}},
}
WITH_GRADIENTS = ("train", "saturation")
NOTHING_KEPT = [  # commands that a signal ends before a row is finished, and the signal
    *((f"{command} own:Scorer:deed=signals", signal.SIGINT) for command in STUDIES.values()),
    *((f"{STUDIES[study]} own:Scorer:deed=signals,when=backward", signal.SIGTERM) for study in WITH_GRADIENTS),
    (f"{STUDIES['variance']} own:Scorer:deed=signals,when=made", signal.SIGHUP),
    ("heatmap d2l --set scorers=own:Scorer:deed=signals", signal.SIGINT),
    ("heatmap d2l --set scorers=own:Scorer:deed=signals,when=made", signal.SIGTERM),
    ("check d2l --set scorers=own:Scorer:deed=signals,when=made", signal.SIGHUP),
    ("capture own:model", signal.SIGTERM),
]
Own = Callable[[int], None]


@pytest.fixture
def own(own_module: Callable[[str, str], None]) -> Own:
    """Write a module that sends a signal to this process once."""
    return lambda number: own_module("own", MODULE.replace("ONCE = [0]", f"ONCE = [{int(number)}]"))


@pytest.fixture(autouse=True)
def heeded(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Handle signals during a test, also if the tests run in the background; restore the handlers afterwards."""

    def end() -> None:
        raise Interrupted

    monkeypatch.setattr(signals, "end", end)
    usual: dict[int, Any] = {**dict.fromkeys(CODES, signal.SIG_DFL), signal.SIGINT: signal.default_int_handler}
    before = {number: signal.signal(number, handler) for number, handler in usual.items()}
    yield
    after = {number: signal.signal(number, handler) for number, handler in before.items()}
    assert after == usual
    assert (signals.first, signals.is_pending) == (None, False)


@pytest.mark.parametrize(("command", "number"), NOTHING_KEPT)
def test_without_rows_nothing_is_written(command: str, number: int, here: Path, own: Own) -> None:
    own(number)
    result = attncli(*command.split())
    assert (result.exit_code, result.stdout) == (CODES[number], "")
    if command.startswith("train") and (here / "out").exists():  # its thread may finish before the signal is handled
        assert result.stderr == "interrupted; what was finished is in out/\n"
        assert results()["records"]
    else:
        assert (result.stderr, names_in(here)) == (KEPT, ["own.py"])


@pytest.mark.parametrize(("study", "number"), [*zip(GROWING, CODES, strict=False)])
def test_rows_are_kept(study: str, number: int, here: Path, own: Own, monkeypatch: pytest.MonkeyPatch) -> None:
    own(number)
    hurry(monkeypatch)
    config = {"study": study, "scorers": ["own:Scorer:deed=signals,when=four"], **GROWING[study]}
    (here / "a.yaml").write_text(json.dumps(config))
    result = attncli("run", "a.yaml", "--out=out")
    last = result.stderr.splitlines()[-1]
    assert (result.exit_code, last) == (CODES[number], "interrupted; what was finished is in out/")
    content = results()
    assert content["interrupted"] is True
    assert all(row[key] < 4 for row in content["records"] for key in ("n", "d") if key in row)
    assert content["files"] == names_in(here / "out")


def test_in_python_a_keyboard_interrupt_keeps_rows(own: Own) -> None:
    own(0)
    scorers = ["dot", "own:Scorer:deed=presses,when=four"]
    result = package.run({**GROWING["attention"], "scorers": scorers})
    assert (result.interrupted, result.labels) == (True, ["dot"])
    with pytest.raises(KeyboardInterrupt):
        package.run({**GROWING["attention"], "scorers": scorers[1:]})


def started(here: Path, *command: str, **options: Any) -> "subprocess.Popen[str]":
    """Start a command in a process of its own, which can load modules of the working directory."""
    path = os.pathsep.join([str(here), str(Path(package.__file__).parents[1])])
    return subprocess.Popen(
        [sys.executable, "-m", "attncli", *command],
        **{"env": {**os.environ, "PYTHONPATH": path}, "preexec_fn": heed_interrupts, "text": True, **options},
    )


@pytest.mark.slow
@pytest.mark.parametrize("number", CODES, ids=["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_second_signal_ends_the_process_at_once(number: int, here: Path, own: Own) -> None:
    """A scorer may run for ever and catch every exception. A terminal that closes sends several signals."""
    own(0)
    process = started(here, *STUDIES["variance"].split(), "own:Scorer:deed=stays", stderr=subprocess.PIPE)
    assert process.stderr is not None
    assert process.stderr.readline() == "at work\n"
    for _ in range(2 if number == signal.SIGHUP else 1):
        process.send_signal(number)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)
    process.send_signal(signal.SIGTERM if number == signal.SIGHUP else number)
    assert process.communicate(timeout=120)[1].splitlines()[-1] == KEPT.rstrip()
    assert process.returncode == CODES[number]
    assert [name for name in names_in(here) if "__pycache__" not in name] == ["own.py"], "no hidden folder is left"


def press_before(name: str, monkeypatch: pytest.MonkeyPatch, call: int = 1) -> None:
    """Press Ctrl-C at this call of a function, which then goes on."""
    module, _, function = name.rpartition(".")
    right, calls = pkgutil.resolve_name(name), itertools.count(1)

    def pressed(*args: Any, **options: Any) -> Any:
        if next(calls) == call:
            signal.raise_signal(signal.SIGINT)
        return right(*args, **options)

    monkeypatch.setattr(pkgutil.resolve_name(module), function, pressed)


@pytest.mark.parametrize(
    "where",
    [
        "attncli.engine.experiment.judge",
        "attncli.engine.runs.saving.save_named",
        "attncli.engine.runs.run_folder._point_to_latest",
    ],
)
def test_a_run_is_written_before_the_command_ends(where: str, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        experiment(here / f"{name}.yaml", scorers=["dot", "gaussian"])
    press_before(where, monkeypatch)
    press_before(where, monkeypatch)
    result = attncli("run", "a.yaml", "b.yaml", "--no-plots")
    folder = Path("outputs", "a", Path("outputs/a/latest").resolve().name)
    assert result.exit_code == 130
    assert result.stderr.splitlines() == ["not run: b.yaml", f"interrupted; what was finished is in {folder}/"]
    assert f"{folder}/" in result.stdout
    content = results(folder)
    assert content["files"] == names_in(folder)
    assert "interrupted" not in content, "all rows are there"
    assert not (here / "outputs" / "b").exists()


@pytest.mark.parametrize(
    "command", [["heatmap", "own.yaml", "--out", "a.png"], ["figure", "run", "--out", "drawn"], ["figure", "run"]]
)
def test_a_picture_is_drawn_completely_or_not_at_all(
    command: Sequence[str], here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def times() -> dict[str, int]:
        return {name: path.stat().st_mtime_ns for name in names_in(here) if (path := here / name).is_file()}

    good("run", experiment(here / "own.yaml"), "--out", "run", "--no-plots")
    before = times()
    press_before("matplotlib.figure.Figure.savefig", monkeypatch)
    result = attncli(*command)
    assert (result.exit_code, result.stdout, result.stderr) == (130, "", KEPT)
    assert times() == before


def test_files_that_belong_together_are_copied_first(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    press_before("shutil.copyfile", monkeypatch)
    result = attncli("init", "own_tensors")
    assert (result.exit_code, result.stdout, result.stderr) == (130, "", KEPT)
    assert names_in(here) == ["own_tensors.npz", "own_tensors.yaml"]


PICTURE, PAGE = "heatmaps.png", "report.html"
COMPARED = "attncli.studies.attention.study.pair_rows"


@pytest.mark.parametrize(
    ("function", "presses", "pairs", "drawn"),
    [
        (COMPARED, 1, 1, {PICTURE, PAGE}),
        (COMPARED, 2, 1, {PICTURE, PAGE}),
        ("attncli.engine.report.page", 2, 3, {PAGE}),
        ("attncli.show.pictures.figures.save_figure", 1, 3, {PICTURE, PAGE}),
    ],
)
def test_a_signal_leaves_out_what_can_be_left_out(
    function: str, presses: int, pairs: int, drawn: set[str], here: Path, own: Own, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two signals the first ends the work, and the second comparisons and pictures; finished rows are kept."""
    own(signal.SIGINT)
    scorers = ["dot", "gaussian", "cosine", *(["own:Scorer:deed=signals"] if presses == 2 else [])]
    press_before(function, monkeypatch, call=2 if function == COMPARED else 1)
    result = attncli("run", experiment(here / "a.yaml", scorers=scorers), "--out=out", "--report")
    assert (result.exit_code, result.stderr.splitlines()[-1]) == (130, "interrupted; what was finished is in out/")
    content = results()
    assert content["files"] == names_in(here / "out")
    assert [row["label"] for row in content["records"]] == ["dot", "gaussian", "cosine"]
    assert [len(content[rows]) for rows in ("comparisons", "head_comparisons")] == [pairs, 2 * pairs]
    assert bool(content["findings"]) == (pairs == 3)
    assert content.get("interrupted", False) == (presses == 2 or pairs < 3)
    assert {PICTURE, PAGE} & {*content["files"]} == drawn


@pytest.mark.slow
@pytest.mark.parametrize("is_ignored", [False, True])
def test_a_terminal_that_is_closed(is_ignored: bool, here: Path, own: Own) -> None:
    """Finished rows are kept, or all if SIGHUP is ignored, although nothing can be printed any more."""
    own(0)
    command = ["variance", "--d=2", "--d=4", "--samples=64", "--scorer=own:Scorer:deed=waits,when=four", "--out=out"]
    terminal, theirs = os.openpty()

    def begin() -> None:
        heed_interrupts()
        if is_ignored:
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
        fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)

    streams = dict.fromkeys(("stdin", "stdout", "stderr"), theirs)
    process = started(here, *command, **streams, start_new_session=True, preexec_fn=begin)
    os.close(theirs)
    printed = b""
    while not (here / "waits").exists():
        if select.select([terminal], [], [], 0.02)[0]:
            printed += os.read(terminal, 10_000)
        assert process.poll() is None, printed
    os.close(terminal)
    (here / "gone").touch()
    assert process.wait(120) == (0 if is_ignored else 129)
    content = results()
    assert content.get("interrupted", False) != is_ignored
    assert content["records"]
    assert content["files"] == names_in(here / "out")
    assert [name for name in names_in(here) if name.startswith(".")] == []


def test_commands_run_outside_of_the_main_thread(here: Path) -> None:
    """They cannot handle signals there, and leave them alone."""
    experiment(here / "some.yaml")
    with ThreadPoolExecutor() as pool:
        pool.submit(good, "run", "some.yaml", "--no-plots").result()


@pytest.mark.parametrize(
    ("study", "scorer", "message"),
    [
        ("bench", "Scorer:deed=quits", "the scorer gave SystemExit: 3"),
        ("train", "Scorer:deed=fails", "the scorer gave Reason: not today"),
        ("variance", "Scorer:deed=quits,when=made", "gave SystemExit: 3"),
        ("saturation", "Scorer:deed=quits,when=backward", "the gradient of the scorer gave SystemExit"),
    ],
)
def test_what_a_scorer_of_the_user_raises(study: str, scorer: str, message: str, here: Path, own: Own) -> None:
    own(0)
    line = refusal(*STUDIES[study].split(), f"own:{scorer}")
    assert line.startswith(f"attncli {study}: --scorer own:{scorer}: ")
    assert message in line
    assert "\n" not in line
    assert names_in(here) == ["own.py"]
