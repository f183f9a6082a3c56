"""`attncli run`: stdout, stderr, files and exit codes."""

import json
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import DEFAULT, Mock

import numpy as np
import pytest
import torch

from attncli.cli import progress
from attncli.errors import InputError
from attncli.studies.attention import study as attention
from tests.cli import attncli, config, experiment, good, names_in, refusal, results, run

pytestmark = pytest.mark.usefixtures("sketches", "here")

ENOUGH = "out of memory; use fewer queries, keys or batch elements, or smaller scorers"


def test_the_main_picture_is_named_and_opened(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = list[str]()
    monkeypatch.setattr("typer.launch", opened.append)
    experiment(here / "own.yaml")
    last = good("run", "own.yaml", "--out", "a", "--open").splitlines()[-1]
    good("run", "own.yaml", "--out", "b", "--no-plots", "--open", "--quiet")
    good("heatmap", "own.yaml", "--out", "c.png", "--open")
    assert last == "a/heatmaps.png"
    assert opened == ["a/heatmaps.png", "b", "c.png"]


NOT_UTF8 = pytest.param(
    os.fsdecode(b"a\xff"), marks=pytest.mark.skipif(sys.platform != "linux", reason="names that are not UTF-8")
)


@pytest.mark.parametrize("folder", [None, "a/b", NOT_UTF8])
def test_json_is_the_content_of_results_json_with_the_folder_and_nothing_else(folder: str | None, here: Path) -> None:
    result = attncli(
        "run", experiment(here / "own.yaml"), "--no-plots", "--json", *(["--out", folder] if folder else [])
    )
    content = json.loads(result.stdout)
    place = content.pop("folder")
    assert place == (folder or f"outputs/own/{Path('outputs/own/latest').resolve().name}")
    assert content == results(place)
    assert result.stderr == ""


@pytest.mark.parametrize("quiet", [[], ["--quiet"]])
def test_json_of_several_keeps_warnings_and_has_no_nan(quiet: list[str], here: Path) -> None:
    np.save(here / "mask.npy", np.ones((2, 3), bool))
    np.save(here / "nan.npy", np.full((1, 1), np.nan))
    data = {"queries": {"shape": [2, 4, 1]}, "keys": {"shape": [2, 3, 1]}}
    experiment(here / "own.yaml", data=data, mask={"file": "mask.npy"})
    experiment(here / "nan.yaml", data={"queries": [[1.0]], "keys": {"file": "nan.npy"}, "values": [[1.0]]})
    result = attncli("run", "own.yaml", "nan.yaml", "--no-plots", "--json", *quiet)
    constants = list[str]()
    contents = json.loads(result.stdout, parse_constant=constants.append)
    assert contents == [{"folder": content["folder"], **results(content["folder"])} for content in contents]
    assert (contents[1]["records"][0]["entropy"], constants) == (None, [])
    notes = [] if quiet else ["own: mask.npy: shape [2, 3], read as (batch, keys)"]
    assert result.stderr.splitlines() == [*notes, "nan: warning: keys[0, 0]: NaN"]


def test_overrides_are_recorded(here: Path) -> None:
    experiment(here / "own.yaml", scorers=[{"scorer": "additive"}], seed=1)
    shortcuts = ["--seed", 7, "--dtype", "float64", "--device", "cpu"]
    sets = ["--set", "scorers[0].num_hiddens=3", "--set", "seed=5"]
    content = run(here / "own.yaml", here / "out", *shortcuts, *sets)
    written = config()
    assert (written["seed"], written["dtype"], written["device"]) == (7, "float64", "cpu"), "shortcuts win"
    assert (content["seed"], content["inputs"]["queries"]["dtype"]) == (7, "float64")
    assert content["records"][0]["parameters"] == 3 * 4 + 3 * 4 + 3


def test_all_problems_of_all_files_come_before_any_work(here: Path) -> None:
    experiment(here / "good.yaml", seed=-1)
    experiment(here / "bad.yaml", data={"valid_lens": [2, 9]}, tokens={"keys": ["a"]})
    experiment(here / "worse.yaml", data={"values": {"file": "gone.npy"}})
    stderr = refusal("run", "good.yaml", "bad.yaml", "worse.yaml", "missing.yaml", "--seed", 1)
    assert stderr.startswith("missing.yaml: no such file"), "what is no experiment at all comes first"
    lines = refusal("run", "good.yaml", "bad.yaml", "worse.yaml", "--seed", 1).splitlines()
    assert [line.split(":")[0] for line in lines] == ["bad.yaml", "bad.yaml", "worse.yaml"]
    checked = attncli("check", "good.yaml", "bad.yaml", "worse.yaml", "missing.yaml", "--seed", 1)
    assert (checked.exit_code, checked.stdout) == (2, "good.yaml: good, study attention\n")
    assert checked.stderr.splitlines() == [*lines, stderr], "check names all that it is given, in this order"
    assert names_in(here) == ["bad.yaml", "good.yaml", "worse.yaml"]


def work_of_attention(monkeypatch: pytest.MonkeyPatch, work: Callable[..., Any]) -> None:
    """Replace the work of the study attention."""
    monkeypatch.setattr(attention, "STUDY", replace(attention.STUDY, run=work))


@pytest.mark.parametrize(
    "work",
    [
        lambda *args: torch.empty(2**62, 2**62),
        Mock(side_effect=torch.OutOfMemoryError("CUDA out of memory.")),
    ],
    ids=["torch", "cuda"],
)
def test_memory_that_is_not_enough_after_all(work: Any, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work_of_attention(monkeypatch, work)
    assert refusal("run", experiment(here / "own.yaml"), "--no-plots") == ENOUGH
    assert names_in(here) == ["own.yaml"]


def test_what_is_a_bug_shows_a_traceback(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work_of_attention(monkeypatch, Mock(side_effect=RuntimeError("shapes do not match")))
    with pytest.raises(RuntimeError, match="shapes do not match"):
        attncli("run", experiment(here / "own.yaml"), "--no-plots")


@pytest.mark.parametrize(
    ("error", "code", "last"),
    [
        (KeyboardInterrupt(), 130, "interrupted; what was finished is kept, nothing else"),
        (InputError.of("no"), 2, "b.yaml:1:1: no"),
        (MemoryError(), 2, ENOUGH),
    ],
    ids=["interrupted", "wrong", "memory"],
)
def test_json_of_what_is_complete_where_others_fail(
    error: BaseException, code: int, last: str, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abcd":
        experiment(here / f"{name}.yaml", expect=[{"metric": "entropy", "above": 9}])
    work_of_attention(monkeypatch, Mock(wraps=attention.STUDY.run, side_effect=[DEFAULT, error]))
    result = attncli("run", *(f"{name}.yaml" for name in "abcd"), "--no-plots", "--json")
    assert result.exit_code == code
    assert [each["name"] for each in json.loads(result.stdout)] == ["a"]
    failed, *others = result.stderr.splitlines()
    assert failed.startswith("a.yaml:1:")
    assert others == ["not run: c.yaml, d.yaml", last]


@pytest.mark.parametrize("name", ["outputs", "outputs/own"])
def test_a_file_in_place_of_a_folder_of_runs_fails_before_the_work(
    name: str, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment(here / "own.yaml")
    (here / name).parent.mkdir(exist_ok=True)
    (here / name).touch()
    work_of_attention(monkeypatch, lambda *args: pytest.fail("the work began"))
    message = f"{name}: got a file; expected a folder for the runs; move the file, or use --out"
    assert message in refusal("run", "own.yaml", "--no-plots")


def test_progress_of_long_work_is_on_stderr(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment(here / "own.yaml", scorers=[{"scorer": "dot"}, {"scorer": "gaussian"}])
    monkeypatch.setattr(progress, "PATIENCE", -1.0)
    result = attncli("run", "own.yaml", "--no-plots")
    lines = result.stderr.splitlines()
    assert lines[:2] == ["own: inputs (0 of 2 done)", "own: dot (0 of 2 done)"]
    assert attncli("run", "own.yaml", "--no-plots", "--quiet").stderr == ""


def test_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 1.0)
    monkeypatch.setattr("time.monotonic", iter([0.0, 100.0, 120.0, 160.0]).__next__)
    reporter, lines = progress.ProgressOnStderr("own", quiet=False, steps=True), list[str]()
    monkeypatch.setattr(reporter._console, "print", lambda text, **_: lines.append(text))
    for done in (2, 3, 4):
        reporter.step(done, 10, "dot")
    left = ["", ", 2 minutes left", ", 3 minutes left"]
    assert lines == [f"own: dot ({done} of 10 done{left[done - 2]})" for done in (2, 3, 4)]
