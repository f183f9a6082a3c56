"""`attncli variance`: its records, its arrays, its tables, and real tensors in place of random ones."""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from attncli.commands import progress
from tests.cli import attncli, experiment, good, refusal, run
from tests.commands.sweeps import FEW, SWEEPS, config, swept

COLUMNS = ["scorer", "d", "samples", "mean", "mean_ci", "variance", "variance_ci"]
COLUMNS += ["theory_mean", "theory_variance", "z"]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def pairs(path: Path, **shapes: tuple[int, ...]) -> Path:
    """Queries and keys in a file."""
    numbers = np.random.default_rng(0)
    np.savez(path, **{name: numbers.normal(size=shape) for name, shape in shapes.items()})  # type: ignore[arg-type]
    return path


def test_columns_of_the_records() -> None:
    records = swept("variance", "--d", 4, "--d", 8, *FEW["variance"])["records"]
    assert [name for name in records[0] if name in COLUMNS] == COLUMNS
    assert all(list(record) == list(records[0]) for record in records)
    labels = ["dot", "scaled_dot", "scaled_dot_1_over_d"]
    assert [(record["label"], record["d"]) for record in records] == [(label, d) for d in (4, 8) for label in labels]
    assert {record["samples"] for record in records} == {1000}
    for record in records:
        assert record["mean_ci"][0] < record["mean"] < record["mean_ci"][1]
        assert record["variance_ci"][0] < record["variance"] < record["variance_ci"][1]
        theory = {"dot": record["d"], "scaled_dot": 1, "scaled_dot_1_over_d": 1 / record["d"]}[record["label"]]
        assert record["theory_variance"] == pytest.approx(theory)


def test_a_single_d_is_all_the_table_has_and_the_end_of_the_curve() -> None:
    found = swept("variance", "--d", 12, *FEW["variance"])
    assert {record["d"] for record in found["records"]} == {12}
    tensors = load_file("out/tensors.safetensors")
    assert tensors["curve/dot/d"].tolist() == [1, 2, 4, 8, 12]
    assert tensors["curve/dot/variance"][-1] == found["records"][0]["variance"]
    assert tensors["curve/dot/variance_ci_low"][-1] == found["records"][0]["variance_ci"][0]
    assert config()["d"] == [12]


def test_arrays_of_the_picture() -> None:
    records = swept("variance", "--d", 2, "--d", 8, *FEW["variance"])["records"]
    tensors = load_file("out/tensors.safetensors")
    for label in ("dot", "scaled_dot", "scaled_dot_1_over_d"):
        own = [record for record in records if record["label"] == label]
        for name in ("d", "samples", "mean", "variance", "theory_variance", "z"):
            assert tensors[f"curve/{label}/{name}"].tolist() == [record[name] for record in own]
        edges, counts = (tensors[f"histogram/{label}/{part}"] for part in ("edges", "counts"))
        assert len(edges) == len(counts) + 1
        assert 990 <= counts.sum() <= 1000, "nearly all lie within five standard deviations"


def test_full_prints_what_is_left_out_otherwise() -> None:
    sizes = "{from: 1, to: 4096}"
    short, full = (good("variance", "--d", sizes, "--samples", 10, "--no-plots", *more) for more in ([], ["--full"]))
    assert len(short.splitlines()) <= len(full.splitlines())
    assert "4,096" in full or "4096" in full


def test_progress_names_the_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE", -1.0)
    lines = attncli("variance", "--d", 2, "--d", 4, *FEW["variance"], "--no-plots").stderr.splitlines()
    assert lines[:2] == ["variance: d = 2 (1 of 2 done)", "variance: d = 4 (2 of 2 done)"]


@pytest.mark.parametrize("study", SWEEPS)
@pytest.mark.parametrize("kind", ["file", "heads", "run", "config", "sweep"])
def test_tensors_that_were_read_are_kept(study: str, kind: str, here: Path) -> None:
    """config.yaml gives the same figures when everything that was read is gone."""
    leading = (2, 3) if kind == "heads" else (2,)
    source = pairs(here / "qk.npz", queries=(*leading, 3, 4), keys=(*leading, 5, 4))
    own = {"queries": {"file": "qk.npz", "tensor": "queries"}, "keys": {"file": "qk.npz", "tensor": "keys"}}
    if kind in ("run", "config"):
        source = experiment(here / "x.yaml", data={**own, "valid_lens": [2, 5]})
    if kind == "run":
        run(source, here / "first")
        source = here / "first"
    if kind == "sweep":
        swept(study, "--from", source, out="first")
        source = here / "first"
    save_file({"W.weight": torch.arange(16.0).reshape(4, 4)}, here / "W.safetensors")
    records = swept(study, "--from", source, "--scorer", "dot", "--scorer", "general:parameters={file: W.safetensors}")
    assert {record["head"] for record in records["records"]} == ({0, 1, 2} if kind == "heads" else {None})
    assert len(records["inputs"]) == (3 if kind in ("run", "config") else 2)
    elsewhere = here / "moved"
    (here / "out").rename(elsewhere)
    for path in (here / "qk.npz", here / "x.yaml", here / "W.safetensors"):
        path.unlink(missing_ok=True)
    assert config("moved")["from"] == "tensors.safetensors"
    assert not {"d", "distribution", "mean", "samples", "keys", "rows"} & set(config("moved"))
    again = run(elsewhere / "config.yaml", here / "again")
    assert (again["records"], again["inputs"]) == (records["records"], records["inputs"])


def test_masked_pairs_of_a_config_do_not_count(here: Path) -> None:
    source = experiment(here / "x.yaml", data={"valid_lens": [2, 5]})
    assert {record["samples"] for record in swept("variance", "--from", source)["records"]} == {3 * 2 + 3 * 5}


def test_from_all_runs_of_a_name(here: Path) -> None:
    good("run", experiment(here / "x.yaml"), "--no-plots", "--quiet")
    expected = "which has no tensors.safetensors; did you mean `outputs/x/latest`?"
    line = f'attncli variance: --from outputs/x: got "outputs/x", {expected}'
    assert refusal("variance", "--from", "outputs/x") == line
    swept("variance", "--from", "outputs/x/latest")
