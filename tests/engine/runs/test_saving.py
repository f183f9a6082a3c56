"""The files of a run folder have exactly the result of the study, and other programs can read them."""

import hashlib
import os
import stat
from datetime import datetime
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

import attncli
from attncli import __version__
from attncli.engine.runs import saving
from attncli.engine.runs.saving import save_named
from attncli.engine.runs.stored import fingerprint
from tests.cli import attncli as command
from tests.cli import config, experiment, good, names_in, refusal, results, run
from tests.engine.sweeps.jobs import table
from tests.studies.bench.small import hurry

pytestmark = pytest.mark.usefixtures("sketches")

CONFIG: dict[str, Any] = {
    "seed": 3,
    "data": {
        "queries": {"shape": [2, 3, 4]},
        "keys": {"shape": [1, 5, 4]},
        "values": {"shape": [5, 6], "fill": "arange"},
        "valid_lens": [2, 5],
    },
    "mask": {"align": "top_left"},
    "scorers": [
        {"scorer": "additive", "softcap": 1.0, "bias": "alibi"},
        {"scorer": "dot", "label": "punkt ·", "dropout": 0.5},
    ],
    "tokens": {"queries": ["a", "b", "c"]},
    "train": True,
}
STAGES = {"additive": "scores capped biased weights output", "punkt ·": "scores weights dropped output"}
NAMES = {f"{label}/{stage}" for label, stages in STAGES.items() for stage in stages.split()}
INPUTS = {"queries", "keys", "values", "valid"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run of this config."""
    here = tmp_path_factory.mktemp("run")
    run(experiment(here / "own.yaml", **CONFIG), here / "out", "--device", "cpu")
    return here / "out"


@pytest.fixture
def own(here: Path) -> None:
    """Change to a folder with this config, `own.yaml`."""
    experiment(here / "own.yaml", **CONFIG)


def test_provenance(folder: Path) -> None:
    content = results(folder)
    facts = {"attncli": __version__, "study": "attention", "name": "own", "seed": 3, "expectations": []}
    assert content.items() >= facts.items()
    assert abs((datetime.now().astimezone() - datetime.fromisoformat(content["created"])).total_seconds()) < 600
    assert (content["environment"]["torch"], content["environment"]["device"]) == (torch.__version__, "cpu")


def test_fingerprints_of_the_inputs(folder: Path) -> None:
    inputs, tensors = results(folder)["inputs"], load_file(folder / "tensors.safetensors")
    assert list(inputs) == ["queries", "keys", "values", "valid"]
    for name in inputs:
        array = tensors[name].numpy()
        sha256 = hashlib.sha256(array.tobytes()).hexdigest()
        assert inputs[name] == {"shape": list(array.shape), "dtype": str(array.dtype), "sha256": sha256}
    keys = tensors["keys"]
    assert fingerprint(keys.mT.contiguous().mT) == fingerprint(keys), "of numbers in row order"
    expected = hashlib.sha256(bytes([0x80, 0x3F] * 2)).hexdigest()
    assert fingerprint(torch.ones(2, dtype=torch.bfloat16))["sha256"] == expected


@pytest.mark.parametrize(
    "keys",
    [
        CONFIG,
        {"study": "variance", "d": [4], "samples": 100},
        {"study": "variance", "from": "source", "scorers": ["dot"]},  # intervals are None
        {"study": "bench", "n": [4], "d": [4], "scorers": ["dot"]},
    ],
)
def test_csv_and_frames_have_all_digits_and_an_interval_in_two_columns(
    keys: dict[str, Any], here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hurry(monkeypatch)
    run(experiment(here / "e.yaml"), here / "source")
    frame = attncli.run(keys, out=here / "run").to_frame()
    rows = table(here / "run")
    for index, record in enumerate(results(here / "run")["records"]):
        cells = dict[str, Any]()
        for key, value in record.items():
            ends = [f"{key.removesuffix('_ci')}_{end}" for end in ("low", "high")] if key.endswith("_ci") else [key]
            cells |= zip(ends, value or [None, None] if key.endswith("_ci") else [value], strict=True)
        assert list(rows[index]) == list(frame.columns) == list(cells)
        assert rows[index] == {key: "" if value is None else str(value) for key, value in cells.items()}
        assert frame.iloc[index].isna().tolist() == [value is None for value in cells.values()]
    assert len(rows) == len(frame) == index + 1


@pytest.mark.parametrize(
    ("leading", "axes", "dtype"),
    [([], "batch", "float64"), ([2, 2], "batch head", "float32"), ([2, 2, 2], "batch axis1 axis2", "float64")],
)
def test_weights_csv(leading: list[int], axes: str, dtype: str, tmp_path: Path) -> None:
    """Cells are in row order, and numbers have all digits of their dtype."""
    data = {"queries": {"shape": [*leading, 3, 4]}, "keys": {"shape": [*leading, 5, 4]}}
    lens, batch = [2, 5], (leading or [1])[0]
    config = {"data": data | {"valid_lens": lens[:batch]}, "tokens": {"keys": [[*"vwxyz"]] * batch}, "dtype": dtype}
    run(experiment(tmp_path / "own.yaml", **CONFIG | config), tmp_path / "out")
    rows, tensors = table(tmp_path / "out", "weights.csv"), load_file(tmp_path / "out" / "tensors.safetensors")
    assert [*rows[0]] == f"label {axes} query key query_token key_token valid score weight".split()
    expected = [(label, at) for label in STAGES for at in np.ndindex(*tensors[f"{label}/weights"].shape)]
    for row, (label, at) in zip(rows, expected, strict=True):
        *names, score, weight = row.values()
        assert names == [label, *map(str, at), "", "vwxyz"[at[-1]], str(int(at[-1] < lens[at[0]]))]
        for stage, text in (("scores", score), ("weights", weight)):
            assert np.dtype(dtype).type(text) == tensors[f"{label}/{stage}"][at].numpy()


def test_files_are_as_open_as_the_user_wants(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        run(experiment(tmp_path / "own.yaml"), tmp_path / "out")
    finally:
        os.umask(before)
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "out").iterdir()} == {0o640}
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o750


def test_tensors_that_share_memory(tmp_path: Path) -> None:
    shared = torch.arange(4.0).reshape(2, 2)
    tensors = {"dot/scores": shared, "general/scores": shared.mT, "dot/weights": shared[:1]}
    save_named(tmp_path / "t.safetensors", tensors)
    stored = load_file(tmp_path / "t.safetensors")
    assert stored["dot/scores"].tolist() == [[0.0, 1.0], [2.0, 3.0]]
    assert stored["general/scores"].tolist() == [[0.0, 2.0], [1.0, 3.0]]
    assert stored["dot/weights"].tolist() == [[0.0, 1.0]]


def test_a_full_disk(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = SafetensorError("I/O error: No space left on device (os error 28)")
    experiment(here / "own.yaml")
    monkeypatch.setattr("attncli.engine.runs.saving.save_file", Mock(side_effect=full))
    assert refusal("run", "own.yaml", "--no-plots") == f"{here / 'outputs' / 'own'}: cannot write the run: {full}"
    assert names_in(here) == ["own.yaml"]


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize(
    ("save", "stages", "reason"),
    [
        ("none", [], "`save` leaves out scores and weights"),
        ("[weights, output]", ["weights", "output"], "`save` leaves out scores"),
        ("[weights, scores]", ["weights", "scores"], None),
    ],
)
def test_only_these_stages_are_kept(save: str, stages: list[str], reason: str | None) -> None:
    """Of the key `save`. Pictures and metrics are the same as in a run that keeps all stages."""
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


@pytest.mark.usefixtures("own")
def test_a_run_in_python_has_all_tensors_in_memory() -> None:
    for out in (None, "run"):
        assert {*attncli.run("own.yaml", save="none", out=out).tensors} == NAMES
    loaded = attncli.load("run")
    assert (set(loaded.tensors), loaded.pictures) == (set(), [])
    assert "entropy" in loaded._repr_html_()


@pytest.mark.usefixtures("own")
def test_a_heatmap_of_what_was_not_kept() -> None:
    good("run", "own.yaml", "--out", "run", "--set", "save=[weights, dropped]", "--no-plots", "--quiet")
    good("heatmap", "run", "--out", "weights.png")
    assert refusal("heatmap", "run", "--stage", "scores") == (
        'SOURCE: got "run", a run that did not keep scores: see `save` in its config.yaml; '
        f"`attncli heatmap {Path('run', 'config.yaml')}` computes and draws them"
    )
    good("heatmap", Path("run", "config.yaml"), "--stage", "biased", "--out", "biased.png")


@pytest.mark.usefixtures("own")
def test_weights_csv_is_left_out_where_it_would_be_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """There are two scorers with 2 x 3 x 5 weights."""
    cure = "tensors.safetensors has the weights, which `attncli.load` and `attncli heatmap` read"
    note = f"own: weights.csv is left out: it would have 60 rows, and has at most 59; {cure}\n"
    for most, expected in ((59, note), (60, "")):
        monkeypatch.setattr(saving, "MOST_ROWS", most)
        assert command("run", "own.yaml", "--no-plots").stderr == expected
