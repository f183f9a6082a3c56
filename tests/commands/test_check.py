"""`attncli check` finds what `run` would refuse, and writes nothing."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli import attncli, experiment, good, names_in, refusal

pytestmark = pytest.mark.usefixtures("here")


def test_good(here: Path) -> None:
    for name in ("a", "b"):
        experiment(here / f"{name}.yaml")
    result = attncli("check", "a.yaml", "b.yaml")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == "a.yaml: good, study attention\nb.yaml: good, study attention\n"
    assert names_in(here) == ["a.yaml", "b.yaml"], "nothing is written"


BAD: dict[str, dict[str, Any]] = {
    "yaml": {"seed": -1},
    "shapes": {"data": {"queries": {"shape": [7, 3, 4]}}},
    "broken file": {"data": {"keys": {"file": "broken.npy"}}},
    "empty row": {"data": {"valid_lens": [0, 5]}, "mask": {"empty_row": "error"}},
    "tokens": {"tokens": {"keys": ["a"]}},
    "device": {"device": "cuda:99"},
    "own scorer": {"scorers": [{"scorer": "gone_module:Mine"}]},
    "parameters": {"scorers": [{"scorer": "general", "parameters": {"file": "gone.pt"}}]},
    "memory": {"data": {"queries": {"shape": [2, 3_000_000_000, 4]}}},
}


@pytest.mark.parametrize("mistake", BAD)
def test_finds_what_run_refuses(mistake: str, here: Path) -> None:
    (here / "broken.npy").write_bytes(b"\x93NUMPY")
    experiment(here / "bad.yaml", **BAD[mistake])
    said, says = (  # free memory is never twice the same
        re.sub(r"[\d.]+ [KMGT]iB of memory", "", refusal(command, "bad.yaml")) for command in ("run", "check")
    )
    assert said == says
    assert says.startswith("bad.yaml:1:")
    assert names_in(here) == ["bad.yaml", "broken.npy"]


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
