"""Metrics depend on the seed only, not on threads, other scorers or sizes."""

from pathlib import Path
from typing import Any

import pytest
import torch

from attncli.results import Result
from tests.studies.pairs.samples import by_place, swept

ALL = [{"scorer": name} for name in ("additive", "general", "cosine")]
SEVERAL_PARTS: dict[str, dict[str, Any]] = {
    "variance": {"samples": 40_000, "d": [3, 64], "scorers": ALL, "rho": 0.5, "mean": 0.1},
    "saturation": {"rows": 700, "keys": 64, "d": [3, 64], "scorers": ALL},
}
STUDIES = pytest.mark.parametrize("study", SEVERAL_PARTS)


def figures(result: Result) -> str:
    """Return all metrics with all digits as text, including None and NaN."""
    return repr((list(result.records), {name: tensor.tolist() for name, tensor in result.tensors.items()}))


@STUDIES
@pytest.mark.parametrize("real", [False, True])
def test_any_number_of_threads(real: bool, study: str, tmp_path: Path) -> None:
    keys = SEVERAL_PARTS[study]
    if real:
        randomness = torch.Generator().manual_seed(0)
        tensors = {name: torch.randn(1, 2, 700, 8, generator=randomness) for name in ("queries", "keys")}
        torch.save(tensors, tmp_path / "qk.pt")
        keys = {"source": tmp_path / "qk.pt", "scorers": ALL[:2]}
    found = []
    for threads in (1, 4):
        torch.set_num_threads(threads)
        found.append(figures(swept(study, **keys)))
        assert torch.get_num_threads() == threads
    assert found[0] == found[1]


@STUDIES
def test_other_scorers_and_sizes_change_nothing(study: str) -> None:
    whole = by_place(swept(study, **SEVERAL_PARTS[study]))
    fewer = by_place(swept(study, **SEVERAL_PARTS[study] | {"scorers": [ALL[2], ALL[0]], "d": [64, 2]}))
    single = by_place(swept(study, **SEVERAL_PARTS[study] | {"scorers": [ALL[0]], "d": 64}))
    for label in ("cosine", "additive"):
        assert repr(fewer[label, 64, None]) == repr(whole[label, 64, None])
    assert repr(single["additive", 64, None]) == repr(whole["additive", 64, None])
