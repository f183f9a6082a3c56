"""The hidden units w_v tanh(a_i + b_j) of all pairs of some queries and keys, without a tanh per pair.

With x = a + b and u = exp(2x) - 1, tanh x = u / (u + 2); and with A = exp(2a), u = A expm1(2b) + expm1(2a). So a
pair costs two products, two additions and a division; exponentials are taken once per query and once per key. In u,
unlike in 1 - 2 / (exp(2x) + 1), small numbers keep their digits.

Projections are moved per hidden unit so that the largest a is 0; then A is at most 1, and what b exceeds `CEILING` by
changes nothing: such a unit is 1 for every query, as long as no a lies too far below. Where one does, tanh is taken
directly. Which of the two forms is used depends on the queries alone, so that what stands in one key changes no other.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

SATURATED = {torch.float32: 9.1, torch.float64: 19.1}  # from here on tanh rounds to 1
CEILING = {torch.float32: 43.0, torch.float64: 350.0}  # exp of its double is finite, also after one addition
FEWEST_UNITS = 8  # whose rounding errors, several in place of one, make up for each other
WORTHWHILE = 8  # pairs per exponential from which the quotient is the faster form


class Factors(NamedTuple):
    """What hidden units are made of: tensors of the queries (b, n, h), of the keys (b, m, h), and of both (h,)."""

    of_queries: Sequence[Tensor]
    of_keys: Sequence[Tensor]
    of_both: Sequence[Tensor]

    def part(self, elements: slice, rows: slice) -> Sequence[Tensor]:
        """Those of some batch elements and some of their queries."""
        some = (each[elements, rows] for each in self.of_queries)
        return *some, *(each[elements] for each in self.of_keys), *self.of_both

    @property
    def all(self) -> Sequence[Tensor]:
        """All of them."""
        return *self.of_queries, *self.of_keys, *self.of_both


def quotient_factors(queries: Tensor, keys: Tensor, largest: Tensor, w_v: Tensor) -> Factors:
    """Exponentials of projections (b, n, h) and (b, m, h), moved by the `largest` (b, 1, h) of each unit's queries."""
    dtype, ceiling = queries.dtype, CEILING[queries.dtype]
    wide = torch.float64 if queries.device.type != "mps" else torch.float32  # each is rounded once, for all its pairs
    queries, keys, largest = queries.to(wide), keys.to(wide), largest.to(wide)
    moved = queries - largest  # b n h
    moved_keys = (keys + largest).clamp(max=ceiling)  # b m h
    exp, expm1, keys_expm1 = (2 * moved).exp(), (2 * moved).expm1(), (2 * moved_keys).expm1()
    if wide == dtype:  # what moving has cost is made up for
        lost, lost_keys = 2 * _lost(queries, -largest), 2 * _lost(keys, largest)
        expm1, exp = expm1 + lost * exp, exp + lost * exp
        keys_expm1 = keys_expm1 + (lost_keys * (keys_expm1 + 1)).where(moved_keys.abs() < ceiling, 0)
    of_queries = [each.to(dtype) for each in (expm1 * w_v, exp * w_v, exp + 1, exp)]
    return Factors(of_queries, [keys_expm1.to(dtype)], ())


def _lost(some: Tensor, others: Tensor) -> Tensor:
    """What rounding their sum loses (Knuth 1969, two-sum)."""
    total = some + others
    added = total - some
    return (some - (total - added)) + (others - added)


def quotient_units(w_expm1: Tensor, w_exp: Tensor, exp_plus_1: Tensor, exp: Tensor, keys_expm1: Tensor) -> Tensor:
    """w_v u / (u + 2) for all pairs, (b, n, m, h)."""
    keys = keys_expm1.unsqueeze(-3)
    numerator = torch.addcmul(w_expm1.unsqueeze(-2), w_exp.unsqueeze(-2), keys)
    return numerator.div_(torch.addcmul(exp_plus_1.unsqueeze(-2), exp.unsqueeze(-2), keys))


def direct_factors(queries: Tensor, keys: Tensor, largest: Tensor, w_v: Tensor) -> Factors:
    """The projections themselves."""
    return Factors([queries], [keys], [w_v])


def direct_units(queries: Tensor, keys: Tensor, w_v: Tensor) -> Tensor:
    """w_v tanh(a + b) for all pairs, (b, n, m, h)."""
    return (queries.unsqueeze(-2) + keys.unsqueeze(-3)).tanh_().mul_(w_v)


class Form(NamedTuple):
    """A way to make hidden units. `factors` takes projections, the largest of the queries' per unit, and w_v.

    The others take the factors: `units`, and the sums of them that are asked for, `scores` (b, n, m), `to_queries`
    (b, n, h), `to_keys` (b, m, h) and `to_w_v` (h,). The last three take the gradient (b, n, m) first, and factors for
    w_v = 1. The sums are functions of their own for `torch.compile`, which fuses a sum with all that leads to it, but
    would store what several sums have in common.
    """

    factors: Callable[..., Factors]
    units: Callable[..., Tensor]
    scores: Callable[..., Tensor]
    to_queries: Callable[..., Tensor]
    to_keys: Callable[..., Tensor]
    to_w_v: Callable[..., Tensor]


def _form(factors: Callable[..., Factors], units: Callable[..., Tensor]) -> Form:
    def scores(*of: Tensor) -> Tensor:
        return units(*of).sum(-1)

    def to_queries(gradient: Tensor, *of: Tensor) -> Tensor:
        return (gradient.unsqueeze(-1) * (1 - units(*of).square())).sum(-2)

    def to_keys(gradient: Tensor, *of: Tensor) -> Tensor:
        return (gradient.unsqueeze(-1) * (1 - units(*of).square())).sum(-3)

    def to_w_v(gradient: Tensor, *of: Tensor) -> Tensor:
        return (gradient.unsqueeze(-1) * units(*of)).sum((0, 1, 2))

    return Form(factors, units, scores, to_queries, to_keys, to_w_v)


QUOTIENT = _form(quotient_factors, quotient_units)
DIRECT = _form(direct_factors, direct_units)


def form_for(queries: Tensor, keys: Tensor) -> tuple[Form, Tensor]:
    """The form that suits projections (b, n, h) and (b, m, h), and the largest of the queries' per unit, (b, 1, h)."""
    n, m, h = queries.shape[-2], keys.shape[-2], queries.shape[-1]
    largest, smallest = queries.amax(-2, keepdim=True), queries.amin(-2, keepdim=True)  # b 1 h
    worthwhile = h >= FEWEST_UNITS and n * m >= WORTHWHILE * (n + m)
    widest = CEILING[queries.dtype] - SATURATED[queries.dtype]
    fits = worthwhile and bool((largest - smallest <= widest).all())  # not where one is NaN
    return QUOTIENT if fits else DIRECT, largest
