"""The recipes of docs/how-to/extend.md work as written: a copy of the project gets every file, change and command.

A fenced block with a title is a new file, or with `diff` changes of a file. A line `$ ...` of a `console` block is a
command.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.cli import results
from tests.docs import PAGES

ROOT = Path(__file__).parents[1]
LEFT_OUT = [f"--ignore=tests/{name}" for name in ("test_additions.py", "test_claims.py", "test_claims_fail.py")]
FOLDERS = ("attncli", "tests", "experiments", "docs")
TEXTS = [*(f"{name}.md" for name in ("README", "README.zh", "CHANGELOG", "CONTRIBUTING", "SECURITY"))]
TEXTS += ["pyproject.toml", "constraints.txt"]
RECIPES = ("Add a scorer", "Add a normaliser", "Add a column", "Add a study")
SECTION = re.compile(r"^## (?P<title>.*)\n(?P<text>(?:(?!## ).*\n)*)", flags=re.M)
BLOCK = re.compile(
    r'^(?P<indent> *)```(?P<language>\w+)(?: title="(?P<title>[^"]+)")?\n(?P<text>.*?)^(?P=indent)```$',
    flags=re.M | re.S,
)
COMMANDS = """
import json, shlex, sys
import pytest
from tests.cli import good

class Named:
    # List all tests that are found, and run those with one of the names in their id.
    def pytest_collection_finish(self, session):
        print(*(item.nodeid for item in session.items), sep="\\n")
        session.items[:] = [item for item in session.items if any(name in item.nodeid for name in names)]

tests, names, commands = json.loads(sys.argv[1])
assert not pytest.main(["-n0", "-p", "no:cacheprovider", *tests], [Named()])
print(json.dumps({command: good(*shlex.split(command)[1:]) for command in commands}))
"""
SCORERS = ["dot", {"scorer": "manhattan", "scale": 0.5}]
CUBED = {"normalizer": "squared_relu", "p": 3}
NORMALIZED = ["dot", "manhattan:normalizer=squared_relu", {"scorer": "additive", "normalizer": CUBED}]
SHAPES = {"queries": {"shape": [2, 3, 4]}, "keys": {"shape": [2, 5, 4]}, "valid_lens": [0, 4]}
EXPECTED = [{"where": {"d": 2, "label": "dot"}, "metric": "peak", "between": [0, 100]}]
EXPERIMENTS: dict[str, dict[str, Any]] = {
    "attention": {"data": SHAPES, "scorers": NORMALIZED},
    "outputs": {"data": SHAPES, "scorers": NORMALIZED, "weights": False},
    "train": {"study": "train", "scorers": NORMALIZED, "d": 4, "steps": 2},
    "peak": {"study": "peak", "d": [2, 3], "scorers": SCORERS, "expect": EXPECTED},
}
FURTHER = [
    "attncli schema",
    *(f"attncli run {name}.yaml --quiet --no-plots --out runs/{name}" for name in EXPERIMENTS),
    "attncli run peak.yaml --quiet --out runs/drawn",
    "attncli report runs/attention runs/outputs runs/train runs/peak runs/drawn",
    "attncli sweep attention.yaml --over scorers[2].normalizer.p=1,2 --metric small_weights --quiet --out runs/sweep",
]
FOUND = (  # some of the tests that `pytest -k NAME` runs
    "scorers/test_oracles.py::test_every_shape[manhattan-",
    "config/test_schema.py::test_every_option_of_every_scorer_is_in_it[manhattan]",
    "show/pictures/test_looks.py::test_the_first_scorers_differ_by_marker_and_in_print_by_grey_and_dash",
    "normalizers/test_contract.py::test_weights_against_the_oracle[squared_relu-",
    "test_catalogues.py::test_each_has_an_oracle_and_every_oracle_is_of_one",
    "studies/test_columns.py::test_rows_have_the_columns_of_the_study_and_its_labels[peak]",
    "test_cold_start.py::test_starts_without_anything_heavy[help]",
    "test_architecture.py::test_arrows_point_one_way",
)


def recipes() -> tuple[dict[str, str], list[tuple[str, str]], list[str]]:
    """Return the new files, the changes of files, and the commands of the page."""
    text = (ROOT / "docs/how-to/extend.md").read_text(encoding="utf-8")
    sections = {each["title"]: each["text"] for each in SECTION.finditer(text)}
    files, changes, commands = dict[str, str](), list[tuple[str, str]](), list[str]()
    for block in BLOCK.finditer("".join(sections[title] for title in RECIPES)):
        if block["language"] == "diff":  # keeps its first column
            changes.append((block["title"], re.sub(f"^{block['indent']}", "", block["text"], flags=re.M)))
        elif block["language"] == "console":
            commands += [line.strip().removeprefix("$ ") for line in block["text"].splitlines()]
        else:
            files[block["title"]] = textwrap.dedent(block["text"])
    return files, changes, commands


FILES, CHANGES, RUN = recipes()


def changed(text: str, change: str) -> str:
    """Return the text with the change applied; each hunk must fit in exactly one place."""
    for hunk in change.split("@@\n"):
        lines = hunk.splitlines(keepends=True)
        before, after = ("".join(line[1:] or "\n" for line in lines if line[0] != sign) for sign in "+-")
        assert f"\n{text}".count(f"\n{before}") == 1, hunk
        text = f"\n{text}".replace(f"\n{before}", f"\n{after}")[1:]
    return text


def python(folder: Path, *arguments: str) -> str:
    """Run Python in that folder, check that it succeeds, and return its output."""
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the project with all additions."""
    folder = tmp_path_factory.mktemp("copy")
    for name in FOLDERS:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in TEXTS:
        shutil.copy(ROOT / name, folder / name)
    for name, text in FILES.items():
        assert not (folder / name).exists(), name
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    for name, change in CHANGES:
        path = folder / name
        path.write_text(changed(path.read_text(encoding="utf-8"), change), encoding="utf-8")
    for name, keys in EXPERIMENTS.items():
        (folder / f"{name}.yaml").write_text(json.dumps({"name": name, **keys}))  # JSON is YAML
    return folder


@pytest.fixture(scope="module")
def printed(copy: Path) -> dict[str, str]:
    """Return the output of every command, and under `pytest` the tests that its commands find.

    All pytest commands run as one `pytest -k`, so that tests are collected once. Of the tests that it finds, those of
    all scorers, normalisers and studies at once do not run again.
    """
    names = [command.removeprefix("pytest -k ") for command in RUN if command.startswith("pytest -k ")]
    (files,) = (command.split()[1:] for command in RUN if command.startswith("pytest tests/"))
    commands = [*(command for command in RUN if command.startswith("attncli ")), *FURTHER]
    assert len(names) == 3
    names += [Path(file).stem for file in files]
    tests = ["-k", " or ".join(names), *LEFT_OUT]
    tested, _, rest = python(copy, "-c", COMMANDS, json.dumps([tests, names, commands])).rstrip("\n").rpartition("\n")
    return {"pytest": tested, **json.loads(rest)}


def output_of(printed: dict[str, str], command: str) -> str:
    """Return the output of the command that begins like this."""
    (found,) = (text for each, text in printed.items() if each.startswith(f"attncli {command}"))
    return found


def test_the_additions_pass_lint(copy: Path) -> None:
    assert sum(name.startswith("attncli/") for name, _ in CHANGES) == 5, "three lists, and two files of a column"
    touched = [*FILES, *dict.fromkeys(name for name, _ in CHANGES)]
    python(copy, "-m", "ruff", "check", "--no-cache", *touched)
    python(copy, "-m", "ruff", "format", "--no-cache", "--check", *touched)


def test_pytest_finds_the_tests_of_a_name(printed: dict[str, str]) -> None:
    assert [each for each in FOUND if each not in printed["pytest"]] == []


def test_listing_and_schema_have_them(printed: dict[str, str]) -> None:
    assert "-scale * sum_i |q_i - k_i|" in output_of(printed, "scorers manhattan")
    assert "option p: number above 0; default 2.0" in output_of(printed, "scorers squared_relu")
    schema = output_of(printed, "schema")
    assert all(f'"{name}"' in schema for name in ("manhattan", "squared_relu", "peak"))


def test_studies_take_the_scorer_and_the_normaliser(copy: Path, printed: dict[str, str]) -> None:
    for name in EXPERIMENTS:
        records = results(copy / "runs" / name)["records"]
        assert "manhattan" in {row["scorer"] for row in records}
        assert name == "peak" or "squared_relu" in {row["normalizer"] for row in records}


def test_the_column_is_there_and_the_same_with_and_without_weights(copy: Path, printed: dict[str, str]) -> None:
    whole, alone = (results(copy / "runs" / name)["records"] for name in ("attention", "outputs"))
    assert [row["small_weights"] for row in alone] == pytest.approx([row["small_weights"] for row in whole])
    assert max(row["small_weights"] for row in whole) > 0
    for file in ("attention/records.csv", "sweep/summary.csv"):
        assert "small_weights" in (copy / "runs" / file).read_text(encoding="utf-8")
    pages = [each.read_text(encoding="utf-8") for each in (copy / "outputs/reports").glob("*.html")]
    assert any("Share of weights below 0.001" in page for page in pages)


def test_the_study_has_flags_tables_a_picture_expectations_and_a_page(copy: Path, printed: dict[str, str]) -> None:
    assert "cosine" in output_of(printed, "peak --d 2 --d 8 --scorer dot --scorer cosine")
    content = results(copy / "runs" / "drawn")
    assert [row["d"] for row in content["records"]] == [2, 3, 2, 3]
    assert {each["label"] for each in content["findings"]} == {"dot", "manhattan"}
    assert content["expectations"][0]["holds"] is True
    assert "peak.png" in content["files"]
    compared = output_of(printed, "compare first second")
    assert "peak" in compared
    assert "cosine" in compared


@pytest.mark.nightly
def test_they_leave_no_test_failing(copy: Path) -> None:
    python(copy, "-m", "tests.test_contract")
    python(copy, "-m", "tests.docs", *PAGES)
    python(copy, "-m", "pytest", "-p", "no:cacheprovider", *LEFT_OUT)
