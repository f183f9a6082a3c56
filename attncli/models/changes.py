"""The changes of a model's outputs over batches: sums for the columns of `attncli.models.outputs`."""

import math
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attncli.errors import InputError
from attncli.models.loading import Pooling
from attncli.models.outputs import IGNORED, OutputKind, Outputs
from attncli.results import Row

FEWEST_TEXTS = 3  # for a rank correlation of their pairs


@dataclass
class Changes:
    """Changes of a model's outputs, summed over batches; `pooling` is how a sentence encoder joins its tokens."""

    pooling: Pooling = "mean"
    kind: OutputKind = "other"
    squares: float = 0.0
    own_squares: float = 0.0
    maxima: list[float] = field(default_factory=list)  # of each batch: the largest change
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
        self.kind = before.kind
        if new.metric is not None:
            self.metrics.append(new.metric)
        if before.main is None or new.main is None:
            return
        if before.main.shape != new.main.shape:
            shapes = [list(outputs.main.shape) for outputs in (new, before) if outputs.main is not None]
            raise InputError.of(f"the output has the shape {shapes[0]}; expected {shapes[1]}, as the model's own")
        a, b = before.tokens, new.tokens  # tokens features
        change = _difference(b, a)
        self.squares += float(change.square().sum())
        self.own_squares += float(a[a.isfinite()].square().sum())
        self.maxima.append(float(change.abs().max()) if change.numel() else 0.0)
        self.tokens += len(a)
        if before.kind in ("language", "logits"):
            self._add_predictions(before, new)
        if before.kind == "states":
            self._sum("token_cosine", torch.cosine_similarity(a, b, dim=-1).sum())
            self.pooled.append((_pooled(before, self.pooling), _pooled(new, self.pooling)))

    def _add_predictions(self, before: Outputs, new: Outputs) -> None:
        counted = before.valid if before.targets is None else before.targets != IGNORED  # b n
        for index, mask in enumerate(counted):  # text by text, since a vocabulary is large
            both = (outputs.main[index][mask] for outputs in (before, new) if outputs.main is not None)
            p, q = (logits.double().log_softmax(-1) for logits in both)  # n classes
            terms = p.exp() * (p - q)
            self._sum("kl", terms.masked_fill(p == -math.inf, 0.0).sum())
            same = (p.argmax(-1) == q.argmax(-1)).double()
            self._sum("top1_agreement", same.masked_fill((p + q).isnan().any(-1), math.nan).sum())
            self._sum("predictions", mask.sum())
            if before.targets is not None and mask.any():
                self.losses.append(float(-q.gather(-1, before.targets[index][mask][:, None]).sum()))
                self.counts.append(int(mask.sum()))

    def _sum(self, name: str, value: Tensor) -> None:
        self.sums[name] = self.sums.get(name, 0.0) + float(value)

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
            row |= {"kl": self._mean("kl"), "top1_agreement": self._mean("top1_agreement")}
        if self.kind == "states":
            own_pooled, new_pooled = (torch.cat(batches) for batches in zip(*self.pooled, strict=True))
            row["token_cosine"] = self.sums["token_cosine"] / self.tokens if self.tokens else None
            row["pooled_cosine"] = float(torch.cosine_similarity(own_pooled, new_pooled, dim=-1).mean())
            row["rank_correlation"] = _rank_correlation(own_pooled, new_pooled)
        return row

    @property
    def largest(self) -> float | None:
        """The largest absolute change of a number."""
        return float(np.max(self.maxima)) if self.maxima else None

    @property
    def error(self) -> float:
        """The relative L2, or the largest change if the own output is 0; 0 if no outputs were compared."""
        return next((error for error in (self.relative_l2, self.largest) if error is not None), 0.0)

    @property
    def relative_l2(self) -> float | None:
        """The L2 norm of the change, relative to the model's own output; None if only the own output is 0."""
        if self.own_squares == 0 and self.squares > 0:
            return None
        return math.sqrt(self.squares / (self.own_squares or 1.0)) if self.tokens else None


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
        ranks.append(_ranks((unit @ unit.T)[above].numpy()))
    with np.errstate(invalid="ignore", divide="ignore"):
        correlation = float(np.corrcoef(ranks[0], ranks[1])[0, 1])
    return correlation if math.isfinite(correlation) else None


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the ranks of the values; equal values share the mean of their ranks."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = counts.cumsum()
    means: NDArray[np.float64] = (ends - (counts - 1) / 2)[inverse]
    return means
