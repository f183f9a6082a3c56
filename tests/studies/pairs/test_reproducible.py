"""Metrics depend on the seed only, not on threads, other scorers or sizes; global random states stay the same."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attncli.errors import InputError
from attncli.results import Result
from tests.studies.pairs.samples import by_place, swept

ALL = [{"scorer": name} for name in ("additive", "general", "cosine")]
SEVERAL_PARTS: dict[str, dict[str, Any]] = {
    "variance": {"samples": 40_000, "d": [3, 64], "scorers": ALL, "rho": 0.5, "mean": 0.1},
    "saturation": {"rows": 700, "keys": 64, "d": [3, 64], "scorers": ALL},
}
STUDIES = pytest.mark.parametrize("study", SEVERAL_PARTS)


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


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


class Broken(nn.Module):
    """A scorer that fails."""

    def __init__(self, query_size: int, key_size: int) -> None:
        super().__init__()

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        raise RuntimeError("not today")


@STUDIES
def test_torch_is_left_as_it_was_even_by_a_scorer_that_fails(study: str) -> None:
    torch.manual_seed(3)
    torch.set_num_threads(2)
    state, grad = torch.random.get_rng_state(), torch.is_grad_enabled()
    with pytest.raises(InputError, match=r"scorers\[1\]: the scorer gave RuntimeError: not today"):
        swept(study, **SEVERAL_PARTS[study] | {"scorers": [ALL[0], {"scorer": f"{__name__}:Broken"}]})
    assert torch.equal(torch.random.get_rng_state(), state)
    assert (torch.get_num_threads(), torch.is_grad_enabled()) == (2, grad)
