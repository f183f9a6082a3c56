"""Lessons of an attention run, each proved by the tensors, with a counterexample that differs by one number."""

from typing import Any

import pytest
import torch
from torch import Tensor

import attncli
from attncli.attention import masked_softmax
from attncli.studies.attention.lessons import lessons_of

ALL = torch.ones(1, 1, 1, dtype=torch.bool)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def lessons(scores: dict[str, Tensor], keys: Tensor, valid: Tensor = ALL, queries: Tensor | None = None) -> list[str]:
    first = next(iter(scores.values()))
    queries = normal(*first.shape[:-1], 3, seed=9) if queries is None else queries
    weights = {label: masked_softmax(tensor, mask=valid.expand(first.shape)) for label, tensor in scores.items()}
    return [lesson.text for lesson in lessons_of(queries, keys, valid, scores, weights)]


def test_equal_keys_get_the_same_weight() -> None:
    keys, valid = normal(2, 1, 3).expand(2, 5, 3).clone(), torch.tensor([[[True] * 3 + [False] * 2], [[True] * 5]])
    scores = {"a": torch.full((2, 4, 5), 0.5), "b": torch.full((2, 4, 5), -3.0)}
    said = "All keys are equal, so {} each of them the same weight."
    keys[0, 4] = 100.0  # padding, of any value
    assert lessons(scores, keys, valid) == [said.format("every scorer gives")]
    assert lessons({"a": scores["a"]}, keys, valid) == [said.format("a gives")]
    copies = "all valid keys of a query get the same weight, so the weights only copy the mask."
    keys[1, 4] += 1.0
    assert lessons(scores, keys, valid) == [f"a: {copies}", f"b: {copies}"]
    scores["b"][1, 2, 0] += 0.001
    assert lessons(scores, keys, valid) == [f"a: {copies}"]


def test_rows_that_do_not_depend_on_the_query() -> None:
    keys, row = normal(1, 6, 3), normal(1, 1, 6, seed=1)
    scores = {"sum": row + normal(1, 12, 1, seed=2)}
    said = "sum: every query gets the same weights; they do not depend on which query asks."
    assert lessons(scores, keys) == [said]
    assert lessons(scores, keys, queries=torch.ones(1, 12, 3)) == []  # equal queries prove nothing
    assert lessons(scores, keys, torch.ones(12, 6, dtype=torch.bool).tril()[None]) == []  # nor do different masks
    scores["sum"][0, 11, 5] += 0.01  # beyond the rows that are looked at first
    assert lessons(scores, keys) == []


@pytest.mark.parametrize(
    ("factor", "said"),
    [
        (0.25, "b: the scores of a times 0.2500; the keys keep their order and the weights are flatter."),
        (2.0, "b: the scores of a times 2.000; the keys keep their order and the weights are sharper."),
        (
            -3.0,
            "b: the scores of a times -3.000; the order of the keys is reversed.",
        ),
        (1.0, None),
    ],
)
def test_scores_that_are_a_multiple(factor: float, said: str | None) -> None:
    a, keys = normal(2, 20, 6, seed=3), normal(2, 6, 3)
    assert lessons({"a": a, "b": factor * a}, keys) == [said] * (said is not None)
    assert lessons({"a": a, "b": factor * a + 0.01}, keys) == []
    different = factor * a
    different[1, 19, 5] += 0.01
    assert lessons({"a": a, "b": different}, keys) == []
    assert lessons({"a": torch.zeros_like(a), "b": a}, keys)[1:] == []


def test_nothing_is_said_of_single_keys() -> None:
    assert lessons({"a": torch.zeros(1, 3, 1)}, torch.ones(1, 1, 3)) == []
    assert lessons({"a": torch.zeros(1, 2, 2)}, torch.ones(1, 2, 3), torch.tensor([[[True, False]]])) == []


def test_sharper_is_said_only_where_every_row_is() -> None:
    scores = torch.tensor([[[2.0, 1.0], [-2.0, -1.0]]])
    weights = {"a": torch.tensor([[[0.7, 0.3], [0.3, 0.7]]]), "b": torch.tensor([[[0.8, 0.2], [0.4, 0.6]]])}
    (lesson,) = lessons_of(normal(1, 2, 3), normal(1, 2, 3), ALL, {"a": scores, "b": 2 * scores}, weights)
    assert lesson.text == "b: the scores of a times 2.000; the keys keep their order."


def test_weights_that_sum_to_less_are_not_the_same() -> None:
    data = {"queries": normal(1, 3, 4).tolist(), "keys": normal(1, 5, 4).tolist()}
    entries = ["dot", {"scorer": "dot", "normalizer": "softmax_plus_one"}, {"scorer": "dot", "label": "again"}]
    texts = [finding.text for finding in attncli.run({"data": data, "scorers": entries}).findings]
    assert texts == ["All scorers give the same weights, up to a factor for each query."]
    texts = [finding.text for finding in attncli.run({"data": data, "scorers": [*entries, "cosine"]}).findings]
    assert texts[0] == "again gives the same weights as dot."
    assert not any(text.startswith("dot_softmax_plus_one gives") for text in texts)


@pytest.mark.parametrize(
    ("experiment", "said"),
    [
        ("d2l", "All keys are equal, so every scorer gives each of them the same weight."),
        ("vector_sum", "vector_sum: every query gets the same weights; they do not depend on which query asks."),
        ("kernel_attention", "every query gets the same weights"),
        ("multi_head", None),
        (
            "modified_keys",
            "dot: the scores of scaled_dot times 1.414; the keys keep their order and the weights are sharper",
        ),
        ("own_tensors", "the keys keep their order and the weights are sharper"),
    ],
)
def test_experiments_tell_their_lesson(experiment: str, said: str | None) -> None:
    texts = [finding.text for finding in attncli.run(experiment).findings]
    words: Any = ("keys are equal", "every query gets", "copy the mask", "keep their order")
    found = [text for text in texts if any(each in text for each in words)]
    assert (any(said in text for text in found)) if said else not found
