"""`attncli scorers` and `attncli --help`."""

import os
import re
import subprocess
import sys
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from attncli.cli import app
from attncli.commands.scorers import scorer_names
from attncli.scorers import SCORERS
from tests.cli import good, refusal

COMMANDS: Any = typer.main.get_command(app)


def test_the_catalogue_lists_every_scorer() -> None:
    stdout = good("scorers")
    for name in SCORERS:
        assert name in stdout.split()


@pytest.mark.parametrize("name", SCORERS)
def test_one_scorer_in_detail(name: str) -> None:
    text = " ".join(good("scorers", name).split())
    first, _, more = (SCORERS[name].__doc__ or "").partition("\n")
    assert first.partition(" (")[0] in text
    assert " ".join(more.split())[:40] in text


def test_completion_knows_the_scorers() -> None:
    assert scorer_names() == sorted(SCORERS)


def test_short_for_help() -> None:
    assert good("-h") == good("--help")


@pytest.mark.parametrize("command", ["", *COMMANDS.commands])
def test_help_shows_no_types_and_breaks_no_word(command: str) -> None:
    text = CliRunner().invoke(app, [*command.split(), "--help"], env={"COLUMNS": "80"}).stdout
    assert re.findall(r"[<{]|\[configs\]", text) == []
    params = COMMANDS.commands[command].params if command else COMMANDS.params
    shown = [each for each in params if not getattr(each, "hidden", False)]
    names = [name for each in shown for name in (*each.opts, each.metavar or "") if name.startswith("--")]
    names += [each.metavar for each in shown if each.metavar]
    assert [name for name in names if name not in text] == []


@pytest.mark.parametrize("text", ["a\0b", "a\ud800b"])
@pytest.mark.parametrize("before", [["run"], ["run", "d2l", "--out"], ["heatmap"], ["init", "d2l", "--out"]])
def test_text_that_no_file_can_have_as_its_name(before: list[str], text: str) -> None:
    expected = "expected text without null characters and lone surrogates"
    assert re.fullmatch(rf'attncli: got "a.*b"; {expected}', refusal(*before, text))


@pytest.mark.parametrize("command", ["", "run", "train"])
def test_help_ends_quietly_where_nobody_reads_on(command: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    arguments = [sys.executable, "-m", "attncli", *command.split(), "--help"]
    result = subprocess.run(arguments, stdout=writing, stderr=subprocess.PIPE, timeout=300, check=False)
    os.close(writing)
    assert (result.returncode, result.stderr) == (0, b"")
