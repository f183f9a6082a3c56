"""The attention calls of a model for many texts: one table of texts for each layer, with the queries that count."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from attncli.attention import Bias, Rules
from attncli.catalogue.scorer_entries import ScorerEntry
from attncli.core.masks import Valid
from attncli.errors import InputError
from attncli.models.inputs import Inputs, rules_of_inputs

MOST_QUERIES = 8  # of each text in a step of descent
FEWEST_KEYS = 2  # of a query that counts: with one key there is nothing to choose


@dataclass(frozen=True)
class Part:
    """Some texts and queries of a layer: the input of a scorer, and the queries (b, n) that count."""

    queries: Tensor  # b h n q
    keys: Tensor  # b h m k
    values: Tensor  # b h m v
    valid: Tensor  # b h|1 n m
    bias: Tensor | None  # b|1 h|1 n m
    counted: Tensor  # b 1 n


@dataclass(frozen=True)
class LayerCalls:
    """Calls of one layer for all texts, padded to the longest: the batch of `inputs` has all of them.

    `texts` (b,) has the number of each batch element's text. `counted` (b, n) is False for queries that are padding or
    see fewer than two keys.
    """

    name: str
    number: int
    inputs: Inputs
    texts: Tensor
    counted: Tensor

    @classmethod
    def joined(cls, name: str, number: int, batches: Sequence[Inputs], counts: Sequence[int]) -> "LayerCalls":
        """Return the calls of several batches together, given the number of texts of each.

        Raises:
            InputError: a batch does not have equally many elements for each of its texts.
        """
        texts, before = list[Tensor](), 0
        for batch, count in zip(batches, counts, strict=True):
            if (b := len(batch.queries)) % count:
                raise InputError.of(f"{name} has {b} batch elements for {count} texts; leave it out with `layers`")
            texts.append(before + torch.arange(b) // (b // count))
            before += count
        n, m = (max(batch.valid.shape[axis] for batch in batches) for axis in (-2, -1))
        queries = _joined([batch.queries for batch in batches], n)
        keys, values = (_joined([getattr(batch, side) for batch in batches], m) for side in ("keys", "values"))
        masks = [batch.valid.whole if batch.valid.mask is None else batch.valid.mask for batch in batches]
        masks = [
            mask.expand(len(of.queries), -1, *of.valid.shape[-2:]) for mask, of in zip(masks, batches, strict=True)
        ]
        heads = max(mask.shape[1] for mask in masks)
        valid = _joined([mask.expand(-1, heads, -1, -1) for mask in masks], n, m)
        valid = valid[:, :1] if bool((valid == valid[:, :1]).all()) else valid
        bias = None
        if any(batch.bias is not None for batch in batches):
            biases = (torch.zeros(()) if batch.bias is None else batch.bias for batch in batches)
            bias = _joined([term.expand(of.valid.shape) for term, of in zip(biases, batches, strict=True)], n, m)
        counted = (valid.sum(-1) >= FEWEST_KEYS).any(1)  # b n
        if n == m:  # self-attention: a position that no query attends to is padding
            counted &= valid.any(1).any(-2)
        shape = (*queries.shape[:-1], m)
        inputs = Inputs(queries, keys, values, Valid(shape, mask=valid), bias, batches[0].call)
        return cls(name, number, inputs, torch.cat(texts), counted)

    @cached_property
    def queries(self) -> Tensor:
        """The number (b,) of the first queries of each batch element that include all that count, at least 1."""
        return _reach(self.counted)

    @cached_property
    def keys(self) -> Tensor:
        """The number (b,) of the first keys of each batch element that include all valid ones, at least 1."""
        return _reach(self.inputs.valid.whole.any(1).any(1))

    def rows(self, elements: Tensor, seed: torch.Generator) -> Tensor:
        """Return a few numbers of queries, drawn for some batch elements."""
        return torch.randperm(int(self.queries[elements].max()), generator=seed)[:MOST_QUERIES]

    @property
    def heads(self) -> Sequence[int]:
        """The numbers of the heads in the model."""
        return self.inputs.call.head_numbers if self.inputs.call is not None else ()


def _reach(counted: Tensor) -> Tensor:
    """Return the number of the last True entry of each row, counted from 1, and at least 1."""
    return (torch.arange(1, counted.shape[-1] + 1) * counted).amax(-1).clamp(min=1)


def _joined(tensors: Sequence[Tensor], *sizes: int) -> Tensor:
    """Return tensors (b, h, ...) along the batch, padded by zeros: rows to the first size, columns to the second."""
    padded = []
    for tensor in tensors:
        missing = [size - tensor.shape[axis] for axis, size in enumerate(sizes, 2)]
        rows, columns = missing[0], missing[1] if len(missing) > 1 else 0
        padded.append(F.pad(tensor, (0, columns, 0, rows)))
    return torch.cat(padded)


@dataclass(frozen=True)
class EntryCalls:
    """The calls of a layer as an entry sees them: its normalised queries and keys, its window and its biases."""

    calls: LayerCalls
    entry: ScorerEntry
    rules: Rules
    whole: Part

    @classmethod
    def of(cls, calls: LayerCalls, entry: ScorerEntry) -> "EntryCalls":
        """Return the calls of a layer as an entry sees them; `entry` has the model's scale and softcap."""
        inputs = calls.inputs
        rules = rules_of_inputs(entry, inputs, "zero")
        queries, keys = inputs.of_entry(entry)
        valid, bias = rules.valid.joined, inputs.bias
        assert valid is not None, "a mask"
        if entry.position_bias is not None:
            assert rules.bias is not None, "of ALiBi"
            (b, h, n, m) = rules.valid.shape
            shape = (1 if bias is None else b, h, n, m)
            bias = replace(rules.bias, shape=shape).added_to(torch.zeros(shape))
        return cls(calls, entry, rules, Part(queries, keys, inputs.values, valid, bias, calls.counted[:, None]))

    def part(self, elements: Tensor, rows: Tensor | None = None) -> Part:
        """Return some batch elements, cut to the longest of them, with all queries or the ones with these numbers."""
        whole, m = self.whole, int(self.calls.keys[elements].max())
        if rows is None:
            rows = torch.arange(int(self.calls.queries[elements].max()))
        bias = whole.bias
        if bias is not None:
            bias = (bias if len(bias) == 1 else bias[elements])[:, :, rows, :m]
        return Part(
            whole.queries[elements[:, None], :, rows].transpose(1, 2),
            whole.keys[elements, :, :m],
            whole.values[elements, :, :m],
            whole.valid[elements[:, None], :, rows, :m].transpose(1, 2),
            bias,
            whole.counted[elements[:, None], :, rows].transpose(1, 2),
        )

    def weights(self, scores: Tensor, part: Part, normalizer: Any) -> Tensor:
        """Return the weights (b, h, n, m) for raw scores of a part."""
        bias = None if part.bias is None else Bias(scores.shape, part.bias)
        valid = Valid(tuple(scores.shape), mask=part.valid)
        rules = Rules(valid, self.rules.cap, "zero", bias, normalizer, self.rules.sinks)
        return rules.stages(scores)["weights"]
