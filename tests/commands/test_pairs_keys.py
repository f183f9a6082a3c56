"""Flags of `attncli variance` and `attncli saturation`, their keys in YAML, and the config.yaml that they leave."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli import run
from tests.commands.pairs import FEW, PAIRS, config, swept


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


SETTINGS: dict[str, Any] = {
    "seed": 3,
    "dtype": "float64",
    "device": "cpu",
    "d": [2, 8],
    "distribution": "student_t",
    "df": 9.5,
    "mean": 0.5,
    "std": 2.0,
    "query_mean": -1.0,
    "query_std": 0.5,
    "key_mean": 2.0,
    "key_std": 1.5,
    "rho": -0.25,
}


@pytest.mark.parametrize(("study", "own"), [("variance", {"samples": 500}), ("saturation", {"keys": 4, "rows": 10})])
def test_every_flag_is_the_key_of_its_name(study: str, own: dict[str, int], here: Path) -> None:
    settings, flags = SETTINGS | own, list[object]()
    for key, value in settings.items():
        for each in value if isinstance(value, list) else [value]:
            flags += [f"--{key.replace('_', '-')}", each]
    by_flags = swept(study, *flags, "--scorer", "additive:num_hiddens=3", "--scorer", "cosine:label=c")
    kept = config()
    assert {key: kept[key] for key in settings} == settings
    assert [(e["scorer"], e["label"]) for e in kept["scorers"]] == [("additive", "additive_3"), ("cosine", "c")]
    assert kept["scorers"][0]["num_hiddens"] == 3
    scorers = [{"scorer": "additive", "num_hiddens": 3, "label": "additive_3"}, {"scorer": "cosine", "label": "c"}]
    text = json.dumps({"study": study, "name": study, **settings, "scorers": scorers})
    (here / "same.yaml").write_text(text)
    by_file = run(here / "same.yaml", here / "file")
    assert by_file["records"] == by_flags["records"]
    assert (by_flags["study"], by_flags["name"], by_flags["seed"]) == (study, study, 3)


@pytest.mark.parametrize("study", PAIRS)
@pytest.mark.parametrize("key", SETTINGS)
def test_every_key_changes_the_numbers(study: str, key: str, here: Path) -> None:
    keys: dict[str, Any] = {"study": study, "d": 4, "dtype": "float64", "distribution": "student_t"}
    keys |= {"samples": 100} if study == "variance" else {"rows": 10, "keys": 3}
    other = {"dtype": "float32", "distribution": "uniform"}.get(key, SETTINGS[key])
    (here / "a.yaml").write_text(json.dumps(keys))
    (here / "b.yaml").write_text(json.dumps(keys | {key: other}))
    before, after = (run(here / f"{name}.yaml", here / name)["records"] for name in "ab")
    if key == "device":
        assert before == after
    else:
        assert before != after


@pytest.mark.parametrize("study", PAIRS)
@pytest.mark.parametrize(
    "flags",
    [
        ["--d", "{from: 1, to: 9, factor: 3}", "--mean", 0.5, "--seed", 5],
        ["--d", 8, "--distribution", "student_t"],
        ["--d", 8, "--scorer", "scaled_dot:scale=1/d,softcap=2", "--scorer", "gaussian:sigma=3", "--dtype", "float16"],
    ],
    ids=["range", "student_t", "scorers"],
)
def test_the_config_of_a_run_gives_it_again(study: str, flags: list[object], here: Path) -> None:
    records = swept(study, *flags, *FEW[study])["records"]
    assert run(here / "out" / "config.yaml", here / "again")["records"] == records
    assert config("again") == config()
