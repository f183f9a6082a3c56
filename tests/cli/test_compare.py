"""`attncli compare`: its output, pictures and exit codes."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

import attncli
from attncli.core.numbers import distinct
from attncli.show.terminal.comparison import tables
from attncli.show.terminal.tables import recorded
from tests.cli import attncli as command
from tests.cli import experiment, good, run

pytestmark = pytest.mark.usefixtures("sketches")


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Save runs: `a`, with another seed and another scale, of another study, and copies of this with another metric."""
    folder = tmp_path_factory.mktemp("runs")
    scorers: list[dict[str, Any]] = [{"scorer": "scaled_dot"}, {"scorer": "gaussian", "label": "near"}]
    own = experiment(folder / "own.yaml", scorers=scorers)
    options = {"a": "--seed=0", "same": "--seed=0", "seed": "--seed=1", "scale": "--set=scorers[0].scale=1"}
    for name, option in options.items():
        run(own, folder / name, option)
    small = {"study": "variance", "d": [2, 4], "samples": 1000, "scorers": scorers}
    (folder / "variance.yaml").write_text(json.dumps(small), encoding="utf-8")
    content = run(folder / "variance.yaml", folder / "variance")
    for name, factor in {"percent": 0.99, "rounded": 1 - 1e-12}.items():
        copy = Path(shutil.copytree(folder / "variance", folder / name))
        first, *rest = content["records"]
        records = [{**first, "unit_scale": factor * first["unit_scale"]}, *rest]
        (copy / "results.json").write_text(json.dumps({**content, "records": records}), encoding="utf-8")
    return folder


@pytest.fixture
def runs(saved: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working directory, the folder of the saved runs."""
    monkeypatch.chdir(saved)
    return saved


@pytest.mark.usefixtures("runs")
def test_the_verdict_stands_above_what_differs() -> None:
    lines = good("compare", "a", "scale").split("\n")
    titles = ("Settings, A -> B", "Differences, largest first")
    places = [next(index for index, line in enumerate(lines) if text in line) for text in ("different: first", *titles)]
    assert places == sorted(places)
    assert "Inputs, A -> B" not in lines


@pytest.mark.usefixtures("runs")
def test_each_run_is_compared_with_the_first() -> None:
    found = json.loads(good("compare", "a", "same", "seed", "--json"))
    pairs = [("a", "same", "identical"), ("a", "seed", "different")]
    assert [(each["a"], each["b"], each["verdict"]) for each in found] == pairs


@pytest.mark.usefixtures("runs")
@pytest.mark.parametrize(
    ("names", "options", "code"),
    [
        ("a seed", "", 0),
        ("a seed", "--fail", 1),
        ("a same", "--fail", 0),
        ("variance rounded", "--fail", 0),
        ("a same", "--fail --tolerance 0", 0),
        ("variance percent", "--fail --tolerance 0.0099", 1),  # the oracle is 1 - B / A
        ("variance percent", "--fail --tolerance 0.0101", 0),
        ("a variance", "--fail --tolerance 1000", 1),
    ],
)
def test_fail_ends_with_code_1_beyond_rounding_or_the_tolerance(names: str, options: str, code: int) -> None:
    found = command("compare", *names.split(), "--quiet", *options.split())
    assert (found.exit_code, found.stdout) == (code, "")
    assert ("different: " in found.stderr) == (code == 1)
    assert ("beyond" in found.stderr) == (code == 1 and "--tolerance" in options)
    assert ("difference is infinite (the study)" in found.stderr) == (names == "a variance")


@pytest.mark.parametrize("width", [80, 200])
def test_tables_fit_every_width_and_one_screen(runs: Path, width: int) -> None:
    """Runs of any size have one screen with the largest differences and the number of omitted ones."""
    found = attncli.compare(runs / "a", runs / "scale")
    lines = recorded(tables(found, width, None), width).export_text().split("\n")
    assert max(map(cell_len, lines)) <= width
    for row in found.differences:
        assert any(distinct(row["a"], row["b"])[1] in line for line in lines)
    row = {**found.differences[0], "where": {"label": "a long name of a layer " * 3}}
    changes = [{"key": f"key{index}", "a": "long " * 50, "b": None} for index in range(10_000)]
    many = replace(found, differences=[row] * 10_000, settings=changes, inputs=changes)
    lines = recorded(tables(many, width), width).export_text().split("\n")
    assert len(lines) <= 61
    assert any(f"{row['relative']:.2g}" in line for line in lines)
    assert any("more row" in line for line in lines)
    assert len(good("compare", "a", "scale", "same", "seed").split("\n")) <= 61
