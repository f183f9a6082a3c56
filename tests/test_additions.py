"""What the design promises to be small: the recipes of CONTRIBUTING.md are followed to the letter, in a copy.

A fenced block with a title is a new file of that name, or with `diff` the changes of one; a line `$ ...` of a `console`
block is a command. The commands run in their order, with all additions made.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.docs import PAGES

ROOT = Path(__file__).parents[1]
LEFT_OUT = [f"--ignore=tests/{name}" for name in ("test_additions.py", "test_claims.py", "test_claims_fail.py")]
FOLDERS = ("attncli", "tests", "experiments", "docs")
FILES = ("README.md", "README.zh.md", "CHANGELOG.md", "CONTRIBUTING.md", "pyproject.toml", "constraints.txt")
RECIPES = ("Add a scorer", "Add a normaliser", "Add a column", "Add a study")
SECTION = re.compile(r"^## (?P<title>.*)\n(?P<text>(?:(?!## ).*\n)*)", flags=re.M)
BLOCK = re.compile(
    r'^(?P<indent> *)```(?P<language>\w+)(?: title="(?P<title>[^"]+)")?\n(?P<text>.*?)^(?P=indent)```$',
    flags=re.M | re.S,
)
NEXT = "@@\n"  # between two changes of a file

COMMANDS = """
import json, shlex, sys
import pytest
from tests.cli import good
printed = []
for command in json.loads(sys.argv[1]):
    program, *arguments = shlex.split(command)
    if program == "pytest":
        assert not pytest.main(["-n0", "-vv", "-p", "no:cacheprovider", *arguments]), command
    else:
        printed.append(good(*arguments))
print(json.dumps(printed))
"""
SCORERS = ["dot", {"scorer": "manhattan", "scale": 0.5}]
CUBED = {"normalizer": "squared_relu", "p": 3}
NORMALIZED = ["dot", "manhattan:normalizer=squared_relu", {"scorer": "additive", "normalizer": CUBED}]
SHAPES = {"queries": {"shape": [2, 3, 4]}, "keys": {"shape": [2, 5, 4]}, "valid_lens": [0, 4]}
EXPERIMENTS: dict[str, dict[str, Any]] = {
    "attention": {"data": SHAPES, "scorers": NORMALIZED},
    "outputs": {"data": SHAPES, "scorers": NORMALIZED, "weights": False},
    "variance": {"study": "variance", "scorers": SCORERS, "d": 4, "samples": 1000},
    "saturation": {"study": "saturation", "scorers": NORMALIZED, "d": 4, "rows": 10},
    "bench": {"study": "bench", "scorers": SCORERS, "d": 4, "n": 4, "measure": "scores"},
    "train": {"study": "train", "scorers": NORMALIZED, "d": 4, "steps": 2},
    "peak": {
        "study": "peak",
        "d": [2, 3],
        "scorers": SCORERS,
        "expect": [{"where": {"d": 2, "label": "dot"}, "metric": "peak", "between": [0, 100]}],
    },
}
ALL = [
    "schema",
    *(f"run {name}.yaml --quiet --no-plots --out runs/{name}" for name in EXPERIMENTS),
    "run peak.yaml --quiet --out runs/drawn",
    "report runs/attention runs/outputs runs/train runs/peak runs/drawn",
    "compare runs/attention runs/outputs",
    "sweep attention.yaml --over scorers[2].normalizer.p=1,2 --metric small_weights --quiet --out runs/sweep",
]
LATER = [  # what the recipes say that the tests of the whole project hold them to
    "tests/test_catalogues.py tests/test_architecture.py tests/test_cold_start.py tests/show/test_looks.py",
    "tests/commands/test_small_commands.py -k every_",
]
HELD = (  # some of the tests that find them by themselves
    "scorers/test_oracles.py::test_every_shape[manhattan-",
    "normalizers/test_contract.py::test_weights_against_the_oracle[squared_relu-",
    "studies/test_columns.py::test_rows_are_as_expected[peak]",
    "studies/test_columns.py::test_rows_are_as_expected[attention]",
    "show/test_looks.py::test_scorers_are_told_apart_however_many_there_are[as it is-light]",
)


@dataclass(frozen=True)
class Recipes:
    """What the blocks of CONTRIBUTING.md say: new files and changes by file, and commands."""

    files: dict[str, str]
    changes: list[tuple[str, str]]
    commands: list[str]


def recipes() -> Recipes:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    sections = {each["title"]: each["text"] for each in SECTION.finditer(text)}
    found = Recipes({}, [], [])
    for title in RECIPES:
        for block in BLOCK.finditer(sections[title]):
            content = textwrap.dedent(block["text"]) if block["language"] != "diff" else undented(block)
            if block["language"] == "console":
                found.commands.extend(line.removeprefix("$ ") for line in content.splitlines())
            elif block["language"] == "diff":
                found.changes.append((block["title"], content))
            else:
                found.files[block["title"]] = content
    return found


def undented(block: re.Match[str]) -> str:
    """The text of a block without what all its lines are indented by: the first column of a change counts."""
    return re.sub(f"^{block['indent']}", "", block["text"], flags=re.M)


def changed(text: str, change: str) -> str:
    """A text with its lines replaced that a change names; each of its parts is found in one place."""
    for part in change.split(NEXT):
        lines = part.splitlines(keepends=True)
        before, after = ([line[1:] or "\n" for line in lines if line[0] != sign] for sign in "+-")
        whole = text.splitlines(keepends=True)
        places = [start for start in range(len(whole)) if whole[start : start + len(before)] == before]
        assert len(places) == 1, f"found in {len(places)} places:\n{part}"
        text = "".join([*whole[: places[0]], *after, *whole[places[0] + len(before) :]])
    return text


def python(folder: Path, *arguments: str) -> str:
    """What Python prints in that folder; it must succeed."""
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of everything that the tests need, with all additions."""
    folder, wanted = tmp_path_factory.mktemp("copy"), recipes()
    for name in FOLDERS:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in FILES:
        shutil.copy(ROOT / name, folder / name)
    for name, text in wanted.files.items():
        assert not (folder / name).exists(), name
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    for name, change in wanted.changes:
        path = folder / name
        path.write_text(changed(path.read_text(encoding="utf-8"), change), encoding="utf-8")
    for name, keys in EXPERIMENTS.items():
        (folder / f"{name}.yaml").write_text(json.dumps({"name": name, **keys}))  # JSON is YAML
    return folder


@pytest.fixture(scope="module")
def printed(copy: Path) -> dict[str, str]:
    """What every command prints in the copy, and under `pytest` what all tests do: torch is loaded once."""
    commands = [*recipes().commands, *(f"pytest {each}" for each in LATER), *(f"attncli {each}" for each in ALL)]
    tested, _, listed = python(copy, "-c", COMMANDS, json.dumps(commands)).rstrip("\n").rpartition("\n")
    said = [each for each in commands if not each.startswith("pytest")]
    return {"pytest": tested, **dict(zip(said, json.loads(listed), strict=True))}


def said_by(printed: dict[str, str], command: str) -> str:
    """What the one command that begins so has printed."""
    (found,) = (text for each, text in printed.items() if each.startswith(f"attncli {command}"))
    return found


def results(copy: Path, run: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((copy / run / "results.json").read_text(encoding="utf-8"))
    return content


def touched() -> Sequence[str]:
    found = recipes()
    return [*found.files, *dict.fromkeys(name for name, _ in found.changes)]


def test_every_recipe_adds_and_tries_something() -> None:
    found = recipes()
    assert set(found.files) > {"attncli/scorers/manhattan.py", "attncli/normalizers/squared_relu.py"}
    assert {Path(name).name for name in found.files if "/peak/" in name} == {
        *("__init__.py", "options.py", "columns.py", "study.py", "tables.py", "figure.py")
    }
    assert sum(name.startswith("attncli/") for name, _ in found.changes) == 5, "three lists, and two files of a column"
    assert {command.split()[0] for command in found.commands} == {"pytest", "attncli"}


def test_the_additions_pass_lint(copy: Path) -> None:
    python(copy, "-m", "ruff", "check", "--no-cache", *touched())
    python(copy, "-m", "ruff", "format", "--no-cache", "--check", *touched())


def test_the_tests_of_the_catalogues_hold_them_to_what_each_promises(printed: dict[str, str]) -> None:
    assert [each for each in HELD if each not in printed["pytest"]] == []


def test_listing_and_schema_have_them(printed: dict[str, str]) -> None:
    assert "-scale * sum_i |q_i - k_i|" in said_by(printed, "scorers manhattan")
    assert "option p: number above 0; default 2.0" in said_by(printed, "scorers squared_relu")
    schema = said_by(printed, "schema")
    assert all(f'"{name}"' in schema for name in ("manhattan", "squared_relu", "peak"))


def test_studies_take_the_scorer_and_the_normaliser(copy: Path, printed: dict[str, str]) -> None:
    for name in EXPERIMENTS:
        content = results(copy, f"runs/{name}")
        assert "manhattan" in {row["scorer"] for row in content["records"]}
        if name in ("attention", "outputs", "saturation", "train"):
            assert "squared_relu" in {row["normalizer"] for row in content["records"]}


def test_the_column_is_there_with_and_without_weights(copy: Path, printed: dict[str, str]) -> None:
    """And has the same numbers."""
    kept, alone = (results(copy, f"runs/{name}")["records"] for name in ("attention", "outputs"))
    assert [row["small_weights"] for row in alone] == pytest.approx([row["small_weights"] for row in kept])
    assert max(row["small_weights"] for row in kept) > 0
    assert "small_weights" in (copy / "runs/attention/records.csv").read_text(encoding="utf-8").splitlines()[0]
    assert "small_weights" in (copy / "runs/sweep/summary.csv").read_text(encoding="utf-8")
    page = (copy / "outputs/reports").glob("*.html")
    assert any("Share of weights below 0.001" in each.read_text(encoding="utf-8") for each in page)


def test_the_study_has_flags_tables_a_picture_expectations_and_a_page(copy: Path, printed: dict[str, str]) -> None:
    assert "cosine" in said_by(printed, "peak --d 2 --d 8 --scorer dot --scorer cosine")
    content = results(copy, "runs/drawn")
    assert [row["d"] for row in content["records"]] == [2, 3, 2, 3]
    assert {each["label"] for each in content["findings"]} == {"dot", "manhattan"}
    assert content["expectations"][0]["holds"] is True
    assert "peak.png" in content["files"]
    assert (copy / "first" / "peak.png").exists()
    compared = said_by(printed, "compare first second")
    assert "peak" in compared
    assert "cosine" in compared


@pytest.mark.slow
def test_they_leave_no_test_failing(copy: Path) -> None:
    python(copy, "-m", "tests.test_contract")
    python(copy, "-m", "tests.docs", *PAGES)
    python(copy, "-m", "pytest", "-p", "no:cacheprovider", *LEFT_OUT)
