"""The model of several seeds, against one sequence after the other with the catalogue's scorers; its gradient."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attncli.attention import softcap
from attncli.scorers import SCORERS
from attncli.studies.scoring import build_scorer
from attncli.studies.train.model import OneByOne, Recall, losses
from attncli.studies.train.task import Batch, seeds_of
from tests.studies.train.small import batch_of, entry_of, loss_by_hand, model_of, options_of

EXACT: dict[str, Any] = {"rtol": 1e-9, "atol": 1e-12}


def gradients_by_hand(model: Recall, seed: int, batch: Batch, scorer: nn.Module) -> tuple[Tensor, list[Tensor]]:
    """Loss and gradients of W_q, W_k and the scorer's parameters of one seed, sequence by sequence."""
    matrices = [each.detach()[seed].requires_grad_() for each in (model.W_q, model.W_k)]
    total = torch.zeros((), dtype=torch.float64)
    for b in range(len(batch.targets[seed])):
        query = model.embeddings[seed, batch.queries[seed, b]] @ matrices[0].mT
        keys = model.embeddings[seed, batch.keys[seed, b]] @ matrices[1].mT
        scores = scorer(query[None], keys)[0]
        scores = scores if model.cap is None else softcap(scores, model.cap)
        total = total + loss_by_hand(scores, batch.values[seed, b], int(batch.targets[seed, b]), model.classes)
    loss = total / len(batch.targets[seed])
    return loss, list(torch.autograd.grad(loss, [*matrices, *scorer.parameters()], allow_unused=True))


def gradients_of(model: Recall, seed: int) -> list[Tensor | None]:
    """Of one seed's W_q, W_k and parameters of the scorer, which stack over seeds or are a scorer of their own."""
    own = list(model.scorer.scorers[seed].parameters()) if isinstance(model.scorer, OneByOne) else None
    stacked = [model.W_q, model.W_k, *(model.scorer.parameters() if own is None else ())]
    return [*(None if each.grad is None else each.grad[seed] for each in stacked), *(each.grad for each in own or ())]


@pytest.mark.parametrize("name", [*SCORERS, "scaled_dot:scale=1/d", "dot:softcap=2", "additive:num_hiddens=7"])
def test_losses_and_gradients_are_those_of_the_catalogue_seed_by_seed(name: str) -> None:
    options = options_of(scorers=[name], dtype="float64")
    model, batch = model_of(options), batch_of(options)
    found = losses(model.pooled(model.weights(model(), batch), batch), batch.targets)
    found.sum().backward()  # type: ignore[no-untyped-call]
    norms = model.gradient_norms()
    for seed, of_model in enumerate(seeds_of(options)):
        scorer = build_scorer(entry_of(options), 4, 4, of_model, torch.float64)
        loss, gradients = gradients_by_hand(model, seed, batch, scorer)
        torch.testing.assert_close(found[seed].detach(), loss.detach(), **EXACT)
        for gradient, expected in zip(gradients_of(model, seed), gradients, strict=True):
            torch.testing.assert_close(gradient, expected, **EXACT)
        length = torch.cat([gradient.flatten() for gradient in gradients]).norm()
        torch.testing.assert_close(norms[seed], length, **EXACT)


@pytest.mark.parametrize("name", ["dot", "additive", "general"])
def test_gradients_come_through_the_pooled_values_only(name: str) -> None:
    """Where all values are alike, what is pooled is the same whatever the weights are, and nothing can be learnt.

    A loss on the weights themselves would go on, since it knows which key is the right one.
    """
    options = options_of(scorers=[name], dtype="float64")
    model, batch = model_of(options), batch_of(options)
    alike = Batch(batch.keys, batch.queries, torch.ones_like(batch.values), torch.ones_like(batch.targets))
    weights = model.weights(model(), alike)
    losses(model.pooled(weights, alike), alike.targets).sum().backward()  # type: ignore[no-untyped-call]
    assert float(model.gradient_norms().max()) < 1e-15
    right = alike.keys == alike.queries[..., None]
    model.weights(model(), alike)[right].log().sum().backward()  # type: ignore[no-untyped-call]
    assert float(model.gradient_norms().min()) > 1e-3


def test_queries_and_keys_have_unit_variance_at_first() -> None:
    model = model_of(options_of(scorers=["dot"], d=300, embedding=200, vocabulary=100))
    assert float(model.embeddings.std()) == pytest.approx(1.0, rel=0.02)
    for matrix in (model.W_q, model.W_k):
        entries = model.embeddings @ matrix.detach().mT
        assert float(entries.std()) == pytest.approx(1.0, rel=0.02)
    assert not torch.equal(model.W_q, model.W_k)
