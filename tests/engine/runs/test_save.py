"""The key `save`: the stages in a run folder, and the notes about files that are left out or large."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from safetensors.torch import load_file

import attncli
from attncli.engine.runs import saving
from tests.cli import attncli as command
from tests.cli import experiment, good, names_in, refusal

pytestmark = pytest.mark.usefixtures("sketches")

KEYS: dict[str, Any] = {
    "data": {"queries": {"shape": [2, 3, 4]}, "keys": {"shape": [2, 5, 4]}},
    "mask": {"align": "top_left"},
    "scorers": [{"scorer": "dot", "softcap": 1.0, "bias": "alibi"}, {"scorer": "gaussian", "dropout": 0.5}],
    "train": True,
    "expect": [{"where": {"label": "dot"}, "metric": "entropy", "above": 0}],
}
STAGES = {
    "dot": ["scores", "capped", "biased", "weights", "output"],
    "gaussian": ["scores", "weights", "dropped", "output"],
}
INPUTS = {"queries", "keys", "values", "valid"}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """Return the output and the folder of a run that keeps all stages."""
    folder = tmp_path_factory.mktemp("whole")
    experiment(folder / "own.yaml", **KEYS)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        return good("run", "own.yaml", "--out", "whole"), folder / "whole"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    experiment(tmp_path / "own.yaml", **KEYS)
    return tmp_path


@pytest.mark.parametrize(
    ("save", "kept", "reason"),
    [
        ("none", [], "`save` leaves out scores and weights"),
        ("[weights, output]", ["weights", "output"], "`save` leaves out scores"),
        ("[weights, scores]", ["weights", "scores"], None),
    ],
)
def test_only_these_stages_are_kept(
    save: str, kept: list[str], reason: str | None, here: Path, whole: tuple[str, Path]
) -> None:
    """Tables, pictures and metrics are the same as in a run that keeps all stages."""
    part = command("run", "own.yaml", "--out", "part", "--set", f"save={save}")
    assert part.stderr == ("" if reason is None else f"own: weights.csv is left out: {reason}\n")
    printed, folders = (part.stdout, whole[0]), (Path("part"), whole[1])
    tables = (text.partition(f"{folder.name}/\n")[0] for text, folder in zip(printed, folders, strict=True))
    of_part, of_whole = (re.sub(r"─+|[\d.]+ [mµ]?s *$", "", each, flags=re.M).split() for each in tables)  # but times
    assert of_part == of_whole
    left_out = {"weights.csv"} if reason else set()
    assert set(names_in(folders[0])) == set(names_in(folders[1])) - left_out
    assert len({(folder / "heatmaps.png").read_bytes() for folder in folders}) == 1
    stored, all_stages = (load_file(folder / "tensors.safetensors") for folder in folders)
    assert {*all_stages} == INPUTS | {f"{label}/{stage}" for label, stages in STAGES.items() for stage in stages}
    assert {*stored} == INPUTS | {name for name in all_stages if name.partition("/")[2] in kept}
    assert all(torch.equal(tensor, all_stages[name]) for name, tensor in stored.items())
    contents = [json.loads((folder / "results.json").read_text()) for folder in folders]
    assert len({json.dumps(content["comparisons"]) for content in contents}) == 1
    assert yaml.safe_load(Path("part/config.yaml").read_text())["save"] == kept


def test_a_run_in_python_has_all_tensors_in_memory() -> None:
    names = {f"{label}/{stage}" for label, stages in STAGES.items() for stage in stages}
    for out in (None, "run"):
        result = attncli.run("own.yaml", save="none", out=out)
        assert set(result.tensors) == names
    loaded = attncli.load("run")
    assert (set(loaded.tensors), loaded.pictures) == (set(), [])
    assert "entropy" in loaded._repr_html_()


def test_a_heatmap_of_what_was_not_kept(here: Path) -> None:
    good("run", "own.yaml", "--out", "run", "--set", "save=[weights, dropped]", "--no-plots", "--quiet")
    good("heatmap", "run", "--out", "weights.png")
    assert refusal("heatmap", "run", "--stage", "scores") == (
        'SOURCE: got "run", a run that did not keep scores: see `save` in its config.yaml; '
        f"`attncli heatmap {Path('run', 'config.yaml')}` computes and draws them"
    )
    good("heatmap", Path("run", "config.yaml"), "--stage", "biased", "--out", "biased.png")


def test_files_that_are_left_out_or_large_are_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    """The notes are for two scorers with 2 x 3 x 5 weights."""
    monkeypatch.setattr(saving, "MOST_ROWS", 59)
    result = command("run", "own.yaml", "--no-plots")
    cure = "tensors.safetensors has the weights, which `attncli.load` and `attncli heatmap` read"
    assert result.stderr == f"own: weights.csv is left out: it would have 60 rows, and has at most 59; {cure}\n"
    monkeypatch.setattr(saving, "MOST_ROWS", 60)
    kept = sum(tensor.nbytes for tensor in load_file("outputs/own/latest/tensors.safetensors").values())
    for most, note in ((kept, ""), (kept - 1, f"own: the run folder takes {kept / 1024:.1f} KiB for tensors; CURE\n")):
        monkeypatch.setattr(saving, "LARGE", most)
        result = command("run", "own.yaml", "--no-plots")
        assert result.stderr == note.replace("CURE", "`save: [weights, output]` or `save: none` keeps less")
    monkeypatch.setattr(saving, "LARGE", 0)
    for study in (["run", "own.yaml", "--set", "save=none"], ["variance", "--d", 2, "--samples", 100]):
        assert command(*study, "--no-plots").stderr.splitlines()[0].endswith("for tensors"), "nothing to leave out"
