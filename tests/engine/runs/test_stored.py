"""A result is read from results.json as it was after the run, and files edited by hand are errors, never tracebacks."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

import attncli
from attncli.results import SweepResult
from tests.cli import good, refusal
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


EDITS: dict[str, tuple[str, list[Any], Any, str]] = {  # the file, the path of a key, its value, and the problem
    "study": ("results.json", ["study"], "varience", 'study: got "varience"; unknown study; did you mean `variance`?'),
    "version": ("results.json", ["attncli"], "0.3.0", "got a run of attncli 0.3.0; expected one of 0.4 or later"),
    "no rows": ("results.json", ["records"], [], "records: got []; expected at least 1 entry"),
    "no settings": ("results.json", ["settings"], {}, "settings.random: this key is missing"),
    "a finding": (
        "results.json",
        ["findings", 0, "text"],
        1,
        "findings[0].text: got 1; expected text; put it in quotes",
    ),
    "no scorer": ("results.json", ["records", 1, "scorer"], None, "records[1].scorer: got nothing; expected text"),
    "a label": ("results.json", ["records", 1, "label"], ["x"], 'records[1].label: got ["x"]; expected text'),
    "text": ("results.json", ["records", 0, "entropy"], "low", 'records[0].entropy: got "low"; expected a number'),
    "true": ("results.json", ["heads", 3, "entropy"], True, "heads[3].entropy: got true; expected a number"),
    "infinity": ("results.json", ["heads", 0, "entropy"], float("inf"), "heads[0].entropy: got Infinity; expected a"),
    "words": ("results.json", ["records", 0, "normalizer"], {}, "records[0].normalizer: got {}; expected text"),
    "pair": ("results.json", ["comparisons", 0, "a"], 3, "comparisons[0].a: got 3; expected text"),
    "input": ("results.json", ["inputs", "keys"], None, "inputs.keys: got nothing; expected a mapping"),
    "dtype": (
        "results.json",
        ["inputs", "keys", "dtype"],
        "x",
        'inputs.keys.dtype: got "x"; expected a dtype',
    ),
    "a list": ("results.json", [], [1], "got [1]; expected the results of a run"),
    "label list": ("config.yaml", ["scorers", 0, "label"], ["x"], 'scorers[0].label: got ["x"]; expected text'),
    "label map": ("config.yaml", ["scorers", 0, "label"], {}, "scorers[0].label: got {}; expected text"),
    "entries": ("config.yaml", ["scorers"], {"dot": 1}, 'scorers: got {"dot": 1}; expected a list'),
    "seed": ("config.yaml", ["seed"], "x", 'seed: got "x"; expected an integer'),
    "config dtype": ("config.yaml", ["dtype"], "float9", 'dtype: got "float9"; expected float16, bfloat16, float32'),
    "look": ("config.yaml", ["figure"], [], "figure: got []; expected a mapping"),
    "no config": ("config.yaml", [], 1, "got 1; expected the config of a run"),
}


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run with every kind of rows."""
    folder = tmp_path_factory.mktemp("kept") / "run"
    data = {"queries": {"shape": [1, 2, 3, 4]}, "keys": {"shape": [1, 2, 5, 4]}}
    attncli.run({"data": data, "scorers": ["dot", "cosine"]}, name="x", out=folder)
    return folder


def edited(file: Path, path: list[Any], value: Any) -> None:
    """Give a key of a file another value; the file is YAML, which JSON is, too."""
    content = yaml.safe_load(file.read_text(encoding="utf-8"))
    *above, key = ["content", *path]
    parent: Any = {"content": content}
    whole = parent
    for part in above:
        parent = parent[part]
    parent[key] = value
    file.write_text(json.dumps(whole["content"]), encoding="utf-8")


@pytest.mark.parametrize("edit", EDITS)
def test_what_a_file_of_a_run_cannot_hold_is_named(edit: str, kept: Path, here: Path) -> None:
    name, path, value, problem = EDITS[edit]
    shutil.copytree(kept, here / "run")
    edited(here / "run" / name, path, value)
    for command in (["compare", "run", kept], ["report", "run", "--out", "page.html"], ["figure", "run"]):
        message = refusal(*command)
        assert message.startswith(f"run/{name}: {problem}")
        assert message.count("\n") == 0
    assert not (here / "page.html").exists()


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        (["records", 0, "entropy"], "low", 'records[0].entropy: got "low"; expected a number'),
        (["records", 1, "label"], None, "records[1].label: got nothing; expected text"),
        (["settings", "sweep", "over"], 3, "settings.sweep.over: got 3; expected a list"),
    ],
)
def test_what_a_sweep_cannot_hold_is_named(path: list[Any], value: Any, problem: str, here: Path) -> None:
    attncli.sweep(SMALL, over={"seed": [0, 1], "scale": [1, "1/d"]}, scorers=["scaled_dot"], jobs=1, out="sweep")
    good("report", "sweep", "--out", "page.html")
    edited(here / "sweep" / "results.json", path, value)
    for command in (["compare", "sweep", "sweep"], ["report", "sweep", "--out", "other.html"], ["figure", "sweep"]):
        assert refusal(*command).startswith(f"sweep/results.json: {problem}")
