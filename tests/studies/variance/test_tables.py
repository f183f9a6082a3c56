"""The tables of the variance: every figure of the records, at any width."""

from pathlib import Path
from typing import Any

import pytest
import torch

from attncli.runs.tensors import save_named
from attncli.studies.study import Result
from attncli.studies.variance.tables import tables
from tests.show.samples import printed
from tests.studies.pairs.samples import swept


def shown(result: Result, width: int = 80, full: bool = False) -> str:
    return printed(list(tables(result, width=width, full=full, csv=None)), width)


def test_a_table_for_each_label() -> None:
    text = shown(swept("variance", d=[1, 1024], samples=1000))
    assert text.startswith("normal entries, mean 0, std 1; ± is half of the 95 % interval")
    assert "scaled_dot: scale 1 at d = 1 to 0.03125 at d = 1024" in text
    assert "scaled_dot_1_over_d (scaled_dot): scale 1 at d = 1" in text
    assert text.count("q . k (Luong et al. 2015, arXiv:1508.04025)") == 1
    assert text.count("theory") == 1 + 3 * 2, "one table each, not two"
    assert max(map(len, text.splitlines())) <= 80
    assert "kind" not in text


def test_limits_and_unknown_theories_are_told_apart() -> None:
    softcap = {"scorer": "dot", "label": "capped", "softcap": 2.0}
    text = shown(swept("variance", d=[4], samples=1000, scorers=[{"scorer": "additive"}, softcap]))
    additive, capped = text.split("capped (dot)")
    assert "limit" in additive
    assert "0.1073" in additive
    assert capped.count(" -") >= 4
    assert "- where no closed form is known" in capped
    assert "closed form" not in additive


@pytest.mark.parametrize("width", [40, 80, 200])
def test_real_pairs_at_any_width(width: int, tmp_path: Path) -> None:
    tensors = {"queries": torch.randn(1, 2, 5, 16), "keys": torch.randn(1, 2, 6, 16)}
    save_named(tmp_path / "qk.safetensors", tensors)
    result = swept("variance", source=tmp_path / "qk.safetensors")
    text = shown(result, width)
    assert "d = 16, so 1/sqrt(d) = 0.25" in " ".join(text.split())
    for record in result.records:
        for key in ("variance", "row_variance", "unit_scale"):
            assert f"{record[key]:.4g}"[:4] in text
    assert max(map(len, text.splitlines())) <= width


def test_long_tables_are_shortened() -> None:
    result: Any = swept("variance", d=list(range(1, 51)), samples=10, scorers=[{"scorer": "dot"}])
    assert "10 of 50 rows left out; see them with --full" in shown(result)
    assert "left out" not in shown(result, full=True)
