"""Built-in experiments are explained, and their results match their comments; test_contract.py runs all but sweeps."""

from pathlib import Path

import pytest
import torch

import attncli
from attncli.config.builtin import builtin_names, builtin_path
from tests.cli import good, results

D2L_OUTPUTS = torch.tensor([[[2.0, 3.0, 4.0, 5.0]], [[10.0, 11.0, 12.0, 13.0]]])
SWEEPS: dict[str, list[str]] = {  # reduced sweeps have no expectations
    "captured_scales": [],
    "temperature": ["--over", "seed=0,4", "--set", "expect=[]"],
    "learning_rates": ["--over", "d=4", "--over", "lr=0.001,0.01", "--set", "steps=2", "--set", "expect=[]"],
}


@pytest.mark.parametrize("name", builtin_names())
def test_explained_and_sourced(name: str) -> None:
    about, comment, *_ = builtin_path(name).read_text(encoding="utf-8").splitlines()
    assert about.startswith("about: ")
    assert comment.startswith("# ")


@pytest.mark.parametrize(("name", "scorers"), [("d2l", 2), ("d2l_additive", 1), ("d2l_dot_product", 1)])
def test_published_outputs_of_d2l(name: str, scorers: int) -> None:
    outputs = [tensor for key, tensor in attncli.run(name).tensors.items() if key.endswith("/output")]
    torch.testing.assert_close(outputs, [D2L_OUTPUTS] * scorers)


def test_normalizers_of_the_same_scores() -> None:
    """The weights are those of the normalisers of the comment: some are 0, and some do not sum to 1."""
    stored = attncli.run("normalizers").tensors
    scores = stored["softmax/scores"]
    assert scores[0, 1].tolist() == pytest.approx([2, 1.8, 0.4, 0, -1, -2])
    weights = {key.partition("/")[0]: each for key, each in stored.items() if key.endswith("/weights")}
    for name in weights:
        assert torch.equal(stored[f"{name}/scores"], scores)
    assert {name for name, each in weights.items() if bool((each == 0).any())} == {"sparsemax", "entmax", "relu"}
    others = {name for name, each in weights.items() if not torch.allclose(each.sum(-1), torch.ones(1, 4))}
    assert others == {"softmax_plus_one", "sigmoid", "relu"}


def test_sweeps_are_those_that_are_run() -> None:
    texts = {name: builtin_path(name).read_text(encoding="utf-8") for name in builtin_names()}
    swept = {name for name, text in texts.items() if "\nsweep:" in text}
    assert {name for name in swept if not name.startswith("papers/")} == {*SWEEPS}  # test_claims.py has the others


WHOLE = [pytest.param("temperature", [], marks=pytest.mark.slow)]
WHOLE += [pytest.param("learning_rates", [], marks=pytest.mark.nightly)]


@pytest.mark.parametrize(("name", "changes"), [*SWEEPS.items(), *WHOLE])
def test_sweeps(name: str, changes: list[str], tmp_path: Path) -> None:
    good("sweep", name, *changes, "--out", tmp_path / "out", "--quiet", "--jobs", "2")
    content = results(tmp_path / "out")
    assert {point["status"] for point in content["sweep"]["points"]} == {"done"}
    assert all(each["holds"] for each in content["expectations"])
