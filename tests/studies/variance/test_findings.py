"""What the study of the variance says in words, and that its numbers are those of the records and of theory."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch

from attncli.runs.tensors import save_named
from attncli.scorers import SCORERS
from attncli.studies.study import Result
from tests.studies.pairs.samples import swept


def said(result: Result) -> dict[str | None, str]:
    return {finding.label: finding.text for finding in result.findings}


def test_one_size() -> None:
    result = swept("variance", d=[512], samples=20_000)
    texts, records = said(result), {record["label"]: record for record in result.records}
    assert list(texts) == ["dot", "scaled_dot", "scaled_dot_1_over_d", None]
    dot = records["dot"]
    start = f"dot: variance {dot['variance']:.1f} at d = 512, theory 512; "
    assert texts["dot"] == f"{start}a scale of {dot['unit_scale']:.4g} would make it 1."
    assert texts["scaled_dot"] == f"scaled_dot: variance {records['scaled_dot']['variance']:.4g} at d = 512, theory 1."
    numbers = next(finding.numbers for finding in result.findings if finding.label == "dot")
    assert numbers == {key: [dot[key]] for key in ("d", "variance", "theory_variance", "unit_scale", "z")}


def test_several_sizes() -> None:
    scorers = [{"scorer": name} for name in ("dot", "scaled_dot", "cosine", "additive")]
    texts = said(swept("variance", d=[64, 1, 8], samples=20_000, scorers=scorers))
    assert re.fullmatch(
        r"dot: variance [\d.]+ at d = 1 to 6\d\.\d+ at d = 64, like d\^1\.0\d, theory 1 to 64\.", texts["dot"]
    )
    assert " from d = 1 to 64, theory 1." in texts["scaled_dot"]
    assert texts["cosine"].endswith(", theory 1 to 0.01562.")
    assert texts["additive"].endswith("theory about 0.1073.")


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        (
            {},
            "mean 0 and variance 1, so q . k has mean 0 and variance d; 1/sqrt(d) leaves mean 0 and variance 1, 1/d "
            "leaves mean 0 and variance 1/d.",
        ),
        (
            {"mean": 0.5},
            "mean 0.25 and variance 1.5, so q . k has mean 0.25 d and variance 1.5 d; 1/sqrt(d) leaves mean "
            "0.25 sqrt(d) and variance 1.5, 1/d leaves mean 0.25 and variance 1.5/d.",
        ),
    ],
)
def test_why(keys: dict[str, Any], text: str) -> None:
    found = said(swept("variance", d=[4, 8], samples=100, **keys))[None]
    assert found == f"Why: each product q_i k_i has {text}"


def test_no_why_without_dot_products() -> None:
    assert None not in said(swept("variance", d=[4], samples=100, scorers=[{"scorer": "cosine"}]))


def test_what_chance_cannot_do_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    forward = SCORERS["dot"].forward
    monkeypatch.setattr(SCORERS["dot"], "forward", lambda self, queries, keys: 1.1 * forward(self, queries, keys))
    texts = said(swept("variance", d=[4, 8], samples=100_000))
    assert "standard errors from theory, too far for chance." in texts["dot"]
    assert "chance" not in texts["scaled_dot"]


def test_numbers_that_are_not_finite() -> None:
    scorer = {"scorer": "scaled_dot", "scale": 1e200}
    result = swept("variance", d=[4], samples=100, dtype="float64", scorers=[scorer])
    assert said(result)["scaled_dot"] == "scaled_dot: the variance is not a finite number."


@pytest.mark.parametrize("heads", [1, 3])
def test_real_pairs(heads: int, tmp_path: Path) -> None:
    queries = torch.randn(1, heads, 20, 16) * torch.arange(1.0, heads + 1)[:, None, None]
    save_named(tmp_path / "qk.safetensors", {"queries": queries, "keys": 2.0 + torch.randn(1, heads, 30, 16)})
    result = swept("variance", source=tmp_path / "qk.safetensors", scorers=[{"scorer": "dot"}, {"scorer": "additive"}])
    texts, dot = said(result), [record for record in result.records if record["label"] == "dot"]
    assert list(texts) == ["dot", "additive"]
    assert f"variance {dot[0]['variance']:.4g}" in texts["dot"]
    assert "of it within rows, where the softmax sees it" in texts["dot"], "keys have a mean in common"
    assert texts["additive"].endswith(" would make it 1.")
    assert ("(head 0)" in texts["dot"]) == (heads > 1)


def test_real_pairs_that_do_not_vary(tmp_path: Path) -> None:
    save_named(tmp_path / "qk.safetensors", {"queries": torch.ones(2, 4), "keys": torch.ones(3, 4)})
    texts = said(swept("variance", source=tmp_path / "qk.safetensors", scorers=[{"scorer": "dot"}]))
    assert texts == {"dot": "dot: variance 0 at d = 4."}
