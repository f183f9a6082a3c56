"""Findings about a scorer with random parameters say so: other random numbers would give other results."""

from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import save_file

import attncli
from attncli.results import Finding
from attncli.studies.attention.findings import attention_findings
from tests.scorers.catalogue import make
from tests.studies.bench.small import hurry
from tests.studies.swap.models import tower

RANDOM = "additive (random parameters)"
SCORERS: list[Any] = ["additive", {"scorer": "scaled_dot"}, "cosine"]
TENSORS = {"queries": {"shape": [2, 3, 16, 4]}, "keys": {"shape": [2, 3, 16, 4]}}
CAPTURED = Path(__file__).parents[2] / "experiments" / "minilm.safetensors"
EXPERIMENTS: dict[str, dict[str, Any]] = {
    "attention": {"data": TENSORS},
    "captured": {"data": {"capture": str(CAPTURED), "layers": [0, 1]}},
    "variance": {"study": "variance", "d": [4, 8], "samples": 100},
    "saturation": {"study": "saturation", "d": [4], "keys": 8, "rows": 20},
    "doctor": {"study": "doctor", "data": TENSORS},
    "bench": {"study": "bench", "n": [6], "d": [4], "num_hiddens": [8], "threads": 1},
    "train": {"study": "train", "d": [4], "seeds": 1, "steps": 2, "batch": 4, "keys": 2, "vocabulary": 4, "classes": 2},
}
STUDIES = [name for name in EXPERIMENTS if name != "train"]
fast = pytest.fixture(hurry, autouse=True)


def findings(name: str, scorers: list[Any]) -> list[Finding]:
    """Return the findings of a small run."""
    options = {"name": name, "scorers": scorers, **EXPERIMENTS[name]}
    return list(attncli.run(options).findings)


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_says_that_parameters_are_random(name: str) -> None:
    found = findings(name, SCORERS)
    texts = [each.text for each in found]
    assert any(RANDOM in text for text in texts)
    assert all("additive" not in text.replace(RANDOM, "") for text in texts)
    assert all(f"{label} (random" not in text for text in texts for label in ("scaled_dot", "cosine"))
    assert {each.label for each in found} <= {None, "additive", "scaled_dot", "cosine"}


@pytest.mark.parametrize("name", [name for name in STUDIES if name != "captured"])
def test_parameters_from_a_file_are_not_random(name: str, tmp_path: Path) -> None:
    stored, options = tmp_path / "trained.safetensors", {"d": [4]} if "d" in EXPERIMENTS[name] else {}
    save_file(make("additive", 4).state_dict(), stored)
    scorers = [{"scorer": "additive", "parameters": {"file": str(stored)}}, "cosine"]
    result = attncli.run({"name": name, "scorers": scorers, **EXPERIMENTS[name], **options})
    assert result.random == []
    assert all("random" not in each.text for each in result.findings)


def test_parameters_that_are_trained_or_not_drawn_are_not_random() -> None:
    assert all("random" not in each.text for each in findings("train", SCORERS))
    scorers = ["tests.studies.fit.test_study:Tempered", "general", "dot"]
    assert attncli.run({"data": TENSORS, "scorers": scorers}).random == ["general"]


def test_doctor_names_even_a_single_scorer_with_random_parameters() -> None:
    texts = [each.text for each in findings("doctor", ["additive"])]
    assert all(text.startswith(f"{RANDOM}: ") or f"with {RANDOM}" in text for text in texts)
    assert all("dot" not in each.text for each in findings("doctor", ["dot"]))


def test_models_with_a_random_scorer_inside() -> None:
    model, inputs = tower()
    result = attncli.swap(model, inputs, scorers=["additive", "cosine"])
    assert result.random == ["additive"]
    (text,) = [each.text for each in result.findings if each.label == "additive"]
    assert text.startswith(f"{RANDOM}: in all layers")


def test_sweeps(tmp_path: Path) -> None:
    """The labels are kept in the journal, so a resumed sweep says so, too."""
    over = {"keys.shape[2]": [4, 16], "queries.shape[2]": [4, 16]}
    result = attncli.sweep({"scorers": SCORERS, "data": TENSORS}, [over], jobs=1, out=tmp_path / "sweep")
    texts = {each.label: each.text for each in result.findings}
    assert texts["additive"].startswith(f"{RANDOM}: ")
    assert texts["cosine"].startswith("cosine: ")
    assert attncli.load(tmp_path / "sweep").random == ["additive"]


def test_differences_between_runs() -> None:
    one, two = (attncli.run({"data": TENSORS, "scorers": ["additive", "dot"]}, num_hiddens=size) for size in (4, 8))
    sentence = attncli.compare(one, two).sentence
    assert RANDOM in sentence
    assert "additive" not in sentence.replace(RANDOM, "").partition("changed settings")[0]


def test_the_same_weights_are_no_accident() -> None:
    """Equal keys give equal weights, whatever the parameters are."""
    same = {"a": "additive", "b": "dot", "js_divergence": 0.0, "top1_agreement": 1.0, "max_abs_difference": 0.0}
    (finding,) = attention_findings([], [same], [], ["additive"])
    assert finding.text == "additive and dot give the same weights."
