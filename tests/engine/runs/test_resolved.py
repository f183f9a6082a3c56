"""config.yaml of a run folder repeats the run from any place, even without the original files."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from tests.cli import config, experiment, run
from tests.scorers.catalogue import normal

QKV = {"q": normal(2, 3, 4), "k": normal(5, 4), "lens": torch.tensor([2, 5])}


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write files of every kind beside the YAML."""
    folder = tmp_path / "theirs"
    folder.mkdir()
    np.save(folder / "k.npy", QKV["k"].numpy())
    np.savez(folder / "qkv.npz", q=QKV["q"].numpy(), k=QKV["k"].numpy(), lens=QKV["lens"].numpy())
    torch.save(QKV, folder / "qkv.pt")
    np.save(folder / "mask.npy", np.tril(np.ones((2, 3, 5), dtype=bool)))
    weights = {"W_q.weight": normal(8, 4), "W_k.weight": normal(8, 4, seed=1), "hat": normal(1, 8)}
    save_file(weights, folder / "trained.safetensors")
    monkeypatch.chdir(tmp_path)


NUMBERS = ("study", "name", "seed", "inputs", "comparisons", "records")


CASES: dict[str, dict[str, Any]] = {
    "values like keys": {
        "data": {"keys": {"shape": [2, 5, 4], "fill": "student_t", "df": 3}, "valid_lens": {"random": [1, 5]}},
        "seed": 5,
        "dtype": "bfloat16",
    },
    "files": {
        "data": {
            "queries": {"file": "qkv.npz", "tensor": "q"},
            "values": {"file": "qkv.pt", "tensor": "k"},
            "valid_lens": {"file": "qkv.npz", "tensor": "lens"},
        },
        "dtype": "float16",
    },
    "numbers, and correlated with a file": {
        "data": {
            "queries": {"fill": "correlated", "with": "keys", "rho": 0.5},
            "keys": {"file": "k.npy"},
            "values": [[[0.1], [0.2], [0.3], [1e-30], [123456789]]],
            "valid_lens": [[1, 2, 0, 5, 4]],
        }
    },
    "correlated": {
        "data": {
            "queries": {"fill": "correlated", "with": "values", "rho": 0.5},
            "keys": {"fill": "correlated", "with": "values", "rho": 0.5},
            "values": {"file": "k.npy"},
        }
    },
    "parameters": {
        "scorers": [
            {"scorer": "additive"},
            {
                "scorer": "additive",
                "label": "trained, 1 · x",
                "parameters": {"file": "trained.safetensors", "names": {"w_v.weight": "hat"}},
            },
        ]
    },
    "everything of a scorer": {
        "scorers": [
            {"scorer": "attncli.textbook:Perceptron", "num_hiddens": 3},
            {"scorer": "scaled_dot", "label": "on", "scale": "1/d", "softcap": 1e-3, "dropout": 0.1},
            {"scorer": "scaled_dot", "label": "1e-3", "scale": 2, "dropout": 0.25},
            {"scorer": "cosine", "label": "日本語", "scale": 1e-5},
        ],
        "train": True,
    },
    "mask and tokens": {
        "name": "010",
        "mask": {"file": "mask.npy", "causal": "bottom_right", "empty_row": "uniform"},
        "tokens": {
            "queries": ["on", "1e-3", "~"],
            "keys": [["010", "日本語", "a: b #c", "", "2024-01-01"], ["null", "'", '"', " x ", "<<"]],
        },
    },
}


@pytest.mark.parametrize("case", CASES)
def test_runs_again(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = tmp_path / "theirs"
    first = run(experiment(theirs / "own.yaml", **CASES[case]), tmp_path / "first", "--device", "cpu")
    weights = (tmp_path / "first" / "weights.csv").read_bytes()
    shutil.rmtree(theirs)
    (tmp_path / "first").rename(tmp_path / "moved")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    second = run(Path("../moved/config.yaml"), tmp_path / "second")
    assert [second[key] for key in NUMBERS] == [first[key] for key in NUMBERS]
    assert (tmp_path / "second" / "weights.csv").read_bytes() == weights
    assert config(tmp_path / "moved") == config(tmp_path / "second")


def test_says_everything_that_was_left_out(tmp_path: Path) -> None:
    run(experiment(tmp_path / "own.yaml"), tmp_path / "run")
    content = config(tmp_path / "run")
    whole = {"name": "own", "seed": 0, "device": "auto", "dtype": "float32", "train": False, "weights": True}
    assert content.items() >= whole.items()
    keys = {"shape": [2, 5, 4], "fill": "normal", "mean": 0.0, "std": 1.0}
    assert content["data"].items() >= {"keys": keys, "values": keys, "grouped": False}.items()
    assert content["mask"] == {"causal": False, "empty_row": "zero"}
    assert content["scorers"] == [{"scorer": "dot", "normalizer": "softmax", "label": "dot", "dropout": 0.0}]
