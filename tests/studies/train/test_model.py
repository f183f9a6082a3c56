"""The model of several seeds and its gradient, against single sequences with the catalogue's scorers."""

import math
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attncli.attention import softcap
from attncli.catalogue.building import build_scorer
from attncli.scorers import SCORERS
from attncli.studies.train.model import OneByOne, Recall, losses, mean_entropy
from attncli.studies.train.task import Batch, model_seeds
from tests.margins import sampled
from tests.normalizers.catalogue import VARIANTS, score, scorer_of
from tests.reference import NORMALIZERS, entropy, rounding
from tests.studies.train.small import batch_of, entry_model, loss_by_hand, options_of

EXACT: dict[str, Any] = {"rtol": 1e-9, "atol": 1e-12}


def gradients_by_hand(model: Recall, seed: int, batch: Batch, scorer: nn.Module) -> tuple[Tensor, list[Tensor]]:
    """Return loss and gradients of W_q, W_k and the scorer's parameters for one seed, sequence by sequence."""
    matrices = [each.detach()[seed].requires_grad_() for each in (model.W_q, model.W_k)]
    total = torch.zeros((), dtype=torch.float64)
    for b in range(len(batch.targets[seed])):
        query = model.embeddings[seed, batch.queries[seed, b]] @ matrices[0].mT
        keys = model.embeddings[seed, batch.keys[seed, b]] @ matrices[1].mT
        scores = scorer(query[None], keys)[0]
        scores = scores if model.entry.softcap is None else softcap(scores, model.entry.softcap)
        total = total + loss_by_hand(scores, batch.values[seed, b], int(batch.targets[seed, b]), model.classes)
    loss = total / len(batch.targets[seed])
    return loss, list(torch.autograd.grad(loss, [*matrices, *scorer.parameters()], allow_unused=True))


def gradients_of(model: Recall, seed: int) -> list[Tensor | None]:
    """Return the gradients of one seed's W_q, W_k and scorer parameters, from stacked or separate scorers."""
    own = list(model.scorer.scorers[seed].parameters()) if isinstance(model.scorer, OneByOne) else None
    stacked = [model.W_q, model.W_k, *(model.scorer.parameters() if own is None else ())]
    return [*(None if each.grad is None else each.grad[seed] for each in stacked), *(each.grad for each in own or ())]


@pytest.mark.parametrize("name", [*SCORERS, "scaled_dot:scale=1/d", "dot:softcap=2", "additive:num_hiddens=7"])
def test_losses_and_gradients_are_those_of_the_catalogue_seed_by_seed(name: str) -> None:
    options = options_of(scorers=[name], dtype="float64")
    model, batch = entry_model(options), batch_of(options)
    found = losses(model.pooled(model.weights(model(), batch), batch), batch.targets)
    found.sum().backward()  # type: ignore[no-untyped-call]
    norms = model.gradient_norms()
    for seed, of_model in enumerate(model_seeds(options)):
        scorer = build_scorer(options.scorers[0], 4, 4, of_model, torch.float64)
        loss, gradients = gradients_by_hand(model, seed, batch, scorer)
        torch.testing.assert_close(found[seed].detach(), loss.detach(), **EXACT)
        for gradient, expected in zip(gradients_of(model, seed), gradients, strict=True):
            torch.testing.assert_close(gradient, expected, **EXACT)
        length = torch.cat([gradient.flatten() for gradient in gradients]).norm()
        torch.testing.assert_close(norms[seed], length, **EXACT)


@pytest.mark.parametrize("name", ["dot", "additive", "general"])
def test_gradients_come_through_the_pooled_values_only(name: str) -> None:
    """If all values are equal, the pooled value does not depend on the weights, and nothing can be learnt.

    A loss on the weights themselves would still have a gradient, since it knows the right key.
    """
    options = options_of(scorers=[name], dtype="float64")
    model, batch = entry_model(options), batch_of(options)
    alike = Batch(batch.keys, batch.queries, torch.ones_like(batch.values), torch.ones_like(batch.targets))
    weights = model.weights(model(), alike)
    losses(model.pooled(weights, alike), alike.targets).sum().backward()  # type: ignore[no-untyped-call]
    assert float(model.gradient_norms().max()) < rounding(16, torch.float64)
    right = alike.keys == alike.queries[..., None]
    model.weights(model(), alike)[right].log().sum().backward()  # type: ignore[no-untyped-call]
    assert float(model.gradient_norms().min()) > 1e-3


def slow_weights(
    model: Recall, normalizer: str, options: Mapping[str, Any], w_q: Tensor, seed: int, batch: Batch
) -> list[list[float]]:
    """Return the weights of the keys of every sequence of one seed, for the scores of `scorer_of`."""
    queries, keys = ((model.embeddings[seed] @ each.mT).tolist() for each in (w_q, model.W_k.detach()[seed]))
    return [
        list(NORMALIZERS[normalizer]([score(normalizer, queries[query], keys[key]) for key in own], **options))
        for query, own in zip(batch.queries[seed].tolist(), batch.keys[seed].tolist(), strict=True)
    ]


def slow_loss(weights: list[list[float]], seed: int, batch: Batch, classes: int) -> float:
    losses = []
    sequences = zip(weights, batch.values[seed].tolist(), batch.targets[seed].tolist(), strict=True)
    for row, values, target in sequences:
        pooled = [math.fsum(w for w, v in zip(row, values, strict=True) if v == each) for each in range(classes)]
        losses.append(math.log(math.fsum(map(math.exp, pooled))) - pooled[target])
    return math.fsum(losses) / len(losses)


@pytest.mark.parametrize(("name", "its"), VARIANTS)
def test_losses_entropies_and_gradients_of_every_normalizer(name: str, its: dict[str, Any]) -> None:
    """Losses and entropies equal the oracles, and gradients equal central differences of the oracles."""
    options = options_of(
        scorers=[{"scorer": scorer_of(name), "normalizer": {"normalizer": name, **its}}], dtype="float64", seeds=2
    )
    model, batch, step = entry_model(options), batch_of(options), 1e-4
    weights = model.weights(model(), batch)
    found = losses(model.pooled(weights, batch), batch.targets)
    found.sum().backward()  # type: ignore[no-untyped-call]
    assert bool(mean_entropy(torch.zeros(1, 2, 2)).isnan().all()), "no row has a weight"
    for seed in range(2):
        w_q = model.W_q.detach()[seed]
        rows = slow_weights(model, name, its, w_q, seed, batch)
        torch.testing.assert_close(
            weights[seed].detach(), torch.tensor(rows, dtype=torch.float64), rtol=1e-7, atol=1e-9
        )
        shares = [[each / math.fsum(row) for each in row] for row in rows if math.fsum(row)]
        assert float(mean_entropy(weights.detach())[seed]) == pytest.approx(
            math.fsum(map(entropy, shares)) / len(shares), rel=1e-7
        )
        assert float(found[seed].detach()) == pytest.approx(slow_loss(rows, seed, batch, options.classes), rel=1e-9)
        for place in [(0, 0), (3, 4), (1, 2)]:
            change = torch.zeros_like(w_q)
            change[place] = step
            ends = [
                slow_loss(slow_weights(model, name, its, each, seed, batch), seed, batch, options.classes)
                for each in (w_q + change, w_q - change)
            ]
            assert model.W_q.grad is not None
            gradient = float(model.W_q.grad[seed][place])
            assert gradient == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-5, abs=1e-8)


def test_queries_and_keys_have_unit_variance_at_first() -> None:
    model = entry_model(options_of(scorers=["dot"], d=300, embedding=200, vocabulary=100))
    assert float(model.embeddings.std()) == pytest.approx(1.0, rel=sampled(0.02, 0.005))
    for matrix in (model.W_q, model.W_k):
        entries = model.embeddings @ matrix.detach().mT
        assert float(entries.std()) == pytest.approx(1.0, rel=sampled(0.02, 0.005))
    assert not torch.equal(model.W_q, model.W_k)
