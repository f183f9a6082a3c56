"""What the study of saturation says in tables and sentences, from the figures of its records."""

import re
from pathlib import Path

import pytest
import torch

from attncli.runs.tensors import save_named
from attncli.studies.saturation.columns import COLUMNS
from attncli.studies.saturation.tables import tables
from attncli.studies.study import Result
from tests.show.samples import printed
from tests.studies.pairs.samples import swept


def shown(result: Result, width: int = 80, full: bool = False) -> str:
    return printed(list(tables(result, width=width, full=full, csv=None)), width)


def said(result: Result) -> dict[str | None, str]:
    return {finding.label: finding.text for finding in result.findings}


def test_columns_are_those_of_the_rows() -> None:
    result = swept("saturation", d=[2, 4], rows=10, keys=3)
    assert all(list(record) == [column.key for column in COLUMNS] for record in result.records)


def test_one_table_for_a_single_size() -> None:
    text = shown(swept("saturation", d=[512], rows=50))
    assert text.startswith("normal entries, mean 0, std 1; d = 512, 64 keys, 50 rows; entropy, largest")
    assert text.count("Jacobian  ") + text.count("Jacobian \n") == 1, "one table"
    assert "additive: w_v . tanh(W_q q + W_k k)" in text
    assert max(map(len, text.splitlines())) <= 80


def test_a_table_for_each_label() -> None:
    result = swept("saturation", d=[2, 512], rows=50, rho=0.5, scorers=[{"scorer": "dot"}, {"scorer": "cosine"}])
    text = shown(result)
    assert text.count("effective") == 1 + 2
    assert "not one matching key among others" in " ".join(text.split())
    for record in result.records:
        assert f"{record['jacobian_median']:.3g}" in text or f"{record['jacobian_median']:.1e}" in text


def test_heads_and_their_rows(tmp_path: Path) -> None:
    valid = torch.stack([torch.eye(3, 4).bool(), torch.ones(3, 4).bool()])[None]
    tensors = {"queries": torch.randn(1, 2, 3, 5), "keys": torch.randn(1, 2, 4, 5), "valid": valid}
    save_named(tmp_path / "qk.safetensors", tensors)
    result = swept("saturation", source=tmp_path / "qk.safetensors", scorers=[{"scorer": "dot"}])
    assert re.search(r"head +rows .*\n.*\n0 +0 .*\n1 +3 ", shown(result)), "which differ from head to head"
    norm = f"{result.records[1]['jacobian_median']:.4g}"
    assert said(result)["dot"].startswith(f"dot: median norm of the softmax Jacobian {norm} at d = 5; largest weight")


def test_sentences_over_sizes() -> None:
    scorers = [{"scorer": "dot"}, {"scorer": "scaled_dot"}]
    result = swept("saturation", d=[1, 8, 512], rows=200, scorers=scorers)
    texts, records = said(result), result.records
    assert list(texts) == ["dot", "scaled_dot", None]
    first, _, turn, _, last, _ = (f"{record['jacobian_median']:.4g}" for record in records)
    start = f"dot: median norm of the softmax Jacobian {first} at d = 1 over {turn} at d = 8 to {last} at d = 512"
    assert texts["dot"].startswith(start)
    assert " from d = 1 to 512; largest weight " in texts["scaled_dot"]
    why = "Why: no gradient passes a softmax with all weight on one key; uniform weights have norm 0.124; means hide "
    assert str(texts[None]).startswith(f"{why}that: {records[4]['jacobian_mean']:.3g}")


@pytest.mark.parametrize("scorer", ["additive", "cosine"])
def test_no_why_where_nothing_is_saturated(scorer: str) -> None:
    assert None not in said(swept("saturation", d=[64, 512], rows=20, scorers=[{"scorer": scorer}]))


def test_no_finite_number() -> None:
    scorer = {"scorer": "scaled_dot", "scale": 1e300}
    text = said(swept("saturation", d=[4], rows=20, std=1e9, scorers=[scorer], dtype="float64"))["scaled_dot"]
    assert text == "scaled_dot: the weights are no finite numbers, or there are none."
