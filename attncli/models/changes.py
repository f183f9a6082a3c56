"""The changes of a model's outputs over batches: sums for the columns of `attncli.models.outputs`."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from attncli.core.metrics import relative_norm
from attncli.errors import InputError
from attncli.models.loading import Pooling
from attncli.models.outputs import IGNORED, OutputKind, Outputs
from attncli.results import Row

CHUNK = 128  # tokens compared at a time: with more, their logits no longer stay in the memory that torch reuses
FEWEST_TEXTS = 3  # for a rank correlation of their pairs


@dataclass(frozen=True)
class _OwnRows:
    """Rows (t, features) of the model's own main output, with their sum of squares.

    Of predictions also `counted` (t), the `targets` (t) of a language model, and their probabilities.
    """

    tokens: Tensor  # indices among all tokens of the batch
    valid: Tensor  # (t): not padding, which may predict a token if there are labels
    rows: Tensor
    squares: float
    counted: Tensor | None = None
    targets: Tensor | None = None
    logsumexp: Tensor = field(default_factory=Tensor)
    top: Tensor = field(default_factory=Tensor)
    probabilities: Tensor = field(default_factory=Tensor)

    @classmethod
    def of(cls, outputs: Outputs, tokens: Tensor) -> "_OwnRows":
        """Return the rows of the tokens with these indices."""
        rows = outputs.rows(tokens)
        norms = torch.linalg.vector_norm(rows, dim=-1)
        if not bool(norms.isfinite().all()):
            norms = torch.linalg.vector_norm(rows.masked_fill(~rows.isfinite(), 0.0), dim=-1)
        valid = outputs.valid.flatten()[tokens].to(rows.device)
        squares = float(norms[valid].cpu().double().square().sum())
        if outputs.kind not in ("language", "logits"):
            return cls(tokens, valid, rows, squares)
        counted, targets = valid, None
        if outputs.targets is not None:
            targets = outputs.targets.flatten()[tokens].to(rows.device)
            counted, targets = targets != IGNORED, targets.clamp(min=0)
        logsumexp = rows.logsumexp(-1)
        probabilities = (rows - logsumexp[:, None]).exp_()
        return cls(tokens, valid, rows, squares, counted, targets, logsumexp, rows.argmax(-1), probabilities)


def add_each(changes: "Sequence[Changes]", before: Outputs, news: Sequence[Outputs]) -> None:
    """Add a batch to several changes: the model's own outputs, and new ones for each.

    Logits of a large vocabulary are made from states for CHUNK tokens at a time, the model's own once for all changes.

    Raises:
        InputError: outputs have different shapes.
    """
    pairs = [(each, new) for each, new in zip(changes, news, strict=True) if each.compares(before, new)]
    counted = before.valid if before.targets is None else before.valid | (before.targets != IGNORED)
    tokens = counted.flatten().nonzero()[:, 0]
    losses = torch.zeros(len(pairs), len(before.valid), dtype=torch.float64)
    for start in range(0, len(tokens) if pairs else 0, CHUNK):
        chunk = tokens[start : start + CHUNK]
        own = _OwnRows.of(before, chunk)
        for index, (each, new) in enumerate(pairs):
            lost = each.add_rows(own, new)
            if lost is not None and own.counted is not None:
                texts = (chunk // before.valid.shape[-1])[own.counted.cpu()]
                losses[index].index_add_(0, texts, lost[own.counted].cpu().double())
    for (each, new), lost in zip(pairs, losses, strict=True):
        each.end_batch(before, new, lost)


@dataclass
class Changes:
    """Changes of a model's outputs, summed over batches; `pooling` is how a sentence encoder joins its tokens."""

    pooling: Pooling = "mean"
    kind: OutputKind = "other"
    squares: float = 0.0
    own_squares: float = 0.0
    maxima: list[float] = field(default_factory=list)  # of some tokens each: the largest change
    tokens: int = 0
    sums: dict[str, float] = field(default_factory=dict)
    losses: list[float] = field(default_factory=list)  # of each text with predictions, summed over these
    counts: list[int] = field(default_factory=list)  # of these predictions
    metrics: list[float] = field(default_factory=list)  # of each batch
    pooled: list[tuple[Tensor, Tensor]] = field(default_factory=list)  # own and new, (b, d)

    def add(self, before: Outputs, new: Outputs) -> None:
        """Add a batch: the model's own outputs, and the new ones.

        Raises:
            InputError: they have different shapes.
        """
        add_each([self], before, [new])

    def compares(self, before: Outputs, new: Outputs) -> bool:
        """Add the metric of a batch; return whether it has outputs to compare."""
        self.kind = before.kind
        if new.metric is not None:
            self.metrics.append(new.metric)
        if before.main is None or new.main is None:
            return False
        if before.main.shape != new.main.shape:
            shapes = [list(outputs.main.shape) for outputs in (new, before) if outputs.main is not None]
            raise InputError.of(f"the output has the shape {shapes[0]}; expected {shapes[1]}, as the model's own")
        return True

    def add_rows(self, own: "_OwnRows", outputs: Outputs) -> Tensor | None:
        """Add the rows of new outputs for the tokens of `own`; return the loss of each if there are targets."""
        new, losses, divergences = outputs.rows(own.tokens), None, None
        if self.kind == "states":
            self._sum("token_cosine", torch.cosine_similarity(own.rows, new, dim=-1))
        if own.counted is not None:
            logsumexp, same = new.logsumexp(-1), (new.argmax(-1) == own.top).to(new.dtype)
            divergences = logsumexp - own.logsumexp
            self._sum("top1_agreement", same.masked_fill(~divergences.isfinite(), math.nan)[own.counted])
            self._sum("predictions", own.counted)
            if own.targets is not None:
                losses = logsumexp - new.gather(-1, own.targets[:, None])[:, 0]
        change = new.sub_(own.rows)
        norms = torch.linalg.vector_norm(change, dim=-1)
        if is_infinite := not bool(norms.isfinite().all()):
            change = _difference(outputs.rows(own.tokens), own.rows)
            norms = torch.linalg.vector_norm(change, dim=-1)
        if tokens := int(own.valid.sum()):
            self.squares += float(norms[own.valid].cpu().double().square().sum())
            self.own_squares += own.squares
            self.maxima.append(float(torch.maximum(change.amax(-1), -change.amin(-1))[own.valid].max()))
            self.tokens += tokens
        if divergences is not None:
            terms = change.mul_(own.probabilities)  # their sum is exact to 1e-5, as a product of matrices to 1e-3 only
            terms = terms.masked_fill_(own.probabilities == 0, 0.0) if is_infinite else terms
            self._sum("kl", (divergences - terms.sum(-1))[own.counted])
        return losses

    def end_batch(self, before: Outputs, new: Outputs, losses: Tensor) -> None:
        """Add the numbers of whole texts: the sums of the losses (b), and pooled states."""
        if before.targets is not None:
            counts = (before.targets != IGNORED).sum(1)
            self.losses += losses[counts > 0].tolist()
            self.counts += counts[counts > 0].tolist()
        if before.kind == "states":
            self.pooled.append((_pooled(before, self.pooling), _pooled(new, self.pooling)))

    def _sum(self, name: str, values: Tensor) -> None:
        self.sums[name] = self.sums.get(name, 0.0) + float(values.cpu().double().sum())

    def _mean(self, name: str) -> float | None:
        """Return the mean over predictions."""
        count = self.sums.get("predictions")
        return self.sums[name] / count if count else None

    def record(self, model: "Changes | None" = None) -> Row:
        """Return the metrics of `output_columns`; a metric is None if it needs more texts or tokens.

        `model` has the changes by the model's own scorer, to which losses and metrics are compared; None: this is it.
        """
        model = self if model is None else model
        row: Row = {"relative_l2": self.relative_l2, "largest": self.largest}
        if self.metrics:
            value, change, error = _ratio(self.metrics, model.metrics, [1] * len(self.metrics))
            row |= {"metric": value, "metric_change": change, "metric_change_se": error}
        if self.kind == "language":
            loss, change, error = _ratio(self.losses, model.losses, self.counts)
            perplexity = None if loss is None else float(torch.tensor(loss, dtype=torch.float64).exp())
            row |= {"loss": loss, "loss_change": change, "loss_change_se": error, "perplexity": perplexity}
        if self.kind in ("language", "logits"):
            kl = self._mean("kl")
            row |= {"kl": 0.0 if kl is not None and kl < 0 else kl}  # below 0 by rounding alone
            row["top1_agreement"] = self._mean("top1_agreement")
        if self.kind == "states":
            own_pooled, new_pooled = (torch.cat(batches) for batches in zip(*self.pooled, strict=True))
            row["token_cosine"] = self.sums["token_cosine"] / self.tokens if self.tokens else None
            row["pooled_cosine"] = float(torch.cosine_similarity(own_pooled, new_pooled, dim=-1).mean())
            row["rank_correlation"] = _rank_correlation(own_pooled, new_pooled)
        return row

    @property
    def largest(self) -> float | None:
        """The largest absolute change of a number."""
        return float(torch.tensor(self.maxima, dtype=torch.float64).max()) if self.maxima else None

    @property
    def error(self) -> float:
        """The relative L2, or the largest change if the own output is 0; 0 if no outputs were compared."""
        return next((error for error in (self.relative_l2, self.largest) if error is not None), 0.0)

    @property
    def relative_l2(self) -> float | None:
        """The L2 norm of the change, relative to the model's own output; None if only the own output is 0."""
        return relative_norm(self.squares, self.own_squares) if self.tokens else None


def _difference(new: Tensor, before: Tensor) -> Tensor:
    """Return the change of each number: 0 for equal infinities, and NaN where one is NaN."""
    return torch.where(new == before, 0.0, new - before)


def _ratio(
    sums: list[float], own_sums: list[float], counts: list[int]
) -> tuple[float | None, float | None, float | None]:
    """Return sum(sums) / sum(counts), its change from the same ratio of `own_sums`, and the change's standard error.

    The change is a ratio estimator over independent texts, whose standard error is by the delta method
    sqrt(N / (N - 1) sum_i (change_i - ratio * count_i)^2) / sum_i count_i (Cochran 1977). If all counts are equal, this
    is the standard error of the mean of the paired changes.
    """
    if not sums:
        return None, None, None
    values, sizes = (torch.tensor(numbers, dtype=torch.float64) for numbers in (sums, counts))
    changes = _difference(values, torch.tensor(own_sums, dtype=torch.float64))
    total, n = sizes.sum(), len(sums)
    change = changes.sum() / total
    squares = (changes - change * sizes).square().sum()
    error = float((n / (n - 1) * squares).sqrt() / total) if n > 1 else None
    return float(values.sum() / total), float(change), error


def _pooled(outputs: Outputs, pooling: Pooling) -> Tensor:
    assert outputs.main is not None
    states, valid = outputs.main.double(), outputs.valid[..., None]
    if pooling == "cls":
        return states[:, 0]
    if pooling == "max":
        return states.masked_fill(~valid, -math.inf).amax(1)
    return states.masked_fill(~valid, 0.0).sum(1) / valid.sum(1).clamp(min=1)


def _rank_correlation(before: Tensor, new: Tensor) -> float | None:
    """Return Spearman's correlation of the cosines of all pairs of rows (texts, d); None if it is undefined."""
    if len(before) < FEWEST_TEXTS:
        return None
    if bool((before + new).isnan().any()):
        return math.nan
    ranks = []
    for states in (before, new):
        unit = torch.nn.functional.normalize(states, dim=-1)
        above = torch.ones(len(unit), len(unit), dtype=torch.bool).triu(1)
        ranks.append(_ranks((unit @ unit.T)[above]))
    correlation = float(torch.corrcoef(torch.stack(ranks))[0, 1])
    return correlation if math.isfinite(correlation) else None


def _ranks(values: Tensor) -> Tensor:
    """Return the ranks of the values; equal values share the mean of their ranks."""
    inverse, counts = values.unique(return_inverse=True, return_counts=True)[1:]  # type: ignore[no-untyped-call]
    means: Tensor = (counts.cumsum(0) - (counts - 1).double() / 2)[inverse]
    return means
