"""`attncli train`: its run folder, how it ends early, and how it goes on."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from attncli.studies.train import learning as train_learning
from tests.cli import attncli, names_in, refusal, run
from tests.commands.sweeps import config, swept

FEW: list[object] = ["--steps", 4, "--batch", 2, "--keys", 2, "--vocabulary", 4, "--embedding", 3, "--seeds", 2]
FEW += ["--device", "cpu"]
TWO: list[object] = [*FEW, "--d", 2, "--d", 3, "--scorer", "dot", "--scorer", "additive"]
FILES = ["config.yaml", "records.csv", "results.json", "tensors.safetensors"]
YAML = "study: train\nscorer: dot\nd: 2\nsteps: 4\nbatch: 2\nkeys: 2\nvocabulary: 4\nembedding: 3\nseeds: 2\n"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)  # configurations one after the other
    return tmp_path


def test_the_config_of_a_run_gives_it_again(here: Path) -> None:
    found = swept("train", *TWO, "--test-keys", 4)
    again = run(here / "out" / "config.yaml", here / "again")
    assert again["records"] == found["records"]
    assert config("again") == config()


def test_files_and_learning_curves() -> None:
    content = swept("train", *TWO)
    assert content["files"] == names_in(Path("out")) == FILES
    with Path("out/records.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows == [{k: "" if v is None else str(v) for k, v in each.items()} for each in content["records"]]
    stored = load_file("out/tensors.safetensors")
    assert stored.pop("steps").tolist() == [0, 1, 2, 3, 4]
    measures = ("accuracy", "loss", "entropy", "gradient_norm")
    assert set(stored) == {f"{label}/{d}/{name}" for label in ("dot", "additive") for d in (2, 3) for name in measures}
    for row in content["records"]:
        assert stored[f"{row['label']}/{row['d']}/loss"][row["seed"], -1].item() == row["loss"]


def test_parameters_that_were_read_are_kept(here: Path) -> None:
    save_file({"W.weight": torch.arange(4.0).reshape(2, 2)}, here / "W.safetensors")
    records = swept("train", *FEW, "--d", 2, "--scorer", "general:parameters={file: W.safetensors}")["records"]
    (here / "W.safetensors").unlink()
    assert run(here / "out" / "config.yaml", here / "again")["records"] == records
    assert load_file("again/parameters.safetensors")["general/W.weight"].flatten().tolist() == [0, 1, 2, 3]


def test_expectations_of_one_seed_of_all_and_of_their_mean(here: Path) -> None:
    row = swept("train", *FEW, "--d", 2, "--scorer", "dot")
    losses, mean = [each["loss"] for each in row["records"]], row["comparisons"][0]["loss"]
    expect = [
        {"where": {"scorer": "dot", "d": 2}, "metric": "loss", "equal": mean},
        {"where": {"seed": 1}, "metric": "loss", "equal": losses[1]},
        {"where": {"d": 2, "seed": [0, 1]}, "metric": "loss", "between": [min(losses), max(losses)]},
        {"where": {"d": 2}, "metric": "reached_90", "between": [0, 2]},
    ]
    (here / "x.yaml").write_text(YAML + f"expect: {json.dumps(expect)}\n")
    found = run(here / "x.yaml", here / "again")["expectations"]
    assert [each["holds"] for each in found] == [True] * 5
    (here / "x.yaml").write_text(YAML + "expect: [{metric: accurac, above: 1}]\n")
    assert refusal("check", "x.yaml").endswith('got "accurac"; unknown metric; did you mean `accuracy`?')


def interrupt_after(finished: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while the next configuration is at work."""
    begun, right = [0], train_learning.learn

    def interrupted(*args: Any) -> Any:
        begun[0] += 1
        if begun[0] > finished:
            raise KeyboardInterrupt
        return right(*args)

    monkeypatch.setattr("attncli.studies.train.study.learn", interrupted)


def test_control_c_keeps_what_is_finished_and_resume_goes_on(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = swept("train", *TWO, out="whole")
    with monkeypatch.context() as patch:
        interrupt_after(3, patch)
        result = attncli("train", *TWO, "--no-plots", "--out", "part")
    assert (result.exit_code, result.stderr) == (130, "interrupted; what was finished is in part/\n")
    assert "--resume" in result.stdout
    part = json.loads(Path("part/results.json").read_text())
    assert part["interrupted"] is True
    assert part["records"] == [row for row in whole["records"] if (row["label"], row["d"]) != ("additive", 3)]
    interrupt_after(1, monkeypatch)  # no more is left
    result = attncli("train", "--resume", "part", "--no-plots", "--out", "rest")
    kept = f"train: 3 of 4 configurations are those of {here / 'part'}; 1 to train\n"
    assert (result.exit_code, result.stderr) == (0, kept)
    rest = json.loads(Path("rest/results.json").read_text())
    for key in ("records", "comparisons", "settings", "findings"):
        assert rest[key] == whole[key]
    assert config("rest") == config("whole")
    for name, stored in load_file("whole/tensors.safetensors").items():
        assert torch.equal(load_file("rest/tensors.safetensors")[name], stored)


def test_control_c_leaves_open_what_is_expected_of_the_rest(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expect = [{"where": {"label": label}, "metric": "accuracy", "above": 2} for label in ("dot", "scaled_dot")]
    (here / "x.yaml").write_text(
        YAML.replace("scorer: dot", "scorers: [dot, scaled_dot]") + f"expect: {json.dumps(expect)}\n"
    )
    (here / "y.yaml").write_text(YAML)
    interrupt_after(1, monkeypatch)
    result = attncli("run", "x.yaml", "y.yaml", "--no-plots")
    assert result.exit_code == 130
    failed, waiting, interrupted = result.stderr.splitlines()
    assert waiting == "not run: y.yaml"
    assert failed.startswith("x.yaml:10:10: expect[0]: accuracy (label = dot): expected above 2; got ")
    assert interrupted.startswith("interrupted; what was finished is in outputs/x/")
    assert result.stdout.splitlines()[-1] == "0 of 2 expectations hold, 1 could not be judged"
    found = json.loads(Path("outputs/x/latest/results.json").read_text())["expectations"]
    assert [(each["holds"], each["reason"]) for each in found] == [
        (False, None),
        (None, "interrupted before it was measured"),
    ]
    assert not Path("outputs/y").exists()


def test_control_c_before_anything_is_finished(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupt_after(0, monkeypatch)
    result = attncli("train", *TWO)
    assert (result.exit_code, result.stdout) == (130, "")
    assert result.stderr == "interrupted; no unfinished run folder is left\n"
    assert names_in(here) == []
