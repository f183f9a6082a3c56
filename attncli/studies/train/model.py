"""The model for associative recall and its training: all seeds at once, each with separate parameters.

In shapes, s is the number of seeds; parameters have the seeds on their first axis.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attncli.attention import softcap
from attncli.catalogue.building import build_normalizer, build_scorer, entry_inputs
from attncli.catalogue.guarding import calling, raw_scores
from attncli.catalogue.scorer_entries import ScorerEntry
from attncli.core.metrics import entropy, shares
from attncli.core.seeding import derived_seed, seeded
from attncli.errors import InputError
from attncli.scorers import SCORERS, Scorer
from attncli.studies.train.options import TrainOptions
from attncli.studies.train.task import Batch, batches, held_out, model_seeds, normal

POINTS = 100  # of a learning curve, beside its beginning
NO_GRADIENT = (
    "the scorer gave scores without a gradient, so nothing can be learnt; expected differentiable scores, made without "
    "detach, no_grad and integers"
)


@dataclass(frozen=True)
class Configuration:
    """One scorer at one size d; `index` is the entry's index in `scorers`."""

    index: int
    entry: ScorerEntry
    d: int

    @property
    def name(self) -> str:
        """Return `label/d`, the beginning of the names of the configuration's curves."""
        return f"{self.entry.label}/{self.d}"


class Recall(nn.Module):
    """One layer of attention: queries W_q x and keys W_k x of embedded symbols x, and one-hot values.

    `W_q` and `W_k` (s, d, e), where e is the size of the embeddings, are initialised with a standard deviation of
    1/sqrt(e), so that entries of queries and keys have variance 1. The embeddings (s, vocabulary, e) are fixed.
    """

    embeddings: Tensor

    def __init__(self, entry: ScorerEntry, d: int, options: TrainOptions) -> None:
        super().__init__()
        e = options.embedding
        self.register_buffer("embeddings", normal(options, "embeddings", options.vocabulary, e))
        self.W_q, self.W_k = (nn.Parameter(normal(options, f"{name}.{d}", d, e) / e**0.5) for name in ("W_q", "W_k"))
        scorers = [build_scorer(entry, d, d, seed, getattr(torch, options.dtype)) for seed in model_seeds(options)]
        if entry.scorer in SCORERS and scorers[0].stacks_over_heads:
            self.scorer = _stacked(scorers)
        else:
            seeds = [derived_seed(seed, f"forward.{entry.seed_name}.{d}") for seed in model_seeds(options)]
            self.scorer = OneByOne(scorers, seeds)
        self.normalizer = build_normalizer(entry)
        self.entry, self.classes = entry, options.classes

    def forward(self) -> Tensor:
        """Return the scores (s, vocabulary, vocabulary) of every symbol as a query with every symbol as a key.

        A step needs only the scores of all pairs of symbols, since a score depends on one query and one key. A batch
        has more pairs of query and key than there are pairs of symbols.
        """
        queries, keys = self.embeddings @ self.W_q.mT, self.embeddings @ self.W_k.mT
        queries, keys = entry_inputs(self.entry, queries, keys)
        scores: Tensor = self.scorer(queries, keys)
        return scores if self.entry.softcap is None else softcap(scores, self.entry.softcap)

    def weights(self, scores: Tensor, batch: Batch) -> Tensor:
        """Return the weights (s, b, m) of the keys of every sequence, from the scores of all symbols."""
        symbols = scores.shape[-1]
        pairs = batch.queries[..., None] * symbols + batch.keys  # s b m
        weights: Tensor = self.normalizer(scores.flatten(1).gather(1, pairs.flatten(1)).view(pairs.shape))
        return weights

    def pooled(self, weights: Tensor, batch: Batch) -> Tensor:
        """Return the weighted sum (s, b, classes) of the keys' one-hot values, without making the one-hot tensor."""
        nothing = weights.new_zeros(*weights.shape[:-1], self.classes)
        return nothing.scatter_add(-1, batch.values, weights)

    def seed_state(self, seed: int) -> dict[str, Tensor]:
        """Return copies of one seed's `W_q` and `W_k` (d, e), and of its scorer's state_dict, as `scorer.<name>`."""
        if isinstance(self.scorer, OneByOne):
            state = self.scorer.scorers[seed].state_dict()
        else:
            state = {name: tensor[seed] for name, tensor in self.scorer.state_dict().items()}
        state = {"W_q": self.W_q[seed], "W_k": self.W_k[seed]} | {f"scorer.{name}": t for name, t in state.items()}
        return {name: tensor.detach().to("cpu", copy=True) for name, tensor in state.items()}

    def gradient_norms(self) -> Tensor:
        """Return the norm of the gradient of all parameters, one number per seed (s,)."""
        single = list(self.scorer.scorers) if isinstance(self.scorer, OneByOne) else []
        stacked = [self.W_q, self.W_k, *(() if single else self.scorer.parameters())]
        gradients = [torch.zeros_like(t) if t.grad is None else t.grad for t in stacked]
        norms = [torch.linalg.vector_norm(gradient.flatten(1), dim=1) for gradient in gradients]
        if single:
            of_scorers = [[t.grad for t in scorer.parameters() if t.grad is not None] for scorer in single]
            norms.append(torch.stack([nn.utils.get_total_norm(tensors) for tensors in of_scorers]).to(self.W_q))
        total: Tensor = torch.linalg.vector_norm(torch.stack(norms), dim=0)
        return total


class OneByOne(nn.Module):
    """One scorer per seed: for user's scorers, and for scorers without `stacks_over_heads`.

    User's scorers may draw from torch's global generators. These are seeded before each call of a scorer, with its seed
    and the number of the call.
    """

    def __init__(self, scorers: Sequence[Scorer], seeds: Sequence[int]) -> None:
        super().__init__()
        self.scorers, self.seeds, self.calls = nn.ModuleList(scorers), seeds, 0

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Return the scores (s, n, m) of queries (s, n, q) and keys (s, m, k).

        Raises:
            InputError: a scorer fails, or its scores have no gradient.
        """
        self.calls += 1
        scores = list[Tensor]()
        for index, scorer in enumerate(self.scorers):
            with seeded(self.seeds[index], f"call.{self.calls}", queries.device):
                scores.append(raw_scores(scorer, queries[index], keys[index]))
            if not scores[-1].requires_grad:
                raise InputError.of(NO_GRADIENT)
        return torch.stack(scores)


def _stacked(scorers: Sequence[Scorer]) -> nn.Module:
    """Return the first of the scorers, changed to hold the stacked parameters (s, ...) of all scorers."""
    together = scorers[0]
    for path, _ in [*together.named_parameters()]:
        module, _, name = path.rpartition(".")
        stacked = torch.stack([scorer.get_parameter(path).detach() for scorer in scorers])
        setattr(together.get_submodule(module), name, nn.Parameter(stacked))
    return together


def losses(pooled: Tensor, targets: Tensor) -> Tensor:
    """Return the cross-entropy of pooled values (s, b, classes) as logits, a mean over the batch for each seed (s,).

    The gradient contains the normaliser's Jacobian as a factor, almost 0 for a softmax with all weight on one key. A
    loss that is the logarithm of a weight would cancel this factor, and saturation would do no harm. If weights sum to
    1, pooled values lie between 0 and 1, and the loss is at least ln(1 + (classes - 1)/e), 1.27 for 8 classes.
    """
    return F.cross_entropy(pooled.mT, targets, reduction="none").mean(-1)


@dataclass(frozen=True)
class Learnt:
    """The outcome of training one configuration.

    `curves` has the metrics of `measured` and the norm of the gradient at the steps of `curve_steps`, each (s, points).
    `tested` maps numbers of keys in the test to the final metrics (s,). `parameters` is the number of trained
    parameters per seed, and `states` has the final parameters of each seed.
    """

    curves: Mapping[str, Tensor]
    tested: Mapping[int, Mapping[str, Tensor]]
    parameters: int
    states: Sequence[Mapping[str, Tensor]]


def curve_steps(steps: int) -> list[int]:
    """Return the steps before which a model is tested: about a hundred, evenly spaced, and `steps` itself, the end."""
    return sorted({*range(0, steps, max(steps // POINTS, 1)), steps})


def learn(model: Recall, options: TrainOptions, step_done: Callable[[], None]) -> Learnt:
    """Train a model in place; `step_done` is called after each step, and an exception in it ends the training.

    Raises:
        InputError: a user's own scorer fails.
    """
    device = model.embeddings.device
    learnable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    # One for all seeds: it treats every number by itself, so that they do not meet.
    kind = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}[options.optimizer]
    optimizer = kind(learnable, lr=options.lr, fused=True)
    test = held_out(options, options.keys, device)
    points, curve = curve_steps(options.steps), list[dict[str, Tensor]]()
    steps = zip(range(options.steps + 1), batches(options, device), strict=False)
    for step, batch in steps:  # the last only for the gradient
        optimizer.zero_grad()
        scores = model()
        loss = losses(model.pooled(model.weights(scores, batch), batch), batch.targets).sum()
        with calling("the gradient of the scorer"):  # as of one that writes over its numbers
            loss.backward()  # type: ignore[no-untyped-call]
        if step == points[len(curve)]:
            curve.append(measured(model, scores, test) | {"gradient_norm": model.gradient_norms().cpu()})
        if step < options.steps:
            optimizer.step()
            step_done()
    curves = {name: torch.stack([point[name] for point in curve], -1) for name in curve[0]}
    tested = {keys: measured(model, scores, held_out(options, keys, device)) for keys in options.tested}
    states = [model.seed_state(seed) for seed in range(options.seeds)]
    return Learnt(curves, tested, sum(map(torch.numel, learnable)) // options.seeds, states)


def mean_entropy(weights: Tensor) -> Tensor:
    """Return the mean entropy (s,) in nats of weights (s, b, m), without rows of 0; NaN if a weight is negative."""
    exact = weights.detach().cpu().double()
    attends = (exact != 0).any(-1)  # s b
    means = entropy(shares(exact)).where(attends, 0.0).sum(-1) / attends.sum(-1)
    return means.to(weights.dtype)


@torch.no_grad()
def measured(model: Recall, scores: Tensor, batch: Batch) -> dict[str, Tensor]:
    """Return the metrics (s,), one value per seed: mean accuracy, loss and entropy (nats), and largest absolute score.

    Means are over the sequences. Accuracy is NaN if the loss is not finite, since `argmax` treats NaN as the maximum.
    """
    weights = model.weights(scores, batch)
    pooled = model.pooled(weights, batch)
    right = (pooled.argmax(-1) == batch.targets).sum(-1).cpu()
    loss, nats = losses(pooled, batch.targets).cpu(), mean_entropy(weights)
    accuracy = right.double() / batch.targets.shape[-1]  # the share itself, not float32's next to it
    largest = scores.abs().amax((-2, -1)).cpu()
    accuracy = accuracy.where(loss.isfinite(), math.nan)
    return {"accuracy": accuracy, "loss": loss, "entropy": nats, "largest_score": largest}
