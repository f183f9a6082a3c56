"""`attncli bench`: its flags and keys, its run folder, and early ends."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from attncli.studies.bench.columns import COLUMNS
from tests.cli import config, run, swept
from tests.studies.bench.small import hurry

FEW: list[object] = ["--n", 4, "--d", 3, "--scorer", "dot", "--device", "cpu"]
fast = pytest.fixture(hurry, autouse=True)
UNKNOWN = dict.fromkeys(column.key for column in COLUMNS if column.kind == "measured")


@pytest.mark.parametrize("hidden", [[], ["--num-hiddens", 3, "--num-hiddens", 5]])
def test_the_config_of_a_run_gives_it_again(hidden: list[object], here: Path) -> None:
    """Hidden units may depend on d or --num-hiddens; parameters may be from a file. torch's threads are as before."""
    save_file({"W.weight": torch.arange(9.0).reshape(3, 3)}, here / "W.safetensors")
    before, scorers = (
        torch.get_num_threads(),
        ["additive", "additive:num_hiddens=8", "general:parameters={file: W.safetensors}"],
    )
    flags = [each for scorer in scorers for each in ("--scorer", scorer)]
    first = swept("bench", *FEW, *flags, *hidden, "--threads", before + 1)
    assert (first["settings"]["threads"], torch.get_num_threads()) == (before + 1, before)
    (here / "W.safetensors").unlink()
    again = run(here / "out" / "config.yaml", here / "again")
    assert [row | UNKNOWN for row in again["records"]] == [row | UNKNOWN for row in first["records"]]
    kept = load_file(here / "again" / "parameters.safetensors")["general/W.weight"]
    assert kept.flatten().tolist() == list(range(9))
    assert config("again") == config()
