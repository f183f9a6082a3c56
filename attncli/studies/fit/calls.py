"""The attention calls of a layer for many texts, in buckets of similar length, as the model and as entries see them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from attncli.attention import Bias, Rules
from attncli.catalogue.scorer_entries import ScorerEntry
from attncli.core.masks import ALL, Valid
from attncli.core.metrics import top_keys
from attncli.errors import InputError
from attncli.models.call import AttentionCall
from attncli.models.inputs import Inputs, call_inputs, rules_of_inputs
from attncli.models.spool import Spool, counted_queries
from attncli.normalizers import Normalizer

TOKENS = 240  # of the texts in a bucket, with padding: their weights stay in the cache of the CPU
LONGEST, SAMPLED = 700, 256  # queries of a text that all count, and how many of them count if there are more


@dataclass(frozen=True)
class EntryBucket:
    """A bucket as an entry sees it: queries, keys, masks and biases, and the weights that it should have."""

    queries: Tensor  # b h n q
    keys: Tensor  # b h m k
    valid: Tensor  # b|1 h|1 n m
    bias: Tensor | None  # b|1 h|1 n m
    rules: Rules  # of which the softcap and the sinks apply
    target: Tensor  # b h n m, the model's weights over the keys that the entry sees, 0 where a query does not count
    counted: Tensor  # b n
    model_bucket: "Bucket"
    chosen: Tensor | None = None  # numbers of these queries in the bucket; None: all

    @classmethod
    def build(cls, bucket: "Bucket", entry: ScorerEntry) -> "EntryBucket":
        """Return the texts of a bucket as an entry sees them; `entry` has the model's scale and softcap.

        Where it cannot see keys that the model sees, the model's weights on the others are divided by their sum.
        """
        inputs, rows = bucket.inputs, bucket.rows
        rules = rules_of_inputs(entry, inputs, "zero")
        queries, keys = inputs.of_entry(entry)
        valid, bias, target = rules.valid.joined, inputs.bias, bucket.model_weights
        assert valid is not None, "a mask"
        if entry.position_bias is not None:
            assert rules.bias is not None, "of ALiBi"
            (b, h, n, m) = rules.valid.shape
            shape = (1 if bias is None else b, h, n, m)
            bias = replace(rules.bias, shape=shape).added_to(torch.zeros(shape))
        valid, bias = valid[:, :, rows], None if bias is None else bias[:, :, rows]
        if entry.window is not None:
            target = target.masked_fill(~valid, 0.0)
            hidden, total = (bucket.valid & ~valid).any(-1, keepdim=True), target.sum(-1, keepdim=True)
            target = torch.where(hidden & (total > 0), target / total, target)
        return cls(queries[:, :, rows], keys, valid, bias, rules, target, bucket.counted, bucket)

    def select(self, rows: Tensor) -> "EntryBucket":
        """Return the same texts with the queries of these numbers only."""
        tensors = {name: getattr(self, name)[:, :, rows] for name in ("queries", "valid", "target")}
        bias = None if self.bias is None else self.bias[:, :, rows]
        return replace(self, **tensors, bias=bias, counted=self.counted[:, rows], chosen=rows)

    def weights(self, scores: Tensor, normalizer: Normalizer) -> Tensor:
        """Return the weights (b, h, n, m) for raw scores."""
        bias = None if self.bias is None else Bias(scores.shape, self.bias)
        valid = Valid(tuple(scores.shape), mask=self.valid)
        return Rules(valid, self.rules.cap, "zero", bias, normalizer, self.rules.sinks).stages(scores)["weights"]

    @property
    def output(self) -> Tensor:
        """The model's output (b, h, n, v), 0 for queries that do not count."""
        return self.model_bucket.output if self.chosen is None else self.model_bucket.output[:, :, self.chosen]

    @cached_property
    def negative_entropy(self) -> Tensor:
        """The sum of p log p - p over the weights p that the entry should have, for each head."""
        return head_sums(torch.special.xlogy(self.target, self.target)) - head_sums(self.target)


def head_sums(terms: Tensor) -> Tensor:
    """Return the sums (h,) in float64 of terms (b, h, ...)."""
    return terms.sum([axis for axis in range(terms.ndim) if axis != 1], dtype=torch.float64)


@dataclass(frozen=True, eq=False)
class Bucket:
    """Some texts of similar length in a layer, padded to the longest; of a long one, `rows` is a sample of its queries.

    `counted` (b, n) is False for queries that are padding or see fewer than two keys. `model_weights` (b, h, n, m)
    are 0 for these queries.
    """

    inputs: Inputs
    rows: slice
    counted: Tensor
    model_weights: Tensor

    @classmethod
    def build(cls, calls: Sequence[AttentionCall]) -> "Bucket":
        """Return the bucket with these calls, each of one batch element."""
        call = _padded(calls)
        inputs, n = call_inputs(call, torch.float32, torch.device("cpu")), call.queries.shape[-2]
        rows = slice(0, n, -(-n // SAMPLED)) if n > LONGEST else ALL
        counted = counted_queries(inputs.valid.whole)[:, rows]
        weights = call.weights(rows=rows).masked_fill(~counted[:, None, :, None], 0.0)
        return cls(inputs, rows, counted, weights)

    @property
    def valid(self) -> Tensor:
        """The keys (b, h, n, m) that the model sees."""
        return self.inputs.valid.whole[:, :, self.rows]

    @cached_property
    def output(self) -> Tensor:
        """The model's output (b, h, n, v), 0 for queries that do not count."""
        return self.model_weights @ self.inputs.values

    @cached_property
    def top(self) -> Tensor:
        """The mask (b, h, n, m) of the keys with the model's largest weight."""
        return top_keys(self.model_weights, self.valid)


@dataclass(frozen=True)
class LayerCalls:
    """The calls of a layer in buckets, of the texts to learn from and of the texts held out."""

    name: str
    training: Sequence[Bucket]
    held_out: Sequence[Bucket]

    @classmethod
    def read(cls, spool: Spool, name: str, training: Tensor, held_out: Tensor) -> "LayerCalls":
        """Return the calls of a layer, given the numbers of the texts to learn from and of the texts held out.

        Raises:
            InputError: no query of these texts counts.
        """
        layers = list[Sequence[Bucket]]()
        for texts, role in ((training, "to learn from"), (held_out, "held out")):
            layers.append([Bucket.build(group) for group in _groups([*spool.read(name, {*texts.tolist()})])])
            if not layers[-1]:
                cure = "expected longer texts, or leave the layer out with `layers`"
                raise InputError.of(f"{name}: no query of the texts {role} sees two keys; {cure}")
        return cls(name, *layers)

    @property
    def inputs(self) -> Inputs:
        """The inputs of some texts."""
        return self.training[0].inputs


def _groups(calls: Sequence[AttentionCall]) -> Iterator[list[AttentionCall]]:
    """Yield calls of similar length, TOKENS tokens together; calls without a query that counts are left out."""
    group, before = list[AttentionCall](), (0, 0)
    for (n, m), call in sorted(((call.valid_keys.shape[-2:], call) for call in calls), key=lambda pair: pair[0]):
        if bool(counted_queries(call.valid_keys.whole).any()):
            is_like = n == m or (n, m) == before
            if group and not (is_like and (len(group) + 1) * max(n, m) <= TOKENS):
                yield group
                group = []
            group.append(call)
            before = (n, m)
    if group:
        yield group


def _padded(calls: Sequence[AttentionCall]) -> AttentionCall:
    """Return one call with the batch elements of several, padded by zeros at the end."""
    n, m = (max(call.valid_keys.shape[axis] for call in calls) for axis in (-2, -1))

    def joined(tensors: Sequence[Tensor], *sizes: int) -> Tensor:
        """Return the tensors, padded to these sizes of their last axes, as one batch."""
        h, repeated = max(tensor.shape[1] for tensor in tensors), list[Tensor]()
        for tensor in tensors:
            missing = [size - tensor.shape[axis] for axis, size in enumerate(sizes, 2)]
            padding = (0, missing[1] if len(missing) > 1 else 0, 0, missing[0])
            repeated.append(F.pad(tensor.expand(-1, h, -1, -1), padding))
        return torch.cat(repeated)

    sizes = {"queries": (n,), "keys": (m,), "values": (m,), "valid": (n, m)}
    fields: dict[str, Any] = {
        name: joined([getattr(call, name) for call in calls], *size) for name, size in sizes.items()
    }
    if any(call.bias is not None for call in calls):
        zeros = (torch.zeros(1, 1, *call.valid_keys.shape[-2:]) if call.bias is None else call.bias for call in calls)
        fields["bias"] = joined([*zeros], n, m)
    return replace(calls[0], **fields)
