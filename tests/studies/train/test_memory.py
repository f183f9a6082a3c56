"""How much memory a training takes: the estimate beside what its tensors take; where and how too much is refused."""

from typing import Any

import pytest
import torch

from attncli.errors import InputError
from attncli.studies import memory
from attncli.studies.train.study import estimate_training
from tests.scorers.peaks import peak_of
from tests.studies.train.small import learnt_by, model_of, options_of, prepared

LARGE: list[tuple[str, dict[str, Any]]] = [
    ("embedding", {"d": 1, "vocabulary": 50, "embedding": 30_000}),
    ("d", {"d": 500, "embedding": 500}),
    ("d", {"d": 2**15, "vocabulary": 60, "embedding": 1}),
    ("vocabulary", {"d": 2, "vocabulary": 800}),
    ("batch", {"d": 2, "batch": 30_000, "vocabulary": 32}),
    ("batch", {"d": 2, "batch": 30_000, "vocabulary": 32, "scorers": ["dot:normalizer=sparsemax"]}),
    ("classes", {"d": 2, "classes": 2000, "batch": 500}),
    ("vocabulary", {"d": 2, "vocabulary": 800, "scorers": ["gaussian"]}),
    ("vocabulary", {"d": 2, "vocabulary": 200, "scorers": ["additive:num_hiddens=20"]}),
]


@pytest.mark.parametrize(("name", "large"), LARGE)
def test_estimate_is_enough_and_not_far_too_much(name: str, large: dict[str, Any]) -> None:
    """At least what all tensors take at once, and at most three times that: a process has gaps between its tensors."""
    keys: dict[str, Any] = {"scorers": ["dot"], "steps": 2, **large}
    options = options_of(**keys)
    parts = estimate_training(prepared(**keys).configurations, options, 1)
    assert max(parts, key=lambda each: parts[each]) == name
    needed = peak_of(lambda: learnt_by(model_of(options), options))
    assert needed <= parts.total() <= 3 * needed


@pytest.mark.parametrize(
    ("keys", "place"),
    [
        ({"embedding": 10**8, "d": 1}, "embedding"),
        ({"embedding": 10**7}, "embedding"),
        ({"d": 10**5, "embedding": 10**4}, "d"),
        ({"d": 2**20, "vocabulary": 200}, "d"),
        ({"vocabulary": 12000}, "vocabulary"),
        ({"batch": 10**7}, "batch"),
        ({"classes": 16384, "batch": 10**5}, "classes"),
    ],
)
def test_too_large_is_refused_before_anything_is_made(
    keys: dict[str, Any], place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "available_memory", lambda device: 2**30)
    with pytest.raises(InputError) as caught:
        prepared(scorers=["dot"], **keys)
    assert str(caught.value).startswith(f"{place}: needs about ")


def test_what_is_kept_of_many_configurations_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """20 times 200 seeds with 2 x 1000 x 500 numbers are 16 GB; the training itself takes 5 GB."""
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    monkeypatch.setattr(memory, "available_memory", lambda device: 12 * 2**30)
    keys: dict[str, Any] = {"scorers": ["dot"], "embedding": 500, "seeds": 200}
    prepared(**keys, d=[1000])
    with pytest.raises(InputError) as caught:
        prepared(**keys, d=list(range(1000, 1020)))
    assert str(caught.value).startswith("d: needs about ")


def test_as_many_of_the_largest_as_run_at_once() -> None:
    ready = prepared(scorers=["dot"], d=[2, 30, 40])
    one, two, all_of_them, more = (estimate_training(ready.configurations, ready.options, n) for n in (1, 2, 3, 9))
    assert two["d"] == pytest.approx(one["d"] * 70 / 40)
    assert all_of_them == more
