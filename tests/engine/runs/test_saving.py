"""The files of a run folder have exactly the result of the study, and other programs can read them."""

import csv
import hashlib
import json
import os
import stat
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

import attncli
from attncli import __version__
from attncli.engine.runs.saving import save_named, save_weights_csv
from attncli.engine.runs.stored import fingerprint
from attncli.results import Result
from tests.cli import experiment, names_in, refusal, run
from tests.experiments import result_of, runs_of
from tests.studies.bench.small import hurry

CONFIG: dict[str, Any] = {
    "seed": 3,
    "data": {
        "queries": {"shape": [2, 3, 4]},
        "keys": {"shape": [1, 5, 4]},
        "values": {"shape": [5, 6], "fill": "arange"},
        "valid_lens": [2, 5],
    },
    "scorers": [{"scorer": "additive", "softcap": 1.0}, {"scorer": "dot", "label": "punkt ·", "dropout": 0.5}],
    "tokens": {"queries": ["a", "b", "c"]},
    "train": True,
}


@pytest.fixture(scope="module")
def result() -> Result:
    return result_of(**CONFIG)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run of this config."""
    here = tmp_path_factory.mktemp("run")
    (here / "own.yaml").write_text(json.dumps(CONFIG))  # JSON is YAML
    run(here / "own.yaml", here / "out", "--device", "cpu")
    return here / "out"


def strict(text: str) -> Any:
    def refuse(name: str) -> None:
        raise ValueError(f"{name} is not JSON")

    return json.loads(text, parse_constant=refuse)


def test_provenance(folder: Path) -> None:
    content = strict((folder / "results.json").read_text(encoding="utf-8"))
    said = {key: content[key] for key in ("attncli", "study", "name", "seed", "expectations")}
    assert said == {"attncli": __version__, "study": "attention", "name": "own", "seed": 3, "expectations": []}
    assert abs((datetime.now().astimezone() - datetime.fromisoformat(content["created"])).total_seconds()) < 600
    assert (content["environment"]["torch"], content["environment"]["device"]) == (torch.__version__, "cpu")


def test_fingerprints_of_the_inputs(folder: Path, result: Result) -> None:
    inputs = strict((folder / "results.json").read_text(encoding="utf-8"))["inputs"]
    assert list(inputs) == ["queries", "keys", "values", "valid"]
    for name, tensor in result.inputs.items():
        array = np.ascontiguousarray(tensor.numpy())
        sha256 = hashlib.sha256(array.tobytes()).hexdigest()
        assert inputs[name] == {"shape": list(array.shape), "dtype": str(array.dtype), "sha256": sha256}
    keys = result.inputs["keys"]
    assert fingerprint(keys.mT.contiguous().mT) == fingerprint(keys), "of numbers in row order"
    expected = hashlib.sha256(bytes([0x80, 0x3F] * 2)).hexdigest()
    assert fingerprint(torch.ones(2, dtype=torch.bfloat16))["sha256"] == expected


def test_records_csv(folder: Path) -> None:
    records = strict((folder / "results.json").read_text(encoding="utf-8"))["records"]
    with (folder / "records.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [list(row) for row in rows] == [list(record) for record in records]
    for row, record in zip(rows, records, strict=True):
        read = {name: None if record[name] is None else type(record[name])(text) for name, text in row.items()}
        assert read == record, "all digits"


@pytest.mark.parametrize(
    ("study", "keys", "intervals"),
    [
        ("variance", {"d": [4], "samples": 100}, ["mean", "variance"]),
        ("variance", {"from": "source", "scorers": ["dot"]}, ["mean", "variance"]),  # intervals are None
        ("bench", {"n": [4], "d": [4], "scorers": ["dot"]}, ["ratio"]),
    ],
)
def test_an_interval_is_two_columns_in_csv_and_in_frames(
    study: str, keys: dict[str, Any], intervals: list[str], here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hurry(monkeypatch)
    run(experiment(here / "e.yaml"), here / "source")
    frame = attncli.run({"study": study, **keys}, out=here / "run").to_frame()
    content = strict((here / "run" / "results.json").read_text(encoding="utf-8"))
    header, *rows = rows_of(here / "run" / "records.csv")
    assert list(frame.columns) == header
    assert not [name for name in header if name.endswith("_ci")]
    for index, (row, record) in enumerate(zip(rows, content["records"], strict=True)):
        for figure in intervals:
            place = header.index(f"{figure}_low")
            assert header[place + 1] == f"{figure}_high"
            ends = record[f"{figure}_ci"] or ["", ""]  # of implementations that were not timed
            assert row[place : place + 2] == [str(end) for end in ends]
            assert frame.iloc[index, place : place + 2].isna().tolist() == [end == "" for end in ends]


def test_tensors(folder: Path, result: Result) -> None:
    tensors = load_file(folder / "tensors.safetensors")
    expected: dict[str, Tensor] = dict(result.inputs)
    for prefix, stages in (("additive", "scores capped weights"), ("punkt ·", "scores weights dropped")):
        stage_of = next(each for each in runs_of(result) if each.label == prefix).stages
        expected |= {f"{prefix}/{stage}": stage_of[stage] for stage in [*stages.split(), "output"]}
    assert set(tensors) == set(expected)
    for name, tensor in expected.items():
        assert tensors[name].dtype == tensor.dtype
        assert torch.equal(tensors[name], tensor), name
    assert tensors["keys"].shape == (2, 5, 4), "leading axes repeated"
    stored = load_file(folder / "parameters.safetensors")
    assert set(stored) == {f"additive/{name}" for name in ("W_q.weight", "W_k.weight", "w_v.weight")}
    for name, tensor in runs_of(result)[0].state.items():
        assert torch.equal(stored[f"additive/{name}"], tensor)
    assert tensors["valid"].sum(-1).tolist() == [[2, 2, 2], [5, 5, 5]]


def rows_of(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def test_weights_csv(folder: Path, result: Result) -> None:
    head, *rows = rows_of(folder / "weights.csv")
    assert head == ["label", "batch", "query", "key", "query_token", "key_token", "valid", "score", "weight"]
    assert len(rows) == 2 * 2 * 3 * 5
    stages = {run.label: run.stages for run in runs_of(result)}
    seen = set()
    for label, *place, query_token, key_token, valid, score, weight in rows:
        i, query, key = map(int, place)
        seen.add((label, i, query, key))
        assert (query_token, key_token) == ("abc"[query], "")
        assert int(valid) == (key < [2, 5][i])
        for stage, text in (("scores", score), ("weights", weight)):
            assert np.float32(text) == stages[label][stage][i, query, key].numpy(), "all digits of float32"
    assert len(seen) == len(rows)


@pytest.mark.parametrize(("leading", "axes"), [([2, 2], "batch head"), ([2, 2, 2], "batch axis1 axis2"), ([], "batch")])
def test_axes_of_weights_csv(leading: list[int], axes: str, tmp_path: Path) -> None:
    data = {"queries": {"shape": [*leading, 1, 3]}, "keys": {"shape": [*leading, 2, 3]}}
    result = result_of(data=data, dtype="float64", tokens={"keys": [["x", "y"]] * (leading or [1])[0]})
    save_weights_csv(tmp_path / "w.csv", result)
    head, *rows = rows_of(tmp_path / "w.csv")
    assert head == f"label {axes} query key query_token key_token valid score weight".split()
    weights = runs_of(result)[0].stages["weights"]
    assert [float(row[-1]) for row in rows] == weights.flatten().tolist(), "all digits of float64"
    assert [tuple(map(int, row[1 : weights.ndim + 1])) for row in rows] == list(np.ndindex(*weights.shape))
    assert [row[-4] for row in rows] == ["x", "y"] * (weights.numel() // 2)


def test_files_are_as_open_as_the_user_wants(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(json.dumps(CONFIG))
    mask = 0o027
    before = os.umask(mask)
    try:
        run(tmp_path / "own.yaml", tmp_path / "out")
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "out").iterdir()}
    assert set(modes.values()) == {0o666 & ~mask}
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o777 & ~mask


def test_tensors_that_share_memory(tmp_path: Path) -> None:
    shared = torch.arange(4.0).reshape(2, 2)
    tensors = {"dot/scores": shared, "general/scores": shared.mT, "dot/weights": shared[:1]}
    save_named(tmp_path / "t.safetensors", tensors)
    stored = load_file(tmp_path / "t.safetensors")
    assert stored["dot/scores"].tolist() == [[0.0, 1.0], [2.0, 3.0]]
    assert stored["general/scores"].tolist() == [[0.0, 2.0], [1.0, 3.0]]
    assert stored["dot/weights"].tolist() == [[0.0, 1.0]]


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object) -> None:
        raise SafetensorError("I/O error: No space left on device (os error 28)")

    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.yaml").write_text(json.dumps(CONFIG))
    monkeypatch.setattr("attncli.engine.runs.saving.save_file", full)
    expected = "cannot write the run: I/O error: No space left on device (os error 28)"
    assert refusal("run", "own.yaml", "--no-plots") == f"{tmp_path / 'outputs' / 'own'}: {expected}"
    assert names_in(tmp_path) == ["own.yaml"]
