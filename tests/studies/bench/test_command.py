"""`attncli bench`: its flags and keys, its run folder, and early ends."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from attncli.studies.bench.columns import COLUMNS
from tests.cli import config, run, swept
from tests.studies.bench.small import hurry

FEW: list[object] = ["--n", 4, "--d", 3, "--scorer", "dot", "--device", "cpu"]
UNKNOWN = dict.fromkeys(column.key for column in COLUMNS if column.kind == "measured")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    hurry(monkeypatch)
    return tmp_path


def test_threads_are_those_asked_for_while_it_measures(here: Path) -> None:
    before = torch.get_num_threads()
    for asked in (before + 1, 1):
        found = swept("bench", *FEW, "--threads", asked, "--overwrite")
        assert found["settings"]["threads"] == asked
        assert torch.get_num_threads() == before


@pytest.mark.parametrize(
    "more",
    [
        ["--scorer", "additive"],
        ["--scorer", "additive", "--num-hiddens", 3, "--num-hiddens", 5],
        ["--scorer", "additive", "--scorer", "additive:num_hiddens=8"],
        ["--scorer", "general:parameters={file: W.safetensors}"],
    ],
)
def test_the_config_of_a_run_gives_it_again(more: list[object], here: Path) -> None:
    """Hidden units may depend on d or --num-hiddens; parameters may be from a file."""
    save_file({"W.weight": torch.arange(9.0).reshape(3, 3)}, here / "W.safetensors")
    records = swept("bench", *FEW, *more)["records"]
    (here / "W.safetensors").unlink()
    again = run(here / "out" / "config.yaml", here / "again")
    assert [row | UNKNOWN for row in again["records"]] == [row | UNKNOWN for row in records]
    if "parameters.safetensors" in again["files"]:
        kept = load_file(here / "again" / "parameters.safetensors")["general/W.weight"]
        assert kept.flatten().tolist() == list(range(9))
    else:
        assert config("again") == config()
