"""The model that learns associative recall, once for each seed, in parameters with one axis of seeds in front."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attncli.attention import masked_softmax, softcap
from attncli.config.scorer_entries import ScorerEntry
from attncli.inputs.seeding import derived_seed, generator
from attncli.studies.scoring import build_scorer
from attncli.studies.train.options import TrainOptions
from attncli.studies.train.stacked import length, norms_by_seed, stacked
from attncli.studies.train.task import Batch, embeddings, seed_of


class Recall(nn.Module):
    """Queries W_q e and keys W_k e of embedded symbols e, a scorer, softmax, and one-hot values pooled by the weights.

    `W_q` and `W_k` (s, d, e) begin with a standard deviation of 1/sqrt(e), so that entries of queries and keys have
    variance 1. Embeddings (s, vocabulary, e) are fixed.
    """

    embeddings: Tensor

    def __init__(self, entry: ScorerEntry, d: int, options: TrainOptions, indices: Sequence[int]) -> None:
        super().__init__()
        dtype = getattr(torch, options.dtype)
        self.register_buffer("embeddings", torch.stack([embeddings(options, i, dtype) for i in indices]))
        self.W_q, self.W_k = (_projections(name, d, options, indices, dtype) for name in ("W_q", "W_k"))
        scorers = [build_scorer(entry, d, d, seed_of(options.seed, index), dtype) for index in indices]
        seeds = [derived_seed(seed_of(options.seed, index), f"forward.{entry.label}.{d}") for index in indices]
        self.scorer = stacked(entry.scorer, scorers, seeds)
        self.indices, self.cap, self.classes = list(indices), entry.softcap, options.classes

    def forward(self) -> Tensor:
        """Scores of every symbol as a query and every symbol as a key (s, vocabulary, vocabulary).

        A step needs no others, as a score belongs to one query and one key; and there are fewer of them than pairs of
        query and key in a batch.
        """
        queries, keys = (self.embeddings @ each.mT for each in (self.W_q, self.W_k))  # s vocabulary d
        scores: Tensor = self.scorer(queries, keys)
        return scores if self.cap is None else softcap(scores, self.cap)

    def weights(self, scores: Tensor, batch: Batch) -> Tensor:
        """The weights (s, b, m) of the keys of every sequence, from the scores of all symbols."""
        symbols = scores.shape[-1]
        pairs = batch.queries[..., None] * symbols + batch.keys  # s b m
        return masked_softmax(scores.flatten(1).gather(1, pairs.flatten(1)).view(pairs.shape))

    def pooled(self, weights: Tensor, batch: Batch) -> Tensor:
        """The output (s, b, classes): the weighted sum of one-hot values, which need not be written out for that."""
        nothing = weights.new_zeros(*weights.shape[:-1], self.classes)
        return nothing.scatter_add(-1, batch.values, weights)

    def gradient_norms(self) -> Tensor:
        """Of the gradient of all parameters, one number a seed (s,)."""
        norms = [norms_by_seed(self.W_q), norms_by_seed(self.W_k), *self.scorer.gradient_norms()]
        return length(torch.stack(norms))


def losses(pooled: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy of the pooled values (s, b, classes) as logits, a mean over the batch for each seed (s,).

    What is pooled reaches the loss only through the weights, so that the gradient has to pass the softmax's Jacobian:
    where weights are all or nothing, next to none does, as in a network where attention is one layer of many. The
    logarithm of a weight itself would undo that: its gradient by the scores is the difference to the right weights,
    which is largest just where the softmax is sure and wrong, so that saturation would do no harm.

    What is pooled lies between 0 and 1, so that the loss is at least ln(1 + (classes - 1)/e), 1.27 for 8 classes: that
    of 1 for the right class and 0 for the others.
    """
    return F.cross_entropy(pooled.mT, targets, reduction="none").mean(-1)


def _projections(name: str, d: int, options: TrainOptions, indices: Sequence[int], dtype: torch.dtype) -> nn.Parameter:
    sources = [generator(seed_of(options.seed, index), f"{name}.{d}") for index in indices]
    size = (d, options.embedding)
    drawn = [torch.randn(size, generator=source, dtype=dtype) for source in sources]
    return nn.Parameter(torch.stack(drawn) / options.embedding**0.5)  # s d e
