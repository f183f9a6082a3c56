"""Parameters of scorers from files."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from attncli.textbook import Perceptron
from tests.experiments import result_of, runs_of
from tests.studies.slow import DATA


@torch.no_grad()
@pytest.mark.parametrize("name", ["trained.pt", "trained.safetensors"])
def test_a_state_dict_of_the_textbook_code_loads_as_it_is(name: str, tmp_path: Path) -> None:
    data = {"queries": {"shape": [2, 3, 4]}, "keys": {"shape": [2, 5, 7]}}
    entry = {"scorer": "additive", "num_hiddens": 6}
    inputs = result_of(data=data, scorers=[entry]).inputs
    with torch.random.fork_rng():
        textbook = Perceptron(4, 7, num_hiddens=6)
        scores = textbook(inputs["queries"], inputs["keys"])
    torch.save(textbook.state_dict(), tmp_path / "trained.pt")
    save_file(textbook.state_dict(), tmp_path / "trained.safetensors")
    run = runs_of(result_of(tmp_path, data=data, scorers=[{**entry, "parameters": {"file": name}}]))[0]
    torch.testing.assert_close(run.stages["scores"], scores, rtol=2e-5, atol=1e-6)
    assert torch.equal(run.state["W_k.weight"], textbook.W_k.weight)
    assert run.record["parameters"] == 6 * 4 + 6 * 7 + 6


WEIGHT = torch.arange(16.0).reshape(4, 4)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.int64])
def test_they_take_the_dtype_of_the_run_and_names_of_the_file(dtype: torch.dtype, tmp_path: Path) -> None:
    """A nameless tensor goes by the name of its file."""
    save_file({"W.weight": WEIGHT.to(dtype), "attention.W": WEIGHT.to(dtype)}, tmp_path / "p.safetensors")
    np.save(tmp_path / "bilinear.npy", WEIGHT.to(dtype).numpy())
    sources: list[dict[str, Any]] = [
        {"file": "p.safetensors"},
        {"file": "bilinear.npy", "names": {"W.weight": "bilinear"}},
    ]
    for source in (*sources, {"file": "p.safetensors", "names": {"W.weight": "attention.W"}}):
        entry = {"scorer": "general", "parameters": source}
        state = runs_of(result_of(tmp_path, data=DATA, scorers=[entry]))[0].state
        assert list(state) == ["W.weight"]
        assert torch.equal(state["W.weight"], WEIGHT)
