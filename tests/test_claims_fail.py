"""Each expectation of experiments/claims has been seen to fail: under mistakes that one could make, one at a time."""

import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import attncli.attention
import attncli.inputs.entries
import attncli.scorers.additive
import attncli.studies.attention
import attncli.studies.benching.calls
import attncli.studies.scorer_run
import attncli.studies.sweeps.saturation_rows
import attncli.studies.training.model
import attncli.studies.training.task
from attncli import textbook
from attncli.scorers.dot import Dot
from attncli.scorers.gaussian import Gaussian
from attncli.scorers.scaled_dot import ScaledDot
from attncli.scorers.vector_sum import VectorSum
from attncli.studies.benching.calls import pooled
from tests.claims import PATHS, SMALLER, verdicts_of

Patch = pytest.MonkeyPatch


def mask_shifted(patch: Patch) -> None:
    """One key too many is valid."""
    below = attncli.attention.below_limits
    patch.setattr(attncli.attention, "below_limits", lambda limits, m: below(limits + 1, m))


def minus_a_million(patch: Patch) -> None:
    """Masked scores are -1e6 in place of minus infinity, as in D2L's code."""

    def wrong(scores: Tensor, valid: Tensor | None, empty_row: str = "zero") -> Tensor:
        return (scores if valid is None else scores.masked_fill(~valid, -1e6)).softmax(-1)

    patch.setattr(attncli.studies.scorer_run, "softmax_over_valid", wrong)


def mask_is_added(patch: Patch) -> None:
    """As many libraries do, with a number that is not small enough."""

    def wrong(scores: Tensor, valid: Tensor | None, empty_row: str = "zero") -> Tensor:
        return (scores if valid is None else scores - 1e4 * (~valid).to(scores.dtype)).softmax(-1)

    patch.setattr(attncli.studies.scorer_run, "softmax_over_valid", wrong)


def softmax_over_queries(patch: Patch) -> None:
    """The weights of a key, not those of a query, sum to 1."""

    def wrong(scores: Tensor, valid: Tensor | None, empty_row: str = "zero") -> Tensor:
        masked = scores if valid is None else scores.masked_fill(~valid, -torch.inf)
        return masked.softmax(-2).nan_to_num(0.0)

    for module in (attncli.studies.scorer_run, attncli.studies.sweeps.saturation_rows):
        patch.setattr(module, "softmax_over_valid", wrong)


def _scaled_by(name: str, factor: Callable[[int], float]) -> Callable[[Patch], None]:
    """`scaled_dot` has this factor of d, whatever it is asked for."""

    def plant(patch: Patch) -> None:
        patch.setattr(ScaledDot, "forward", lambda self, q, k: factor(k.shape[-1]) * q @ k.mT)

    plant.__name__ = name
    return plant


scale_left_out = _scaled_by("scale_left_out", lambda d: 1.0)
root_whatever_was_asked = _scaled_by("root_whatever_was_asked", lambda d: d**-0.5)
no_root = _scaled_by("no_root", lambda d: 1.0 / d)
always_a_quarter = _scaled_by("always_a_quarter", lambda d: 0.25)


def dot_is_scaled(patch: Patch) -> None:
    """The scale is in `dot`, too."""
    patch.setattr(Dot, "forward", lambda self, q, k: q @ k.mT / q.shape[-1] ** 0.5)


def seeds_shared(patch: Patch) -> None:
    """Queries and keys are drawn from generators of one seed, and so are the same."""
    standard = attncli.inputs.entries.Entries._standard

    def shared(self: Any, shape: tuple[int, ...], generator: torch.Generator, dtype: torch.dtype) -> Tensor:
        return standard(self, shape, torch.Generator().manual_seed(generator.initial_seed()), dtype)

    patch.setattr(attncli.inputs.entries.Entries, "_standard", shared)


def one_seed_for_all(patch: Patch) -> None:
    """All seeds of a training draw the same."""
    for module in (attncli.studies.training.model, attncli.studies.training.task):
        patch.setattr(module, "seed_of", lambda seed, index: seed)


def means_left_out(patch: Patch) -> None:
    patch.setattr(attncli.inputs.entries, "_moved", lambda standard, mean, std: standard.mul_(std))


def scores_left_out(patch: Patch) -> None:
    """Training on weights that are uniform whatever the scores."""
    patch.setattr(attncli.studies.training.model, "masked_softmax", lambda scores: (0.0 * scores).softmax(-1))


def textbook_without_tanh(patch: Patch) -> None:
    def linear(scorer: Any, measure: str) -> Any:
        w_q, w_k, w_v = scorer.W_q.weight, scorer.W_k.weight, scorer.w_v.weight[0]
        return pooled(lambda q, k: (q @ w_q.mT @ w_v)[..., None] + (k @ w_k.mT @ w_v)[..., None, :], measure)

    makers = attncli.studies.benching.calls.MAKERS
    own = makers["textbook"]
    patch.setitem(makers, "textbook", lambda s, measure: (linear if hasattr(s, "W_q") else own)(s, measure))


def product_without_a_matrix_product(patch: Patch) -> None:
    """Dot products that are right, from all products of entries at once, on hardware that is not made for it."""

    def scores(queries: Tensor, keys: Tensor) -> Tensor:
        time.sleep(0.05)
        products = queries.double().unsqueeze(-2) * keys.double().unsqueeze(-3)  # b n m d
        scaled: Tensor = products.sum(-1) / queries.shape[-1] ** 0.5
        return scaled.to(queries.dtype)

    patch.setattr(textbook, "scaled_dot_scores", scores)


def additive_as_in_textbooks(patch: Patch) -> None:
    """Right, and no better than the textbook's code."""

    def slow(queries: Tensor, keys: Tensor, *weights: Tensor, **_: Any) -> Tensor:
        return textbook.additive_scores(queries, keys, *weights)

    patch.setattr(attncli.scorers.additive, "additive_scores", slow)


def additive_without_tanh(patch: Patch) -> None:
    def linear(queries: Tensor, keys: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, **_: Any) -> Tensor:
        return (queries @ w_q.mT @ w_v)[..., :, None] + (keys @ w_k.mT @ w_v)[..., None, :]

    patch.setattr(attncli.scorers.additive, "additive_scores", linear)


def biases(patch: Patch) -> None:
    linear = nn.Linear
    patch.setattr(nn, "Linear", lambda size, out, bias=True: linear(size, out, bias=True))


def product_for_sum(patch: Patch) -> None:
    patch.setattr(VectorSum, "forward", lambda self, q, k: q @ k.mT)


def gaussian_without_the_two(patch: Patch) -> None:
    patch.setattr(Gaussian, "forward", lambda self, q, k: -2.0 * self.scale * torch.cdist(q, k).square())


def dropout_left_out(patch: Patch) -> None:
    patch.setattr(attncli.studies.scorer_run, "dropped", lambda weights, probability, generator: weights.clone())


def dropout_in_place(patch: Patch) -> None:
    """The weights that are shown are those after dropout."""
    dropped = attncli.attention.dropped
    patch.setattr(attncli.studies.scorer_run, "dropped", lambda weights, *how: weights.copy_(dropped(weights, *how)))


def dropout_in_evaluation(patch: Patch) -> None:
    run_scorer = attncli.studies.scorer_run.run_scorer
    patch.setattr(
        attncli.studies.attention,
        "run_scorer",
        lambda entry, scorer, inputs, empty_row, train, seed: run_scorer(entry, scorer, inputs, empty_row, True, seed),
    )


def both_of_dropout(patch: Patch) -> None:
    dropout_in_place(patch)
    dropout_in_evaluation(patch)


Mistake = Callable[[Patch], None]
MISTAKES: dict[str, dict[Mistake, set[int]]] = {  # of each file: which expectations a mistake must make fail
    "01a_mask_per_example": {
        mask: {0} for mask in (mask_shifted, minus_a_million, mask_is_added, softmax_over_queries)
    },
    "01b_mask_per_query": {mask: {0} for mask in (mask_shifted, minus_a_million, mask_is_added, softmax_over_queries)},
    "02_identical_keys": {mask_shifted: {0, 1}, softmax_over_queries: {0, 1}},
    "03_modified_keys": {softmax_over_queries: {0, 1}},
    "04_variance": {seeds_shared: {0, 1, 2, 3, 4}, scale_left_out: {4}},
    "05a_one_over_d_variance": {root_whatever_was_asked: {0, 1, 2}},
    "05b_one_over_d_weights": {root_whatever_was_asked: {0, 1}, no_root: {2}, scale_left_out: {0, 1, 2}},
    "06_nonzero_means": {means_left_out: {0, 1, 2}, seeds_shared: {0, 1, 2}, scale_left_out: {1}},
    "07_saturation": {dot_is_scaled: {0, 1, 3}, scale_left_out: {2, 3}},
    "08_learning": {
        scores_left_out: {0, 1, 2, 3},
        scale_left_out: {2},
        dot_is_scaled: {1, 3, 4},
        one_seed_for_all: {4},
    },
    "09_cost": {
        product_without_a_matrix_product: {0, 1},
        textbook_without_tanh: {0, 1, 2, 3},
        additive_as_in_textbooks: {2, 3},
        additive_without_tanh: {2, 3, 4},
    },
    "10_different_lengths": {mask_shifted: {0}, biases: {1, 2}},
    "11_vector_sum": {product_for_sum: {0, 1}, softmax_over_queries: {0}},
    "12_perceptron": {additive_without_tanh: {0, 1}},
    "13a_nadaraya_watson": {gaussian_without_the_two: {0}, softmax_over_queries: {0}},
    "13b_equal_norms": {gaussian_without_the_two: {0}, scale_left_out: {0}, always_a_quarter: {1}},
    "14a_dropout_training": {dropout_in_place: {0}, dropout_left_out: {1}},
    "14b_dropout_evaluation": {dropout_in_evaluation: {1}, both_of_dropout: {0, 1}},
}
CASES = [(name, mistake, failing) for name, planted in MISTAKES.items() for mistake, failing in planted.items()]


@pytest.mark.parametrize(
    ("name", "mistake", "failing"), CASES, ids=[f"{name}-{mistake.__name__}" for name, mistake, _ in CASES]
)
def test_mistakes_are_found(name: str, mistake: Mistake, failing: set[int], monkeypatch: Patch) -> None:
    mistake(monkeypatch)
    assert {verdict.index for verdict in verdicts_of(name) if verdict.holds is False} >= failing


@pytest.mark.parametrize("name", SMALLER)
def test_what_is_tried_at_smaller_sizes_holds_there(name: str) -> None:
    assert all(verdict.holds for verdict in verdicts_of(name))


def test_every_expectation_fails_under_some_mistake() -> None:
    from attncli.config.document import read_document

    assert list(MISTAKES) == list(PATHS)
    for name, planted in MISTAKES.items():
        assert set().union(*planted.values()) == set(range(len(read_document(PATHS[name]).data["expect"])))
