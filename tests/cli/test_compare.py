"""`attncli compare`: its output, pictures and exit codes."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.cells import cell_len
from torch.nn.functional import scaled_dot_product_attention as sdpa

import attncli
from attncli.core.numbers import distinct
from attncli.show.terminal.comparison import tables
from attncli.show.terminal.tables import recorded
from tests.cli import attncli as command
from tests.cli import experiment, good, refusal, run

pytestmark = pytest.mark.usefixtures("sketches")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Save the runs `a`, `same`, `seed` and `scale` (with another seed and scale), and a run of `variance`."""
    folder = tmp_path_factory.mktemp("runs")
    scorers: list[dict[str, Any]] = [{"scorer": "scaled_dot"}, {"scorer": "gaussian", "label": "near"}]
    own = experiment(folder / "own.yaml", scorers=scorers)
    run(own, folder / "a")
    run(own, folder / "same")
    run(own, folder / "seed", "--seed", 1)
    run(own, folder / "scale", "--set", "scorers[0].scale=1")
    small = {"study": "variance", "d": [2, 4], "samples": 1000, "scorers": scorers}
    variance = folder / "variance.yaml"
    variance.write_text(json.dumps(small), encoding="utf-8")
    run(variance, folder / "variance")
    return folder


def test_the_verdict_stands_above_what_differs(runs: Path) -> None:
    shown = good("compare", runs / "a", runs / "scale").split("\n")
    titles = ("Settings, A -> B", "Differences, largest first")
    places = [next(index for index, line in enumerate(shown) if text in line) for text in ("different: first", *titles)]
    assert places == sorted(places)
    assert "Inputs, A -> B" not in shown


def test_each_run_is_compared_with_the_first(runs: Path) -> None:
    names = ["a", "same", "seed"]
    found = json.loads(good("compare", *(runs / name for name in names), "--json"))
    assert [(Path(each["a"]).name, Path(each["b"]).name, each["verdict"]) for each in found] == [
        ("a", "same", "identical"),
        ("a", "seed", "different"),
    ]
    alone = json.loads(good("compare", runs / "a", runs / "seed" / "results.json", "--json"))
    assert [row["key"] for row in alone["settings"]] == ["seed"]
    assert [row for row in alone["differences"] if row["rows"] == "records"] == [
        row for row in found[1]["differences"] if row["rows"] == "records"
    ]


@pytest.mark.parametrize(
    ("other", "options", "code"),
    [
        ("seed", [], 0),
        ("seed", ["--fail"], 1),
        ("same", ["--fail"], 0),
        ("same", ["--fail", "--tolerance", "0"], 0),
        ("scale", ["--fail", "--tolerance", "0.01"], 1),
        ("scale", ["--fail", "--tolerance", "1000"], 0),
        ("variance", ["--fail", "--tolerance", "1000"], 1),
    ],
)
def test_fail_ends_with_code_1_beyond_the_tolerance(runs: Path, other: str, options: list[str], code: int) -> None:
    found = command("compare", runs / "a", runs / other, "--quiet", *options)
    assert (found.exit_code, found.stdout) == (code, "")
    assert ("different: " in found.stderr) == (code == 1)
    assert ("beyond" in found.stderr) == (code == 1 and len(options) > 1)
    assert ("difference is infinite (the study)" in found.stderr) == (other == "variance")


def test_a_tolerance_is_that_of_the_largest_difference(runs: Path) -> None:
    """A metric is changed by 1 %; the oracle is 1 - B / A."""
    copy = Path(shutil.copytree(runs / "variance", runs / "changed"))
    kept = json.loads((copy / "results.json").read_text(encoding="utf-8"))
    kept["records"][0]["unit_scale"] *= 0.99
    (copy / "results.json").write_text(json.dumps(kept), encoding="utf-8")
    for tolerance, code in (("0.0099", 1), ("0.0101", 0)):
        assert command("compare", runs / "variance", copy, "--fail", "--tolerance", tolerance).exit_code == code


@pytest.mark.parametrize(
    ("factor", "verdict", "code"), [(1.0, "identical", 0), (1 + 1e-6, "rounding", 0), (1.01, "different", 1)]
)
def test_the_verdict_on_two_captures_and_its_exit_code(factor: float, verdict: str, code: int, here: Path) -> None:
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 1, 2, 5, 4)
    for name, scale in {"a.safetensors": 1.0, "b.safetensors": factor}.items():
        with attncli.Capture() as seen:
            sdpa(q, k, scale * v)
        attncli.save(seen, name)
    found = command("compare", "a.safetensors", "b.safetensors", "--fail", "--json")
    assert (json.loads(found.stdout)["verdict"], found.exit_code) == (verdict, code)
    assert refusal("compare", "a.safetensors", "c.safetensors") == 'got "c.safetensors"; no such file'


@pytest.mark.parametrize("width", [20, 200])
def test_tables_fit_every_width(runs: Path, width: int) -> None:
    found = attncli.compare(runs / "a", runs / "scale")
    lines = recorded(tables(found, width, None), width).export_text().split("\n")
    assert max(map(cell_len, lines)) <= width
    for row in found.differences:
        assert any(distinct(row["a"], row["b"])[1] in line for line in lines)


@pytest.mark.parametrize("width", [80, 200])
@pytest.mark.parametrize("size", [1, 10_000])
def test_the_answer_is_one_screen(runs: Path, width: int, size: int) -> None:
    """Runs of any size have one screen with the largest differences and the number of omitted ones."""
    found = attncli.compare(runs / "a", runs / "scale")
    row = {**found.differences[0], "where": {"label": "a long name of a layer " * 3}}
    changes = [{"key": f"key{index}", "a": "long " * 50, "b": None} for index in range(size)]
    many = replace(found, differences=[row] * size, settings=changes, inputs=changes)
    lines = recorded(tables(many, width), width).export_text().split("\n")
    assert len(lines) <= 61
    assert any(f"{row['relative']:.2g}" in line for line in lines)
    assert any("more row" in line for line in lines) == (size > 1)
    three = good("compare", *(runs / name for name in ("a", "scale", "same", "seed"))).split("\n")
    assert len(three) <= 61


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_the_difference_of_weights_is_drawn_where_asked(runs: Path, tmp_path: Path, ending: str) -> None:
    place = tmp_path / f"apart.{ending}"
    assert good("compare", runs / "a", runs / "scale", "--out", place, "--quiet") == ""
    assert place.stat().st_size > 1000
    assert ending == "png" or "− a" in place.read_text(encoding="utf-8")
    assert "exists; expected a new file" in refusal("compare", runs / "a", runs / "scale", "--out", place)
    good("compare", runs / "a", runs / "scale", "--out", place, "--overwrite", "--quiet")
    assert list(tmp_path.iterdir()) == [place]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["a"], 'attncli compare: got one run, "a"; expected two or more'),
        (
            ["a", "nothere"],
            'got "nothere", which is not a run folder; expected the folder of a run, as outputs/d2l/latest',
        ),
        (
            ["a", "same", "--fail", "--tolerance", "-1"],
            "--tolerance: got -1.0; expected a relative difference, such as 0.01",
        ),
        (
            ["a", "same", "--fail", "--tolerance", "nan"],
            "--tolerance: got nan; expected a relative difference, such as 0.01",
        ),
        (["a", "same", "--tolerance", "1"], "--tolerance: got 1.0 without --fail; expected both"),
        (["a", "same", "--out", "x.gif"], '--out: got "x.gif"; expected a name ending in .png, .svg, .pdf'),
        (["a", "same", "seed", "--out", "x.png"], '--out: got "x.png" for 3 runs; a picture is of two'),
        (
            ["a", "variance", "--out", "x.png"],
            '--out: got "x.png"; the runs share no weights to draw the difference of',
        ),
    ],
)
def test_wrong_input_is_refused(runs: Path, monkeypatch: pytest.MonkeyPatch, args: list[str], message: str) -> None:
    monkeypatch.chdir(runs)
    before = sorted(runs.iterdir())
    assert refusal("compare", *args) == message
    assert sorted(runs.iterdir()) == before
