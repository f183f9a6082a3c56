"""The sequences of associative recall."""

import itertools
import math
from collections import Counter

import pytest
import torch

import attncli
from attncli.studies.train.columns import TrainFacts
from attncli.studies.train.task import TESTS, batches, chance_level, held_out, normal
from tests.reference import rounding
from tests.studies.train.small import CPU, batch_of, options_of


def test_the_query_is_one_of_the_keys_and_the_target_its_value() -> None:
    options = options_of(batch=200, keys=5)
    batch = batch_of(options)
    assert batch.keys.shape == batch.values.shape == (3, 200, 5)
    assert batch.queries.shape == batch.targets.shape == (3, 200)
    for s, b in itertools.product(range(3), range(200)):
        keys = batch.keys[s, b].tolist()
        assert len(set(keys)) == 5
        assert set(keys) <= set(range(6))
        assert batch.values[s, b, keys.index(batch.queries[s, b])] == batch.targets[s, b]


@pytest.mark.parametrize(("keys", "classes"), [(2, 2), (3, 2), (2, 5), (4, 3), (8, 4), (6, 6)])
def test_equal_weights_are_right_as_often_as_values_recur(keys: int, classes: int) -> None:
    """Their accuracy is the mean, over all sequences of values, of the largest count as a share of the keys."""
    sequences = list(itertools.product(range(classes), repeat=keys))
    exact = sum(max(Counter(values).values()) for values in sequences) / len(sequences) / keys
    assert chance_level(keys, classes) == pytest.approx(exact, rel=1e-12)


def test_chance_levels_of_two_classes_and_two_keys_in_closed_form() -> None:
    """The larger of two counts of n values is n/2 (1 + C(n, n/2) / 2^n) in the mean."""
    many, error = math.comb(4096, 2048) / 2**4096, rounding(2 * 16384, torch.float64)  # of a power
    assert chance_level(4096, 2) == pytest.approx(0.5 + 0.5 * many, rel=1e-9)
    assert chance_level(2, 16384) == pytest.approx(0.5 + 0.5 / 16384, rel=error)


def test_a_model_that_attends_to_all_keys_alike_is_at_chance_level() -> None:
    entry = {"scorer": "dot", "normalizer": "uniform"}
    result = attncli.run({"study": "train", "d": 4, "seeds": 40, "steps": 1, "test_keys": [3], "scorers": [entry]})
    for row in result.comparisons:
        level = TrainFacts.of(result).equal_weights[str(row["keys"])]
        assert level == chance_level(row["keys"], 8)
        assert abs(row["accuracy"] - level) < 5 * math.sqrt(level * (1 - level) / (40 * TESTS))


def test_everything_occurs_alike_often() -> None:
    """In 6000 sequences the shares of 6 symbols, 4 places and 3 classes are equal within five standard errors."""
    batch = batch_of(options_of(batch=2000))
    place = (batch.keys == batch.queries[..., None]).int().argmax(-1)
    for found, count in ((batch.keys[..., 0], 6), (batch.queries, 6), (place, 4), (batch.targets, 3)):
        shares = torch.bincount(found.flatten(), minlength=count) / found.numel()
        error = (1 / count * (1 - 1 / count) / found.numel()) ** 0.5
        assert (shares - 1 / count).abs().max() < 5 * error


def test_every_step_and_every_seed_has_sequences_of_its_own() -> None:
    options = options_of()
    source = batches(options, CPU)
    first, second = next(source), next(source)
    assert not torch.equal(first.keys, second.keys)
    assert not torch.equal(first.keys[0], first.keys[1])
    assert not torch.equal(*normal(options, "embeddings", 6, 5)[:2])
    assert all(map(torch.equal, next(batches(options, CPU)), first))
    assert not torch.equal(batch_of(options_of(seed=1)).keys, first.keys)
    assert not torch.equal(held_out(options, 4, CPU).keys[:, :3], first.keys)
