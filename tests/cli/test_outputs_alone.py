"""`weights: false` and `compile: true` give the same outputs and metrics, and never read weights that do not exist."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from safetensors.torch import load_file

from attncli.scorers import SCORERS
from tests.cli import experiment, refusal, run

KEYS: dict[str, Any] = {
    "data": {
        "queries": {"shape": [2, 5, 6]},
        "keys": {"shape": [2, 7, 6]},
        "values": {"shape": [2, 7, 6], "fill": "uniform"},
        "valid_lens": [[0, 1, 2, 3, 7], [7, 7, 1, 2, 4]],
    },
    "mask": {"causal": "bottom_right", "empty_row": "uniform"},
    "scorers": [{"scorer": name} for name in SCORERS] + [{"scorer": "dot", "label": "capped", "softcap": 2.0}],
}


def test_the_same_outputs_and_nothing_else(tmp_path: Path) -> None:
    claim = {"where": {"scorer": "dot", "label": "dot"}, "metric": "weight_sum", "between": [0.5, 1.001]}
    config = experiment(tmp_path / "own.yaml", **KEYS, expect=[claim])
    whole, alone = tmp_path / "whole", tmp_path / "alone"
    with_weights, content = run(config, whole), run(config, alone, "--set", "weights=false")
    tensors, outputs = load_file(whole / "tensors.safetensors"), load_file(alone / "tensors.safetensors")
    assert {name for name in outputs if "/" in name} == {f"{row['label']}/output" for row in content["records"]}
    for name in outputs:
        torch.testing.assert_close(outputs[name], tensors[name], rtol=1e-5, atol=1e-6)
    for kind in ("records", "heads"):
        for row, other in zip(content[kind], with_weights[kind], strict=True):
            numbers, wanted = (
                {name: value for name, value in each.items() if isinstance(value, int | float)} for each in (row, other)
            )
            assert numbers == pytest.approx(wanted, rel=1e-5)
    for row, other in zip(content["comparisons"], with_weights["comparisons"], strict=True):
        assert row["output_difference"] == pytest.approx(other["output_difference"], rel=1e-3, abs=1e-5)
        assert row["js_divergence"] is None
    assert not [name for name in content["files"] if name.endswith(".png") or name == "weights.csv"]
    assert [each["holds"] for each in content["expectations"]] == [True]
    assert run(alone / "config.yaml", tmp_path / "again")["comparisons"] == content["comparisons"]


def test_no_matrix_of_all_pairs(tmp_path: Path) -> None:
    shape = {"shape": [1, 5000, 4]}
    config = experiment(
        tmp_path / "own.yaml",
        data={"queries": shape, "keys": shape},
        mask={"causal": True},
        scorers=[{"scorer": "dot"}, {"scorer": "gaussian"}],
        weights=False,
    )
    run(config, tmp_path / "run")
    tensors = load_file(tmp_path / "run" / "tensors.safetensors")
    assert "valid" not in tensors, "a mask of 25 million cells is left to the config"
    assert max(tensor.numel() for tensor in tensors.values()) == 20_000
    source = tmp_path / "run"
    message = f'got "{source}", a run without weights, whose mask was too large to save; use {source}/config.yaml'
    assert message in refusal("variance", "--scorer", "dot", "--from", source)


def test_what_needs_weights_is_refused(here: Path) -> None:
    config = experiment(here / "own.yaml", weights=False)
    message = "weights: got false; heatmaps are drawn from weights and scores; leave it out, or add --set weights=true"
    assert message in refusal("heatmap", config)
    run(config, here / "run")
    assert "a run without weights and scores" in refusal("heatmap", here / "run")
    assert refusal("figure", "run").startswith('RUN: got "run", which has nothing to draw; expected a run')
    dropping = ["--set", "scorers=[dot:dropout=0.5]", "--set", "train=true"]
    assert "dot_0.5 drops weights with `train: true`" in refusal("check", config, *dropping)


@pytest.mark.slow
def test_without_a_compiler_a_line_says_so(tmp_path: Path) -> None:
    config = experiment(tmp_path / "own.yaml", scorers=[{"scorer": "additive"}])
    environment = {**os.environ, "CXX": "/nonexistent", "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, "-m", "attncli", "run", config.name, "--compile", "--out", "run", "--quiet"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    (line,) = (line for line in done.stderr.splitlines() if "warning" in line)
    assert line.startswith("own: warning: not compiled: torch.compile gave: InvalidCxxCompiler: ")
    assert "; expected a C++ compiler, on a GPU Triton" in line
    run(config, tmp_path / "plain")
    assert yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())["compile"] is True
    tensors = [load_file(tmp_path / name / "tensors.safetensors")["additive/weights"] for name in ("run", "plain")]
    torch.testing.assert_close(tensors[0], tensors[1], rtol=0, atol=0)
