"""The first lines of a run: its name and question, and its tensors and their mask in words."""

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from attncli.core.numbers import number, several
from attncli.errors import printable
from attncli.results import Result, tensor_name
from attncli.show.terminal.tables import STRONG

if TYPE_CHECKING:
    from torch import Tensor

MOST_LENGTHS = 8  # valid lengths that are listed


def opening(result: Result) -> Iterator[Text]:
    """Yield a line with the name and the question of an experiment, and one in words of its tensors, if any."""
    yield Text.assemble((printable(result.name), STRONG), f": {printable(result.about)}" if result.about else "")
    layers = result.layer_names
    names = [tensor_name(role, layer=layers[0]) for role in ("queries", "keys", "values")]
    if not all(name in result.inputs for name in names):
        return
    queries, keys, values = (tuple(result.inputs[name].shape) for name in names)
    layer = f" in the first of {len(layers)} layers" if len(layers) > 1 else ""
    words = [f"{_sizes(queries, keys, values)}{layer}"]
    valid = result.inputs.get(tensor_name("valid", layer=layers[0]))  # a large mask is not kept without weights
    words += [] if valid is None else [_valid_keys(valid)]
    key_heads = getattr(result.facts, "key_heads", None)
    words += [] if key_heads is None else [f"{several(key_heads, 'head')} of keys"]
    yield Text("; ".join(words))


def _sizes(queries: Sequence[int], keys: Sequence[int], values: Sequence[int]) -> str:
    """Return words for the shapes of queries, keys and values: `2 texts, 4 heads, 12 queries, 12 keys, d = 8`."""
    b, *heads, n, q = queries
    (m, k), v = keys[-2:], values[-1]
    counts = [several(b, "text"), *([several(math.prod(heads), "head")] if heads else [])]
    counts += [several(n, "query"), several(m, "key")]
    sizes = {"d": q} if q == k else {"q": q, "k": k}
    sizes |= {} if q == k == v else {"v": v}
    return ", ".join([*counts, *(f"{name} = {size}" for name, size in sizes.items())])


def _valid_keys(valid: "Tensor") -> str:
    """Return words for a mask (..., n, m), such as `valid lengths 2, 6` or `causal, first keys masked: 0, 3`."""
    n, m = valid.shape[-2:]
    seen = valid.any(-2, keepdim=True)  # ... 1 m
    if bool((valid == seen).all()):
        return _counts(seen) or _share(valid)
    every = valid.new_ones(n, m)
    for words, order in {"causal": every.tril(m - n), "causal from the top left": every.tril()}.items():
        if bool((valid == (order & seen)).all()):
            masked = order.any(-2, keepdim=True) & ~seen  # of the keys that this order shows
            return f"{words}, {_counts(~masked) or _share(valid)}" if bool(masked.any()) else words
    return _counts(valid) or _documents(valid) or _share(valid)


def _documents(valid: "Tensor") -> str:
    """Return words for packed texts (..., n, n), such as `causal, documents of 3, 2 tokens`; else an empty text."""
    begin = valid.int().argmax(-1, keepdim=True)  # ... n 1, the first key that each query sees
    if valid.shape[-2] != valid.shape[-1] or not bool((begin == begin.flatten(0, -3)[0]).all()):
        return ""
    counts, same = begin.flatten(0, -3)[0, :, 0].bincount(), begin == begin.mT
    orders = {"documents": same, "causal, documents": same.tril()}
    return next(
        (f"{words} of {_listed(counts[counts > 0])} tokens" for words, each in orders.items() if valid.equal(each)), ""
    )


def _counts(valid: "Tensor") -> str:
    """Return words for a mask (..., n, m) where queries see the first keys, or the last ones; else an empty text."""
    m = valid.shape[-1]
    lengths = valid.sum(-1)  # ... n
    keys = lengths.new_tensor(range(m))
    if bool((lengths == m).all()):
        return "no key masked"
    if bool((valid == (keys < lengths[..., None])).all()):
        listed = _listed(lengths)
        return f"{'valid lengths' if ' ' in listed else 'valid length'} {listed}"
    if bool((valid == (keys >= m - lengths[..., None])).all()):
        return f"first keys masked: {_listed(m - lengths)}"
    return ""


def _share(valid: "Tensor") -> str:
    return f"{number(100 * (1 - valid.double().mean().item()), 2)} % of the pairs of a query and a key masked"


def _listed(counts: "Tensor") -> str:
    """Return the numbers (b, n) or (b, ..., heads, n), once if all heads have the same, or their range."""
    if counts.ndim > 2:
        by_head = counts.flatten(1, -2)  # b heads n
        counts = by_head[:, 0] if bool((by_head == by_head[:, :1]).all()) else by_head
    listed: list[int] = counts.flatten().tolist()
    return ", ".join(map(str, listed)) if len(listed) <= MOST_LENGTHS else f"{min(listed)} to {max(listed)}"
