"""`attncli train`: its run folder, interruptions, and resumed runs."""

import csv
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from attncli.studies.train import model as train_model
from tests.cli import attncli, config, names_in, refusal, run, swept

FEW: list[object] = ["--steps", 4, "--batch", 2, "--keys", 2, "--vocabulary", 4, "--embedding", 3, "--seeds", 2]
FEW += ["--device", "cpu"]
RESUMED: list[object] = [*FEW, "--d", 2, "--d", 3, "--scorer", "dot", "--test-keys", 3]
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
    with Path("out/records.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows == [{k: "" if v is None else str(v) for k, v in each.items()} for each in content["records"]]


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


def interrupt_after(finished: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Press Ctrl-C after this number of configurations, at the start of the next."""
    begun, right = [0], train_model.learn

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
    kept = f"train: 3 of 4 configurations are already done in {here / 'part'}; 1 to train\n"
    assert (result.exit_code, result.stderr) == (0, kept)
    rest = json.loads(Path("rest/results.json").read_text())
    for key in ("records", "comparisons", "settings", "findings"):
        assert rest[key] == whole[key]
    assert config("rest") == config("whole")
    for file in ("tensors.safetensors", "parameters.safetensors"):
        stored, of_rest, of_part = (load_file(f"{folder}/{file}") for folder in ("whole", "rest", "part"))
        assert stored.keys() == of_rest.keys() == of_part.keys() | {name for name in stored if "additive/3/" in name}
        for name, tensor in stored.items():
            assert torch.equal(of_rest[name], tensor)


def test_control_c_before_anything_is_finished(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupt_after(0, monkeypatch)
    result = attncli("train", *TWO)
    assert (result.exit_code, result.stdout) == (130, "")
    assert result.stderr == "interrupted; what was finished is kept, nothing else\n"
    assert names_in(here) == []


@pytest.fixture
def first() -> dict[str, Any]:
    """Make the run to resume, and return the content of its results.json."""
    return swept("train", *RESUMED, out="first")


def resumed(*args: object, out: str = "again") -> tuple[dict[str, Any], str]:
    """Resume the first run; return the content of the new run's results.json, and its shortened stderr."""
    before = {name: Path("first", name).read_bytes() for name in names_in(Path("first"))}
    result = attncli("train", "--resume", "first", *args, "--no-plots", "--out", out)
    assert result.exit_code == 0, result.stderr
    assert before == {name: Path("first", name).read_bytes() for name in names_in(Path("first"))}
    content: dict[str, Any] = json.loads(Path(out, "results.json").read_text())
    said = result.stderr.rstrip("\n").removeprefix("train: ")
    return content, said.replace(f" configurations are already done in {Path('first').absolute()}", "")


def test_all_is_kept_or_some_beside_more_sizes_and_scorers(first: dict[str, Any]) -> None:
    content, said = resumed(out="all")
    assert said == "2 of 2; 0 to train"
    assert (content["records"], content["settings"]) == (first["records"], first["settings"])
    content, said = resumed("--d", 4, "--d", 2, "--scorer", "dot", "--scorer", "cosine")
    assert said == "1 of 4; 3 to train"
    places = [(row["label"], row["d"]) for row in content["comparisons"][::2]]
    assert places == [("dot", 4), ("dot", 2), ("cosine", 4), ("cosine", 2)]
    assert [row for row in content["records"] if (row["label"], row["d"]) == ("dot", 2)] == first["records"][:4]


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("--seed", 1), ("--seeds", 3), ("--steps", 5), ("--batch", 3), ("--keys", 3), ("--vocabulary", 5),
        ("--classes", 3), ("--embedding", 4), ("--test-keys", 4), ("--optimizer", "sgd"), ("--lr", 0.5),
        ("--dtype", "float64"), ("--scorer", "dot:softcap=2,label=dot"), ("--scorer", "scaled_dot:label=dot"),
        ("--scorer", "dot:normalizer=relu,label=dot"), ("--scorer", "dot:normalizer=entmax:alpha=1.3,label=dot"),
    ],
)  # fmt: skip
def test_with_another_setting_all_is_trained_again(flag: str, value: object, first: dict[str, Any]) -> None:
    content, said = resumed(flag, value)
    assert said == "0 of 2; 2 to train"
    assert content["settings"]["configurations"].keys() == first["settings"]["configurations"].keys()
    assert content["records"] != first["records"]


@pytest.mark.parametrize(
    "change",
    [
        lambda rows, curves: rows.pop(0),
        lambda rows, curves: curves.pop("dot/2/1/W_q"),
        lambda rows, curves: curves.update({"dot/2/0/W_k": torch.zeros(2, 3)}),
        lambda rows, curves: curves.update({"dot/2/0/W_k": curves["dot/2/0/W_k"].reshape(3, 2)}),
        lambda rows, curves: rows[1].pop("loss"),
        lambda rows, curves: rows[0].update(accuracy=1.5),
        lambda rows, curves: rows[0].update(loss=10**400),
        lambda rows, curves: rows[0].update(label=["dot"]),
        lambda rows, curves: curves.pop("dot/2/loss"),
        lambda rows, curves: curves.update({"dot/2/loss": torch.zeros(2, 4)}),
        lambda rows, curves: curves.update({"dot/2/loss": torch.zeros(2, 5, dtype=torch.long)}),
    ],
)
def test_what_was_changed_is_trained_again(change: Callable[[Any, Any], Any], first: dict[str, Any]) -> None:
    files = ("tensors.safetensors", "parameters.safetensors")
    before, changed = [load_file(f"first/{file}") for file in files], json.loads(Path("first/results.json").read_text())
    tensors = before[0] | before[1]
    change(changed["records"], tensors)
    Path("first/results.json").write_text(json.dumps(changed))
    for file, stored in zip(files, before, strict=True):
        save_file({name: tensor for name, tensor in tensors.items() if name in stored}, f"first/{file}")
    content, said = resumed()
    assert (said, content["records"]) == ("1 of 2; 1 to train", first["records"])
    for file, stored in zip(files, before, strict=True):
        again = load_file(f"again/{file}")
        assert again.keys() == stored.keys()
        assert all(torch.equal(again[name], tensor) for name, tensor in stored.items())


def test_a_run_without_what_was_learnt_is_trained_again_and_says_so(first: dict[str, Any]) -> None:
    Path("first/parameters.safetensors").unlink()
    content, said = resumed()
    why = "does not have the parameters that were learnt, so all is trained again"
    assert said == f"{Path('first').absolute()} {why}\ntrain: 0 of 2; 2 to train"
    assert content["records"] == first["records"]


def test_what_has_no_number_is_kept() -> None:
    """A resumed run keeps results with NaN, which is written as null."""
    first = swept("train", *FEW, "--d", 2, "--scorer", "scaled_dot:scale=3e38,label=much", out="first")
    assert first["records"][0]["loss"] is None
    content, said = resumed()
    assert said.splitlines()[0] == "1 of 1; 0 to train"
    assert content["records"] == first["records"]
    assert content["comparisons"] == first["comparisons"]


def test_parameters_that_were_read_count_by_their_content(here: Path) -> None:
    save_file({"W.weight": torch.arange(4.0).reshape(2, 2)}, "W.safetensors")
    first = swept("train", *FEW, "--d", 2, "--scorer", "general:parameters={file: W.safetensors}", out="first")
    content, said = resumed()
    assert (said, content["records"]) == ("1 of 1; 0 to train", first["records"])
    assert load_file("again/parameters.safetensors")["general/W.weight"].flatten().tolist() == [0, 1, 2, 3]
    assert resumed("--scorer", "general:parameters={file: ../W.safetensors}", out="other")[1] == "1 of 1; 0 to train"
    (here / "W.safetensors").unlink()
    assert run(here / "first" / "config.yaml", here / "alone")["records"] == first["records"]
    assert config("first")["scorers"][0]["parameters"]["names"] == {"W.weight": "general/W.weight"}
    stored = load_file("first/parameters.safetensors")
    save_file({**stored, "general/W.weight": torch.ones(2, 2)}, "first/parameters.safetensors")
    content, said = resumed(out="changed")
    assert said == "0 of 1; 1 to train"
    assert content["records"] != first["records"]


def test_scorers_of_the_users_own_are_trained_again(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    (here / "own_resumed.py").write_text("from attncli.scorers.dot import Dot\n\nclass Mine(Dot):\n    pass\n")
    swept("train", *FEW, "--d", 2, "--scorer", "own_resumed:Mine", "--scorer", "dot", out="first")
    assert resumed()[1] == "1 of 2; 1 to train"


def test_the_old_run_is_not_replaced(first: dict[str, Any]) -> None:
    message = '--out: got "first", the run to resume, which stays unchanged; expected another folder'
    assert refusal("train", "--resume", "first", "--d", 3, "--out", "first", "--overwrite") == message
    assert json.loads(Path("first/results.json").read_text()) == first


CURE = "expected the folder of a run of attncli train"
DAMAGED = f'--resume: got "first", whose files are damaged; {CURE}'


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        *(("results.json", text, DAMAGED) for text in ("{", "[]", "{}", b"\xff", "[" * 10_000, '{"study": [1]}')),
        ("results.json", '{"study": "train", "records": [3]}', DAMAGED),
        ("results.json", '{"study": "train", "records": [], "settings": {"configurations": [1]}}', DAMAGED),
        ("results.json", '{"study": "bench", "records": []}', DAMAGED),
        ("tensors.safetensors", "x", DAMAGED),
        ("parameters.safetensors", "x", DAMAGED),
        *((name, None, f'--resume: got "first", which has no {name}; {CURE}')
          for name in ("results.json", "config.yaml", "tensors.safetensors")),
        ("config.yaml", "study: [train\n", "first/config.yaml:"),
        ("config.yaml", "study: variance\n", "first/config.yaml:"),
    ],
)  # fmt: skip
def test_damaged_folders_are_refused(name: str, text: str | bytes | None, message: str, first: dict[str, Any]) -> None:
    path = Path("first", name)
    path.unlink()
    if text is not None:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    there = names_in(Path("first"))
    assert refusal("train", "--resume", "first").replace(str(Path("first").absolute()), "first").startswith(message)
    assert names_in(Path("first")) == there


def test_other_places_are_no_runs(here: Path, first: dict[str, Any]) -> None:
    (here / "outputs").mkdir()
    (here / "outputs" / "latest").symlink_to(here / "first")
    for place, cure in (("outputs", "did you mean `outputs/latest`?"), (str(Path("first/results.json")), CURE)):
        message = f'--resume: got "{place}", which has no results.json; {cure}'
        assert refusal("train", "--resume", place) == message


def test_a_run_to_resume_in_yaml(here: Path) -> None:
    (here / "x.yaml").write_text(YAML)
    first = run(here / "x.yaml", here / "first")
    again = run(here / "x.yaml", here / "again", "--set", "resume=first", "--set", "d=[2, 3]")
    assert (again["records"][:2], len(again["records"])) == (first["records"], 4)
