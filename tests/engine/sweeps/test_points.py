"""The plan of a sweep: points by hand, equal points, and errors before the work."""

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import attncli
from attncli.config.document import read_document
from attncli.config.overrides import parse_override
from attncli.config.sweep import swept_keys, typed_axes
from attncli.engine.runs.resolved import config_data, dump_yaml
from attncli.engine.sweeps import points
from attncli.engine.sweeps.points import SweepPlan, sweep_plan
from attncli.engine.sweeps.work import code_version, point_key
from attncli.errors import InputError
from attncli.runtime import Progress
from attncli.studies import load_study, options_model
from tests.cli import experiment

TWO = [{"scorer": "scaled_dot"}, {"scorer": "additive", "num_hiddens": 4}]


def planned(path: Path, *over: str, sets: tuple[str, ...] = (), **options: Any) -> SweepPlan:
    pairs = [(option, text) for option, _, text in (each.partition(" ") for each in over)]
    return sweep_plan(read_document(path, [parse_override(each) for each in sets]), typed_axes(pairs), **options)


def test_points_by_hand(tmp_path: Path) -> None:
    """Points are the product of the axes, the last axis fastest; each has the same config as with --set."""
    path = experiment(tmp_path / "x.yaml", scorers=TWO)
    plan = planned(path, "over seed=3..4", "over scorers[0].scale=0.5,2", "with num_hiddens=2,8")
    keys = ["seed", "scorers[0].scale", "num_hiddens"]
    assert swept_keys(plan.axes) == keys
    expected = [dict(zip(keys, (seed, *pair), strict=True)) for seed, pair in product((3, 4), ((0.5, 2), (2, 8)))]
    assert [point.sweep for point in plan.points] == expected
    for point in plan.points:
        sets = [parse_override(f"{key}={value}") for key, value in point.sweep.items()]
        options = read_document(path, sets).validate(options_model("attention"))
        own = {key: value for key, value in config_data(options).items() if key != "name"}
        assert point.config == own
        assert point.key == point_key(own, code_version())
    assert plan.points[3].text == "seed = 4, scorers[0].scale = 2, num_hiddens = 8"


def test_identity_is_of_what_changes_numbers() -> None:
    config = {"study": "attention", "name": "a", "seed": 1, "expect": [1], "figure": {"dpi": 9}}
    assert point_key(config, "1") == point_key({"study": "attention", "seed": 1}, "1")
    assert len({point_key(config, "1"), point_key(config, "2"), point_key({**config, "seed": 2}, "1")}) == 3


def test_identity_is_also_of_the_content_of_files_and_modules(
    here: Path, own_module: Callable[[str, str], None]
) -> None:
    keys = set()
    for length, factor in ((1, 1), (2, 1), (2, 2), (2, 2)):
        Path("lengths.csv").write_text(f"{length}\n{length}\n")
        own_module("mine", f"def own(queries, keys):\n    return {factor} * queries @ keys.mT\n")
        path = experiment(here / "x.yaml", scorers=["mine:own"], data={"valid_lens": {"file": "lengths.csv"}})
        keys.add(planned(path, "over seed=0").points[0].key)
    assert len(keys) == 3


def test_the_command_line_replaces_axes_of_the_file(tmp_path: Path) -> None:
    path = experiment(tmp_path / "x.yaml", sweep={"over": [{"seed": "0..1"}, {"keys.shape[1]": [5, 6]}]})
    assert len(planned(path).points) == 4
    plan = planned(path, "over seed=7", "over dtype=float32,float64")
    assert swept_keys(plan.axes) == ["seed", "keys.shape[1]", "dtype"]
    assert [point.sweep["keys.shape[1]"] for point in plan.points] == [5, 5, 6, 6]


def test_config_of_the_folder_plans_the_same_points_anywhere(tmp_path: Path) -> None:
    """The config has absolute paths, and the axes with their overrides."""
    (tmp_path / "bias.csv").write_text("0,1,2,3,4\n" * 3)
    path = experiment(tmp_path / "x.yaml", data={"bias": {"file": "bias.csv"}}, scorers="dot")
    plan = planned(path, "over seed=0..2", "over data.keys.fill=normal,ones", sets=("device=cpu",))
    assert plan.points[0].config["data"]["bias"]["file"] == str(tmp_path / "bias.csv")
    again = tmp_path / "elsewhere" / "config.yaml"
    again.parent.mkdir()
    again.write_text(dump_yaml(plan.config))
    assert (planned(again).points, planned(again).options.name) == (plan.points, "x")


def test_a_fit_beside_the_config_is_found_from_the_folder_of_the_sweep(here: Path) -> None:
    tower = "tests.studies.swap.models:tower"
    attncli.run({"study": "fit", "model": tower, "scorers": ["cosine"], "steps": 1}, out="fit")
    entries = [{"fitted": "fit"}, {"plan": {"0": {"fitted": "fit"}, "1": "dot"}, "label": "mixed"}]
    Path("x.yaml").write_text(json.dumps({"study": "swap", "model": tower, "scorers": entries}))
    plan = planned(Path("x.yaml"), "over seed=0..1")
    mixed = plan.config["scorers"][1]["plan"]
    assert [plan.config["scorers"][0]["fitted"], mixed["0"]["fitted"]] == [str(here / "fit/fitted.safetensors")] * 2
    (here / "out").mkdir()
    Path("out/config.yaml").write_text(dump_yaml(plan.config))
    assert planned(Path("out/config.yaml")).points == plan.points


def test_problems_in_a_file_have_line_and_column(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(
        "data: {queries: {shape: [1, 2, 4]}, keys: {shape: [1, 3, 4]}}\nscorers: [dot]\n"
        "sweep:\n  over:\n    - {seed: [0, -1]}\n    - {dtype: [float32, float8], train: [1, true]}\n"
    )
    with pytest.raises(InputError) as caught:
        planned(path)
    assert [problem.partition("; ")[0] for problem in str(caught.value).splitlines()] == [
        f"{path}:6:42: train: got 1",
        f'{path}:6:25: dtype: got "float8"',
        f"{path}:5:18: seed: got -1",
    ]


def test_the_first_points_and_the_last_are_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of points that differ only in their seed one is tried."""
    study, tried = load_study("attention"), list[tuple[object, ...]]()

    def noted(options: Any, progress: Progress) -> Any:
        tried.append((options.seed, options.scorers[0].options["scale"], options.data.keys.shape[1]))
        return study.prepare(options, progress)

    monkeypatch.setattr(points, "load_study", lambda name: replace(study, prepare=noted))
    monkeypatch.setattr(points, "MOST_TRIED", 4)
    path = experiment(tmp_path / "x.yaml", scorers=TWO)
    planned(path, "over seed=0..4", "over scorers[0].scale=1..3", "over keys.shape[1]=1..3")
    assert tried == [(0, 1, 1), (0, 1, 2), (0, 1, 3), (0, 2, 1), (0, 3, 3)]
