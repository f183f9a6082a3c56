"""Outputs of attention without the weights, so a whole (n, m) matrix is never in memory."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import accumulate
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad, scaled_dot_product_attention
from torch.utils.checkpoint import checkpoint

from attncli.attention import Bias, EmptyRow, Rules, all_finite, at_least_float32, softmax_over_valid
from attncli.core.masks import ALL, Valid, cut
from attncli.core.modes import outside_autocast
from attncli.errors import InputError
from attncli.normalizers import NORMALIZERS, softmax
from attncli.normalizers.softmax_plus_one import SoftmaxPlusOne
from attncli.scorers import is_built_in

WORKSPACE_BYTES = 16 * 2**20  # beside inputs and output
RUN = 2**16  # scores of batch elements with equal lengths from which a call of their own is faster than a mask
TILE_SHARE = 8  # a tile of scores takes an eighth: softcap, bias, mask and normaliser hold several of its size
WINDOW_ROWS = 128  # queries of a tile with a window: more would share too few keys, fewer would be slow

Scorer = Callable[[Tensor, Tensor], Tensor]
Tile = tuple[slice, slice]  # batch elements and queries


class DotProduct(NamedTuple):
    """The arguments of torch's fused kernel, which computes scores as scale * queries . keys."""

    queries: Tensor
    keys: Tensor
    scale: float
    values: Tensor
    has_zero_key: bool = False  # for `softmax_plus_one`: one more key, of zeros, whose value is zeros


@outside_autocast
def pool(
    scorer: Scorer,
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    valid_lens: object = None,
    *,
    mask: object = None,
    empty_row: EmptyRow = "zero",
) -> Tensor:
    """Return the output (..., n, v) of `attend(scorer(queries, keys), values, ...)` without its weights.

    If scores are dot products (the scorer has `as_dot`), torch's fused `scaled_dot_product_attention` is used.
    Otherwise a few queries at a time are scored against all keys. Batch elements of equal length are pooled together,
    without the keys beyond it. Memory beside inputs and output is bounded, or holds the output of one batch element.
    With gradients, the backward pass computes scores again, and the inputs' gradients take memory in addition.

    Args:
        scorer: gives scores (..., n, m); a row of scores must depend on its query only.
        queries: (..., n, q).
        keys: (..., m, k), with the leading axes of the queries.
        values: (..., m, v), with the leading axes of the queries.
        valid_lens: as in `masked_softmax`.
        mask: as in `masked_softmax`.
        empty_row: as in `masked_softmax`.

    Raises:
        InputError: if values, lengths or mask do not fit, or `empty_row` is `error` and a query has no valid key.
    """
    if values.shape[:-1] != keys.shape[:-1] or queries.shape[:-2] != keys.shape[:-2]:
        shapes = ", ".join(str(list(tensor.shape)) for tensor in (queries, keys, values))
        raise InputError.of(
            f"got queries, keys and values of shapes {shapes}; expected one value per key and equal leading axes"
        )
    valid = Valid.of((*queries.shape[:-1], keys.shape[-2]), valid_lens, mask, queries.device)
    return pool_by_rules(scorer, queries, keys, values, Rules(valid, empty_row=empty_row))


def pool_by_rules(scorer: Scorer, queries: Tensor, keys: Tensor, values: Tensor, rules: Rules) -> Tensor:
    """Return the output of `pool` for these rules of masks and weights, without checking the arguments."""
    queries, keys, values = at_least_float32(queries, keys, values)
    cut = scores_keys_alone(scorer) and rules.valid.lengths_alone
    if not (cut and rules.bias is None and is_softmax(rules)):
        return _pool(scorer, queries, keys, values, rules)
    row = math.prod(rules.valid.shape[1:-1]) * values.shape[-1] * values.element_size()  # bytes of output
    elements = list(runs(rules.valid, max(WORKSPACE_BYTES // 2 // max(row, 1), 1)))
    outputs = _outputs_by_length(scorer, queries, keys, values, rules, elements)
    if len(elements) == 1:
        return next(outputs)
    if elements and torch.is_grad_enabled():  # writing to a part of the output would copy its whole gradient
        return torch.cat(list(outputs))
    output = values.new_empty((*queries.shape[:-1], values.shape[-1]))  # ... n v
    for run in elements:
        output[run] = next(outputs)
    return output


def _outputs_by_length(
    scorer: Scorer, queries: Tensor, keys: Tensor, values: Tensor, rules: Rules, elements: list[slice]
) -> Iterator[Tensor]:
    """Yield the output of each slice of batch elements, computed without the keys beyond their lengths."""
    sizes = [run.stop - run.start for run in elements]
    inputs = zip(*(torch.split(t, sizes) if t.ndim > 2 else [t] for t in (queries, keys, values)), strict=True)
    for run, (queries, keys, values) in zip(elements, inputs, strict=True):
        valid = rules.valid.before_length(run)
        m = valid.shape[-1]
        yield _pool(scorer, queries, keys[..., :m, :], values[..., :m, :], replace(rules, valid=valid))


def _pool(scorer: Scorer, queries: Tensor, keys: Tensor, values: Tensor, rules: Rules) -> Tensor:
    """Return the output from one call of torch's kernel if possible, otherwise tile by tile."""
    dot = _as_dot(scorer, queries, keys, values, rules)
    if dot is not None and rules.bias is None and (rules.valid.is_full or rules.valid.is_causal):
        return _fused(dot, is_causal=rules.valid.is_causal)
    quick = None if torch.is_grad_enabled() else _in_place(scorer, queries, keys, values, rules)
    if quick is not None:
        return quick
    output = values.new_empty((*queries.shape[:-1], values.shape[-1]))  # ... n v
    most, reach = WORKSPACE_BYTES // (TILE_SHARE * queries.element_size()), _window_reach(scorer, rules)
    for elements, rows in tiles(rules.valid.shape, most, reach):
        batch = (elements, ...) if queries.ndim > 2 else (...,)
        inputs = queries[*batch, rows, :], keys[*batch, :, :], values[*batch, :, :]
        how = (elements, rows), dot is not None, reach is not None
        if torch.is_grad_enabled():  # otherwise the graph keeps weights or masks of all queries
            pooled = checkpoint(_pooled, scorer, *inputs, rules, *how, use_reentrant=False)
        else:
            pooled = _pooled(scorer, *inputs, rules, *how)
        output[*batch, rows, :] = pooled
    return output


def _in_place(scorer: Scorer, queries: Tensor, keys: Tensor, values: Tensor, rules: Rules) -> Tensor | None:
    """Return the output of a normaliser that needs no scores, or turns scores of dot products into weights in place.

    None if there is another rule, or if the result would not be the same. A tile has the keys up to the last that its
    queries see, and only keys that not all of them see are masked. Normalisers hold up to four more of its size.
    """
    normalizer: Any = rules.normalizer
    counts, is_quick = rules.valid.counts, hasattr(normalizer, "pooled") or hasattr(normalizer, "weigh_")
    is_plain = rules.cap is None and rules.bias is None and rules.sinks is None and rules.rounding.way == "inputs"
    if not (is_plain and is_quick and counts is not None and _is_built_in(normalizer)):
        return None
    product = scorer.as_dot(queries, keys) if is_built_in(scorer) and bool((counts > 0).all()) else None
    if product is None or 0 in (queries.numel(), keys.numel(), values.numel()) or not all_finite(values):
        return None
    queries, keys, scale = product
    if _may_overflow(queries, keys, scale, None):
        return None
    queries, output = queries * scale, values.new_empty((*queries.shape[:-1], values.shape[-1]))  # ... n v
    if hasattr(normalizer, "pooled"):
        features = max(WORKSPACE_BYTES // (32 * values[..., 0].numel()), 1)  # four tensors of float64 at a time
        for first in range(0, values.shape[-1], features):
            output[..., first : first + features] = normalizer.pooled(values[..., first : first + features], counts)
        return output
    for tile in tiles(rules.valid.shape, WORKSPACE_BYTES // (5 * queries.element_size())):
        elements, rows = tile
        batch, (seen, end) = (elements, ...) if queries.ndim > 2 else (...,), rules.valid.reach(*tile)
        scores = queries[*batch, rows, :] @ keys[*batch, :end, :].mT  # ... rows end
        valid = rules.valid.tile(*tile, slice(seen, end))
        if seen < end and valid is not None:
            scores[..., seen:].masked_fill_(~valid, -torch.inf)
        weights = normalizer.weigh_(scores, cut(counts, rules.valid.shape, *tile))
        output[*batch, rows, :] = weights @ values[*batch, :end, :]
    return output


def runs(valid: Valid, together: int) -> Iterator[slice]:
    """Yield slices of at most `together` batch elements, of equal length unless masking them costs less."""
    assert valid.lengths is not None
    counts = torch.unique_consecutive(valid.lengths, return_counts=True)[1].tolist()
    counts = counts if math.prod(valid.shape) >= RUN * len(counts) else [len(valid.lengths)]
    for count, end in zip(counts, accumulate(counts), strict=True):
        for first in range(end - count, end, together):
            yield slice(first, min(first + together, end))


def tiles(shape: tuple[int, ...], most: int, reach: int | None = None) -> Iterator[Tile]:
    """Yield batch elements and queries with at most `most` scores of `shape` = (..., n, m), but at least one query.

    An element is divided only if it has more scores, or if its queries see at most `reach` keys beside those at their
    own positions: then a tile has at most WINDOW_ROWS queries.
    """
    *leading, n, m = shape
    if reach is not None and WINDOW_ROWS + reach < m:
        for first in range(0, n, WINDOW_ROWS):
            rows = min(WINDOW_ROWS, n - first)
            for elements, tile in tiles((*leading, rows, rows + reach), most):
                yield elements, slice(first + tile.start, first + tile.stop)
        return
    b, row = math.prod(leading[:1]), math.prod(leading[1:]) * m
    together = max(min(most // max(row * n, 1), b), 1)
    step = max(most // max(row * together, 1), 1)
    for first in range(0, b, together):
        for start in range(0, n, step):
            yield slice(first, min(first + together, b)), slice(start, min(start + step, n))


def _pooled(
    scorer: Scorer,
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    rules: Rules,
    tile: Tile,
    is_dot: bool,
    is_window: bool,
) -> Tensor:
    """Return the output for one tile. Its mask is made here, so the graph does not keep it."""
    if is_window:
        keys, values, rules = _window_keys(keys, values, rules, tile)
        tile = ALL, ALL
    if is_dot:
        valid = rules.valid.tile(*tile)
        if valid is None or bool(valid.any(-1).all()):
            dot_queries, dot_keys, scale = scorer.as_dot(queries, keys)  # type: ignore[attr-defined]
            dot = DotProduct(dot_queries, dot_keys, scale, values, _is_plus_one(rules))
            if rules.bias is not None:  # as a mask, with -inf at invalid keys
                bias = rules.bias.added_to(dot_queries.new_zeros(1, 1).expand(1, rules.bias.shape[-1]), *tile)
                valid = bias if valid is None else torch.where(valid, bias, -torch.inf)
            return _fused(dot, valid)
    if scores_keys_alone(scorer) and _is_built_in(rules.normalizer):
        seen = max(rules.reach(*tile), 1)  # the keys after it have weights of 0
        keys, values = keys[..., :seen, :], values[..., :seen, :]
    (scores,) = at_least_float32(scorer(queries, keys))
    return rules.pooled(rules.stages(scores, *tile)["weights"], values)


def _window_reach(scorer: Scorer, rules: Rules) -> int | None:
    """Return how many keys a query sees at most beside its own, if a window leaves out all others; else None."""
    valid = rules.valid
    is_plain = rules.bias is None and scores_keys_alone(scorer) and _is_built_in(rules.normalizer)
    if valid.window is None or not is_plain or (rules.empty_row != "zero" and bool(valid.empty_rows.any())):
        return None
    return 2 * (valid.window - 1) + valid.first_keys


def _window_keys(keys: Tensor, values: Tensor, rules: Rules, tile: Tile) -> tuple[Tensor, Tensor, Rules]:
    """Return the keys and values that a query of a tile sees, and the rules for these alone."""
    valid = rules.valid.tile(*tile)
    assert valid is not None, "a window"
    seen = valid.flatten(0, -2).any(0)  # m
    seen[0] |= ~seen.any()  # at least one key
    (index,) = seen.nonzero(as_tuple=True)
    mask, sinks = valid[..., index], cut(rules.sinks, rules.valid.shape, *tile)
    shape = (*keys.shape[:-2], mask.shape[-2], len(index))
    rules = replace(rules, valid=Valid(shape, mask=mask, device=rules.valid.device), sinks=sinks)
    return keys[..., index, :], values[..., index, :], rules


def _fused(dot: DotProduct, mask: Tensor | None = None, is_causal: bool = False) -> Tensor:
    """Return the output of torch's kernel, as (batch, heads, n, d): other ranks take a slow path."""
    tensors = (dot.queries, dot.keys, dot.values)  # the fused kernel needs contiguous rows
    rows = (t if t.stride(-1) == 1 else t.clone(memory_format=torch.contiguous_format) for t in tensors)
    queries, keys, values = rows
    if dot.has_zero_key:
        sides = (0, 0, 1, 0) if is_causal else (0, 0, 0, 1)  # the causal mask lets the query of zeros see it alone
        queries = pad(queries, sides) if is_causal else queries
        keys, values = pad(keys, sides), pad(values, sides)
        if mask is not None:  # True, or 0 to add
            mask = pad(mask.expand(*mask.shape[:-1], dot.keys.shape[-2]), (0, 1), value=mask.dtype == torch.bool)
    rank = queries.ndim
    if rank < 4:
        queries, keys, values = (tensor.unsqueeze(-3) for tensor in (queries, keys, values))  # b 1 n d
        mask = mask.unsqueeze(-3) if mask is not None and mask.ndim == 3 else mask
    if rank < 3:
        queries, keys, values = (tensor.unsqueeze(0) for tensor in (queries, keys, values))
    output = scaled_dot_product_attention(queries, keys, values, mask, is_causal=is_causal, scale=dot.scale)
    output = output[..., 1:, :] if dot.has_zero_key and is_causal else output
    return output.reshape(*output.shape[: rank - 2], *output.shape[-2:])  # the leading axes of the queries


def _as_dot(scorer: Scorer, queries: Tensor, keys: Tensor, values: Tensor, rules: Rules) -> DotProduct | None:
    """Return the arguments of torch's kernel, or None if it does not give the same output."""
    usual = rules.cap is None and (is_softmax(rules) or _is_plus_one(rules)) and queries.ndim <= 4
    product = scorer.as_dot(queries, keys) if usual and is_built_in(scorer) else None
    if product is None:
        return None
    queries, keys, scale = product
    if values.shape[-1] != keys.shape[-1] or 0 in (queries.numel(), keys.numel()):
        return None
    # Masked numbers must have no effect, but the kernel adds -inf to masked scores and multiplies masked values by 0.
    # If all scores of a query are NaN or -inf, it gives 0.
    finite = all_finite(values) and not _may_overflow(queries, keys, scale, rules.bias)
    return DotProduct(queries, keys, scale, values, _is_plus_one(rules)) if finite else None


def scores_keys_alone(scorer: Scorer) -> bool:
    """Whether the score of a key is known not to depend on the other keys, so these may be left out."""
    return is_built_in(scorer)


def is_softmax(rules: Rules) -> bool:
    """Whether the weights are a plain softmax: without sinks, and with no intermediate result rounded."""
    return rules.sinks is None and rules.rounding.way == "inputs" and softmax.is_softmax(rules.normalizer)


def _is_plus_one(rules: Rules) -> bool:
    """Whether the weights are a plain softmax with an additional key of zeros."""
    normalizer, is_plain = rules.normalizer, rules.sinks is None and rules.rounding.way == "inputs"
    return (
        is_plain and type(normalizer) is SoftmaxPlusOne and isinstance(normalizer.sink, float) and not normalizer.sink
    )


def _is_built_in(normalizer: object) -> bool:
    """Whether a normaliser's weights are known to depend on the scores of valid keys and their number only."""
    return normalizer is softmax_over_valid or type(normalizer) in NORMALIZERS.values()


def _may_overflow(queries: Tensor, keys: Tensor, scale: float, bias: Bias | None) -> bool:
    """Whether the sum of a dot product and the bias may be infinite or NaN."""
    (low, high), (lowest, highest) = (tensor.detach().aminmax() for tensor in (queries, keys))  # no copy, unlike abs
    largest = float(torch.maximum(-low, high)) * float(torch.maximum(-lowest, highest))
    largest = largest * keys.shape[-1] * max(scale, 1.0) + (0.0 if bias is None else bias.bound)
    return not largest <= torch.finfo(keys.dtype).max  # also true for NaN
