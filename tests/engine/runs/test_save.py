"""The key `save`: the stages in a run folder, and the notes about files that are left out or large."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import attncli
from attncli.engine.runs import saving
from tests.cli import attncli as command
from tests.cli import config, experiment, good, names_in, refusal, results

pytestmark = pytest.mark.usefixtures("sketches")

KEYS: dict[str, Any] = {
    "data": {"queries": {"shape": [2, 3, 4]}, "keys": {"shape": [2, 5, 4]}},
    "mask": {"align": "top_left"},
    "scorers": [{"scorer": "dot", "softcap": 1.0, "bias": "alibi"}, {"scorer": "gaussian", "dropout": 0.5}],
    "train": True,
    "expect": [{"where": {"label": "dot"}, "metric": "entropy", "above": 0}],
}
STAGES = {"dot": "scores capped biased weights output", "gaussian": "scores weights dropped output"}
NAMES = {f"{label}/{stage}" for label, stages in STAGES.items() for stage in stages.split()}
INPUTS = {"queries", "keys", "values", "valid"}


@pytest.fixture(autouse=True)
def own(here: Path) -> None:
    experiment(here / "own.yaml", **KEYS)


@pytest.mark.parametrize(
    ("save", "stages", "reason"),
    [
        ("none", [], "`save` leaves out scores and weights"),
        ("[weights, output]", ["weights", "output"], "`save` leaves out scores"),
        ("[weights, scores]", ["weights", "scores"], None),
    ],
)
def test_only_these_stages_are_kept(save: str, stages: list[str], reason: str | None) -> None:
    """Pictures and metrics are the same as in a run that keeps all stages."""
    good("run", "own.yaml", "--out", "whole")
    note = command("run", "own.yaml", "--out", "some", "--set", f"save={save}").stderr
    assert note == ("" if reason is None else f"own: weights.csv is left out: {reason}\n")
    left_out = {"weights.csv"} if reason else set()
    assert set(names_in(Path("some"))) == set(names_in(Path("whole"))) - left_out
    assert Path("some/heatmaps.png").read_bytes() == Path("whole/heatmaps.png").read_bytes()
    assert results("some")["comparisons"] == results("whole")["comparisons"]
    tensors, all_tensors = (load_file(f"{folder}/tensors.safetensors") for folder in ("some", "whole"))
    assert {*all_tensors} == INPUTS | NAMES
    assert {*tensors} == INPUTS | {name for name in NAMES if name.partition("/")[2] in stages}
    assert all(torch.equal(tensor, all_tensors[name]) for name, tensor in tensors.items())
    assert config("some")["save"] == stages


def test_a_run_in_python_has_all_tensors_in_memory() -> None:
    for out in (None, "run"):
        assert {*attncli.run("own.yaml", save="none", out=out).tensors} == NAMES
    loaded = attncli.load("run")
    assert (set(loaded.tensors), loaded.pictures) == (set(), [])
    assert "entropy" in loaded._repr_html_()


def test_a_heatmap_of_what_was_not_kept() -> None:
    good("run", "own.yaml", "--out", "run", "--set", "save=[weights, dropped]", "--no-plots", "--quiet")
    good("heatmap", "run", "--out", "weights.png")
    assert refusal("heatmap", "run", "--stage", "scores") == (
        'SOURCE: got "run", a run that did not keep scores: see `save` in its config.yaml; '
        f"`attncli heatmap {Path('run', 'config.yaml')}` computes and draws them"
    )
    good("heatmap", Path("run", "config.yaml"), "--stage", "biased", "--out", "biased.png")


def test_weights_csv_is_left_out_where_it_would_be_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """There are two scorers with 2 x 3 x 5 weights."""
    cure = "tensors.safetensors has the weights, which `attncli.load` and `attncli heatmap` read"
    note = f"own: weights.csv is left out: it would have 60 rows, and has at most 59; {cure}\n"
    for most, expected in ((59, note), (60, "")):
        monkeypatch.setattr(saving, "MOST_ROWS", most)
        assert command("run", "own.yaml", "--no-plots").stderr == expected
