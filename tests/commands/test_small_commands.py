"""`attncli scorers` and `attncli --help`."""

import os
import re
import subprocess
import sys

import pytest

from attncli.commands.scorers import scorer_names
from attncli.scorers import SCORERS
from tests.cli import good


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


@pytest.mark.parametrize("command", ["", "run", "heatmap", "train", "init"])
def test_help_shows_no_types_of_python(command: str) -> None:
    assert re.findall("<(bool|str|int|list|path)", good(*command.split(), "--help")) == []


@pytest.mark.parametrize("command", ["", "run", "train"])
def test_help_ends_quietly_where_nobody_reads_on(command: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    arguments = [sys.executable, "-m", "attncli", *command.split(), "--help"]
    result = subprocess.run(arguments, stdout=writing, stderr=subprocess.PIPE, timeout=300, check=False)
    os.close(writing)
    assert (result.returncode, result.stderr) == (0, b"")
