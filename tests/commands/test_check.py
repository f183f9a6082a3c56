"""`attncli check` of several files; tests/bad_input has its messages."""

from pathlib import Path

import pytest

from tests.cli import attncli, experiment, good, names_in

pytestmark = pytest.mark.usefixtures("here")


def test_good(here: Path) -> None:
    for name in ("a", "b"):
        experiment(here / f"{name}.yaml")
    result = attncli("check", "a.yaml", "b.yaml")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == "a.yaml: good, study attention\nb.yaml: good, study attention\n"
    assert names_in(here) == ["a.yaml", "b.yaml"], "nothing is written"


def test_all_problems_of_all_files(here: Path) -> None:
    experiment(here / "a.yaml", seed=-1, dtype="float8")
    experiment(here / "b.yaml")
    experiment(here / "c.yaml", data={"valid_lens": [6, 6]}, tokens={"keys": []})
    result = attncli("check", "a.yaml", "b.yaml", "c.yaml", "d.yaml")
    assert result.exit_code == 2
    assert result.stdout == "b.yaml: good, study attention\n"
    assert [line.split(":")[0] for line in result.stderr.splitlines()] == ["a.yaml"] * 2 + ["c.yaml"] * 2 + ["d.yaml"]


def test_overrides(here: Path) -> None:
    experiment(here / "own.yaml", seed=-1)
    good("check", "own.yaml", "--seed", 1)
