"""Lessons of an attention run, each proved by the tensors, with a counterexample that differs by one number."""

from typing import Any

import pytest
import torch
from torch import Tensor

import attncli
from attncli.attention import masked_softmax
from attncli.studies.attention.lessons import proven_lessons
from tests.scorers.catalogue import normal

ALL = torch.ones(1, 1, 1, dtype=torch.bool)


def lessons(scores: dict[str, Tensor], keys: Tensor, valid: Tensor = ALL, queries: Tensor | None = None) -> list[str]:
    first = next(iter(scores.values()))
    queries = normal(*first.shape[:-1], 3, seed=9) if queries is None else queries
    weights = {label: masked_softmax(tensor, mask=valid.expand(first.shape)) for label, tensor in scores.items()}
    return [lesson.text for lesson in proven_lessons(queries, keys, valid, scores, weights)]


def test_equal_keys_get_the_same_weight() -> None:
    keys, valid = normal(1, 1, 3).expand(2, 5, 3).clone(), torch.tensor([[[True] * 3 + [False] * 2], [[True] * 5]])
    scores = {"a": torch.full((2, 4, 5), 0.5), "b": torch.full((2, 4, 5), -3.0)}
    said = "All valid keys are equal, so {} each of them the same weight."
    keys[0, 4] = 100.0  # padding, of any value
    assert lessons(scores, keys, valid) == [said.format("every scorer gives")]
    assert lessons({"a": scores["a"]}, keys, valid) == [said.format("a gives")]
    short = {label: tensor[..., :3] for label, tensor in scores.items()}
    assert lessons(short, keys[:, :3]) == [said.format("every scorer gives").replace("valid ", "")]
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


MULTIPLES = [
    (0.25, ["b: 0.2500 times the scores of a; the keys keep their order and the weights are flatter."]),
    (2.0, ["b: 2.000 times the scores of a; the keys keep their order and the weights are sharper."]),
    (-3.0, ["b: -3.000 times the scores of a; the order of the keys is reversed."]),
    (1.00004, []),  # not "times 1.000"
]


@pytest.mark.parametrize(("factor", "texts"), MULTIPLES)
def test_scores_that_are_a_multiple(factor: float, texts: list[str]) -> None:
    a, keys = normal(2, 20, 6, seed=3), normal(2, 6, 3)
    assert lessons({"a": a, "b": factor * a}, keys) == texts
    one = torch.eye(6).expand(2, 6, 6)
    assert factor > 0 or lessons({"a": one, "b": factor * one}, keys) == texts, "sharpness means nothing here"
    assert lessons({"a": a, "b": factor * a + 0.01}, keys) == []
    different = factor * a
    different[1, 19, 5] += 0.01
    assert lessons({"a": a, "b": different}, keys) == []
    assert lessons({"a": torch.zeros_like(a), "b": a}, keys)[1:] == []


def test_single_keys_get_the_weight_1() -> None:
    said = "Each query has one valid key at most, so a gives it the weight 1."
    assert lessons({"a": torch.zeros(1, 3, 1)}, torch.ones(1, 1, 3)) == [said]
    one, scores = torch.tensor([[[True, False], [False, False]]]), torch.zeros(1, 2, 2)
    assert lessons({"a": scores}, torch.ones(1, 2, 3), one) == [said]
    assert lessons({"a": scores}, torch.ones(1, 2, 3), one & False) == []
    half = {"a": torch.tensor([[[0.5, 0.0], [0.0, 0.0]]])}  # as of a sigmoid
    assert proven_lessons(normal(1, 2, 3), torch.ones(1, 2, 3), one, {"a": scores}, half) == []


def texts_of(data: dict[str, Any], *entries: Any, **keys: Any) -> list[str]:
    config = {"data": data, "scorers": list(entries), **keys}
    return [finding.text for finding in attncli.run(config).findings]


def test_keys_that_a_window_hides_have_no_order() -> None:
    data = {"queries": [[1.0]] * 4, "keys": [[4.0], [3.0], [1.0], [2.0]]}
    first, *_ = texts_of(data, "dot", {"scorer": "scaled_dot", "scale": 2.0, "window": 2})
    assert first == "scaled_dot: 2.000 times the scores of dot."


def test_even_weights_without_a_mask_or_a_sum_of_1() -> None:
    data = {"queries": [[-1.0], [2.0]], "keys": [[1.0], [-1.0]]}
    other = {"scorer": "general", "normalizer": "uniform"}
    texts = texts_of(data, "dot", other)
    assert texts[0] == "general_uniform: every key gets the same weight."
    assert "general_uniform differ: JS divergence 0." in texts[1]
    assert "same key" not in texts[1]
    causal = texts_of(data, "dot", other, mask={"causal": True})
    said = "all valid keys of a query get the same weight"
    assert causal[0] == f"general_uniform: {said}, so the weights only copy the mask."
    scores = torch.tensor([[[1.0, 1.0], [2.0, 2.0]]])
    weights, valid = {"a": scores.sigmoid() * ALL, "b": scores.softmax(-1)}, torch.ones(1, 2, 2, dtype=torch.bool)
    found_in = normal(1, 2, 1), normal(1, 2, 1), valid
    found = proven_lessons(*found_in, {"a": scores, "b": scores}, weights)
    assert [each.text for each in found] == [
        "a: every key of a query gets the same weight.",
        "b: every key gets the same weight.",
    ]
    zero = {"a": torch.zeros(1, 2, 2)}
    assert [each.text for each in proven_lessons(*found_in, {"a": -scores}, zero)] == ["a: all weights are 0."]


def test_rows_of_each_matrix_are_equal_but_not_of_all() -> None:
    scores = {"sum": normal(2, 1, 6, seed=1).expand(2, 4, 6)}
    said = "sum: every query of a matrix gets the same weights; they do not depend on which query asks."
    assert lessons(scores, normal(2, 6, 3)) == [said]
    heads = {"sum": normal(1, 3, 1, 6, seed=1).expand(1, 3, 4, 6)}
    assert lessons(heads, normal(1, 3, 6, 3), ALL[None]) == [said]
    saturated = {"dot": 1000 * (torch.arange(6.0) + normal(1, 4, 6, seed=4) / 100)}
    assert lessons(saturated, normal(1, 6, 3)) == []


def test_small_rows_are_compared_in_their_own_units() -> None:
    a = normal(1, 2, 4, seed=5) * torch.tensor([1e6, 1.0])[:, None]
    b = 2 * a
    assert lessons({"a": a, "b": b}, normal(1, 4, 3))[0].startswith("b: 2.000 times the scores of a")
    b[0, 1] = b[0, 1].flip(-1)
    assert lessons({"a": a, "b": b}, normal(1, 4, 3)) == []


@pytest.mark.filterwarnings("ignore:lambda")
def test_unknown_divergences_are_not_called_equal() -> None:
    """The third entry has NaN as its scores, so nothing is known of its pairs."""
    data = {"queries": [[1.0], [2.0]], "keys": [[1.0], [3.0]]}
    texts = texts_of(data, "dot", {"scorer": "dot", "label": "again"}, lambda q, k: (q @ k.mT) * float("nan"))
    assert texts == ["again gives the same weights as dot."]


def test_weights_that_sum_to_less_are_not_the_same() -> None:
    data = {"queries": normal(1, 3, 4).tolist(), "keys": normal(1, 5, 4).tolist()}
    entries = ["dot", {"scorer": "dot", "normalizer": "softmax_plus_one"}, {"scorer": "dot", "label": "again"}]
    assert texts_of(data, *entries) == ["All scorers give the same weights, up to a factor for each query."]
    texts = texts_of(data, *entries, "cosine")
    assert texts[0] == "again gives the same weights as dot."
    assert not any(text.startswith("dot_softmax_plus_one gives") for text in texts)
