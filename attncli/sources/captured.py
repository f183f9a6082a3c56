"""Read the files that `attncli capture` writes: attention calls of a real model."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import torch
from pydantic import BaseModel, Field, NonNegativeInt, PositiveFloat, PositiveInt, TypeAdapter
from safetensors import safe_open
from torch import Tensor

from attncli.attention import EmptyRow
from attncli.config.tensors import CapturedData
from attncli.core.files import TensorFile, broken, problem
from attncli.core.numbers import several
from attncli.errors import Collector, InputError, got, in_ranges
from attncli.models.call import FACTS, METADATA, SHARED, TENSORS, VERSION, AttentionCall
from attncli.models.inputs import Inputs, call_inputs
from attncli.models.selection import matching_call, matching_calls
from attncli.models.summaries import call_summary, padding_mask
from attncli.models.tokens import Names, call_tokens, numbered, read_tokens
from attncli.results import CaptureFacts, Row


class _Entry(BaseModel, strict=True, allow_inf_nan=False):
    """The JSON entry of a captured call whose output can be recomputed from its tensors."""

    kind: Annotated[str, Field(alias="class")]
    how: str
    scale: float
    pre_scale: Annotated[float, Field(gt=0)] | Annotated[float, Field(lt=0)]
    groups: PositiveInt
    heads: Annotated[list[NonNegativeInt], Field(min_length=1)] | None
    num_heads: PositiveInt | None = None  # files of earlier versions lack it
    softcap: PositiveFloat | None
    empty_row: EmptyRow
    error: float
    problem: None
    valid: str | None
    bias: str | None


class _Unusable(BaseModel, strict=True):
    problem: str


LAYERS = TypeAdapter(dict[str, _Entry | _Unusable])
PADDING = TypeAdapter(list[tuple[NonNegativeInt, NonNegativeInt]] | None)  # at the left and right of each text


@dataclass(frozen=True)
class Captured:
    """A file of captured calls. Tensors are read when a call is requested."""

    file: TensorFile
    about: Mapping[str, Any]  # model, text, tokens and so on
    layers: Mapping[str, Mapping[str, Any]]  # the JSON of each call, by name

    @property
    def path(self) -> Path:
        """The path of the file."""
        return self.file.path

    @property
    def texts(self) -> Sequence[str]:
        """The texts that the model read, if they are known."""
        text = self.about.get("text")
        return [str(each) for each in text] if isinstance(text, list) else [text] if isinstance(text, str) else []

    @property
    def facts(self) -> CaptureFacts:
        """The name of the file, and the model and the text as the user who captured them has said."""
        return CaptureFacts(file=self.path.name, model=self.about.get("model"), text=self.about.get("text"))

    @cached_property
    def tokens(self) -> Mapping[str, Names | None]:
        """The names of the model's queries and keys; empty if they are unknown or were written by another program."""
        try:
            return read_tokens(self.about.get("tokens")) or {}
        except InputError:
            return {}

    def padding(self, call: AttentionCall) -> Tensor | None:
        """The mask (b, m) of the keys of a call that are padding; None if the file does not know them."""
        return padding_mask(self.about.get("padding"), call)

    def summary(self, call: AttentionCall) -> Row:
        """Return the summary of a call, computed from its tensors."""
        names = call_tokens(self.tokens, call, f"{call.layer}#1" in self.layers).get("keys")
        return call_summary(call, names, self.padding(call))

    @cached_property
    def numbers(self) -> Mapping[str, int]:
        """The position of each call in the file, from 0, by name."""
        return {name: number for number, name in enumerate(self.layers)}

    @property
    def usable(self) -> list[str]:
        """The names of the calls that can be recomputed with other scorers."""
        return [name for name, entry in self.layers.items() if entry["problem"] is None]

    @property
    def with_tensors(self) -> list[str]:
        """The names of the calls whose tensors are in the file, also of calls that cannot be recomputed."""
        return [name for name, entry in self.layers.items() if {*FACTS, *SHARED, "class"} <= entry.keys()]

    def read(self, wanted: str | int, *, must_be_usable: bool = True) -> AttentionCall:
        """Return the call that a name, a number or a pattern chooses.

        Raises:
            InputError: there is none, or it cannot be recomputed, or its tensors are damaged.
        """
        name = str(wanted) if wanted in self.layers else matching_call(wanted, self.numbers)
        entry = self.layers[name]
        if entry["problem"] is not None and must_be_usable:
            raise InputError.of(f'got "{name}", which cannot be re-scored: {entry["problem"]}')
        stored_names = {role: entry[role] if role in SHARED else f"{name}.{role}" for role in TENSORS}
        if stored_names["sinks"] not in self.file:
            del stored_names["sinks"]
        fields: dict[str, Any] = {
            role: self.file.read(tensor) for role, tensor in stored_names.items() if tensor is not None
        }
        fields |= {key: entry[key] for key in FACTS}
        fields |= {"heads": entry["heads"] and tuple(entry["heads"]), "num_heads": entry.get("num_heads")}
        later = re.fullmatch("(.*)#([1-9][0-9]{0,8})", name, re.DOTALL)
        layer, index = (later[1], int(later[2])) if later else (name, 0)
        call = AttentionCall(layer=layer, call=index, kind=entry["class"], number=self.numbers[name], **fields)
        self._check(call)
        return call

    def _check(self, call: AttentionCall) -> None:
        try:
            b, h, n, d = call.queries.shape
            m, v = call.values.shape[-2:]
            keys = b, h // call.groups, m
            shapes = {"queries": (b, h, n, d), "keys": (*keys, d), "values": (*keys, v), "output": (b, h, n, v)}
            tensors: dict[str, Tensor] = {role: getattr(call, role) for role in shapes}
            fits = all(tensor.shape == shapes[role] and tensor.is_floating_point() for role, tensor in tensors.items())
            fits = fits and min(b, h, n, m, d, v) > 0 and h % call.groups == 0
            heads = [*call.head_numbers]
            fits = fits and len(heads) == h and heads == sorted({*heads})
            fits = fits and heads[-1] < (call.num_heads or math.inf)
            for mask, width in ((call.valid, m), (call.bias, m), (call.sinks, 1)):
                fits = fits and (mask is None or mask.expand(b, h, n, width).ndim == mask.ndim)
            fits = fits and (call.valid is None or call.valid.dtype == torch.bool)
        except (RuntimeError, ValueError, TypeError):
            fits = False
        if not fits:
            raise broken(self.path, f"the tensors of {call.name} do not fit each other")


def is_captured(path: Path) -> bool:
    """Whether a file has the metadata of captured calls; False for unreadable files."""
    try:
        return path.is_file() and _metadata(path) is not None
    except Exception:  # the reader for other files reports broken ones
        return False


def _metadata(path: Path) -> str | None:
    if path.suffix.lower() != ".safetensors":
        return None
    with safe_open(path, framework="pt") as file:
        text: str | None = (file.metadata() or {}).get(METADATA)
        return text


def read_captured(path: Path) -> Captured:
    """Read the header of a captured file.

    Raises:
        InputError: the file is missing, damaged or not a captured file.
    """
    file = TensorFile.opened(path)  # raises InputError if the file is damaged
    text = _metadata(path)
    if text is None:
        raise problem(path, "holds no calls of a model's attention", "expected a file of `attncli capture`")
    try:
        content = json.loads(text)
        version = content.pop("version")
        layers = content.pop("layers") if version == VERSION else {}
        LAYERS.validate_python(layers)
        PADDING.validate_python(content.get("padding"))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise broken(path, "what it says of its layers cannot be read") from error
    if version != VERSION:
        raise problem(path, f"its format is {version!r}; this version of attncli reads {VERSION}")
    return Captured(file, content, layers)


def read_calls(data: CapturedData, dtype: torch.dtype, device: torch.device) -> tuple[Captured, list[Inputs]]:
    """Return the captured file of a config, and the inputs of each chosen call.

    Calls are in the order of the key `layers` of the config, or by default in the order of the file. Each has the heads
    in the key `heads`, or by default all heads.

    Raises:
        InputError: the file, a layer or a head is missing, or a layer cannot be recomputed. The paths in the error are
            relative to the key `data`.
    """
    try:
        captured = read_captured(Path(data.capture))
    except InputError as error:
        raise InputError.of(error.problems[0].message, ["capture"]) from error
    collector, calls = Collector(), dict[str, AttentionCall]()
    wanted = list[tuple[Sequence[str | int], str | int]]()
    if data.layer is not None:
        wanted = [(["layer"], data.layer)]
    elif data.layers is not None:
        for index, layer in enumerate(data.layers):
            with collector.under("layers", index):
                names = matching_calls(layer, captured.numbers, str(captured.about.get("prefix", "")))
                wanted += [(["layers", index], name) for name in names]
    else:
        wanted = [(["capture"], name) for name in captured.usable]
    if not (wanted or collector.problems):
        problems = "; ".join(f"{name}: {entry['problem']}" for name, entry in captured.layers.items())
        reason = problems or "it has no layers"
        raise InputError.of(f'got "{captured.path.name}", of which no layer can be re-scored; {reason}', ["capture"])
    for path, layer in wanted:
        with collector.under():
            try:
                call = captured.read(layer)
            except InputError as error:
                is_damaged = bool(error.problems[0].path)  # the file or one of its tensors
                raise InputError.of(error.problems[0].message, ["capture"] if is_damaged else path) from error
            if call.name in calls:
                expected = f"the layer {call.name}, which is there already; expected each once"
                raise InputError.of(got(layer, expected), path)
            calls[call.name] = call
    collector.check()
    for index, head in enumerate(data.heads or []):
        for name, call in calls.items():
            if head not in (heads := call.head_numbers):
                expected = f"expected {in_ranges(heads)}, of the {several(len(heads), 'head')} of {name}"
                raise InputError.of(got(head, expected), ["heads", index])
    inputs = list[Inputs]()
    for call in calls.values():
        chosen = call if data.heads is None else call.of_heads(data.heads)
        inputs.append(replace(call_inputs(chosen, dtype, device), tokens=_tokens(captured, call)))
    return captured, inputs


def _tokens(captured: Captured, call: AttentionCall) -> dict[str, Sequence[Any]]:
    """Return the names of queries and keys, if known: tokens with their positions, since a text may repeat a word."""
    placed = {side: names and numbered(names) for side, names in captured.tokens.items()}
    by_side = call_tokens(placed, call, f"{call.layer}#1" in captured.layers)
    return {side: rows if any(row != rows[0] for row in rows) else rows[0] for side, rows in by_side.items()}
