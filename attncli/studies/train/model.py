"""The model that learns associative recall, once for each seed, in parameters with one axis of seeds in front."""

from collections.abc import Sequence
from contextlib import nullcontext

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attncli import textbook
from attncli.attention import masked_softmax, softcap
from attncli.config.scorer_entries import ScorerEntry
from attncli.errors import InputError
from attncli.inputs.seeding import derived_seed, generator, seeded
from attncli.scorers import SCORERS
from attncli.scorers.additive import Additive
from attncli.studies.scoring import build_scorer, raw_scores
from attncli.studies.train.options import TrainOptions
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
        if entry.scorer not in SCORERS:
            seeds = [derived_seed(seed_of(options.seed, index), f"forward.{entry.label}.{d}") for index in indices]
            self.scorer: nn.Module = OneByOne(scorers, seeds)
        else:
            self.scorer = _stacked(scorers) if getattr(scorers[0], "stacks_over_seeds", False) else OneByOne(scorers)
        self.indices, self.cap, self.classes = list(indices), entry.softcap, options.classes

    def forward(self) -> Tensor:
        """Scores of every symbol as a query and every symbol as a key (s, vocabulary, vocabulary).

        A step needs no others, as a score belongs to one query and one key; and there are fewer of them than pairs of
        query and key in a batch.
        """
        queries, keys = (self.embeddings @ each.mT for each in (self.W_q, self.W_k))  # s vocabulary d
        score = self._additive if isinstance(self.scorer, Additive) else self.scorer
        scores: Tensor = score(queries, keys)
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

    def _additive(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Scores as textbooks write them: few pairs are scored, and torch knows the gradients of a tanh."""
        w_q, w_k, w_v = (self.scorer.get_parameter(f"{name}.weight") for name in ("W_q", "W_k", "w_v"))
        return textbook.additive_scores(queries, keys, w_q, w_k, w_v.mT.unsqueeze(-3)).squeeze(-1)

    def gradient_norms(self) -> Tensor:
        """Of the gradient of all parameters, one number a seed (s,)."""
        stacked, norms = [self.W_q, self.W_k], list[Tensor]()
        if isinstance(self.scorer, OneByOne):
            nothing = self.W_q.new_zeros(0)  # a scorer may have no parameters
            learnable = [[each for each in scorer.parameters() if each.requires_grad] for scorer in self.scorer.scorers]
            gradients = [torch.cat([nothing, *(_gradient(each).flatten() for each in own)]) for own in learnable]
            norms.append(torch.stack([_length(each) for each in gradients]))
        else:
            stacked += self.scorer.parameters()
        return _length(torch.stack([*(_length(_gradient(each).flatten(1).mT) for each in stacked), *norms]))


class OneByOne(nn.Module):
    """Scorers that see their own seed alone: those of the user's own, and those that do not say that they stack.

    The user's own may draw from torch's global generators. With `seeds` each finds them seeded with its own number and
    how often has been scored, and with nothing else.
    """

    def __init__(self, scorers: Sequence[nn.Module], seeds: Sequence[int] = ()) -> None:
        super().__init__()
        self.scorers, self.seeds, self.calls = nn.ModuleList(scorers), seeds, 0

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Scores (s, n, m) of queries (s, n, q) and keys (s, m, k).

        Raises:
            InputError: a scorer that fails, or whose scores have no gradient.
        """
        self.calls += 1
        found = list[Tensor]()
        for index, scorer in enumerate(self.scorers):
            call = f"call.{self.calls}"
            with seeded(self.seeds[index], call, queries.device) if self.seeds else nullcontext():
                found.append(raw_scores(scorer, queries[index], keys[index]))
            if not found[-1].requires_grad:
                expected = "expected scores that depend on queries and keys in ways that torch can differentiate"
                cure = "without detach, no_grad, and whole numbers"
                raise InputError.of(
                    f"the scorer gave scores without a gradient, so that nothing can be learnt; {expected}, {cure}"
                )
        return torch.stack(found)


def _stacked(scorers: Sequence[nn.Module]) -> nn.Module:
    """The first of the scorers, with the matrices of all in front of each other (s, ...)."""
    together = scorers[0]
    for name, part in together.named_modules():
        if isinstance(part, nn.Linear):
            matrices = [scorer.get_parameter(f"{name}.weight").detach() for scorer in scorers]
            part.weight = nn.Parameter(torch.stack(matrices))
    return together


def _gradient(parameter: nn.Parameter) -> Tensor:
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad


def _length(vectors: Tensor) -> Tensor:
    """Of vectors (n,), or of the columns of a matrix (n, s)."""
    norms: Tensor = torch.linalg.vector_norm(vectors, dim=0)
    return norms


def losses(pooled: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy of the pooled values (s, b, classes) as logits, a mean over the batch for each seed (s,).

    The gradient has to pass the softmax's Jacobian, and next to none does where weights are all or nothing. The
    logarithm of a weight as the loss would undo that, so that saturation would do no harm. What is pooled lies between
    0 and 1, so that the loss is at least ln(1 + (classes - 1)/e), 1.27 for 8 classes.
    """
    return F.cross_entropy(pooled.mT, targets, reduction="none").mean(-1)


def _projections(name: str, d: int, options: TrainOptions, indices: Sequence[int], dtype: torch.dtype) -> nn.Parameter:
    sources = [generator(seed_of(options.seed, index), f"{name}.{d}") for index in indices]
    size = (d, options.embedding)
    drawn = [torch.randn(size, generator=source, dtype=dtype) for source in sources]
    return nn.Parameter(torch.stack(drawn) / options.embedding**0.5)  # s d e
