"""A layer of attention for tests, and weights that come from a known scorer instead of the model's own."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from attncli.catalogue.scorer_entries import ScorerEntry
from attncli.models.call import AttentionCall
from attncli.models.spool import Spool
from attncli.models.swap import swap_entry
from attncli.studies.fit.calls import Bucket, LayerCalls
from attncli.studies.fit.fitting import LayerFit, starts
from attncli.studies.fit.options import Per

HEADS, SIZE, TEXTS = 4, 6, 48
Teacher = Callable[[Tensor, Tensor], Tensor]  # a scorer


def layer(
    seed: int = 0,
    teachers: Sequence[Teacher] = (),
    *,
    has_equal_keys: bool = False,
    is_causal: bool = False,
    sinks: Tensor | None = None,
) -> LayerCalls:
    """Return the calls of a layer for texts of several lengths, with large numbers in the padding of the keys.

    The weights come from `teachers`, one for each head, if there are any. The same texts are learnt from and held out.
    """
    n = 12
    generator = torch.Generator().manual_seed(seed)
    queries, keys, values = (torch.randn(TEXTS, HEADS, n, SIZE, generator=generator) for _ in range(3))
    lengths = torch.randint(n // 2, n + 1, (TEXTS,), generator=generator)
    real = torch.arange(n) < lengths[:, None]
    keys = torch.ones_like(keys) if has_equal_keys else torch.where(real[:, None, :, None], keys, 1e3)
    valid = real[:, None, None, :].expand(TEXTS, 1, n, n)
    valid = valid.tril() if is_causal else valid
    call = AttentionCall(queries, keys, values, torch.zeros_like(values), SIZE**-0.5, "layer", valid=valid, sinks=sinks)
    spool, every = Spool(), torch.arange(TEXTS)
    spool.add(call, range(TEXTS))
    calls = LayerCalls.read(spool, "layer", every, every)
    return replace(calls, training=taught(calls.training, teachers), held_out=taught(calls.held_out, teachers))


def taught(buckets: Sequence[Bucket], teachers: Sequence[Teacher]) -> Sequence[Bucket]:
    """Return buckets with the weights of scorers, one for each head, if there are any."""

    def weights(bucket: Bucket) -> Tensor:
        queries, keys = bucket.inputs.queries, bucket.inputs.keys
        with torch.no_grad():
            scores = torch.stack([each(queries[:, head], keys[:, head]) for head, each in enumerate(teachers)], 1)
        taught = scores.masked_fill(~bucket.valid, -torch.inf).softmax(-1).nan_to_num()
        return taught.masked_fill(~bucket.counted[:, None, :, None], 0.0)

    return [replace(bucket, model_weights=weights(bucket)) for bucket in buckets] if teachers else buckets


def fit_of(entry: object, calls: LayerCalls, per: Per = "head", *, by_output: bool = False) -> LayerFit:
    """Return the fit of an entry to a layer, before any step."""
    scorer_entry = entry if isinstance(entry, ScorerEntry) else swap_entry(entry)
    (fit,) = starts(scorer_entry, [calls], per, 0, by_output=by_output)
    return fit
