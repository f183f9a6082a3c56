"""The numbers of each head that the checks judge, and the findings."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from attncli.studies.doctor.checks import (
    CHECKS,
    EVEN,
    FEWEST_IN_SIGHT,
    FEWEST_KEYS,
    FEWEST_QUERIES,
    SATURATED,
    TIMES_SHARE,
    Check,
)

Numbers = dict[str, float | None]  # by check; None if it does not apply or is unknown


@dataclass(frozen=True)
class Call:
    """The attention of one scorer in one layer.

    `largest` is the largest absolute score of each head, before or after scaling, whichever is larger. `padding` is
    True at keys that are padding; if there are as many queries as keys, it applies to the queries as well. Query i has
    the position of key `first` + i; None if positions are unknown.
    """

    weights: Tensor  # b h n m
    output: Tensor  # b h n v
    valid: Tensor  # b h n m
    largest: Tensor  # h
    padding: Tensor | None = None  # b m
    first: int | None = 0

    @property
    def live(self) -> Tensor:
        """Return a boolean tensor (b, h, n), False for queries at padding."""
        n, m = self.weights.shape[-2:]
        live = torch.ones((), dtype=torch.bool) if self.padding is None or n != m else ~self.padding[:, None]
        return live.expand(self.weights.shape[:-1])


@dataclass(frozen=True)
class Head:
    """The numbers of a head.

    `share` is the mean over the queries of 1 / (number of valid keys), the reference for the weight on the first key.
    `twin` is the index of the most similar head of the layer. `is_judged` is True if there are enough keys and queries
    for all checks; otherwise only faults are checked.
    """

    numbers: Numbers
    share: float
    twin: int | None
    is_judged: bool

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


def heads_of(call: Call) -> list[Head]:
    """Return the numbers of each head.

    Weights are divided by their sum. Means are over queries with finite weights and at least FEWEST_IN_SIGHT valid
    keys.
    """
    sums = call.weights.sum(-1, keepdim=True)  # b h n 1
    shares = call.weights / sums.where(sums > 0, 1.0)
    counts = call.valid.sum(-1)  # b h n
    seen = call.live & (counts > 0)
    enough = call.live & (counts >= FEWEST_IN_SIGHT)
    judged = enough & (sums[..., 0] > 0) & shares.isfinite().all(-1)
    of_heads = zip(*(tensor.unbind(1) for tensor in (shares, call.valid, judged)), strict=True)
    heads = [_of_weights(call.first, *head) for head in of_heads]
    nearest = _nearest(shares, judged, [_may_be_duplicate(head) for head in heads])
    lengths = _lengths(call.output, enough)
    all_heads = list[Head]()
    for number, head in enumerate(heads):
        divergence, twin = nearest.get(number, (None, None))
        numbers = head.numbers | {
            "duplicate": divergence,
            "silent": lengths[number] if head.is_judged else None,
            "dead_query": int((call.live[:, number] & (counts[:, number] == 0)).sum()),
            "padding": _on_padding(call, shares[:, number], seen[:, number]),
            "overflow": float(call.largest[number].nan_to_num(math.inf, math.inf)),
        }
        all_heads.append(Head(numbers, head.share, twin, head.is_judged))
    return all_heads


def _of_weights(start: int | None, shares: Tensor, valid: Tensor, judged: Tensor) -> Head:
    """Return the numbers of one head that follow from its weights.

    `shares` (b, n, m) are the weights divided by their sums, `judged` (b, n) marks the queries to average over, and
    `start` is the position of the first query, None if it is unknown.
    """
    b, n, _ = shares.shape
    w, seen = shares[judged].double(), valid[judged]  # rows m
    count = seen.sum(-1).double()  # rows
    first = valid.any(-2).int().argmax(-1)  # b; the first key that any query sees
    position = None if start is None else torch.arange(start, start + n).expand(b, n)[judged]
    is_judged = len(w) >= FEWEST_QUERIES and float(count.max()) >= FEWEST_KEYS
    if not is_judged:
        return Head(dict.fromkeys(("uniform", "saturated", "first_key", "previous_key", "next_key")), 0.0, None, False)
    numbers = {
        "uniform": (-torch.xlogy(w, w).sum(-1) / count.log()).mean(),
        "saturated": (w.amax(-1) > SATURATED).double().mean(),
        "first_key": w.gather(-1, first[:, None].expand(b, n)[judged][:, None]).mean(),
        "previous_key": None if position is None else _share_at(w, seen, position - 1),
        "next_key": None if position is None else _share_at(w, seen, position + 1),
    }
    return Head(
        {key: None if share is None else float(share) for key, share in numbers.items()},
        float((1 / count).mean()),
        None,
        True,
    )


def _share_at(w: Tensor, seen: Tensor, key: Tensor) -> Tensor:
    """Return the share of rows with the largest weight at their `key` among the rows that see this key.

    `w` and `seen` are (rows, m), `key` (rows). Fewer rows than FEWEST_QUERIES count as FEWEST_QUERIES, since chance
    alone would reach the limit.
    """
    able = seen & (torch.arange(w.shape[-1]) == key[:, None])  # rows m
    hits = able.gather(-1, w.argmax(-1, keepdim=True))
    return hits.sum() / able.sum().clamp(min=FEWEST_QUERIES).double()


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
    some = shares[:, heads].masked_fill(~judged[:, heads, :, None], 0.0)
    roots = some.sqrt().transpose(0, 1).flatten(1)  # heads, b * n * m
    rows = judged[:, heads].transpose(0, 1).flatten(1).to(roots.dtype)  # heads, b * n
    overlap = (roots @ roots.mT) / (rows @ rows.mT).clamp(min=1.0)
    overlap.fill_diagonal_(-1.0)
    nearest = dict[int, tuple[float, int]]()
    for position, other in enumerate(overlap.argmax(-1).tolist()):
        both = judged[:, heads[position]] & judged[:, heads[other]]
        p, q = (shares[:, heads[index]][both].double() for index in (position, other))
        nearest[heads[position]] = float(_js_bits(p, q).mean()), heads[other]
    return {head: distance for head, distance in nearest.items() if not math.isnan(distance[0])}


def _js_bits(p: Tensor, q: Tensor) -> Tensor:
    """Return the Jensen-Shannon divergence of each row in bits."""
    middle = (p + q) / 2
    inside = middle.where(middle > 0, 1.0)
    return (torch.xlogy(p, p / inside) + torch.xlogy(q, q / inside)).sum(-1).clamp(min=0.0) / math.log(4)


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


def _on_padding(call: Call, shares: Tensor, seen: Tensor) -> float | None:
    """Return the mean weight that a head's queries put on padding; None if it is not known which keys are padding."""
    if call.padding is None:
        return None
    weight = shares.masked_fill(~call.padding[:, None], 0.0).sum(-1)[seen]
    return float(weight.double().mean()) if len(weight) else 0.0
