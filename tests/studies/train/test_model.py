"""The model of several seeds and its gradient, against single sequences with the catalogue's scorers."""

import math
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
from tests.reference import NORMALIZERS, entropy
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


WITH_OPTIONS = ["scaled_dot:scale=1/d", "dot:softcap=2", "additive:num_hiddens=7,bias=true", "kernel:phi=hedgehog"]


@pytest.mark.parametrize("name", [*SCORERS, *WITH_OPTIONS])
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


@pytest.mark.parametrize(("name", "its"), VARIANTS)
def test_weights_and_entropies_of_every_normalizer(name: str, its: dict[str, Any]) -> None:
    entry = {"scorer": scorer_of(name), "normalizer": {"normalizer": name, **its}}
    options = options_of(scorers=[entry], dtype="float64", seeds=2)
    model, batch = entry_model(options), batch_of(options)
    weights = model.weights(model(), batch).detach()
    assert bool(mean_entropy(torch.zeros(1, 2, 2)).isnan().all()), "no row has a weight"
    for seed in range(2):
        queries, keys = ((model.embeddings[seed] @ each.detach()[seed].mT).tolist() for each in (model.W_q, model.W_k))
        rows = [
            list(NORMALIZERS[name]([score(name, queries[query], keys[key]) for key in own], **its))
            for query, own in zip(batch.queries[seed].tolist(), batch.keys[seed].tolist(), strict=True)
        ]
        torch.testing.assert_close(weights[seed], torch.tensor(rows, dtype=torch.float64), rtol=1e-7, atol=1e-9)
        nats = [entropy([each / math.fsum(row) for each in row]) for row in rows if math.fsum(row)]
        assert float(mean_entropy(weights)[seed]) == pytest.approx(math.fsum(nats) / len(nats), rel=1e-7)


def test_queries_and_keys_have_unit_variance_at_first() -> None:
    model = entry_model(options_of(scorers=["dot"], d=300, embedding=200, vocabulary=100))
    assert float(model.embeddings.std()) == pytest.approx(1.0, rel=sampled(0.02, 0.005))
    for matrix in (model.W_q, model.W_k):
        entries = model.embeddings @ matrix.detach().mT
        assert float(entries.std()) == pytest.approx(1.0, rel=sampled(0.02, 0.005))
    assert not torch.equal(model.W_q, model.W_k)
