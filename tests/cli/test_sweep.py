"""`attncli sweep`: its folder, its tables and pictures, resuming, expectations, mistakes and exit codes."""

import itertools
import json
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import pandas
import pytest

import attncli as package
from attncli.engine.sweeps import running
from attncli.errors import InputError
from attncli.results import Row, SweepResult
from tests.cli import attncli, config, experiment, good, refusal, results, swept
from tests.engine.sweeps.jobs import table

pytestmark = pytest.mark.usefixtures("here")

FILES = ["config.yaml", "heads.csv", "points.jsonl", "records.csv", "results.json", "summary.csv"]
TWO = [{"scorer": "scaled_dot"}, {"scorer": "cosine"}]
OVER = ["--over", "seed=0..1", "--over", "scorers[0].scale=0.5,2", "--with", "scorers[1].scale=1,3"]
KEYS = ["seed", "scorers[0].scale", "scorers[1].scale"]
AXES = [{"seed": [0, 1]}, {"scorers[0].scale": [0.5, 2], "scorers[1].scale": [1, 3]}]
HEADS = {"data": {"queries": {"shape": [2, 3, 4, 5]}, "keys": {"shape": [2, 3, 6, 5]}}}


def test_a_sweep_is_the_runs_of_its_points_and_is_taken_like_any_run(here: Path) -> None:
    """The rows of each point equal the rows of `attncli.run` with the same keys; all files are in one folder."""
    path = experiment(here / "x.yaml", scorers=TWO, **HEADS)
    printed = good("sweep", path, *OVER, "--out", "out", "--jobs", "1")
    assert "4 points over seed (2) and scorers[0].scale with scorers[1].scale (2): 4 done" in printed
    assert "scaled_dot: entropy falls from" in printed.replace("\n", " ")
    content, result = results(), package.load("out")
    assert content["files"] == [*FILES, "sweep.png"] == sorted(each.name for each in Path("out").iterdir())
    assert content["settings"]["sweep"] == {"over": AXES}
    places = [(seed, *scales) for seed, scales in itertools.product((0, 1), ((0.5, 1), (2, 3)))]
    points = [(point["sweep"], point["status"]) for point in content["sweep"]["points"]]
    assert points == [(dict(zip(KEYS, place, strict=True)), "done") for place in places]
    for frame in ("records", "heads"):
        rows = result.to_frame(frame)
        assert [*rows.columns[:3]] == KEYS
        for place, group in rows.groupby(KEYS):
            seed, *scales = place
            scorers = [{**each, "scale": scale} for each, scale in zip(TWO, scales, strict=True)]
            alone = package.run(path, seed=int(seed), scorers=scorers).to_frame(frame)
            pandas.testing.assert_frame_equal(group[alone.columns].reset_index(drop=True), alone)
    records, heads, summary = (table(Path("out"), f"{name}.csv") for name in ("records", "heads", "summary"))
    assert [row["entropy"] for row in records] == [str(row["entropy"]) for row in content["records"]]
    assert [float(row["entropy"]) for row in heads] == result.to_frame("heads")["entropy"].tolist()
    assert result.to_frame("summary")["mean"].astype(str).tolist() == [row["mean"] for row in summary]
    entropies = [row for row in summary if row["metric"] == "entropy"]
    assert [row["count"] for row in entropies] == ["2"] * 4
    same = [row["entropy"] for row in content["records"] if (row[KEYS[1]], row["label"]) == (0.5, "scaled_dot")]
    assert float(entropies[0]["mean"]) == pytest.approx(sum(same) / 2)
    assert isinstance(result, SweepResult)
    assert (result.axes, result.pictures) == (AXES, ["sweep"])
    assert "4 points" in result._repr_mimebundle_()["text/plain"]
    with pytest.raises(InputError, match='"comparisons"; this sweep of the study attention has no comparisons;'):
        result.to_frame("comparisons")
    good("report", "out", "--out", "page.html")
    assert "scorers[1].scale" in Path("page.html").read_text(encoding="utf-8")
    assert 'got "out", a sweep, which keeps no weights' in refusal("heatmap", "out")
    assert "figure.queries: unknown key" in refusal("figure", "out", "--queries", "0:1")
    assert package.compare("out", "out").verdict == "identical"


def test_too_many_heads_are_left_out(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = experiment(here / "x.yaml", **HEADS)
    monkeypatch.setattr(running, "MOST_HEADS", 2 * 6)
    swept("sweep", path, "--over", "seed=0,1")
    assert len(package.load("out").heads) == 2 * 6
    result = attncli("sweep", path, "--over", "seed=0..2", "--resume", "out", "--no-plots", "--jobs", "1")
    assert "metrics by head are left out: too many rows" in result.stderr
    assert package.load("out").heads == []
    assert not Path("out/heads.csv").exists()
    heads = [json.loads(line)["heads"] for line in Path("out/points.jsonl").read_text().splitlines()]
    assert [None if rows is None else len(rows) for rows in heads] == [6, 6, None]


def test_a_config_with_a_sweep_leaves_the_latest_run_alone(here: Path) -> None:
    path = experiment(here / "x.yaml", sweep={"over": [{"seed": [0, 1]}]})
    assert good("check", path) == f"{path}: good, study attention, a sweep of 2 points\n"
    good("run", path, "--set", "sweep=null", "--quiet", "--no-plots")
    run = Path("outputs/x/latest").resolve()
    for command in ("run", "sweep"):
        printed = good(command, path, "--no-plots")
        assert printed.startswith("x\n2 points over seed (2): 2 done")
        assert f"{Path('outputs/x_sweep/latest').resolve().relative_to(here)}/" in printed
        assert good("sweep", "--status", "outputs/x_sweep/latest") == "2 of 2 points done\n"
    assert good("run", path, path, "--no-plots").count("x: ") == 2
    assert Path("outputs/x/latest").resolve() == run
    assert len(package.load("outputs/x/latest").records) == 1
    assert sorted(each.name for each in Path("outputs").iterdir()) == ["x", "x_sweep"]
    with pytest.raises(ValueError, match=r"got a sweep; .* `sweep=None` drops it"):
        package.run(path)
    package.run(path, sweep=None)


def test_the_folder_goes_on_with_what_is_missing_and_with_more_values(here: Path) -> None:
    experiment(here / "x.yaml", sweep={"over": [{"seed": "0..2"}]})
    good("sweep", "x.yaml", "--quiet", "--jobs", "1")
    folder = Path("outputs/x_sweep/latest")
    assert (folder / "sweep.png").exists()
    undisturbed = results(folder)
    journal = (folder / "points.jsonl").read_text().splitlines(keepends=True)
    (folder / "points.jsonl").write_text(journal[0] + journal[2] + journal[1][:40])
    stopped = f"2 of 3 points done; stopped; `attncli sweep --resume {folder}` goes on\n"
    assert good("sweep", "--status", folder) == stopped
    good("sweep", "--resume", folder, "--quiet", "--no-plots", "--jobs", "1")
    assert results(folder)["records"] == undisturbed["records"]
    assert len((folder / "points.jsonl").read_text().splitlines()) == 3
    good("report", folder)
    good("sweep", "--resume", folder, "--over", "seed=0..4", "--quiet", "--no-plots", "--jobs", "1")
    assert len((folder / "points.jsonl").read_text().splitlines()) == 5
    assert config(folder)["sweep"] == {"over": [{"seed": [0, 1, 2, 3, 4]}]}
    assert len(results(folder)["records"]) == 5
    assert results(folder)["files"] == sorted(path.name for path in folder.iterdir()) == FILES, (
        "the picture and the page of three points are gone"
    )
    before = (folder / "config.yaml").read_text()
    other = experiment(here / "y.yaml", scorers=TWO, sweep={"over": [{"seed": [0]}]})
    message = refusal("sweep", other, "--resume", folder)
    assert f'got "scaled_dot" for scorers[0].scorer, which is "dot" in {folder / "config.yaml"}; expected' in message
    assert "for dtype, which is" in refusal("sweep", "--resume", folder, "--dtype", "float64")
    assert (folder / "config.yaml").read_text() == before


def test_points_of_another_version_run_again_which_is_said(here: Path) -> None:
    swept("sweep", experiment(here / "x.yaml"), "--over", "seed=0..2")
    journal = Path("out/points.jsonl")
    journal.write_text(journal.read_text().replace('"key": "', '"key": "0', 2))  # the code is in the key of a point
    resume = ["sweep", "--resume", "out", "--over", "seed=0..3", "--no-plots", "--jobs", "1"]
    first, second = (attncli(*resume).stderr for _ in range(2))
    assert "; 1 done already; 2 done with another version of attncli, a file or a scorer, which run again" in first
    assert len(results()["records"]) == 4
    assert "; 4 done already" in second
    assert "another version" not in second


def test_an_unfinished_sweep_is_named(here: Path) -> None:
    """Other commands refuse a folder with a journal but without results, as during a sweep or after `kill -9`."""
    swept("sweep", experiment(here / "x.yaml"), "--over", "seed=0")
    Path("out/results.json").unlink()
    expected = 'got "out", an unfinished sweep; expected one with results; `attncli sweep --resume out` goes on'
    for command in (["report", "out", "--out", "page.html"], ["figure", "out"], ["compare", "out", "out"]):
        assert expected in refusal(*command)
    with pytest.raises(ValueError, match="an unfinished sweep"):
        package.load("out")


def test_points_are_listed_in_the_order_of_the_command_line_and_none_runs(here: Path) -> None:
    experiment(here / "x.yaml", scorers=TWO)
    printed = good("sweep", "x.yaml", "--over", "seed=0..1", "--over", "keys.fill=normal,ones", "--dry-run")
    assert printed.splitlines()[:2] == ["seed = 0, keys.fill = normal", "seed = 0, keys.fill = ones"]
    assert printed.splitlines()[-1] == "4 points"
    args = ["--over=seed=0,1", "--with", "dtype=float32,float64", "--over", "train=true", "--with=weights=true"]
    rows = json.loads(good("sweep", "x.yaml", *args, "--dry-run", "--json"))
    assert [row["sweep"] for row in rows] == [
        {"seed": seed, "dtype": dtype, "train": True, "weights": True}
        for seed, dtype in enumerate(("float32", "float64"))
    ]
    assert not Path("outputs").exists()


def test_points_that_fail_are_told_and_the_others_kept(here: Path) -> None:
    failing = ["tests.scorers.failing:Fails", "tests.engine.sweeps.jobs:Raises"]
    experiment(here / "x.yaml", sweep={"over": [{"scorers[0].scorer": ["dot", "cosine", *failing]}]})
    for command in ("sweep", "run"):
        result = attncli(command, "x.yaml", "--out", "out", "--no-plots", "--quiet", "--overwrite")
        assert result.exit_code == 1
        assert f"failed: scorers[0].scorer = {failing[0]}: " in result.stderr
        assert "no scores today" in result.stderr
        points = results()["sweep"]["points"]
        assert [point["status"] for point in points] == ["done", "done", "failed", "failed"]
        assert [row["scorers[0].scorer"] for row in results()["records"]] == ["dot", "cosine"]
    over = f"scorers[0].scorer='{failing[0]}','{failing[1]}'"
    none = attncli("sweep", "x.yaml", "--over", over, "--out", "none", "--no-plots", "--quiet")
    assert (none.exit_code, package.load("none").records, package.load("none").pictures) == (1, [], [])
    stopped = attncli("sweep", "x.yaml", "--out", "out", "--overwrite", "--fail-fast", "--json", "--no-plots")
    assert stopped.exit_code == 1
    assert [point["status"] for point in json.loads(stopped.stdout)["sweep"]["points"]].count("missing") == 1
    assert "--fail-fast ends the sweep; `attncli sweep --resume out` goes on" in stopped.stderr


def test_expectations_of_swept_columns(here: Path) -> None:
    claim = {"where": {"seed": [0, 1], "scorers[0].scale": 8}, "metric": "entropy"}
    other = {"seed": [0, 1], "scorers[0].scale": 0.125}
    experiment(here / "x.yaml", scorers=TWO[:1], expect=[{**claim, "below": other}])
    args = ["x.yaml", "--over", "seed=0,1", "--over", "scorers[0].scale=0.125,8", "--no-plots", "--jobs", "1"]
    assert "The expectation holds" in good("sweep", *args, "--out", "good")
    assert "The expectation holds" in good("sweep", "--resume", "good", "--no-plots")
    experiment(here / "x.yaml", scorers=TWO[:1], expect=[{**claim, "above": other}])
    failed = attncli("sweep", *args, "--out", "bad", "--quiet")
    assert failed.exit_code == 1
    assert failed.stderr.count("scorers[0].scale = 8") == 2
    assert [each["holds"] for each in results("bad")["expectations"]] == [False, False]


def test_how_many_points_run_at_a_time(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No more than there are points, and one if the study measures time."""
    numbers = list[int]()

    def engine(jobs: Sequence[Any], number: int, *_: object) -> Generator[Row]:
        numbers.append(number)
        for job in jobs:
            yield {"key": job["key"], "status": "done", "error": None, "seconds": 1, "host": "", "records": []}

    monkeypatch.setattr(running, "on_processes", engine)
    Path("bench.yaml").write_text("study: bench\nscorers: [{scorer: dot}]\n")
    result = attncli("sweep", "bench.yaml", "--over", "seed=0..3", "--jobs", 4)
    assert "bench: points of a study that measures time run one at a time" in result.stderr
    good("sweep", experiment(here / "x.yaml"), "--over", "seed=0..1", "--jobs", 8)
    assert numbers == [1, 2]


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--jobs", "two", "expected a valid integer"),
        ("--timeout", "nan", "expected greater than or equal to 0.01"),
        ("--metric", "nope", "unknown metric; known: "),
    ],
)
def test_wrong_options_are_refused_and_each_metric_is_listed_once(option: str, value: str, message: str) -> None:
    line = refusal("sweep", "d2l", "--over", "seed=0,1", option, value, "--out", "out")
    assert line.startswith(f'{option}: got "{value}"; {message}')
    assert line.count(" entropy,") == (option == "--metric")
    assert not Path("out").exists()
