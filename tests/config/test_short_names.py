"""`hedgehog`, `t2r` and `linear` stand for entries of the scorer `kernel` wherever an entry may be text."""

from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

import attncli
from attncli.config.models import Experiment
from attncli.models.swap import swap_entry
from tests.cli import experiment, good, refusal

pytestmark = pytest.mark.usefixtures("here")
FEATURES = {"hedgehog": "hedgehog", "t2r": "t2r", "linear": "elu_plus_one"}


def long_form(name: str, **keys: Any) -> dict[str, Any]:
    return {"scorer": "kernel", "phi": FEATURES[name], "normalizer": "sum", "label": name, **keys}


@pytest.mark.parametrize("name", FEATURES)
def test_the_long_form(name: str) -> None:
    scorers = [name, f"{name}:window=2", f"{name}:label=mine", {"scorer": name, "label": "mapping"}]
    assert Experiment.normalised({"scorers": scorers})["scorers"] == [
        long_form(name),
        long_form(name, window=2, label=f"{name}_2"),
        long_form(name, label="mine"),
        long_form(name, label="mapping"),
    ]
    plan = swap_entry({0: name, 1: {"heads": {0: f"{name}:window=3"}}})
    assert [(each.label, each.window) for each in plan.entries] == [(name, None), (f"{name}_3", 3)]
    assert {each.options["phi"] for each in plan.entries} == {FEATURES[name]}


def test_in_yaml_on_the_command_line_and_in_python() -> None:
    path = experiment(Path("x.yaml"), mask={"align": "top_left"}, scorers=["hedgehog", "linear:window=2", "dot"])
    good("run", path, "--out", "run", "--no-plots", "--quiet")
    written = yaml.safe_load(Path("run/config.yaml").read_text("utf-8"))["scorers"]
    for entry, form in zip(written, (long_form("hedgehog"), long_form("linear", label="linear_2")), strict=False):
        assert entry.items() >= form.items()
    good("run", path, "--scorer", "t2r", "--out", "short", "--no-plots", "--quiet")
    keys: dict[str, Any] = {"scorers[0].phi": "relu", "scorers[2]": "linear"}
    changed = attncli.run("run/config.yaml", **keys)
    assert [row["label"] for row in changed.records] == ["hedgehog", "linear_2", "linear"]
    assert len({*changed.formulas.values()}) == 3
    long = attncli.run(path, scorers="kernel:phi=t2r,normalizer=sum,label=t2r").tensors["t2r/weights"]
    for short in (attncli.load("short"), attncli.run(path, scorers="t2r")):
        torch.testing.assert_close(short.tensors["t2r/weights"], long, rtol=0, atol=0)


def test_the_catalogue_and_messages_name_them() -> None:
    for name, phi in FEATURES.items():
        lines = good("scorers", name).splitlines()
        assert f"short name {name}: kernel:phi={phi},normalizer=sum" in lines
    assert "short names linear, t2r, hedgehog" in " ".join(good("scorers").split())
    assert refusal("fit", "m:f", "--text", "x", "--scorer", "hedghog").endswith("did you mean `hedgehog`?")
