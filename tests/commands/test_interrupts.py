"""Ctrl-C and SIGTERM end a command wherever they arrive; what the user's own code raises is an error of the input."""

import itertools
import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from attncli.commands.interrupts import Interrupts, ending_at_once, heeding_sigterm
from tests.cli import attncli, experiment, names_in, refusal

KEPT = "interrupted; what was finished is kept, nothing else\n"
CODES: dict[int, int] = {signal.SIGINT: 130, signal.SIGTERM: 143}
MODULE = """
import os, sys
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
        if queries.shape[-2] == 4:
            signalled()
        return queries @ keys.mT


class SignalledWhenMade(Signalled):
    def __init__(self, query_size, key_size):
        super().__init__(query_size, key_size)
        signalled()


class Swallows(Signalled):
    def forward(self, queries, keys):
        try:
            signalled()
        except BaseException:
            pass
        return queries @ keys.mT


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
STUDIES = {name: [name, *flags, "--no-plots", "--quiet", "--scorer"] for name, flags in SMALL.items()}
WITH_GRADIENTS = ("train", "saturation")
Own = Callable[[int], None]


@pytest.fixture
def own(own_module: Callable[[str, str], None]) -> Own:
    """Writes a module that sends a signal, to this process and once."""
    return lambda number: own_module("own", MODULE.replace("ONCE = [0]", f"ONCE = [{int(number)}]"))


@pytest.fixture(autouse=True)
def heeded() -> Iterator[None]:
    """Both are heard, also where the tests run in the background, and nothing is left of how they are handled."""
    usual: dict[int, Any] = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    before = {number: signal.signal(number, handler) for number, handler in usual.items()}
    yield
    after = {number: signal.signal(number, handler) for number, handler in before.items()}
    assert after == usual


@pytest.mark.parametrize("number", CODES, ids=["SIGINT", "SIGTERM"])
@pytest.mark.parametrize(
    ("study", "scorer"),
    [
        *itertools.product(STUDIES, ["Signalled", "SignalledWhenMade", "Swallows"]),
        *itertools.product(WITH_GRADIENTS, ["SignalledBackward"]),
    ],
)
def test_a_signal_in_a_scorer_of_the_user(study: str, scorer: str, number: int, here: Path, own: Own) -> None:
    own(number)
    result = attncli(*STUDIES[study], f"own:{scorer}", "--out", "out")
    assert (result.exit_code, result.stdout) == (CODES[number], "")
    if study == "train" and (here / "out").exists():  # its thread may have come to its end
        content = json.loads((here / "out" / "results.json").read_text())
        assert result.stderr == "interrupted; what was finished is in out/\n"
        assert content["records"]
    else:
        assert (result.stderr, names_in(here)) == (KEPT, ["own.py"])


@pytest.mark.parametrize("number", CODES, ids=["SIGINT", "SIGTERM"])
@pytest.mark.parametrize(
    ("command", "scorer"),
    [
        *itertools.product(["run", "heatmap"], ["Signalled", "SignalledWhenMade"]),
        ("check", "SignalledWhenMade"),  # which calls no scorer
    ],
)
def test_a_signal_in_other_commands(command: str, scorer: str, number: int, here: Path, own: Own) -> None:
    own(number)
    experiment(here / "some.yaml", scorers=[{"scorer": "dot"}, {"scorer": f"own:{scorer}"}])
    result = attncli(command, "some.yaml")
    assert (result.exit_code, result.stdout, result.stderr) == (CODES[number], "", KEPT)
    assert names_in(here) == ["own.py", "some.yaml"]


@pytest.mark.parametrize("number", CODES, ids=["SIGINT", "SIGTERM"])
def test_a_signal_in_a_function_that_is_captured(number: int, here: Path, own: Own) -> None:
    own(number)
    result = attncli("capture", "own:model")
    assert (result.exit_code, result.stdout, result.stderr) == (CODES[number], "", KEPT)
    assert names_in(here) == ["own.py"]


@pytest.mark.parametrize("number", CODES, ids=["SIGINT", "SIGTERM"])
def test_a_signal_while_a_module_of_the_user_is_imported(number: int, here: Path, own: Own) -> None:
    own(number)
    with (here / "own.py").open("a") as module:
        module.write("signalled()\n")
    for command in (["capture", "own:model"], [*STUDIES["variance"], "own:Signalled"]):
        result = attncli(*command)
        assert (result.exit_code, result.stdout, result.stderr) == (CODES[number], "", KEPT)


@pytest.mark.parametrize("number", CODES, ids=["SIGINT", "SIGTERM"])
def test_what_was_finished_before_a_signal_in_a_scorer_is_kept(number: int, here: Path, own: Own) -> None:
    """The signal comes at the second size that `bench` measures."""
    own(number)
    result = attncli("bench", "--n=3", "--n=4", "--d=2", "--no-plots", "--scorer=own:SignalledByFour", "--out=out")
    assert result.exit_code == CODES[number]
    assert result.stderr.splitlines()[-1] == "interrupted; what was finished is in out/"
    content = json.loads((here / "out" / "results.json").read_text())
    assert (content["interrupted"], {row["n"] for row in content["records"]}) == (True, {3})


@pytest.mark.parametrize("number", CODES, ids=["SIGINT", "SIGTERM"])
def test_a_swallowed_signal_with_no_step_after_it(
    number: int, here: Path, own: Own, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run is whole and kept, and no other is begun."""
    monkeypatch.setattr(Interrupts, "check", lambda self: None)
    own(number)
    for name in ("a", "b"):
        experiment(here / f"{name}.yaml", scorers=[{"scorer": "own:Swallows"}])
    result = attncli("run", "a.yaml", "b.yaml", "--no-plots", "--quiet")
    assert result.exit_code == CODES[number]
    assert [path.name for path in (here / "outputs").iterdir()] == ["a"]
    assert result.stderr.splitlines()[0] == "not run: b.yaml"


@pytest.mark.parametrize("number", CODES, ids=["SIGINT", "SIGTERM"])
def test_while_libraries_are_loaded_the_process_ends_at_once(
    number: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ends = list[int]()
    monkeypatch.setattr(os, "_exit", ends.append)
    with heeding_sigterm(), ending_at_once():
        signal.raise_signal(number)
    assert (ends, capsys.readouterr().err) == ([CODES[number]], KEPT)


@pytest.mark.parametrize("number", CODES, ids=["SIGINT", "SIGTERM"])
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
