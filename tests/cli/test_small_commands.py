"""`attncli scorers`, `attncli check` (tests/bad_input has its messages) and `attncli --help`."""

import io
import os
import re
import subprocess
import sys
from typing import Any

import pytest
import typer

from attncli.catalogue.catalogue import options_of
from attncli.cli import app
from attncli.cli.scorers import catalogue_names, scorer_names
from attncli.cli.streams import print_line
from attncli.normalizers import NORMALIZERS
from attncli.scorers import SCORERS
from tests.cli import attncli, good, refusal

COMMANDS: Any = typer.main.get_command(app)


CATALOGUE = {**SCORERS, **NORMALIZERS}


@pytest.mark.catalogue("scorers", "normalizers")
def test_the_catalogue_lists_every_scorer_and_normalizer() -> None:
    words = good("scorers").split()
    assert [word for word in words if word in CATALOGUE] == list(CATALOGUE)
    assert len(CATALOGUE) == len(SCORERS) + len(NORMALIZERS), "a name is of one of them only"


@pytest.mark.parametrize("name", CATALOGUE)
def test_one_in_detail(name: str) -> None:
    text = " ".join(good("scorers", name).split())
    first, _, details = (CATALOGUE[name].__doc__ or "").partition("\n")
    assert all(f"option {option}: " in text for option in options_of(CATALOGUE[name]))
    assert first.partition(" (")[0] in text
    assert " ".join(details.split())[:40] in text


@pytest.mark.catalogue("scorers", "normalizers")
def test_completion_knows_the_catalogue() -> None:
    assert scorer_names() == sorted(SCORERS)
    assert catalogue_names() == [*sorted(SCORERS), *sorted(NORMALIZERS)]


@pytest.mark.parametrize(
    ("command", "suggestion"),
    [
        ("heatmap d2l --dark", "no such option: --dark (Possible options: --theme dark)"),
        ("train --sgd", "no such option: --sgd (Possible options: --optimizer sgd)"),
        ("variance --dd 4", "no such option: --dd (Possible options: --d, --df, --std)"),
        ("init --dark", "no such option: --dark"),
        ("figure", "missing argument 'RUN'"),
    ],
)
def test_a_mistake_in_options_is_one_line(command: str, suggestion: str) -> None:
    name = f"attncli {command.partition(' ')[0]}"
    assert refusal(*command.split()) == f"{name}: {suggestion}; see {name} --help"


def test_an_unknown_command_and_no_command() -> None:
    assert refusal("foo") == "attncli: no such command 'foo'; see attncli --help"
    assert refusal("heatmap", "d2l", "--head", "x") == '--head: got "x"; expected a valid integer'
    result = attncli()
    assert "Usage: attncli" in result.stdout + result.stderr
    assert good("-h") == good("--help")


@pytest.mark.parametrize(("is_terminal", "printed"), [(True, r"\x1b[2J\u202e"), (False, "\u202e")])
def test_a_line_cannot_control_the_terminal(is_terminal: bool, printed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a pipe letters of a path stay as they are, since a script may use it."""
    stream = io.StringIO()
    stream.isatty = lambda: is_terminal  # type: ignore[method-assign]
    monkeypatch.setattr(sys, "stdout", stream)
    print_line("one\n\x1b[2J\u202e")
    assert stream.getvalue() == f"one\n{printed}\n"


@pytest.mark.parametrize("command", ["", *COMMANDS.commands])
def test_help_shows_no_types_and_breaks_no_word(command: str) -> None:
    text = attncli(*command.split(), "--help", COLUMNS="80").stdout
    assert re.findall(r"[<{]|\[configs\]", text) == []
    params = COMMANDS.commands[command].params if command else COMMANDS.params
    visible = [each for each in params if not getattr(each, "hidden", False)]
    names = [name for each in visible for name in (*each.opts, each.metavar or "") if name.startswith("--")]
    names += [each.metavar for each in visible if each.metavar]
    assert [name for name in names if name not in text] == []


@pytest.mark.slow
@pytest.mark.parametrize("command", ["", "run", "train"])
def test_help_ends_quietly_where_nobody_reads_on(command: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    arguments = [sys.executable, "-m", "attncli", *command.split(), "--help"]
    result = subprocess.run(arguments, stdout=writing, stderr=subprocess.PIPE, timeout=300, check=False)
    os.close(writing)
    assert (result.returncode, result.stderr) == (0, b"")
