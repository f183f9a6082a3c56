"""A result is read from results.json as it was after the run, and files edited by hand are errors, never tracebacks."""

import json
import shutil
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import pytest
import yaml

import attncli
from attncli.results import SweepResult
from tests.cli import good, refusal
from tests.engine.runs.test_comparing import MINILM
from tests.test_python import SMALL, same_facts

pytestmark = pytest.mark.usefixtures("sketches", "no_pictures")

TOKENS = {"queries": ["a", "b", "c"], "keys": [*"vwxyz"]}
CONFIGS: dict[str, dict[str, Any]] = {
    "tokens": {**SMALL, "tokens": TOKENS, "save": ["weights", "output"], "batch": [1]},
    "layers": {"data": {"capture": MINILM, "layers": [1, 2]}, "scorers": ["dot"]},
    "pairs of a model": {"study": "variance", "from": MINILM, "scorers": ["dot"]},
    "doctor of a model": {"study": "doctor", "data": {"capture": MINILM, "layers": [1, 2]}},
}


@pytest.mark.parametrize("name", CONFIGS)
def test_a_run_is_read_as_it_was(name: str, tmp_path: Path) -> None:
    same_facts(attncli.run(CONFIGS[name], name="x", out=tmp_path / "run"))


EDITS: dict[str, tuple[str, list[Any], Any, str]] = {  # the file, the path of a key, its value, and the problem
    "version": ("results.json", ["attncli"], "0.3.1", "got a run of attncli 0.3.1; expected one of 0.4 or later"),
    "study": ("results.json", ["study"], "varience", 'study: got "varience"; unknown study; did you mean `variance`?'),
    "no rows": ("results.json", ["records"], [], "records: got []; expected at least 1 entry"),
    "no settings": ("results.json", ["settings"], {}, "settings.random: this key is missing"),
    "no scorer": ("results.json", ["records", 1, "scorer"], None, "records[1].scorer: got nothing; expected text"),
    "text": ("results.json", ["records", 0, "entropy"], "low", 'records[0].entropy: got "low"; expected a number'),
    "true": ("results.json", ["heads", 3, "entropy"], True, "heads[3].entropy: got true; expected a number"),
    "infinity": ("results.json", ["heads", 0, "entropy"], float("inf"), "heads[0].entropy: got Infinity; expected a"),
    "dtype": ("results.json", ["inputs", "keys", "dtype"], "x", 'inputs.keys.dtype: got "x"; expected a dtype'),
    "a list": ("results.json", [], [1], "got [1]; expected a mapping"),
    "label list": ("config.yaml", ["scorers", 0, "label"], ["x"], 'scorers[0].label: got ["x"]; expected text'),
    "no config": ("config.yaml", [], 1, "got 1; expected a mapping"),
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run with every kind of rows."""
    folder = tmp_path_factory.mktemp("kept") / "run"
    data = {"queries": {"shape": [1, 2, 3, 4]}, "keys": {"shape": [1, 2, 5, 4]}}
    attncli.run({"data": data, "scorers": ["dot", "cosine"]}, name="x", out=folder)
    return folder


def edited(file: Path, path: list[Any], value: Any) -> None:
    """Give a key of a file another value; the file is YAML, which JSON is, too."""
    whole: Any = {"content": yaml.safe_load(file.read_text(encoding="utf-8"))}
    *above, key = ["content", *path]
    reduce(getitem, above, whole)[key] = value
    file.write_text(json.dumps(whole["content"]), encoding="utf-8")


@pytest.mark.parametrize("edit", EDITS)
def test_what_a_file_of_a_run_cannot_hold_is_named(edit: str, whole: Path, here: Path) -> None:
    name, path, value, problem = EDITS[edit]
    shutil.copytree(whole, here / "run")
    edited(here / "run" / name, path, value)
    for command in (["compare", "run", whole], ["report", "run", "--out", "page.html"], ["figure", "run"]):
        message = refusal(*command)
        assert message.startswith(f"run/{name}: {problem}")
        assert message.count("\n") == 0
    assert not (here / "page.html").exists()


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        (["records", 1, "label"], None, "records[1].label: got nothing; expected text"),
        (["settings", "sweep", "over"], 3, "settings.sweep.over: got 3; expected a list"),
    ],
)
def test_a_sweep_is_read_as_it_was_and_what_it_cannot_hold_is_named(
    path: list[Any], value: Any, problem: str, here: Path
) -> None:
    options: dict[str, Any] = {"metric": "max_weight", "jobs": 1, "scorers": ["scaled_dot"], "out": "sweep"}
    result = attncli.sweep(SMALL, {"seed": [0, 1], "scale": [1, "1/d"]}, **options)
    again = attncli.load("sweep")
    assert isinstance(again, SweepResult)
    for key in ("axes", "metric", "chosen", "points", "random"):
        assert getattr(again, key) == getattr(result, key)
    good("report", "sweep", "--out", "page.html")
    edited(here / "sweep" / "results.json", path, value)
    for command in (["compare", "sweep", "sweep"], ["report", "sweep", "--out", "other.html"], ["figure", "sweep"]):
        assert refusal(*command).startswith(f"sweep/results.json: {problem}")
