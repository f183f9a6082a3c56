"""Open the source of a study: the tensors of a config, a captured file, or a model that runs now."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from attncli.config.models import Experiment
from attncli.config.tensors import CapturedData, Data, Mask, TokenNames
from attncli.core.device import resolve_device
from attncli.core.numbers import several
from attncli.errors import Collector, below
from attncli.models.capture import Capture, evaluating
from attncli.models.fitted import check_for_model
from attncli.models.inputs import call_inputs
from attncli.models.loading import LoadedModel
from attncli.models.tokens import PADDING, call_tokens, padding_in
from attncli.sources.build import Note, build_inputs
from attncli.sources.captured import read_calls
from attncli.sources.layers import Layer, Source


def open_data(
    options: Experiment, data: Data | CapturedData, mask: Mask, tokens: TokenNames, matrices: int, note: Note
) -> Source:
    """Return the only layer of the tensors of a config, or the chosen layers of a captured file.

    `matrices` is the number of (..., n, m) tensors that the study keeps of the tensors of a config; see `build_inputs`.

    Raises:
        InputError: the device or the inputs cannot be used, or an entry was fitted to another model.
    """
    dtype, device, collector = getattr(torch, options.dtype or "float32"), torch.device("cpu"), Collector()
    with collector.under():
        device = resolve_device(options.device, dtype)
    source = None
    with collector.under():
        if isinstance(data, CapturedData):
            source = open_captured(data, dtype, device)
            assert source.captured is not None
            check_for_model(options.scorers, source.captured.about.get("model"), source.captured.texts, note)
        else:
            settings: dict[str, Any] = {"seed": options.seed, "dtype": dtype, "device": device}
            inputs = build_inputs(data, mask, tokens, **settings, matrices=matrices, note=note)
            masks = padding_in(tokens.keys, len(inputs.keys))
            source = Source([Layer(inputs, None, None, *masks)], device)
    collector.check()
    assert source is not None, "or there are problems"
    return source


def open_captured(data: CapturedData, dtype: torch.dtype, device: torch.device) -> Source:
    """Return the chosen layers of a captured file.

    Raises:
        InputError: as in `read_calls`, with paths in the YAML.
    """
    with below("data"):
        captured, calls = read_calls(data, dtype, device)
    layers = list[Layer]()
    for inputs in calls:
        assert inputs.call is not None, "captured"
        name, recorded = inputs.call.name, captured.padding(inputs.call)
        masks = padding_in(inputs.tokens.get("keys"), len(inputs.keys)) if recorded is None else (recorded, None)
        layers.append(Layer(inputs, name, captured.numbers[name], *masks))
    return Source(layers, device, captured)


def open_model(loaded: LoadedModel, note: Note) -> Source:
    """Run a model on its only batch; return the layers of its attention that can be recomputed.

    Raises:
        InputError: the model fails, or no attention is recognised.
    """
    (batch,) = loaded.batches
    with below("model"):
        with evaluating(loaded.model), Capture() as seen:
            seen.take_names(loaded.model)
            loaded.outputs(batch)
        seen.check()
    left_out = {call.name: call.problem for call in seen.records if call.problem is not None}
    for name, problem in {**left_out, **{missed.layer: missed.problem for missed in seen.missed}}.items():
        note(f"warning: {name} is left out: {problem}")
    note_without_weights(seen.without_weights, note)
    special, layers = special_tokens(loaded), list[Layer]()
    for call in seen.records:
        if call.problem is None:
            named, size = call_tokens(loaded.tokens or {}, call, call.call > 0), (len(call.keys), call.keys.shape[-2])
            names, recorded = key_names(batch, size, special, named.get("keys")), masked_keys(batch, size)
            masks = padding_in(names, size[0]) if recorded is None else (recorded, None)
            inputs = replace(call_inputs(call, torch.float32, loaded.device), tokens={"keys": names or ()})
            layers.append(Layer(inputs, call.name, len(layers), *masks))
    return Source(layers, loaded.device)


def note_without_weights(names: object, note: Note) -> None:
    """Note how many layers of a model have no attention weights, if any."""
    if isinstance(names, list) and names:
        note(f"{several(len(names), 'layer')} without attention weights (linear attention, for example)")


def special_tokens(loaded: LoadedModel) -> set[int | None]:
    """Return the numbers of the tokens that a model pads with, of padding and of the end of a text."""
    config = getattr(loaded.model, "config", None)
    return {getattr(config, f"{name}_token_id", None) for name in ("pad", "eos")}


def masked_keys(batch: object, size: tuple[int, int]) -> Tensor | None:
    """Return the mask (b, m) of keys at padding by the attention mask of a batch; None without one of this size.

    A fast tokenizer's output has the mask even if the mask was left out of the model's inputs.
    """
    encoded = [encoding.attention_mask for encoding in getattr(batch, "encodings", None) or ()]
    given = batch.get("attention_mask") if isinstance(batch, Mapping) else None
    mask = torch.tensor(encoded) if encoded else given
    return mask.cpu() == 0 if isinstance(mask, Tensor) and tuple(mask.shape) == size else None


def key_names(
    batch: object, size: tuple[int, int], special: Collection[int | None], names: list[list[str]] | None = None
) -> list[list[str]] | None:
    """Return the names (b, m) of keys, by default the numbers of a batch's tokens; None if they are unknown.

    A token in `special`, which the model pads with, is its number in brackets unless its name means padding.
    """
    tokens = batch.get("input_ids") if isinstance(batch, Mapping) else None
    if not isinstance(tokens, Tensor) or tuple(tokens.shape) != size:
        return names
    texts = zip(tokens.tolist(), names or tokens.tolist(), strict=True)
    marked = {token: f"<{token}>" for token in special}
    return [
        [name if name in PADDING else marked.get(token, str(name)) for token, name in zip(*text, strict=True)]
        for text in texts
    ]
