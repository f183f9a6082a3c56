"""The outputs of a model with replaced attention, and their distance from the outputs of the unchanged model."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attncli.errors import InputError
from attncli.models.loading import Pooling
from attncli.results import Row
from attncli.studies.swap.columns import Kind

LARGEST = 700.0  # exp of more is infinite
FEWEST_TEXTS = 3  # for a rank correlation of their pairs


@dataclass(frozen=True)
class Outputs:
    """The main output of one batch, on the CPU: logits (b, n, vocabulary), states (b, n, d), or any tensor.

    `valid` (b, n) is False at padding; `targets` (b, n) are the input tokens of a language model, else None.
    """

    kind: Kind
    main: Tensor
    valid: Tensor
    targets: Tensor | None = None


def outputs_of(given: Any, batch: Any) -> Outputs:
    """Return the main output of a model: its logits for the input tokens, its last hidden state, or its first tensor.

    Raises:
        InputError: the output has no tensor.
    """
    inputs: Mapping[str, Any] = batch if isinstance(batch, Mapping) else {}
    side = "decoder_" if "decoder_input_ids" in inputs else ""
    tokens, mask = inputs.get(f"{side}input_ids"), inputs.get(f"{side}attention_mask")
    for name, kind in (("logits", "language"), ("last_hidden_state", "encoder")):
        main = getattr(given, name, None)
        if not isinstance(main, Tensor) or main.ndim != 3:
            continue
        valid, targets = (
            each.cpu() if isinstance(each, Tensor) and each.shape == main.shape[:2] else None for each in (mask, tokens)
        )
        valid = torch.ones(main.shape[:2], dtype=torch.bool) if valid is None else valid.bool()
        if kind == "language" and targets is None:
            return Outputs("other", main.cpu(), valid)
        return Outputs("language" if kind == "language" else "encoder", main.cpu(), valid, targets)
    main = _first_tensor(given)
    if main is None:
        raise InputError.of(f"the model gives {type(given).__name__} without a tensor; expected logits or states")
    return Outputs("other", main.cpu(), torch.ones(main.shape[:1] or (1,), dtype=torch.bool))


def _first_tensor(given: Any) -> Tensor | None:
    if isinstance(given, Tensor):
        return given if given.is_floating_point() else None
    parts = given.values() if isinstance(given, Mapping) else given if isinstance(given, tuple | list) else ()
    return next((found for each in parts if (found := _first_tensor(each)) is not None), None)


@dataclass
class Changes:
    """Differences between new outputs and the model's own, summed over batches; `pooling` is a sentence encoder's."""

    pooling: Pooling = "mean"
    kind: Kind = "other"
    squares: float = 0.0
    own_squares: float = 0.0
    largest: float = 0.0
    tokens: int = 0
    predicted: int = 0
    sums: dict[str, float] = field(default_factory=dict)
    texts: list[Tensor] = field(default_factory=list)  # change of the loss of each text
    pooled: list[tuple[Tensor, Tensor]] = field(default_factory=list)  # own and new, (b, d)

    def add(self, own: Outputs, new: Outputs) -> None:
        """Add a batch."""
        self.kind = own.kind
        a, b = (each.main[own.valid].double() for each in (own, new))  # tokens d
        self.squares += float((b - a).square().sum())
        self.own_squares += float(a.square().sum())
        self.largest = max(self.largest, float((b - a).abs().max()) if a.numel() else 0.0)
        self.tokens += len(a)
        if own.kind == "language":
            self._add_predictions(own, new)
        if own.kind == "encoder":
            self._sum("token_cosine", torch.cosine_similarity(a, b, dim=-1).sum())
            self.pooled.append((_pooled(own, self.pooling), _pooled(new, self.pooling)))

    def _add_predictions(self, own: Outputs, new: Outputs) -> None:
        assert own.targets is not None
        counted = own.valid[:, 1:] & own.valid[:, :-1]  # b n-1: neither token is padding
        of_texts = []
        for index, mask in enumerate(counted):  # text by text, since a vocabulary is large
            logs = [each.main[index, :-1][mask].double().log_softmax(-1) for each in (own, new)]  # n v
            targets = own.targets[index, 1:][mask][:, None]
            losses = [-each.gather(-1, targets)[:, 0] for each in logs]
            self._sum("own_loss", losses[0].sum())
            self._sum("loss", losses[1].sum())
            self._sum("kl", (logs[0].exp() * (logs[0] - logs[1])).nan_to_num(nan=math.nan).sum())
            self._sum("top1_agreement", (logs[0].argmax(-1) == logs[1].argmax(-1)).sum())
            if len(targets):
                of_texts.append((losses[1] - losses[0]).mean())
        self.predicted += int(counted.sum())
        self.texts += of_texts

    def _sum(self, name: str, value: Tensor) -> None:
        self.sums[name] = self.sums.get(name, 0.0) + float(value)

    @property
    def record(self) -> Row:
        """Return the metrics for this kind of model; a metric is None if it needs more texts or tokens."""
        found: Row = {
            "relative_l2": math.sqrt(self.squares / self.own_squares) if self.own_squares else None,
            "largest": self.largest,
        }
        if self.kind == "language":
            own, loss, kl, same = (
                self.sums[key] / self.predicted if self.predicted else None
                for key in ("own_loss", "loss", "kl", "top1_agreement")
            )
            change = None if loss is None or own is None else loss - own
            error = None
            if len(self.texts) > 1:
                error = float(torch.stack(self.texts).std()) / math.sqrt(len(self.texts))
            perplexity = None if loss is None else math.exp(min(loss, LARGEST))
            found |= {"loss": loss, "loss_change": change, "loss_change_se": error, "perplexity": perplexity}
            found |= {"kl": kl, "top1_agreement": same}
        if self.kind == "encoder":
            own_pooled, new_pooled = (torch.cat(each) for each in zip(*self.pooled, strict=True))
            found["token_cosine"] = self.sums["token_cosine"] / self.tokens
            found["pooled_cosine"] = float(torch.cosine_similarity(own_pooled, new_pooled, dim=-1).mean())
            found["rank_correlation"] = _rank_correlation(own_pooled, new_pooled)
        return found


def _pooled(outputs: Outputs, pooling: Pooling) -> Tensor:
    states, valid = outputs.main.double(), outputs.valid[..., None]
    if pooling == "cls":
        return states[:, 0]
    if pooling == "max":
        return states.masked_fill(~valid, -math.inf).amax(1)
    return states.masked_fill(~valid, 0.0).sum(1) / valid.sum(1).clamp(min=1)


def _rank_correlation(own: Tensor, new: Tensor) -> float | None:
    """Return Spearman's correlation of the cosines of all pairs of rows (texts, d); None if it is undefined."""
    if len(own) < FEWEST_TEXTS:
        return None
    ranks = []
    for states in (own, new):
        unit = torch.nn.functional.normalize(states, dim=-1)
        above = torch.ones(len(unit), len(unit), dtype=torch.bool).triu(1)
        ranks.append(_ranks((unit @ unit.T)[above].numpy()))
    with np.errstate(invalid="ignore", divide="ignore"):
        found = float(np.corrcoef(ranks[0], ranks[1])[0, 1])
    return found if math.isfinite(found) else None


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the ranks of the values; equal values share the mean of their ranks."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = counts.cumsum()
    means: NDArray[np.float64] = (ends - (counts - 1) / 2)[inverse]
    return means
