"""The facts of a result in results.json: as they were after a run, and as version 0.3.0 wrote them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import attncli
from attncli.results import SweepResult
from tests.test_python import SMALL, same_facts

pytestmark = pytest.mark.usefixtures("sketches", "no_pictures")

TOKENS = {"queries": ["a", "b", "c"], "keys": [*"vwxyz"]}


class Twice(torch.nn.Module):
    """Two layers of self-attention."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = (torch.nn.MultiheadAttention(8, 2, batch_first=True) for _ in range(2))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Apply both layers."""
        between = self.first(inputs, inputs, inputs)[0]
        output: torch.Tensor = self.second(between, between, between)[0]
        return output


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a file with the attention calls of a model."""
    file = tmp_path_factory.mktemp("captured") / "seen.safetensors"
    attncli.save(attncli.capture(Twice().eval(), torch.randn(1, 5, 8)), file, tokens=[*"abcde"], model="mine")
    return str(file)


CONFIGS: dict[str, Callable[[str], dict[str, Any]]] = {
    "tokens": lambda file: {**SMALL, "tokens": TOKENS, "save": ["weights", "output"], "batch": [1]},
    "layers": lambda file: {"data": {"capture": file}},
    "pairs of a model": lambda file: {"study": "variance", "from": file, "scorers": ["dot"]},
    "doctor of a model": lambda file: {"study": "doctor", "data": {"capture": file}},
}


@pytest.mark.parametrize("name", CONFIGS)
def test_a_run_is_read_as_it_was(name: str, captured: str, tmp_path: Path) -> None:
    same_facts(attncli.run(CONFIGS[name](captured), name="x", out=tmp_path / "run"))


def test_a_sweep_is_read_as_it_was(tmp_path: Path) -> None:
    result = attncli.sweep(SMALL, over={"seed": [0, 1]}, jobs=1, metric="max_weight", out=tmp_path / "sweep")
    again = attncli.load(tmp_path / "sweep")
    assert isinstance(again, SweepResult)
    for key in ("axes", "metric", "chosen", "points", "random"):
        assert getattr(again, key) == getattr(result, key)


@pytest.mark.slow
def test_runs_of_the_version_before(captured: str, tmp_path: Path) -> None:
    """0.3.0 wrote neither random labels nor means over layers, and a captured file of pairs by its name alone."""
    for name in ("layers", "pairs of a model"):
        folder = tmp_path / name
        attncli.run(CONFIGS[name](captured), name="x", out=folder)
        content = json.loads((folder / "results.json").read_text())
        del content["settings"]["random"]
        if content["settings"].pop("summary", None) is None:
            content["settings"]["capture"] = "seen.safetensors"
        (folder / "results.json").write_text(json.dumps(content))
        result = attncli.load(folder)
        assert result.capture is not None
        assert (result.capture.file, list(result.layers.values())) == ("seen.safetensors", [0, 1])
        assert "layer" in result._repr_mimebundle_()["text/plain"]
