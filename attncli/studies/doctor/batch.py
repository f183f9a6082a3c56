"""The check `batch`: whether texts give the same outputs alone and in a padded batch, with padding on either side."""

import inspect
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from attncli.errors import InputError
from attncli.models.call import AttentionCall
from attncli.models.capture import Capture, evaluating
from attncli.models.loading import LoadedModel
from attncli.results import Row
from attncli.runtime import Progress
from attncli.studies.doctor.checks import BATCH

LIMITS = {torch.float16: 4e-3, torch.bfloat16: 3e-2}  # of the relative L2; BATCH has that of other dtypes
NOISE = 4  # a difference is beyond this multiple of what the text differs by between two batches without padding
MOST_TEXTS = 8
Outputs = dict[str, Tensor]  # of each attention call by its name, (b, h, n, v)
Found = tuple[str, int, int, int, float, float]  # layer, head, text, token, relative L2 and its limit


class OutputsOnly(Capture):
    """Context manager that keeps the output of each attention call that can be re-scored."""

    def __init__(self) -> None:
        super().__init__()
        self.outputs: Outputs = {}

    def keep(self, call: AttentionCall, output: Tensor) -> None:
        """Keep a copy of the output."""
        if call.problem is None:
            self.outputs[call.name] = output.detach().to("cpu", copy=True)


@dataclass(frozen=True)
class Padded:
    """A batch of texts of a model: (b, width) tokens, with the numbers of tokens at padding left and right of each."""

    loaded: LoadedModel
    inputs: Mapping[str, Any]
    width: int
    left: Sequence[int]
    right: Sequence[int]
    alone: dict[tuple[int, int], Outputs] = field(default_factory=dict)  # by text, and how many copies of it

    @property
    def side(self) -> str:
        """The side of the padding."""
        return "on both sides" if any(self.left) and any(self.right) else "left" if any(self.left) else "right"

    @property
    def texts(self) -> list[int]:
        """The shortest text, the longest, and up to six others."""
        lengths = [self.width - left - right for left, right in zip(self.left, self.right, strict=True)]
        order = sorted(range(len(lengths)), key=lambda text: lengths[text])
        return sorted({order[0], order[-1], *order[1 : MOST_TEXTS - 1]})

    @property
    def takes_positions(self) -> bool:
        """Whether the model has an argument `position_ids`."""
        return "position_ids" in inspect.signature(self.loaded.model.forward).parameters

    def outputs(self, inputs: Mapping[str, Any]) -> Outputs:
        """Run the model; raise an InputError if it fails."""
        with evaluating(self.loaded.model), OutputsOnly() as seen:
            seen.take_names(self.loaded.model)
            self.loaded.outputs(inputs)
        return seen.outputs

    def outputs_alone(self, text: int, copies: int = 1) -> Outputs:
        """Return the outputs for a text without padding and its copies, with positions from 0 where it has any."""
        if (text, copies) not in self.alone:
            start, end = self.left[text], self.width - self.right[text]
            inputs = {name: self._cut(name, value, text, start, end) for name, value in self.inputs.items()}
            inputs = {
                name: value.repeat_interleave(copies, 0) if isinstance(value, Tensor) and value.ndim else value
                for name, value in inputs.items()
            }
            self.alone[text, copies] = self.outputs(inputs)
        return self.alone[text, copies]

    def _has_tokens(self, name: str, value: Any) -> bool:
        """Whether the second axis of an input are the tokens of the texts."""
        is_tensor = isinstance(value, Tensor) and not name.startswith("decoder_")
        return is_tensor and tuple(value.shape[:2]) == (len(self.left), self.width)

    def _cut(self, name: str, value: Any, text: int, start: int, end: int) -> Any:
        if not isinstance(value, Tensor) or value.shape[:1] != (len(self.left),):
            return value
        if not self._has_tokens(name, value):
            return value[text, None]
        if name == "position_ids":
            return torch.arange(end - start, device=value.device)[None]
        return value[text, None, start:end]

    def on_other_side(self) -> "Padded":
        """Return the batch with the padding of each text on the other side, without `position_ids`."""
        shifts = [right - left for left, right in zip(self.left, self.right, strict=True)]
        inputs = {
            name: torch.stack([row.roll(shift, 0) for row, shift in zip(value, shifts, strict=True)])
            if self._has_tokens(name, value)
            else value
            for name, value in self.inputs.items()
            if name != "position_ids"
        }
        return Padded(self.loaded, inputs, self.width, self.right, self.left, self.alone)

    def with_positions(self) -> "Padded":
        """Return the batch with `position_ids` that skip the padding."""
        key = torch.arange(self.width)
        positions = torch.stack([(key - left).clamp(min=0) for left in self.left])
        device = next((value.device for value in self.inputs.values() if isinstance(value, Tensor)), None)
        inputs = {**self.inputs, "position_ids": positions.to(device)}
        return Padded(self.loaded, inputs, self.width, self.left, self.right, self.alone)

    def compared(self, outputs: Outputs, text: int, alone: Outputs) -> Iterator[tuple[str, Tensor, Tensor]]:
        """Yield each call with the outputs (h, tokens, v) of a text in the batch and alone."""
        start, end = self.left[text], self.width - self.right[text]
        for name, own in alone.items():
            batch = outputs.get(name)
            if batch is not None and len(batch) == len(self.left) and batch.shape[1] == own.shape[1]:
                tokens = slice(start, end) if batch.shape[-2] == self.width else slice(None)
                if batch[text, :, tokens].shape == own[0].shape:
                    yield name, batch[text, :, tokens].double(), own[0].double()

    def first_difference(self, outputs: Outputs) -> Found | None:
        """Return the first layer, and its first head and text, with outputs that differ beyond the limit."""
        order, first = list(outputs), None
        for text in self.texts:
            alone = self.outputs_alone(text)
            for name, batch, own in self.compared(outputs, text, alone):
                if first is not None and order.index(name) >= order.index(first[0]):
                    break  # an earlier text differs there already
                least = LIMITS.get(outputs[name].dtype, BATCH.limit)
                heads = (_distances(batch, own, 1) > least).nonzero()[:, 0].tolist()
                found = next(filter(None, (self._beyond(name, head, text, batch, own, least) for head in heads)), None)
                first = found or first
                if found is not None:
                    break
        return first

    def _beyond(self, name: str, head: int, text: int, batch: Tensor, own: Tensor, least: float) -> Found | None:
        """Return a difference if it is beyond the noise of two batches without padding, too."""
        copies = self.outputs_alone(text, len(self.left)).get(name)
        noise = 0.0 if copies is None else float(_distances(copies[0].double(), own, 1)[head])
        value, limit = float(_distances(batch, own, 1)[head]), max(least, NOISE * noise)
        if not value > limit:
            return None
        tokens = (_distances(batch, own, 2)[head] > limit).nonzero()[:, 0].tolist()
        return name, head, text, tokens[0] if tokens else 0, value, limit


def _distances(x: Tensor, y: Tensor, axes: int) -> Tensor:
    """Return the relative L2 norm of x - y of each head (h), or of each token of each head, (h, tokens)."""
    change = torch.where((x == y) | (x.isnan() & y.isnan()), 0.0, x - y).flatten(axes).norm(dim=-1)
    distances: Tensor = change / y.nan_to_num().flatten(axes).norm(dim=-1)
    return torch.where(change == 0, 0.0, distances.nan_to_num(math.inf, math.inf))


def padded_batch(loaded: LoadedModel, padding: Tensor | None) -> Padded | None:
    """Return the batch of a model whose texts have different lengths, given its padding (b, width); else None."""
    (batch,) = loaded.batches
    if padding is None or not isinstance(batch, Mapping) or len(padding) < 2:
        return None
    left, right = (of.int().cumprod(-1).sum(-1) for of in (padding, padding.flip(-1)))
    lengths = (~padding).sum(-1)
    is_whole = bool((left + right + lengths == padding.shape[-1]).all()) and int(lengths.min()) > 0
    if not is_whole or bool((lengths == lengths[0]).all()):
        return None
    return Padded(loaded, batch, padding.shape[-1], left.tolist(), right.tolist())


def batch_rows(
    padded: Padded, outputs: Outputs, names: Sequence[Sequence[str]] | None, progress: Progress
) -> list[Row]:
    """Return at most one row for each side of the padding.

    `outputs` are those of the batch, and `names` has the tokens of each text, if known.
    """
    rows = list[Row]()
    try:
        progress.step(0, 1, "alone and in the batch")
        as_given = padded.first_difference(outputs)
        if as_given is not None:
            is_cured = "position_ids" not in padded.inputs and _is_cured(padded)
            rows.append(_row(padded, as_given, names, "needs" if is_cured else ""))
        if padded.side in ("left", "right"):
            other = padded.on_other_side()
            found = other.first_difference(other.outputs(other.inputs))
            if found is not None:
                is_faulty = bool(rows) and rows[0]["kind"] == "fault"
                cure = "needs" if _is_cured(other) else "" if is_faulty or other.takes_positions else "takes none"
                rows.append(_row(other, found, names, cure))
    except InputError as error:
        progress.note(f"alone and in the batch: not all is checked: {error}")
    return rows


def _is_cured(padded: Padded) -> bool:
    """Whether nothing differs with `position_ids` that skip the padding."""
    if not padded.takes_positions:
        return False
    again = padded.with_positions()
    return again.first_difference(again.outputs(again.inputs)) is None


def _row(padded: Padded, found: Found, names: Sequence[Sequence[str]] | None, cure: str) -> Row:
    layer, head, text, token, value, limit = found
    place = token + padded.left[text]
    name = ""
    if names is not None and len(names) == len(padded.left) and len(names[text]) == padded.width:
        name = f" ({names[text][place]})"
    about = f"Text {text}, padded {padded.side}, differs from itself alone, first at token {token}{name}."
    other = {"left": "right", "right": "left"}.get(padded.side)
    about += {
        "": f" {BATCH.meaning}",
        "needs": f" Padded {padded.side}, this model needs position_ids.",
        "takes none": f" This model must be padded on the {other}.",
    }[cure]
    row = {"layer": layer, "head": head, "check": BATCH.key, "kind": "remark" if cure else "fault"}
    return {**row, "value": value, "limit": limit, "about": about}
