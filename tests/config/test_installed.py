"""Scorers and normalisers that installed packages list under the entry point groups of attncli."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import torch

import attncli as package
from attncli.cli.scorers import catalogue_names, scorer_names
from attncli.normalizers import NORMALIZERS
from attncli.scorers import SCORERS
from tests.cli import attncli, experiment, good, refusal
from tests.config.packages import MODULE, install
from tests.studies.swap.models import tower

OWN, D = "its_module:Quarter", 16
SAME = {"scorer": "scaled_dot", "scale": D**-0.25, "label": "same"}  # the built-in scorer with the same scores
NORMALS: dict[str, Any] = {"queries": {"shape": [2, 12, D]}, "keys": {"shape": [2, 12, D]}, "valid_lens": [7, 12]}


@pytest.fixture
def site(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder on the path of Python, for packages."""
    folder = here / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    for name in ("its_module", "other_module", "broken"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return folder


@pytest.fixture
def quarter(site: Path) -> Path:
    """Install the package quarter-power with the scorer `quarter` and the normaliser `halved`."""
    return install(site, scorers=f"quarter = {OWN}", normalizers="halved = its_module:Halved", its_module=MODULE)


def same_rows(records: Sequence[dict[str, Any]], *columns: str) -> None:
    """Check that the rows of `quarter` and of the built-in scorer with the same scores have the same numbers."""
    mine, same = ([row for row in records if row["label"] == label] for label in ("quarter", "same"))
    assert {row["scorer"] for row in mine} == {"quarter"}
    for row, other in zip(mine, same, strict=True):
        numbers = {column: other[column] for column in columns}
        assert {column: row[column] for column in columns} == pytest.approx(numbers, rel=1e-5, abs=1e-7)


@pytest.mark.usefixtures("quarter")
def test_the_catalogue_lists_them_with_their_package() -> None:
    listed = " ".join(good("scorers").split())
    facts = "options power = 0.25; parameters gain (k); package quarter-power (its_module:Quarter)"
    assert f"quarter q . k / d^power (a test's own) {facts}" in listed
    normalizer = "halved share * softmax(s) (a test's own) options share = 0.5; package quarter-power"
    assert listed.endswith(f"{normalizer} (its_module:Halved)")
    assert "A dot product between scaled_dot and dot.\n\noption power: number; default 0.25" in good(
        "scorers", "quarter"
    )
    assert good("scorers", "halved").endswith("package quarter-power (its_module:Halved)\n")
    assert catalogue_names() == [*sorted([*SCORERS, "quarter"]), *sorted([*NORMALIZERS, "halved"])]


@pytest.mark.usefixtures("quarter")
def test_the_schema_has_their_options() -> None:
    schema = json.loads(good("schema"))
    data = {"data": {"queries": {"shape": [3, 2]}, "keys": {"shape": [4, 2]}}}
    for entry, is_good in (
        ({"scorer": "quarter"}, True),
        ({"scorer": "quarter", "power": 0.5, "normalizer": {"normalizer": "halved", "share": 0.1}}, True),
        ({"scorer": "quarter", "power": "two"}, False),
        ({"scorer": "quarter", "factor": 2}, False),
    ):
        assert jsonschema.Draft202012Validator(schema).is_valid({**data, "scorers": [entry]}) == is_good


@pytest.mark.usefixtures("quarter", "no_pictures")
def test_a_run_of_attention_and_its_folder() -> None:
    result = package.run({"data": NORMALS, "scorers": ["quarter", SAME, "dot:normalizer=halved", "dot"]}, out="out")
    same_rows(result.records, "score_mean", "score_std", "entropy", "max_weight")
    assert [row["parameters"] for row in result.records] == [D, 0, 0, 0]
    torch.testing.assert_close(result.tensors["quarter/scores"], result.tensors["same/scores"])
    torch.testing.assert_close(result.tensors["dot_halved/weights"], 0.5 * result.tensors["dot/weights"])
    again = package.run("out/config.yaml")  # names the scorer
    assert torch.equal(again.tensors["quarter/output"], result.tensors["quarter/output"])
    changed: dict[str, Any] = {"scorers[0].power": 0.0}
    raw = package.run("out/config.yaml", **changed)
    torch.testing.assert_close(raw.tensors["quarter/scores"], result.tensors["dot/scores"])


@pytest.mark.usefixtures("quarter")
def test_other_studies_and_the_processes_of_a_sweep(here: Path) -> None:
    config = experiment(here / "x.yaml", data=NORMALS, scorers=["quarter", SAME])
    quiet = ("--no-plots", "--quiet", "--out")
    assert "quarter" in good("explain", config, "--scorer", "quarter")
    good("sweep", config, "--over", "power=0.25,0.5", "--jobs", 2, *quiet, "sweep")
    swept = [row for row in package.load("sweep").records if row["power"] == 0.25]
    same_rows(swept, "entropy", "score_std")
    scorers = ["quarter", f"scaled_dot:scale={8**-0.25},label=same", "halved"]  # the model has heads of size 8
    by_label = {row["label"]: row for row in package.swap(*tower(), scorers=scorers, by="all").records}
    assert by_label["quarter"]["relative_l2"] == pytest.approx(by_label["same"]["relative_l2"], rel=1e-5)
    assert (by_label["halved"]["scorer"], by_label["halved"]["normalizer"]) == ("scaled_dot", "halved")


@pytest.mark.usefixtures("quarter")
def test_a_package_that_fails_matters_only_where_its_name_is_used(here: Path, site: Path) -> None:
    broken = "raise RuntimeError('no licence')"
    install(site, "broken-pack", scorers="half = broken:Half", normalizers="bad = its_module:Nothing", broken=broken)
    message = 'got "half", broken:Half of the package broken-pack; importing broken gave RuntimeError: no licence '
    message += "(line 1 of broken.py); update or uninstall broken-pack"
    missing = 'got "bad", its_module:Nothing of the package broken-pack; its_module has no Nothing; '
    missing += "update or uninstall broken-pack"
    good("run", "d2l", "--scorer", "quarter", "--no-plots", "--quiet")
    config = experiment(here / "x.yaml", scorers=["half", "dot:normalizer=bad"])
    assert refusal("run", config).replace(f"{config}:1:", "1:").splitlines() == [
        f"1:87: scorers[0].scorer: {message}",
        f"1:95: scorers[1].normalizer: {missing}",
    ]
    for command in ("scorers", "schema"):
        result = attncli(command)
        assert (result.exit_code, result.stderr) == (2, f"{message}\n{missing}\n")
        assert "quarter" in result.stdout
        assert "half" not in result.stdout.split()


def test_names_that_two_packages_have(here: Path, site: Path) -> None:
    install(site, "one-pack", scorers=f"same = {OWN}\nfine = {OWN}", its_module=MODULE)
    install(site, "two-pack", scorers=f"same = other_module:Quarter\ndot = {OWN}", other_module=MODULE)
    install(site, "three-pack", normalizers="sparsemax = its_module:Halved")
    both = [
        ("dot", "attncli and two-pack", OWN),
        ("same", "one-pack and two-pack", f"{OWN} or other_module:Quarter"),
        ("sparsemax", "attncli and three-pack", "its_module:Halved"),
    ]
    messages = [
        f'got "{name}", which the packages {packages} both have; uninstall one of them, or name the class: {classes}'
        for name, packages, classes in both
    ]
    config = experiment(here / "x.yaml", scorers=["dot", "same", "additive:normalizer=sparsemax"])
    assert [line.partition("].")[2] for line in refusal("check", config).splitlines()] == [
        f"{key}: {message}" for key, message in zip(("scorer", "scorer", "normalizer"), messages, strict=True)
    ]
    result = attncli("scorers")
    assert (result.exit_code, result.stderr.splitlines()) == (2, messages)
    names = [line.partition(" ")[0] for line in result.stdout.splitlines()]
    assert {"fine", "additive", "softmax"} <= {*names}
    assert [name for name, *_ in both if name in names] == ["dot", "sparsemax"], "the built-in ones"


@pytest.mark.usefixtures("quarter")
def test_damaged_metadata_of_a_package_hides_no_other_package(site: Path) -> None:
    (site / "damaged-1.dist-info").mkdir()
    (site / "damaged-1.dist-info" / "entry_points.txt").write_text("[attncli.scorers]\nno value\n")
    assert scorer_names() == sorted([*SCORERS, "quarter"])


def test_what_a_module_prints_as_it_is_imported_stays_out_of_json(site: Path) -> None:
    install(site, scorers=f"quarter = {OWN}", its_module=f"print('hello')\n{MODULE}")
    assert json.loads(good("schema"))
