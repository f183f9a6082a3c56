"""`attncli train`: its run folder, and interruptions."""

import json
from pathlib import Path

import pytest
import torch

from tests.cli import config, names_in, run, swept

FEW: list[object] = ["--steps", 4, "--batch", 2, "--keys", 2, "--vocabulary", 4, "--embedding", 3, "--seeds", 2]
FEW += ["--device", "cpu"]
TWO: list[object] = [*FEW, "--d", 2, "--d", 3, "--scorer", "dot", "--scorer", "additive"]
FILES = ["config.yaml", "parameters.safetensors", "records.csv", "results.json", "tensors.safetensors"]
YAML = "study: train\nscorer: dot\nd: 2\nsteps: 4\nbatch: 2\nkeys: 2\nvocabulary: 4\nembedding: 3\nseeds: 2\n"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)  # configurations one after the other
    return tmp_path


def test_files(here: Path) -> None:
    content = swept("train", *TWO, "--test-keys", 4)
    assert run(here / "out" / "config.yaml", here / "again")["records"] == content["records"]
    assert config("again") == config()
    assert content["files"] == names_in(Path("out")) == FILES


def test_expectations_of_one_seed_and_of_the_mean_of_all(here: Path) -> None:
    row = swept("train", *FEW, "--d", 2, "--scorer", "dot")
    losses, mean = [each["loss"] for each in row["records"]], row["comparisons"][0]["loss"]
    expect = [
        {"where": {"scorer": "dot", "d": 2}, "metric": "loss", "equal": mean},
        {"where": {"seed": 1}, "metric": "loss", "equal": losses[1]},
    ]
    (here / "x.yaml").write_text(YAML + f"expect: {json.dumps(expect)}\n")
    found = run(here / "x.yaml", here / "again")["expectations"]
    assert [each["holds"] for each in found] == [True] * 2
