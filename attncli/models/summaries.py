"""An attention call in one row: mask, padding, scale, softcap, groups, sinks and its strongest key."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from attncli.models.call import AttentionCall
from attncli.models.tokens import Names, call_tokens
from attncli.pooling import TILE_SHARE, WORKSPACE_BYTES, tiles
from attncli.results import Row

OTHER = "other"


def padding_mask(sides: Any, call: AttentionCall) -> Tensor | None:
    """Return the mask (b, m) of keys at padding from numbers of tokens at the left and right of each text.

    None if the numbers are unknown, or are of another call, such as one with a cache.
    """
    b, _, n, _ = call.queries.shape
    m = call.keys.shape[-2]
    if not sides or len(sides) != b or n != m:
        return None
    key = torch.arange(m)
    return torch.stack([(key < left) | (key >= m - right) for left, right in sides])


def call_summaries(
    calls: Sequence[AttentionCall], tokens: Mapping[str, Names | None] | None, padding: Sequence[Tensor | None]
) -> dict[str, Row]:
    """Return the summary of each call that can be re-scored, by name.

    `tokens` are the names of the model's queries and keys, and `padding` has the mask (b, m) of each call's keys at
    padding; None if unknown.
    """
    writing = {call.layer for call in calls if call.call}
    names = (call_tokens(tokens or {}, call, call.layer in writing).get("keys") for call in calls)
    each = zip(calls, names, padding, strict=True)
    return {call.name: call_summary(call, keys, mask) for call, keys, mask in each if call.problem is None}


@torch.no_grad()
def call_summary(
    call: AttentionCall, names: Sequence[Sequence[str]] | None = None, padding: Tensor | None = None
) -> Row:
    """Return the summary of a call, given the names of the keys of each text and the keys (b, m) at padding, if known.

    Queries at padding do not count. `largest_product` is |q . k| before any scale, None if it is not finite.
    """
    mask, left, right, live = mask_and_padding(call, padding)
    b, h, n, m = (*call.queries.shape[:-1], call.keys.shape[-2])
    rules, largest, received = call.rules, torch.zeros(()), torch.zeros(b, m, dtype=torch.float64)
    for elements, rows in tiles((b, h, n, m), WORKSPACE_BYTES // (TILE_SHARE * 4)):
        products, counted = call.products(elements, rows), live[elements, None, rows, None]  # b h n m, b 1 n 1
        seen = rules.valid.tile(elements, rows)
        hidden = ~counted if seen is None else ~(counted & seen)
        largest = torch.maximum(largest, products.abs().masked_fill(hidden, 0.0).max().cpu())  # NaN, if there is any
        weights = rules.stages(products.mul_(call.scale), elements, rows)["weights"]
        received[elements] += weights.masked_fill(~counted, 0.0).nan_to_num().sum((1, 2), dtype=torch.float64).cpu()
    largest /= abs(call.pre_scale)
    text, key = divmod(int((received / live.sum(-1, keepdim=True).clamp(min=1).cpu()).argmax()), m)
    sides = [f"{side} {most}" for side, numbers in (("left", left), ("right", right)) if (most := int(numbers.max()))]
    return {
        "mask": mask,
        "padding": ", ".join(sides) or None,
        "scale": call.scale * call.pre_scale,
        "softcap": call.softcap,
        "groups": call.groups,
        "sinks": call.sinks is not None,
        "largest_product": float(largest) if math.isfinite(largest) else None,
        "strongest_key": f"key {key}" if names is None else names[text][key],
    }


def mask_and_padding(call: AttentionCall, padding: Tensor | None) -> tuple[str, Tensor, Tensor, Tensor]:
    """Return the mask in words, the numbers (b) of keys at padding left and right, and the queries (b, n) that count.

    If there are as many queries as keys, `padding` (b, m) says which keys are padding. Otherwise keys at an end of a
    text that no query sees are, unless it sees none at all. With as many queries as keys, these have no queries, and
    the mask in words is of what is left. With other numbers, a cache may have room for later keys, or a window may
    have passed the first ones: then only what differs between texts is certain, unless all queries see the same keys.
    """
    b, _, n, _ = call.queries.shape
    m = call.keys.shape[-2]
    none, every = torch.zeros(b, dtype=torch.int64), torch.ones(b, n, dtype=torch.bool)
    valid, padding = call.with_mask().valid, padding if n == m else None
    if valid is None and (padding is None or not bool(padding.any())):
        return "full", none, none, every
    valid = torch.ones(b, 1, n, m, dtype=torch.bool) if valid is None else valid.cpu().expand(b, -1, n, m)
    heads_agree, valid = bool((valid == valid[:, :1]).all()), valid.any(1)  # b n m
    hidden = ~valid.any(-2) if padding is None else padding  # b m
    is_text = ~hidden.all(-1)  # b
    left, right = (_leading(flags) * is_text for flags in (hidden, hidden.flip(-1)))
    if n != m and (n == 1 or not bool((valid == valid[:, :1]).all())):
        left, right = left - left.min(), right - right.min()
    place = torch.arange(n)
    live = every if n != m else (place >= left[:, None]) & (place < m - right[:, None]) & is_text[:, None]
    first, last = _leading(~valid), m - 1 - _leading(~valid.flip(-1))  # b n
    is_span = bool(((valid.sum(-1) == last - first + 1) | ~live).all())
    return (_words(first, last, live, left, right, m) if heads_agree and is_span else OTHER), left, right, live


def _leading(flags: Tensor) -> Tensor:
    """Return the number of True values at the start of each row (..., m)."""
    return flags.to(torch.uint8).cumprod(-1, dtype=torch.int64).sum(-1)


def _words(first: Tensor, last: Tensor, live: Tensor, left: Tensor, right: Tensor, m: int) -> str:
    """Return the mask in words, given the first and the last key (b, n) of each query, which sees all between them.

    Each form says which keys are the first and the last of a query at a position, and all queries have to agree.
    """
    n, begin, end = first.shape[-1], left[:, None], (m - 1 - right)[:, None]

    def holds(starts: Tensor, ends: Tensor) -> bool:
        return bool((((first == starts) & (last == ends)) | ~live).all())

    if not bool(live.any(-1).all()):
        return OTHER
    if holds(begin, end):
        return "full"
    if n == 1:  # a window, or a cache with room for more keys
        return OTHER
    place = torch.arange(n)
    shifts = {*(last - place)[live].tolist()}
    position = place + (min(shifts) if len(shifts) == 1 and 0 <= min(shifts) <= m - n else m - n)
    if holds(begin, position):
        return "causal"
    width = int((position - first)[live].max()) + 1
    if holds(torch.maximum(begin, position - width + 1), position):
        return f"window {width}"
    if n == m:
        # A document begins where a query's keys begin. Its queries see from there to themselves, or to its end.
        starts, ends = (torch.where(live, tensor, place) for tensor in (first, last))
        in_order = bool((starts.diff() >= 0).all() & (ends.diff() >= 0).all())
        ends_agree = bool((ends == place).all() | (ends.gather(1, starts) == ends).all())
        if in_order and ends_agree and bool((starts.gather(1, starts) == starts).all()):
            return "documents"
    prefix = last.gather(1, live.int().argmax(-1, keepdim=True)) - begin + 1  # b 1, keys that the first query sees
    if holds(begin, torch.maximum(position, begin + prefix - 1)):
        return f"prefix {int(prefix.max())}"
    return OTHER
