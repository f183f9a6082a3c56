"""`--resume` of run folders that are damaged, incomplete, or something else."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.cli import attncli, names_in, refusal
from tests.commands.sweeps import swept

FEW: list[object] = ["--steps", 4, "--batch", 2, "--keys", 2, "--vocabulary", 4, "--embedding", 3, "--seeds", 2]
FEW += ["--device", "cpu", "--d", 2, "--d", 3, "--scorer", "dot", "--test-keys", 3]
NOT_WRITTEN = "results.json is not what a run has written"


@pytest.fixture(autouse=True)
def first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    swept("train", *FEW, out="first")
    return tmp_path / "first"


def records_changed(folder: Path, change: Callable[[list[Any]], Any]) -> list[Any]:
    """Change the records in results.json; returns them as they were."""
    content = json.loads((folder / "results.json").read_text())
    before = json.loads(json.dumps(content["records"]))
    change(content["records"])
    (folder / "results.json").write_text(json.dumps(content))
    return list(before)


def again(first: Path) -> tuple[list[Any], list[str]]:
    """The records of a run that goes on with the first, and what it says of it."""
    result = attncli("train", "--resume", "first", "--no-plots", "--out", "again")
    assert result.exit_code == 0, result.stderr
    records = json.loads(Path("again/results.json").read_text())["records"]
    return records, result.stderr.replace(str(first), "HERE").splitlines()


ROWS = "its rows are not those of the seeds and keys in config.yaml"
ROW_FLAWS: list[tuple[Callable[[list[Any]], Any], str]] = [
    (lambda rows: rows.pop(0), ROWS),
    (lambda rows: rows.insert(0, rows[0]), ROWS),
    (lambda rows: rows[0].update(seed=1), ROWS),
    (lambda rows: rows[0].update(keys=4), ROWS),
    (lambda rows: rows[1].pop("loss"), "a row has no loss"),
    (lambda rows: rows[1].update(more=1), "a row has an unknown column more"),
    (lambda rows: rows[0].update(scorer="cosine"), 'a row is of the scorer "cosine"'),
    (lambda rows: rows[0].update(accuracy=1.5), "a row has accuracy 1.5"),
    (lambda rows: rows[0].update(accuracy=-0.1), "a row has accuracy -0.1"),
    (lambda rows: rows[0].update(accuracy="0.5"), 'a row has accuracy "0.5"'),
    (lambda rows: rows[0].update(loss=True), "a row has loss true"),
    (lambda rows: rows[0].update(entropy=[1]), "a row has entropy [1]"),
    (lambda rows: rows[0].update(loss=10**400), "a row has loss 1" + 58 * "0" + "…"),
    (lambda rows: rows[0].update(seed=0.0), "a row has seed 0.0"),
    (lambda rows: rows[0].update(parameters=None), "a row has parameters nothing"),
    (lambda rows: rows[0].update(steps_to_90="never"), 'a row has steps_to_90 "never"'),
]


@pytest.mark.parametrize(("change", "flaw"), ROW_FLAWS, ids=[flaw for _, flaw in ROW_FLAWS])
def test_what_has_strange_rows_is_trained_again(change: Callable[[list[Any]], Any], flaw: str, first: Path) -> None:
    before = records_changed(first, change)
    records, said = again(first)
    assert records == before
    assert said == [
        "train: 1 of 2 configurations are those of HERE",
        f"train: dot, d = 2, is trained again: in HERE {flaw}",
    ]


def test_what_has_no_number_is_kept(first: Path) -> None:
    """NaN is written as null."""
    before = records_changed(first, lambda rows: rows[0].update(accuracy=None, loss=None, gradient_norm=None))
    assert before[0]["accuracy"] is not None
    records, said = again(first)
    assert records[0]["accuracy"] is None
    assert said[0] == "train: 2 of 2 configurations are those of HERE"


CURVES: list[tuple[str, Any, str]] = [
    ("dot/2/gradient_norm", None, "its curve of gradient_norm is missing"),
    ("dot/2/loss", torch.zeros(2, 4), "its curve of loss has shape [2, 4]; expected [2, 5]"),
    ("dot/2/entropy", torch.zeros(5), "its curve of entropy has shape [5]; expected [2, 5]"),
    ("dot/2/accuracy", torch.zeros(2, 5, dtype=torch.long), "its curve of accuracy has int64 numbers"),
]


@pytest.mark.parametrize(("name", "curve", "flaw"), CURVES)
def test_what_has_strange_curves_is_trained_again(name: str, curve: Any, flaw: str, first: Path) -> None:
    before = load_file(first / "tensors.safetensors")
    changed = {key: each for key, each in before.items() if key != name} | ({} if curve is None else {name: curve})
    save_file(changed, first / "tensors.safetensors")
    _, said = again(first)
    assert said[1] == f"train: dot, d = 2, is trained again: in HERE {flaw}"
    for key, each in load_file("again/tensors.safetensors").items():
        assert torch.equal(each, before[key])


def content(**keys: object) -> str:
    return json.dumps({"attncli": "1", "study": "train", "files": [], **keys})


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("results.json", "{", f"whose {NOT_WRITTEN}: no JSON at line 1, column 2"),
        ("results.json", "[]", f"whose {NOT_WRITTEN}: it does not say of which study"),
        ("results.json", "{}", f"whose {NOT_WRITTEN}: it does not say of which study"),
        ("results.json", b"\xff", f"whose {NOT_WRITTEN}: it is no JSON in UTF-8"),
        ("results.json", content(study=[1]), "a run of the study [1]; expected one of train"),
        *(
            (
                "results.json",
                content(records=records),
                f"whose {NOT_WRITTEN}: it has no list of records with a label and a size d each",
            )
            for records in (None, 3, [3], [{"d": 2}], [{"label": "dot"}], [{"label": [], "d": 2}])
        ),
        ("tensors.safetensors", "x", "whose tensors.safetensors is damaged; the run folder is incomplete"),
        ("tensors.safetensors", None, "which has no tensors.safetensors; the run folder is incomplete"),
        ("config.yaml", None, "which has no config.yaml; the run folder is incomplete"),
        ("config.yaml", "", "whose config.yaml has no `study`; the run folder is incomplete"),
        ("config.yaml", "study: train\nd: [2]\n", "whose config.yaml has no `scorers`; the run folder is incomplete"),
        (
            "config.yaml",
            "study: variance\n",
            'whose config.yaml and results.json disagree: the one is of the study "variance", the other of train',
        ),
    ],
)
def test_damaged_folders_are_refused(name: str, text: str | bytes | None, message: str, first: Path) -> None:
    path = first / name
    if text is None:
        path.unlink()
    else:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    there = names_in(first)
    assert refusal("train", "--resume", "first") == f'--resume: got "first", {message}'
    assert names_in(first) == there


def test_a_config_that_is_no_yaml_is_refused(first: Path) -> None:
    (first / "config.yaml").write_text("study: [train\n")
    head = '--resume: got "first", whose config.yaml is damaged: first/config.yaml:'
    assert refusal("train", "--resume", "first").startswith(head)


def test_files_and_nothing_are_no_folders() -> None:
    message = '--resume: got "first/results.json", a file; expected its folder'
    assert refusal("train", "--resume", "first/results.json") == message
    assert refusal("train", "--resume", "") == '--resume: got ""; expected the folder of a run of attncli train'


def test_in_yaml_it_is_told_at_its_line(first: Path) -> None:
    (first / "config.yaml").unlink()
    Path("x.yaml").write_text("study: train\nresume: first\n")
    assert refusal("check", "x.yaml") == (
        'x.yaml:2:9: resume: got "first", which has no config.yaml; the run folder is incomplete'
    )
