"""`attncli train`: its run folder."""

from pathlib import Path

import pytest
import torch

from tests.cli import config, names_in, run, swept

FEW: list[object] = ["--steps", 4, "--batch", 2, "--keys", 2, "--vocabulary", 4, "--embedding", 3, "--seeds", 2]
FEW += ["--device", "cpu"]
TWO: list[object] = [*FEW, "--d", 2, "--d", 3, "--scorer", "dot", "--scorer", "additive"]
FILES = ["config.yaml", "parameters.safetensors", "records.csv", "results.json", "tensors.safetensors"]


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
