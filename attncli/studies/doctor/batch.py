"""The check `batch`: whether texts give the same outputs alone and in a padded batch, with padding on either side."""

import inspect
import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attncli.core.metrics import relative_l2
from attncli.core.rounding import LIMITS
from attncli.errors import InputError
from attncli.models.call import AttentionCall
from attncli.models.capture import Capture, evaluating
from attncli.models.loading import LoadedModel
from attncli.models.tokens import padding_in
from attncli.results import Row
from attncli.runtime import Progress
from attncli.sources.opening import key_names, masked_keys, special_tokens
from attncli.studies.doctor.checks import BATCH

OF_HEADS, OF_TOKENS = (1, 2), (2,)  # axes of an output (h, tokens, v) over which a head, or a token of it, is compared
NOISE = 4  # a difference is beyond this multiple of the text's difference between two batches without padding
MOST_TEXTS = 8
NEEDS, MUST = "Padded {side}, this model needs position_ids.", "This model must be padded on the {other}."
OTHER = {"left": "right", "right": "left"}
Outputs = dict[str, Tensor]  # of each attention call by its name, (b, h, n, v)


class Difference(NamedTuple):
    """First layer, head and token where a text has other outputs than alone, by this relative L2, above its limit."""

    layer: str
    head: int
    text: int
    token: int
    value: float
    limit: float


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
    """A batch of texts of a model: (b, width) tokens, with the numbers of tokens at padding left and right of each.

    `tokens` has the names of each text's tokens without padding, if they are known.
    """

    loaded: LoadedModel
    inputs: Mapping[str, Any]
    width: int
    left: Sequence[int]
    right: Sequence[int]
    tokens: Sequence[Sequence[str]] | None = None
    alone: dict[tuple[int, int], Outputs] = field(default_factory=dict)  # by text, and how many copies of it

    @property
    def side(self) -> str:
        """The side of the padding; `both sides` if some texts have it left and some right."""
        return "both sides" if any(self.left) and any(self.right) else "left" if any(self.left) else "right"

    @property
    def takes_positions(self) -> bool:
        """Whether the model has an argument `position_ids`."""
        return "position_ids" in inspect.signature(self.loaded.model.forward).parameters

    def outputs(self) -> Outputs:
        """Run the model; raise an InputError if it fails."""
        with evaluating(self.loaded.model), OutputsOnly() as seen:
            seen.take_names(self.loaded.model)
            self.loaded.outputs(self.inputs)
        return seen.outputs

    def changed(self, by_token: Callable[[Tensor], Tensor], other: Callable[[Any], Any], **fields: Any) -> "Padded":
        """Return the batch with other fields; `by_token` changes inputs (b, width, ...), and `other` the others."""
        size, inputs = (len(self.left), self.width), dict[str, Any]()
        for name, value in self.inputs.items():
            has_tokens = isinstance(value, Tensor) and value.shape[:2] == size and not name.startswith("decoder_")
            inputs[name] = by_token(value) if has_tokens else other(value)
        return replace(self, inputs=inputs, **fields)

    def outputs_alone(self, text: int, copies: int = 1) -> Outputs:
        """Return the outputs for copies of a text without padding, with positions from 0 where it has any."""

        def copied(value: Any) -> Any:
            is_by_text = isinstance(value, Tensor) and value.shape[:1] == (len(self.left),)
            return value[[text] * copies] if is_by_text else value

        if (text, copies) not in self.alone:
            start, end = self.left[text], self.width - self.right[text]
            each = [0] * copies
            batch = self.changed(
                lambda value: copied(value)[:, start:end], copied, width=end - start, left=each, right=each
            )
            batch = batch.with_positions() if "position_ids" in self.inputs else batch
            self.alone[text, copies] = batch.outputs()
        return self.alone[text, copies]

    def on_other_side(self) -> "Padded":
        """Return the batch with the padding of each text on the other side, without `position_ids`."""
        shifts = [right - left for left, right in zip(self.left, self.right, strict=True)]

        def rolled(value: Tensor) -> Tensor:
            return torch.stack([row.roll(shift, 0) for row, shift in zip(value, shifts, strict=True)])

        moved = self.changed(rolled, lambda value: value, left=self.right, right=self.left)
        return replace(moved, inputs={name: value for name, value in moved.inputs.items() if name != "position_ids"})

    def with_positions(self) -> "Padded":
        """Return the batch with `position_ids` that skip the padding."""
        positions = torch.stack([(torch.arange(self.width) - left).clamp(min=0) for left in self.left])
        device = next((value.device for value in self.inputs.values() if isinstance(value, Tensor)), None)
        return replace(self, inputs={**self.inputs, "position_ids": positions.to(device)})

    def first_difference(self, outputs: Outputs) -> Difference | None:
        """Return the difference in the first layer where one of up to eight texts differs; None if none does."""
        lengths = [self.width - left - right for left, right in zip(self.left, self.right, strict=True)]
        texts = sorted(range(len(lengths)), key=lambda text: lengths[text])
        order, first = list(outputs), list[Difference]()
        for text in sorted({texts[0], texts[-1], *texts[1 : MOST_TEXTS - 1]}):
            first += itertools.islice(self._differences(outputs, text), 1)
        return min(first, key=lambda difference: order.index(difference.layer), default=None)

    def _differences(self, outputs: Outputs, text: int) -> Iterator[Difference]:
        """Yield the differences of a text beyond both limits: of the dtype, and of the text's own noise."""
        tokens = slice(self.left[text], self.width - self.right[text])
        for name, (alone, *_) in self.outputs_alone(text).items():
            batch = outputs.get(name)
            if batch is None or len(batch) != len(self.left):
                continue
            batch = batch[text, :, tokens] if batch.shape[-2] == self.width else batch[text]
            if batch.shape != alone.shape:
                continue
            distances = _distances(batch, alone, OF_HEADS)
            limits = torch.full_like(distances, max(LIMITS[batch.dtype], BATCH.limit))
            if bool((distances > limits).any()):
                copies = self.outputs_alone(text, len(self.left)).get(name, alone[None])
                limits = torch.maximum(NOISE * _distances(copies[0], alone, OF_HEADS), limits)
            for head in (distances > limits).nonzero()[:, 0].tolist():
                is_beyond = _distances(batch, alone, OF_TOKENS)[head] > limits[head]
                numbers = float(distances[head]), float(limits[head])
                yield Difference(name, head, text, int(is_beyond.int().argmax()), *numbers)


def _distances(batch: Tensor, alone: Tensor, axes: tuple[int, ...]) -> Tensor:
    """Return the relative L2 norm of the difference of each head (h), or of each token of each head, (h, tokens)."""
    return relative_l2(alone.double(), batch.double(), axes=axes)


def padded_batch(loaded: LoadedModel) -> Padded | None:
    """Return the batch of a model if its texts have different lengths; else None."""
    (batch,) = loaded.batches
    if not isinstance(batch, Mapping) or (padding := _token_padding(batch, special_tokens(loaded))) is None:
        return None
    left, right = (of.int().cumprod(-1).sum(-1) for of in (padding, padding.flip(-1)))
    lengths = (~padding).sum(-1)
    is_whole = bool((left + right + lengths == padding.shape[-1]).all()) and int(lengths.min()) > 0
    if not is_whole or bool((lengths == lengths[0]).all()):
        return None
    width, names = padding.shape[-1], (loaded.tokens or {}).get("keys")
    padded = Padded(loaded, batch, width, left.tolist(), right.tolist())
    if names is None or [len(row) for row in names] != [width] * len(names):
        return padded
    tokens = [row[start : width - end] for row, start, end in zip(names, padded.left, padded.right, strict=True)]
    return replace(padded, tokens=tokens)


def _token_padding(batch: Mapping[str, Any], special: Collection[int | None]) -> Tensor | None:
    """Return the mask (b, width) of a batch's tokens at padding; without padding in its mask, repeated special ones."""
    for key in ("attention_mask", "input_ids"):
        tokens = batch.get(key)
        if isinstance(tokens, Tensor) and tokens.ndim == 2:
            size = (tokens.shape[0], tokens.shape[1])
            padding = masked_keys(batch, size)
            is_padded = padding is not None and bool(padding.any())
            return padding if is_padded else padding_in(key_names(batch, size, special), size[0])[0]
    return None


def batch_rows(padded: Padded, outputs: Outputs, progress: Progress) -> list[Row]:
    """Return at most one row for each side of the padding; `outputs` are the outputs of the batch."""
    rows = list[Row]()
    progress.step(0, 1, "alone and in the batch")
    try:
        if found := padded.first_difference(outputs):
            needs_positions = "position_ids" not in padded.inputs and _is_right_with_positions(padded)
            rows.append(_row(padded, found, NEEDS if needs_positions else ""))
        other = padded.on_other_side() if padded.side in OTHER else None
        if other is not None and (found := other.first_difference(other.outputs())):
            is_faulty = any(row["kind"] == "fault" for row in rows) or other.takes_positions
            rows.append(_row(other, found, NEEDS if _is_right_with_positions(other) else "" if is_faulty else MUST))
    except InputError as error:
        progress.note(f"alone and in the batch: not all is checked: {error}")
    return rows


def _is_right_with_positions(padded: Padded) -> bool:
    """Whether the model takes `position_ids`, and nothing differs with `position_ids` that skip the padding."""
    again = padded.with_positions()
    return padded.takes_positions and again.first_difference(again.outputs()) is None


def _row(padded: Padded, found: Difference, remark: str) -> Row:
    """Return the row of a difference: a fault, or a remark."""
    text, side = found.text, padded.side
    token = str(found.token) if padded.tokens is None else f"{found.token} ({padded.tokens[text][found.token]})"
    of_side = "on both sides" if side not in OTHER else side
    meaning = remark.format(side=side, other=OTHER.get(side)) or BATCH.meaning
    about = f"Text {text}, padded {of_side}, has other outputs than alone, first at token {token}. {meaning}"
    row = {"layer": found.layer, "head": found.head, "check": BATCH.key, "kind": "remark" if remark else "fault"}
    return {**row, "value": found.value, "limit": found.limit, "about": about}
