"""`attncli scorers` and `attncli --help`."""

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
