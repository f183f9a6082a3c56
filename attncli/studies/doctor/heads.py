"""The numbers of each head that the checks judge, and the findings."""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attncli.core.masks import Valid
from attncli.core.metrics import entropy, js_divergence, shares, top_keys
from attncli.studies.doctor.checks import (
    CHECKS,
    EVEN,
    FEWEST_IN_SIGHT,
    FEWEST_KEYS,
    FEWEST_QUERIES,
    PADDING,
    SATURATED,
    TIMES_SHARE,
    Check,
)

Numbers = dict[str, float | None]  # by check; None if it does not apply or is unknown


@dataclass(frozen=True)
class Call:
    """The attention of one scorer in one layer.

    `largest` is the largest absolute score of each head, before or after scaling, whichever is larger. `padding` is
    True at keys that are padding, and `repeated` at words that may be, since they repeat at an end of their text. If
    there are as many queries as keys, `padding` applies to the queries as well. Query i has the position of key
    `first` + i; None if positions are unknown.
    """

    weights: Tensor  # b h n m
    output: Tensor  # b h n v
    valid: Tensor  # b h n m
    largest: Tensor  # h
    padding: Tensor | None = None  # b m
    first: int | None = 0
    repeated: Tensor | None = None  # b m
    documents: Tensor | None = None  # of `Valid`

    @property
    def live(self) -> Tensor:
        """Return a boolean tensor (b, h, n), False for queries at padding.

        If there are as many queries as keys, a query is at padding, too, if no query of its text sees its key, unless
        they see no other key than padding.
        """
        n, m = self.weights.shape[-2:]
        if n != m:
            return torch.ones((), dtype=torch.bool).expand(self.weights.shape[:-1])
        real = ~self.padding if self.padding is not None else torch.ones((), dtype=torch.bool)  # b m
        seen = self.valid.any(1).any(-2) & real  # b m
        live = (seen | ~seen.any(-1, keepdim=True)) & real
        return live[:, None].expand(self.weights.shape[:-1])


@dataclass(frozen=True)
class Head:
    """The numbers of a head.

    `share` is the mean over the queries of 1 / (number of valid keys), the reference for the weight on the first key.
    `twin` is the index of the most similar head of the layer. `is_judged` is True if there are enough keys and queries
    for all checks, and no weight is negative; otherwise only faults are checked. `is_signed`: a weight is negative.
    `on_words`: the weight on padding is on repeated words only. `is_finite`: all outputs are finite.
    """

    numbers: Numbers
    share: float = 0.0
    twin: int | None = None
    is_judged: bool = False
    is_signed: bool = False
    on_words: bool = False
    is_finite: bool = True

    @property
    def found(self) -> list[tuple[Check, float, float]]:
        """The checks with a number beyond their limit, each with the number and the limit."""
        found = list[tuple[Check, float, float]]()
        for check in CHECKS:
            number, limit = self.numbers.get(check.key), self.limit(check)
            if number is not None and (number < limit if check.is_below else not number <= limit):
                found.append((check, number, limit))
        return found

    def limit(self, check: Check) -> float:
        """The limit of a check, for this head."""
        return max(check.limit, TIMES_SHARE * self.share) if check.key == "first_key" else check.limit


def checked_heads(call: Call) -> list[Head]:
    """Return the numbers of each head.

    Weights are divided by their sum. Means are over queries with finite weights and at least FEWEST_IN_SIGHT valid
    keys.
    """
    of_queries = shares(call.weights)  # b h n m
    counts = call.valid.sum(-1)  # b h n
    seen = call.live & (counts > 0)
    enough = call.live & (counts >= FEWEST_IN_SIGHT)
    judged = enough & of_queries.isfinite().all(-1)
    signed = ((call.weights < 0) & seen[..., None]).any(-1).any(-1).any(0)  # h
    judged = judged & ~signed[:, None]
    valid = Valid(tuple(call.valid.shape), mask=call.valid, documents=call.documents)
    first = valid.first_key(call.padding).expand(*call.valid.shape[:-1], 1)  # b h n 1
    of_heads = zip(*(tensor.unbind(1) for tensor in (of_queries, call.valid, judged, first)), strict=True)
    heads = [_checked_weights(call.first, *head) for head in of_heads]
    nearest = _nearest(of_queries, judged, [_may_be_duplicate(head) for head in heads])
    lengths = _lengths(call.output, enough)
    is_finite = (call.output.isfinite().all(-1) | ~seen).all(-1).all(0).tolist()  # h
    on_padding = [_on_padding(call.weights, mask, seen) for mask in (call.padding, call.repeated)]
    all_heads = list[Head]()
    for number, head in enumerate(heads):
        divergence, twin = nearest.get(number, (None, None))
        certain, repeated = (None if weight is None else weight[number] for weight in on_padding)
        on_words = not (certain or 0.0) > PADDING.limit and (repeated or 0.0) > PADDING.limit
        numbers = head.numbers | {
            "duplicate": divergence,
            "silent": lengths[number] if head.is_judged else None,
            "dead_query": int((call.live[:, number] & (counts[:, number] == 0)).sum()),
            "padding": repeated if on_words or certain is None else certain,
            "overflow": float(call.largest[number]),
        }
        facts = {"is_signed": bool(signed[number]), "on_words": on_words, "is_finite": is_finite[number]}
        all_heads.append(replace(head, numbers=numbers, twin=twin, **facts))
    return all_heads


def _checked_weights(start: int | None, shares: Tensor, valid: Tensor, judged: Tensor, firsts: Tensor) -> Head:
    """Return the numbers of one head that follow from its weights.

    `shares` (b, n, m) are the weights divided by their sums, `judged` (b, n) marks the queries to average over,
    `firsts` (b, n, 1) has the position of each query's first key, and `start` is that of the first query, None if it
    is unknown.
    """
    b, n, _ = shares.shape
    w, seen = shares[judged].double(), valid[judged]  # rows m
    count = seen.sum(-1).double()  # rows
    first = firsts[judged]  # rows 1
    position = None if start is None else torch.arange(start, start + n).expand(b, n)[judged]
    is_judged = len(w) >= FEWEST_QUERIES and float(count.max()) >= FEWEST_KEYS
    if not is_judged:
        return Head(dict.fromkeys(("uniform", "saturated", "first_key", "previous_key", "next_key")))
    top = top_keys(w, seen)
    numbers = {
        "uniform": (entropy(w) / count.log()).mean(),
        "saturated": (w.amax(-1) > SATURATED).double().mean(),
        "first_key": w.gather(-1, first).mean(),
        "previous_key": None if position is None else _share_at(top, seen, position - 1),
        "next_key": None if position is None else _share_at(top, seen, position + 1),
    }
    found = {key: None if share is None else float(share) for key, share in numbers.items()}
    return Head(found, float((1 / count).mean()), is_judged=True)


def _share_at(top: Tensor, seen: Tensor, key: Tensor) -> Tensor:
    """Return the share of rows with the largest weight at their `key` among the rows that see this key.

    `top` and `seen` are (rows, m), `key` (rows). Fewer rows than FEWEST_QUERIES count as FEWEST_QUERIES, since chance
    alone would reach the limit.
    """
    able = seen & (torch.arange(top.shape[-1]) == key[:, None])  # rows m
    return (top & able).sum() / able.sum().clamp(min=FEWEST_QUERIES).double()


def _may_be_duplicate(head: Head) -> bool:
    """Whether similar weights are remarkable: they are neither nearly uniform, nor on the first key."""
    is_sink = "first_key" in {check.key for check, _, _ in head.found}
    return head.is_judged and (head.numbers["uniform"] or 0.0) < EVEN and not is_sink


def _nearest(shares: Tensor, judged: Tensor, able: list[bool]) -> dict[int, tuple[float, int]]:
    """Return (mean JS divergence in bits, index) of the most similar head, by head, for the heads marked in `able`.

    The most similar head has the largest overlap, the sum of sqrt(p q) over the keys. 1 minus the overlap is at most
    the JS divergence in bits, and at least ln 2 times as large.
    """
    heads = [head for head, is_able in enumerate(able) if is_able]
    if len(heads) < 2:
        return {}
    judged_shares = shares[:, heads].masked_fill(~judged[:, heads, :, None], 0.0)
    roots = judged_shares.sqrt().transpose(0, 1).flatten(1)  # heads, b * n * m
    rows = judged[:, heads].transpose(0, 1).flatten(1).to(roots.dtype)  # heads, b * n
    overlap = (roots @ roots.mT) / (rows @ rows.mT).clamp(min=1.0)
    overlap.fill_diagonal_(-1.0)
    nearest = dict[int, tuple[float, int]]()
    for position, other in enumerate(overlap.argmax(-1).tolist()):
        both = judged[:, heads[position]] & judged[:, heads[other]]
        p, q = (shares[:, heads[index]][both].double() for index in (position, other))
        divergence = js_divergence(entropy((p + q) / 2), entropy(p), entropy(q))
        nearest[heads[position]] = float(divergence.mean()), heads[other]
    return {head: distance for head, distance in nearest.items() if not math.isnan(distance[0])}


def _lengths(output: Tensor, seen: Tensor) -> list[float | None]:
    """Return the mean norm of each head's outputs divided by the median over the heads; None if it is undefined.

    The quotient is undefined if there is a single head, or if the median is 0.
    """
    lengths = output.double().norm(dim=-1)  # b h n
    seen = seen & lengths.isfinite()
    means = lengths.masked_fill(~seen, 0.0).sum((0, 2)) / seen.sum((0, 2))
    middle = float(means.nanquantile(0.5))
    if len(means) < 2 or not middle > 0:
        return [None] * len(means)
    return [None if math.isnan(mean) else mean / middle for mean in means.tolist()]


def _on_padding(weights: Tensor, padding: Tensor | None, seen: Tensor) -> list[float] | None:
    """Return the mean share of weight of each head's queries on padding; None if it is unknown which keys are padding.

    Queries at padding do not count. Negative weights count by their size.
    """
    if padding is None:
        return None
    if weights.shape[-2] == padding.shape[-1]:
        seen = seen & ~padding[:, None]
    sizes = weights.abs()
    on_padding = sizes.masked_fill(~padding[:, None, None], 0.0).sum(-1) / sizes.sum(-1)  # b h n
    counted = seen & on_padding.isfinite()
    totals, counts = on_padding.double().masked_fill(~counted, 0.0).sum((0, 2)), counted.sum((0, 2))
    means: list[float] = (totals / counts.clamp(min=1)).tolist()
    return means
