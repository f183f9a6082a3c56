"""Same seed, same figures: on any number of threads, with any other scorers and sizes; and nothing else is touched."""

import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from attncli.errors import InputError
from attncli.scorers import SCORERS
from attncli.studies.study import Result
from tests.studies.pairs.samples import by_place, swept

ALL = [{"scorer": name} for name in SCORERS]
STUDIES: dict[str, dict[str, Any]] = {  # several parts for every d
    "variance": {"samples": 40_000, "d": [3, 64], "scorers": ALL, "rho": 0.5, "mean": 0.1},
    "saturation": {"rows": 700, "keys": 64, "d": [3, 64], "scorers": ALL},
}
BROKEN = """
import torch
from torch import nn

class Broken(nn.Module):
    def __init__(self, query_size, key_size):
        super().__init__()

    def forward(self, queries, keys):
        raise RuntimeError("not today")
"""


@pytest.fixture(autouse=True)
def threads() -> Iterator[int]:
    before = torch.get_num_threads()
    yield before
    torch.set_num_threads(before)


def figures(result: Result) -> str:
    """All of them with all their digits, None and NaN too."""
    return repr((list(result.records), {name: tensor.tolist() for name, tensor in result.tensors.items()}))


@pytest.mark.parametrize("study", STUDIES)
def test_any_number_of_threads(study: str) -> None:
    found = []
    for threads in (1, 2, 4):
        torch.set_num_threads(threads)
        found.append(figures(swept(study, **STUDIES[study])))
        assert torch.get_num_threads() == threads
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("study", STUDIES)
def test_real_tensors_on_any_number_of_threads(study: str, tmp_path: Path) -> None:
    path = tmp_path / "qk.pt"
    randomness = torch.Generator().manual_seed(0)
    torch.save({name: torch.randn(2, 2, 700, 8, generator=randomness) for name in ("queries", "keys")}, path)
    found = []
    for threads in (1, 4):
        torch.set_num_threads(threads)
        found.append(figures(swept(study, source=path, scorers=ALL)))
    assert found[0] == found[1]


@pytest.mark.parametrize("study", STUDIES)
def test_torch_has_one_thread_in_each_of_ours(study: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = set[int]()
    forward = SCORERS["dot"].forward

    def watched(self: Any, queries: Tensor, keys: Tensor) -> Tensor:
        if threading.current_thread() is not threading.main_thread():  # which scores beforehand
            seen.add(torch.get_num_threads())
        scores: Tensor = forward(self, queries, keys)
        return scores

    monkeypatch.setattr(SCORERS["dot"], "forward", watched)
    torch.set_num_threads(3)
    swept(study, **STUDIES[study] | {"scorers": [{"scorer": "dot"}]})
    assert seen == {1}


@pytest.mark.parametrize("study", STUDIES)
def test_other_scorers_and_sizes_change_nothing(study: str) -> None:
    whole = by_place(swept(study, **STUDIES[study]))
    fewer = by_place(swept(study, **STUDIES[study] | {"scorers": [ALL[4], ALL[0]], "d": [64, 2]}))
    single = by_place(swept(study, **STUDIES[study] | {"scorers": [ALL[0]], "d": 64}))
    assert repr([fewer[place] for place in fewer if place[1] == 64]) == repr(
        [whole["cosine", 64, None], whole["additive", 64, None]]
    )
    assert repr(single["additive", 64, None]) == repr(whole["additive", 64, None])


@pytest.mark.parametrize("study", STUDIES)
def test_the_seed_decides(study: str) -> None:
    first, again, other = (by_place(swept(study, seed=seed, **STUDIES[study])) for seed in (0, 0, 1))
    assert repr(first) == repr(again)
    column = "variance" if study == "variance" else "jacobian_median"
    assert not {row[column] for row in first.values()} & {row[column] for row in other.values()}


@pytest.mark.parametrize("study", STUDIES)
def test_torch_is_left_as_it_was(study: str) -> None:
    torch.manual_seed(3)
    torch.set_num_threads(2)
    state, grad = torch.random.get_rng_state(), torch.is_grad_enabled()
    swept(study, **STUDIES[study])
    assert torch.equal(torch.random.get_rng_state(), state)
    assert (torch.get_num_threads(), torch.is_grad_enabled()) == (2, grad)


@pytest.mark.parametrize("study", STUDIES)
def test_torch_is_left_as_it_was_after_an_error(study: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_scorer.py").write_text(BROKEN)
    monkeypatch.syspath_prepend(tmp_path)
    torch.set_num_threads(2)
    state = torch.random.get_rng_state()
    entries = [{"scorer": "additive"}, {"scorer": "broken_scorer:Broken"}]
    with pytest.raises(InputError, match=r"scorers\[1\]: the scorer gave RuntimeError: not today"):
        swept(study, **STUDIES[study] | {"scorers": entries})
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.get_num_threads() == 2
    sys.modules.pop("broken_scorer")
