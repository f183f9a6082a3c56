"""Ctrl-C and SIGTERM stop a command and keep its rows; exceptions of the user's own code are errors of the input."""

import contextlib
import itertools
import json
import os
import pkgutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import attncli as package
from attncli.common import stopping
from tests.cli import attncli, experiment, heed_interrupts, names_in, refusal

KEPT = "interrupted; what was finished is kept, nothing else\n"
CODES: dict[int, int] = {signal.SIGINT: 130, signal.SIGTERM: 143}
MODULE = """
import os, sys, time
import torch
from torch import nn

ONCE = [0]


def signalled():
    for number in [ONCE.pop() for _ in ONCE[:1]]:
        os.kill(os.getpid(), number)


class Signalled(nn.Module):
    def __init__(self, query_size, key_size):
        super().__init__()

    def forward(self, queries, keys):
        signalled()
        return queries @ keys.mT


class SignalledByFour(Signalled):
    def forward(self, queries, keys):
        if 4 in queries.shape[-2:]:
            signalled()
        return queries @ keys.mT


class PressedByFour(Signalled):
    def forward(self, queries, keys):
        if 4 in queries.shape[-2:]:
            raise KeyboardInterrupt
        return queries @ keys.mT


class SignalledWhenMade(Signalled):
    def __init__(self, query_size, key_size):
        super().__init__(query_size, key_size)
        signalled()


class NeverEnds(Signalled):
    def forward(self, queries, keys):
        print("at work", file=sys.stderr, flush=True)
        while True:
            try:
                time.sleep(0.01)
            except BaseException:
                pass


class Backward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, queries, name):
        ctx.name = name
        return queries.clone()

    @staticmethod
    def backward(ctx, gradient):
        if ctx.name == "signalled":
            signalled()
        if ctx.name == "quits":
            sys.exit(3)
        if ctx.name == "raises":
            raise ValueError("no gradient today")
        return gradient, None


class SignalledBackward(Signalled):
    def forward(self, queries, keys):
        return Backward.apply(queries, "signalled") @ keys.mT


class QuitsBackward(Signalled):
    def forward(self, queries, keys):
        return Backward.apply(queries, "quits") @ keys.mT


class RaisesBackward(Signalled):
    def forward(self, queries, keys):
        return Backward.apply(queries, "raises") @ keys.mT


class Quits(Signalled):
    def forward(self, queries, keys):
        sys.exit(3)


class QuitsWhenMade(Signalled):
    def __init__(self, query_size, key_size):
        sys.exit(3)


class QuitsWhenRead(Signalled):
    def __init__(self, query_size, key_size, *, power: "sys.exit(3)" = 1):
        pass


class Unusual(Signalled):
    def forward(self, queries, keys):
        class Reason(BaseException):
            pass
        raise Reason("not today")


def model():
    signalled()
"""
SMALL = {
    "bench": ["--n", "3", "--d", "2"],
    "train": ["--d", "2", "--steps", "2", "--batch", "2", "--seeds", "1"],
    "saturation": ["--d", "2"],
    "variance": ["--d", "2", "--samples", "64"],
}
GROWING = {  # a second size, at which the scorers `...ByFour` are stopped, and the column that has it
    "bench": (["--n", "3", "--n", "4", "--d", "2"], "n"),
    "saturation": (["--d", "2", "--d", "4", "--keys", "3"], "d"),
    "variance": (["--d", "2", "--d", "4", "--samples", "64"], "d"),
}
STUDIES = {name: [name, *flags, "--no-plots", "--quiet", "--scorer"] for name, flags in SMALL.items()}
WITH_GRADIENTS = ("train", "saturation")
BOTH = pytest.mark.parametrize("number", CODES, ids=["SIGINT", "SIGTERM"])
Own = Callable[[int], None]


@pytest.fixture
def own(own_module: Callable[[str, str], None]) -> Own:
    """Write a module that sends a signal to this process once."""
    return lambda number: own_module("own", MODULE.replace("ONCE = [0]", f"ONCE = [{int(number)}]"))


@pytest.fixture(autouse=True)
def heeded(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Handle signals during a test, also if the tests run in the background; restore the handlers afterwards."""

    def end() -> None:
        raise stopping.Interrupted

    monkeypatch.setattr(stopping, "end_at_once", end)
    usual: dict[int, Any] = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    before = {number: signal.signal(number, handler) for number, handler in usual.items()}
    yield
    after = {number: signal.signal(number, handler) for number, handler in before.items()}
    assert after == usual
    assert (stopping.has_arrived(), stopping._is_stepping, stopping._is_writing) == (False, False, False)


def kept(folder: str = "out") -> dict[str, Any]:
    """Return the content of results.json."""
    content: dict[str, Any] = json.loads(Path(folder, "results.json").read_text())
    return content


@BOTH
@pytest.mark.parametrize(
    ("study", "scorer"),
    [
        *itertools.product(STUDIES, ["Signalled", "SignalledWhenMade"]),
        *itertools.product(WITH_GRADIENTS, ["SignalledBackward"]),
    ],
)
def test_without_rows_nothing_is_written(study: str, scorer: str, number: int, here: Path, own: Own) -> None:
    own(number)
    result = attncli(*STUDIES[study], f"own:{scorer}", "--out", "out")
    assert (result.exit_code, result.stdout) == (CODES[number], "")
    if study == "train" and (here / "out").exists():  # its thread may finish before the main thread gets the signal
        assert result.stderr == "interrupted; what was finished is in out/\n"
        assert kept()["records"]
    else:
        assert (result.stderr, names_in(here)) == (KEPT, ["own.py"])


@BOTH
@pytest.mark.parametrize("study", GROWING)
def test_rows_are_kept(study: str, number: int, here: Path, own: Own) -> None:
    own(number)
    flags, column = GROWING[study]
    result = attncli(study, *flags, "--scorer=own:SignalledByFour", "--out=out")
    assert (result.exit_code, result.stderr.splitlines()[-1]) == (
        CODES[number],
        "interrupted; what was finished is in out/",
    )
    content = kept()
    assert content["interrupted"] is True
    assert max(row[column] for row in content["records"]) < 4
    assert content["files"] == names_in(here / "out")


@BOTH
def test_attention_keeps_the_scorers_that_are_finished(number: int, here: Path, own: Own) -> None:
    own(number)
    experiment(here / "a.yaml", scorers=[{"scorer": each} for each in ("dot", "gaussian", "own:Signalled", "cosine")])
    experiment(here / "b.yaml")
    result = attncli("run", "a.yaml", "b.yaml")
    assert result.exit_code == CODES[number]
    assert result.stderr.splitlines()[-2].startswith("not run: b.yaml")
    assert [path.name for path in (here / "outputs").iterdir()] == ["a"]
    content = kept("outputs/a/latest")
    assert content["interrupted"] is True
    assert [row["label"] for row in content["records"]] == ["dot", "gaussian"]
    assert len(content["comparisons"]) == 1
    assert "heatmaps.png" in content["files"]


@pytest.mark.parametrize("study", GROWING)
def test_in_python_a_keyboard_interrupt_keeps_rows(study: str, own: Own) -> None:
    own(0)
    flags, column = GROWING[study]
    keys = dict[str, Any]()
    for flag, value in zip(flags[::2], flags[1::2], strict=True):
        keys.setdefault(flag.removeprefix("--"), []).append(int(value))
    keys = {key: value if key in ("n", "d") else value[0] for key, value in keys.items()}
    result = package.run({"study": study, "scorers": ["own:PressedByFour"], **keys})
    assert result.interrupted
    assert max(row[column] for row in result.records) < 4


def test_in_python_attention_keeps_rows(own: Own) -> None:
    own(0)
    data = {"queries": {"shape": [1, 4, 2]}, "keys": {"shape": [1, 3, 2]}}
    result = package.run({"data": data, "scorers": ["dot", "own:PressedByFour"]})
    assert (result.interrupted, result.labels) == (True, ["dot"])
    with pytest.raises(KeyboardInterrupt):
        package.run({"data": data, "scorers": ["own:PressedByFour"]})


@BOTH
@pytest.mark.parametrize(
    ("command", "scorer"),
    [("heatmap", "Signalled"), ("heatmap", "SignalledWhenMade"), ("check", "SignalledWhenMade")],
)
def test_commands_without_rows(command: str, scorer: str, number: int, here: Path, own: Own) -> None:
    own(number)
    experiment(here / "some.yaml", scorers=[{"scorer": "dot"}, {"scorer": f"own:{scorer}"}])
    result = attncli(command, "some.yaml")
    assert (result.exit_code, result.stderr) == (CODES[number], KEPT)
    assert names_in(here) == ["own.py", "some.yaml"]


@BOTH
def test_a_signal_in_a_function_that_is_captured(number: int, here: Path, own: Own) -> None:
    own(number)
    result = attncli("capture", "own:model")
    assert (result.exit_code, result.stdout, result.stderr) == (CODES[number], "", KEPT)
    assert names_in(here) == ["own.py"]


@BOTH
def test_a_second_signal_ends_the_process_at_once(number: int, here: Path, own: Own) -> None:
    """A scorer may run for ever and catch every exception."""
    own(0)
    command = [sys.executable, "-m", "attncli", *STUDIES["variance"], "own:NeverEnds"]
    path = os.pathsep.join([str(here), str(Path(package.__file__).parents[1])])
    process = subprocess.Popen(
        command, env={**os.environ, "PYTHONPATH": path}, stderr=subprocess.PIPE, text=True, preexec_fn=heed_interrupts
    )
    assert process.stderr is not None
    assert process.stderr.readline() == "at work\n"
    process.send_signal(number)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.5)
    process.send_signal(number)
    assert process.communicate(timeout=120)[1].splitlines()[-1] == KEPT.rstrip()
    assert process.returncode == CODES[number]
    assert not list(here.rglob("results.json"))


def press_before(name: str, monkeypatch: pytest.MonkeyPatch, call: int = 1) -> None:
    """Press Ctrl-C at this call of a function, which then goes on."""
    module, _, function = name.rpartition(".")
    right, calls = pkgutil.resolve_name(name), itertools.count(1)

    def pressed(*args: Any) -> Any:
        if next(calls) == call:
            signal.raise_signal(signal.SIGINT)
        return right(*args)

    monkeypatch.setattr(pkgutil.resolve_name(module), function, pressed)


@pytest.mark.parametrize(
    "where",
    [
        "attncli.studies.attention.study.pair_rows",
        "attncli.api.judge",
        "attncli.runs.saving.save_named",
        "attncli.runs.run_folder._point_to_latest",
    ],
)
def test_a_run_is_written_before_the_command_ends(where: str, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        experiment(here / f"{name}.yaml", scorers=[{"scorer": "dot"}, {"scorer": "gaussian"}])
    press_before(where, monkeypatch)
    press_before(where, monkeypatch)
    result = attncli("run", "a.yaml", "b.yaml", "--no-plots")
    folder = Path("outputs", "a", Path("outputs/a/latest").resolve().name)
    assert result.exit_code == 130
    assert result.stderr.splitlines() == ["not run: b.yaml", f"interrupted; what was finished is in {folder}/"]
    assert f"{folder}/" in result.stdout
    content = kept(str(folder))
    assert content["files"] == names_in(folder)
    assert "interrupted" not in content, "all rows are there"
    assert not (here / "outputs" / "b").exists()


def test_more_signals_lose_nothing_of_a_stopped_run(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    which = "{where: {implementation: attncli, status: timed}, metric: seconds, above: 0}"
    keys = f"study: bench, scorers: [dot], n: [2, 3], d: 4, measure: scores, expect: [{which}]"
    (here / "own.yaml").write_text(f"{{{keys}}}")
    press_before("attncli.studies.bench.study.time_all", monkeypatch, call=2)  # which stops the work
    press_before("attncli.studies.bench.study.settings_of", monkeypatch)  # while its result is made
    press_before("attncli.runs.saving.save_named", monkeypatch)
    result = attncli("run", "own.yaml", "--no-plots", "--quiet", "--out", "out")
    assert (result.exit_code, result.stdout) == (130, "")
    assert result.stderr == "interrupted; what was finished is in out/\n"
    content = kept()
    assert content["interrupted"] is True
    assert {row["n"] for row in content["records"]} == {2}
    assert content["expectations"][0]["holds"] is None, "it need not have been the only row"


def test_a_picture_is_written_before_the_command_ends(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment(here / "own.yaml")
    press_before("attncli.show.figures.save_figure", monkeypatch)
    result = attncli("heatmap", "own.yaml", "--out", "a.png")
    assert (result.exit_code, result.stdout, result.stderr) == (130, "", KEPT)
    assert names_in(here) == ["a.png", "own.yaml"]


@pytest.mark.parametrize("work", ["loading", "stepping", "writing", "writing and stepping"])
def test_which_signals_end_the_process(work: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ends = list[str]()
    monkeypatch.setattr(stopping, "end_at_once", lambda: ends.append("ended"))
    expected = {"loading": [1, 2], "stepping": [0, 1], "writing": [0, 0], "writing and stepping": [0, 0]}[work]
    with stopping.handling_signals():
        with contextlib.ExitStack() as stack:
            if "stepping" in work:
                stack.enter_context(stopping.stepping())
            if "writing" in work:
                stack.enter_context(stopping.writing_files())
            found = list[int]()
            for _ in range(2):
                signal.raise_signal(signal.SIGINT)
                found.append(len(ends))
        assert found == expected
        assert len(ends) == expected[1] + (work == "writing"), "it ends when the file is written"


@BOTH
def test_a_signal_that_the_caller_ignores_is_ignored(number: int, here: Path, own: Own) -> None:
    own(number)
    signal.signal(number, signal.SIG_IGN)
    try:
        assert attncli(*STUDIES["variance"], "own:Signalled").exit_code == 0
        assert signal.getsignal(number) == signal.SIG_IGN
    finally:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


def test_commands_run_outside_of_the_main_thread(here: Path) -> None:
    """They cannot handle signals there, and leave them alone."""
    experiment(here / "some.yaml")
    codes = list[int]()
    thread = threading.Thread(target=lambda: codes.append(attncli("run", "some.yaml", "--no-plots").exit_code))
    thread.start()
    thread.join()
    assert codes == [0]


@pytest.mark.parametrize(
    ("study", "scorer", "message"),
    [
        *((study, "Quits", "the scorer gave SystemExit: 3") for study in STUDIES),
        *((study, "Unusual", "the scorer gave Reason: not today") for study in STUDIES),
        *((study, "QuitsWhenRead", "whose options cannot be written in YAML: 3") for study in STUDIES),
        *((study, "QuitsWhenMade", "gave SystemExit: 3") for study in STUDIES),
        *((study, "QuitsBackward", "the gradient of the scorer gave SystemExit: 3") for study in WITH_GRADIENTS),
        *((study, "RaisesBackward", "the scorer gave ValueError: no gradient today") for study in WITH_GRADIENTS),
    ],
)
def test_what_a_scorer_of_the_user_raises(study: str, scorer: str, message: str, here: Path, own: Own) -> None:
    own(0)
    line = refusal(*STUDIES[study], f"own:{scorer}")
    assert line.startswith(f"attncli {study}: --scorer own:{scorer}: ")
    assert message in line
    assert "\n" not in line
    assert names_in(here) == ["own.py"]
