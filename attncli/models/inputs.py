"""Inputs of attention, of any source, and the rules and scorers that entries are for them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from attncli.attention import EmptyRow, Rules, alibi_slopes, all_finite, at_least_float32, computing_dtype
from attncli.catalogue.building import (
    Learnt,
    build_scorer,
    entry_inputs,
    entry_rules,
    map_entries,
    scoring_function,
)
from attncli.catalogue.guarding import raw_scores
from attncli.catalogue.scorer_entries import ScorerEntry
from attncli.core.masks import Corner, Valid, without_infinities
from attncli.core.numbers import several
from attncli.errors import InputError, got
from attncli.models.call import AttentionCall
from attncli.models.fitted import read_fitted
from attncli.scorers import Scorer


@dataclass(frozen=True)
class Inputs:
    """Queries (b, ..., n, q), keys (b, ..., m, k) and values (b, ..., m, v) with equal leading axes, on one device.

    `valid` has the keys that each query may attend to. If the source has no values, `values` is (b, ..., m, 0). `bias`,
    if any, is added to the scores (b, ..., n, m); it is finite, has their dtype and rank, and broadcasts to them.
    `call` is the attention call of a real model from which the tensors come, if any; `queries` are then divided by the
    call's `pre_scale`. `tokens` maps `queries` and `keys` to the names of their rows, if known: one list for all batch
    elements, or a list for each. `align` is the corner of the matrix of scores where its diagonal begins or ends, if
    the config says so. `key_heads` is the number of heads of the keys before they were repeated, if they were.
    """

    queries: Tensor
    keys: Tensor
    values: Tensor
    valid: Valid
    bias: Tensor | None = None
    call: AttentionCall | None = None
    tokens: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    align: Corner | None = None
    key_heads: int | None = None

    @property
    def first_query(self) -> int | None:
        """The position of the first query among the keys; None if the ends that agree are unknown.

        In a model with fewer queries than keys the queries are the last of the keys, as a cache has them. In
        cross-attention, with more queries or without a causal mask, they have no positions among the keys.
        """
        n, m = self.valid.shape[-2:]
        if self.call is None or n == m:
            return self.valid.first_query(self.align)
        return m - n if n == 1 or (n < m and self.valid.is_causal_at_end) else None

    def first_of(self, entry: ScorerEntry) -> int:
        """Return the position of the first query; 0 if it is unknown and the entry does without positions.

        Raises:
            InputError: the entry needs positions of queries and keys, and they are unknown.
        """
        first = self.first_query
        if first is None and (key := entry.position_key) is not None:
            n, m = self.valid.shape[-2:]
            cure = "expected `mask: {align: bottom_right}` if the queries are the last of the keys, or top_left"
            if self.call is not None:
                cure = f"choose other `layers`: {self.call.name} has no common positions, as in cross-attention"
            sizes = f"{several(n, 'query')} and {several(m, 'key')}"
            raise InputError.of(f"got {getattr(entry, key)} for {sizes}, whose positions are unknown; {cure}", [key])
        return first or 0

    def of_entry(self, entry: ScorerEntry) -> tuple[Tensor, Tensor]:
        """Return the queries and keys as the entry's scorer sees them: see `entry_inputs`."""
        first = 0 if entry.rope is None else self.first_of(entry)
        return entry_inputs(entry, self.queries, self.keys, self.pre_scale, first)

    @property
    def pre_scale(self) -> float:
        """The factor by which the model of a call multiplied queries or keys before it."""
        return 1.0 if self.call is None else self.call.pre_scale

    @property
    def heads(self) -> Sequence[int | None]:
        """The number of each head: in the model for a captured call, else from 0; [None] without an axis of heads.

        All axes between the batch and the queries count as heads.
        """
        if self.call is not None:
            return self.call.head_numbers
        leading = self.valid.shape[1:-2]
        return range(math.prod(leading)) if leading else [None]

    @property
    def faults(self) -> dict[str, str]:
        """The first number that is not finite, as `keys[1, 3]: NaN`, by queries, keys or values; padding aside."""
        asking = ~self.valid.empty_rows
        seen = self.valid.sees()[..., 0, :].expand(self.valid.shape[:-2] + self.valid.shape[-1:])
        faults = dict[str, str]()
        for role, counted in (("queries", asking), ("keys", seen), ("values", seen)):
            tensor: Tensor = getattr(self, role)
            if all_finite(tensor):
                continue
            wrong = (~tensor.isfinite() & counted[..., None]).nonzero().tolist()
            if wrong:
                value, place = tensor[tuple(wrong[0])].item(), wrong[0][:-1]
                rows = len({tuple(index[:-1]) for index in wrong})
                rest = f", the first of {rows} rows" if rows > 1 else ""
                faults[role] = f"{role}[{', '.join(map(str, place))}]: {'NaN' if math.isnan(value) else value}{rest}"
        return faults


def call_inputs(call: AttentionCall, dtype: torch.dtype, device: torch.device) -> Inputs:
    """Return the inputs of an experiment from a captured call, rounded to `dtype`.

    Keys and values that several heads share are repeated. Queries are divided by the call's `pre_scale`, the factor
    by which the model multiplied queries or keys before the call.
    """
    (queries,), m = at_least_float32(call.queries), call.keys.shape[-2]
    queries = queries if call.pre_scale == 1 else queries / call.pre_scale
    keys, values = (tensor.repeat_interleave(call.groups, -3) for tensor in (call.keys, call.values))
    queries, keys, values = (tensor.to(dtype).to(device) for tensor in (queries, keys, values))
    valid = replace(call.valid_keys, device=device)
    if valid.mask is not None:
        valid = replace(valid, mask=valid.mask.expand(*valid.mask.shape[:-1], m).to(device))
    key_heads = call.keys.shape[1] if call.groups > 1 else None
    if call.bias is None:
        return Inputs(queries, keys, values, valid, call=call, key_heads=key_heads)
    bias = call.bias.to(computing_dtype(dtype)).to(device)
    bias, valid = without_infinities(bias, valid, tuple(bias.shape), lambda message: None)
    return Inputs(queries, keys, values, valid, bias, call, key_heads=key_heads)


def with_model_defaults(entry: ScorerEntry, call: AttentionCall | None) -> ScorerEntry:
    """Return the entry with the model's scale and softcap for a captured attention call; unchanged if `call` is None.

    Only `scale: model` is replaced by the model's scale, and the softcap only if the entry does not set it.
    """
    updates = dict[str, Any]()
    if call is not None and entry.has_models_scale:
        updates["scale"] = call.scale * call.pre_scale
    if call is not None and "softcap" not in entry.model_fields_set:
        updates["softcap"] = call.softcap
    return entry.model_copy(update=updates) if updates else entry


def learnt_numbers(entry: ScorerEntry, call: AttentionCall | None) -> Learnt:
    """Return the numbers by name that a fitted entry learnt for the heads of a call; None if there are none.

    Raises:
        InputError: the entry was fitted to other layers, heads or sizes.
    """
    if entry.fitted is None or call is None:
        return None
    return read_fitted(entry.fitted).of_call(entry.label, call)


def rules_of_inputs(entry: ScorerEntry, inputs: Inputs, empty_row: EmptyRow, learnt: Learnt = None) -> Rules:
    """Return the rules of an entry for these inputs; a captured call has its own weights of empty rows, and sinks.

    Raises:
        InputError: as in `entry_rules` and `Inputs.first_of`, or the slopes of ALiBi are unknown.
    """
    call, first, slopes = inputs.call, inputs.first_of(entry), None
    if call is None:
        return entry_rules(entry, inputs.valid, inputs.bias, empty_row=empty_row, first=first)
    sinks = None if call.sinks is None else call.sinks.to(inputs.queries.device)
    if entry.position_bias == "alibi" and call.heads is not None:
        if call.num_heads is None:
            reason = "its slopes depend on the model's number of heads, which the captured file does not have"
            raise InputError.of(got(entry.position_bias, reason, "capture the model again"), ["bias"])
        slopes = [alibi_slopes(call.num_heads)[head] for head in call.heads]
    given: dict[str, Any] = {"sinks": sinks, "first": first, "slopes": slopes, "learnt": learnt}
    return entry_rules(entry, inputs.valid, inputs.bias, empty_row=call.empty_row, **given)


@dataclass(frozen=True)
class Scored:
    """A scorer entry of a config on some inputs, with its scorer, and the rules that turn its scores into weights."""

    entry: ScorerEntry
    scorer: Scorer
    rules: Rules

    def seen(self, inputs: Inputs) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys and values as the entry sees them: normalised, rotated, rounded; see `entry_inputs`."""
        return *inputs.of_entry(self.entry), self.rules.rounding.values(inputs.values)

    def scores(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Return the raw scores of queries and keys as the entry sees them.

        Raises:
            InputError: a user's scorer fails.
        """
        return raw_scores(scoring_function(self.entry, self.scorer), queries, keys)


def build_for_inputs(entries: Sequence[ScorerEntry], inputs: Inputs, seed: int, empty_row: EmptyRow) -> list[Scored]:
    """Return each entry with its scorer, on the device of the inputs, and its rules for these inputs.

    Raises:
        InputError: the problems of all entries, each located at its key under `scorers`.
    """
    queries, keys = inputs.queries, inputs.keys

    def build(entry: ScorerEntry) -> Scored:
        of_model, learnt = with_model_defaults(entry, inputs.call), learnt_numbers(entry, inputs.call)
        scorer = build_scorer(of_model, queries.shape[-1], keys.shape[-1], seed, queries.dtype, learnt)
        return Scored(entry, scorer.to(queries.device), rules_of_inputs(of_model, inputs, empty_row, learnt))

    return map_entries(entries, build)
