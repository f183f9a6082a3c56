"""Write the file of `attncli capture`: tensors of attention calls, and JSON about them."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attncli.engine.runs.run_folder import COMMAND_LINE, OptionNames, check_file, save_file_at
from attncli.engine.runs.saving import save_named
from attncli.engine.runs.stored import fingerprint
from attncli.errors import InputError
from attncli.models.call import FACTS, METADATA, SHARED, TENSORS, VERSION, AttentionCall
from attncli.models.capture import Capture
from attncli.models.summaries import call_summaries, padding_mask
from attncli.results import Row


def check_place(path: Path, overwrite: bool, words: OptionNames = COMMAND_LINE) -> None:
    """Raise an InputError unless a file of captured calls can be written to this path."""
    if path.suffix.lower() != ".safetensors":
        raise InputError.of(f'got "{path}"; expected a name that ends in .safetensors', where=words.out)
    check_file(path, overwrite, words)


def save_captured(
    target: Path, seen: Capture, about: Mapping[str, Any], words: OptionNames = COMMAND_LINE
) -> dict[str, Row]:
    """Write captured calls to a .safetensors file, completely or not at all, and return the summary of each by name.

    Tensors are named `<layer>[#call].queries`, `.keys` and so on. Equal masks and biases of several calls are written
    once. The JSON metadata names the tensors of each call and has the facts in `about`, such as model and text.

    Raises:
        InputError: the file cannot be written.
    """
    summaries = call_summaries(
        seen.records, about.get("tokens"), [padding_mask(about.get("padding"), call) for call in seen.records]
    )
    tensors, shared, layers = dict[str, Tensor](), dict[str, str](), dict[str, Any]()
    for call in seen.records:
        masks: dict[str, str | None] = dict.fromkeys(SHARED)
        for role in TENSORS:
            tensor = getattr(call, role)
            if tensor is None:
                continue
            name = f"{call.name}.{role}"
            if role in masks:
                name = masks[role] = shared.setdefault(json.dumps(fingerprint(tensor)), name)
            tensors.setdefault(name, tensor)
        layers[call.name] = {**_entry(call), **masks, "summary": summaries.get(call.name)}
    for missed in seen.missed:
        layers.setdefault(missed.layer, {"class": missed.kind, "how": None, "problem": missed.problem})
    facts: dict[str, Any] = dict.fromkeys(("model", "revision", "text", "tokens", "padding", "transformers"))
    facts |= {"without_weights": seen.without_weights, **({"prefix": seen.prefix} if seen.prefix else {})}
    metadata = {**facts, **about, "version": VERSION, "torch": torch.__version__, "layers": layers}
    text = json.dumps(metadata, ensure_ascii=False, allow_nan=False)
    save_file_at(target, lambda path: save_named(path, tensors, {METADATA: text}), words)
    return summaries


def _entry(call: AttentionCall) -> dict[str, Any]:
    facts = {key: getattr(call, key) for key in FACTS}
    facts |= {} if call.heads is None else {"num_heads": call.num_heads}
    return {"class": call.kind, **facts, "error": call.error if math.isfinite(call.error) else None}
