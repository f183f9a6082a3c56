"""`attncli scorers`, `attncli schema`, `attncli --version`, `attncli --help`."""

import json

import pytest

from attncli import __version__
from attncli.commands.scorers import scorer_names
from attncli.scorers import SCORERS
from tests.cli import good, refusal


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


def test_unknown_scorers() -> None:
    expected = 'attncli scorers: got "adittive"; unknown scorer; did you mean `additive`?'
    assert refusal("scorers", "adittive") == expected


def test_completion_knows_the_scorers() -> None:
    assert scorer_names() == sorted(SCORERS)


def test_the_schema_is_json() -> None:
    schema = json.loads(good("schema"))
    assert schema["title"] == "attncli experiment"
    assert "data" in json.dumps(schema)


def test_version() -> None:
    assert good("--version") == f"attncli {__version__}\n"


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_lists_the_commands(flag: str) -> None:
    stdout = good(flag)
    for command in ("run", "heatmap", "scorers", "check", "init", "schema"):
        assert f" {command} " in stdout
    for option in ("--set", "--out", "--overwrite", "--seed", "--device", "--dtype", "--no-plots", "--json", "--full"):
        assert option in good("run", flag)
