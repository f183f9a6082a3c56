"""The checks of heads: no findings in random heads, only the planted faults in others, and numbers by slow loops."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import fmean, median

import pytest
import torch
from torch import Tensor

from attncli.studies.doctor.checks import CHECKS
from attncli.studies.doctor.heads import Call, checked_heads
from tests.margins import sampled
from tests.studies.slow import slow_comparison

D, SEEDS = 32, 100


def random_call(n: int, causal: bool, seed: int) -> Call:
    """Return 12 heads of random queries, keys and values of unit variance, with the usual scale."""
    q, k, v = torch.randn(3, 1, 12, n, D, generator=torch.Generator().manual_seed(seed))
    valid = torch.ones(n, n, dtype=torch.bool)
    return matching_call(q @ k.mT * D**-0.5, v, valid.tril() if causal else valid)


def matching_call(scores: Tensor, values: Tensor, valid: Tensor) -> Call:
    valid = valid.expand(scores.shape)
    weights = scores.masked_fill(~valid, -torch.inf).softmax(-1).nan_to_num(0.0)
    largest = scores.masked_fill(~valid, 0.0).abs().amax((0, 2, 3))
    return Call(weights, weights @ values, valid, largest, first=scores.shape[-1] - scores.shape[-2])


def found_in(call: Call) -> dict[int, set[str]]:
    """Return the checks that found something, by head."""
    found = {head: {check.key for check, _, _ in each.found} for head, each in enumerate(checked_heads(call))}
    return {head: names for head, names in found.items() if names}


@pytest.mark.parametrize(
    "n",
    [8, 16, pytest.param(64, marks=pytest.mark.slow), pytest.param(512, marks=[pytest.mark.slow, pytest.mark.nightly])],
)
def test_the_page_has_the_most_extreme_numbers_of_random_heads(n: int) -> None:
    """Each of 100 seeds is a layer with 12 heads; nothing is found in them."""
    layers = [random_call(n, causal, seed) for causal in (False, True) for seed in range(SEEDS)]
    heads = [head for layer in layers for head in checked_heads(layer)]
    assert [head.found for head in heads] == [[]] * len(heads)
    page = (Path(__file__).parents[3] / "docs" / "studies" / "doctor.md").read_text(encoding="utf-8")
    table = [[cell.strip("` ") for cell in line.split("|")[1:-1]] for line in page.splitlines() if line[:1] == "|"]
    names = next(row for row in table if row[0] == "n")
    shown = next(row for row in table if row[0] == str(n))
    for name, number in zip(names[1:], shown[1:], strict=True):
        check = next(check for check in CHECKS if check.key == name)
        extreme = (min if check.is_below else max)(head.numbers[name] or 0.0 for head in heads)
        assert float(number) == pytest.approx(extreme, abs=sampled(0.02, 0.01 / math.sqrt(12))), name  # two digits


def plant(change: Callable[[Tensor, Tensor, Tensor], None], n: int = 40, heads: int = 6) -> Call:
    """Return random heads after `change` has changed their scores, values and mask."""
    randomness = torch.Generator().manual_seed(1)
    scores, values = (torch.randn(2, heads, n, size, generator=randomness) for size in (n, D))
    valid = torch.ones(2, heads, n, n, dtype=torch.bool)
    change(scores, values, valid)
    return matching_call(scores, values, valid)


def uniform(scores: Tensor, values: Tensor, valid: Tensor) -> None:
    scores[:, 1] *= 0.1


def first_key(scores: Tensor, values: Tensor, valid: Tensor) -> None:
    scores[:, 1, :, 0] += 4


def duplicate(scores: Tensor, values: Tensor, valid: Tensor) -> None:
    scores[:, 4] = scores[:, 1] + 0.1 * scores[:, 4]


@pytest.mark.parametrize("change", [uniform, first_key])
def test_heads_that_are_alike_by_nature_are_no_duplicates(change: Callable[[Tensor, Tensor, Tensor], None]) -> None:
    def twice(scores: Tensor, values: Tensor, valid: Tensor) -> None:
        change(scores, values, valid)
        scores[:, 4] = scores[:, 1]

    assert found_in(plant(twice)) == {1: {change.__name__}, 4: {change.__name__}}


def test_weights_are_divided_by_their_sum_and_queries_without_weight_do_not_count() -> None:
    call = plant(duplicate)
    factors = torch.rand(call.weights.shape[:-1], generator=torch.Generator().manual_seed(0))[..., None] + 0.1
    factors[:, 0, ::2] = 0
    scaled, valid = checked_heads(replace(call, weights=call.weights * factors)), call.valid.clone()
    valid[:, 0, ::2] = False
    without = checked_heads(replace(call, weights=call.weights.masked_fill(~valid, 0.0), valid=valid))
    for head, other in zip(scaled, without, strict=True):
        for key in {check.key for check in CHECKS} - {"dead_query", "silent", "padding", "batch"}:
            assert head.numbers[key] == pytest.approx(other.numbers[key], rel=1e-5), key


def test_faults_are_told_of_few_keys_and_nothing_else() -> None:
    def change(scores: Tensor, values: Tensor, valid: Tensor) -> None:
        scores[:, 1] *= 0.1
        scores[:, 2, 0, 0] = torch.inf
        valid[:, 3, 1] = False

    call = plant(change, n=7)
    assert found_in(call) == {2: {"overflow"}, 3: {"dead_query"}}
    assert not any(head.is_judged for head in checked_heads(call))
    assert found_in(plant(uniform, n=8)) == {1: {"uniform"}}


def masked_call(valid: Tensor, first: int) -> Call:
    """Return heads with the mask `valid` (b, n, m); query i is at the position of key `first` + i.

    Head 0 is nearly uniform, head 1 prefers the key before its query, head 2 the one after it; head 3 is random.
    """
    b, n, m = valid.shape
    randomness = torch.Generator().manual_seed(5)
    scores, values = (torch.randn(b, 4, *size, generator=randomness) for size in ((n, m), (m, D)))
    scores[:, 0] *= 0.05
    for head, step in ((1, -1), (2, 1)):
        scores[:, head].diagonal(first + step, -2, -1).add_(2)
    return replace(matching_call(3 * scores, values, valid[:, None]), first=first)


def lengths(n: int, m: int, *lengths: int) -> Tensor:
    """Return the mask (b, n, m) of these valid lengths."""
    return (torch.arange(m) < torch.tensor(lengths)[:, None, None]).expand(-1, n, -1)


def far(n: int) -> Tensor:
    """Return a mask (1, n, n) in which few queries see the keys beside them."""
    distances = (torch.arange(n)[:, None] - torch.arange(n)).abs()
    return ((distances != 1) | (torch.arange(n)[:, None] < 4))[None]


MASKS = {  # a mask (b, n, m) and the position of its first query
    "causal": (lengths(12, 12, 12).tril(), 0),
    "all keys": (lengths(9, 9, 9, 9), 0),
    "valid lengths": (lengths(24, 24, 12, 24), 0),
    "the first keys are padding": (lengths(16, 16, 16, 16) & ~lengths(16, 16, 5, 0), 0),
    "more queries than keys": (lengths(30, 10, 10, 8), 0),
    "fewer queries than keys": (lengths(8, 24, 24, 20).tril(16), 16),
    "few queries see their neighbours": (far(14), 0),
    "six queries": (lengths(6, 9, 9), 0),
    "a random mask": (torch.rand(3, 15, 15, generator=torch.Generator().manual_seed(2)) < 0.6, 0),
}


@pytest.mark.parametrize("is_padded", [False, True])
@pytest.mark.parametrize("name", MASKS)
def test_numbers_are_those_of_slow_loops(name: str, is_padded: bool) -> None:
    valid, first = MASKS[name]
    call, (b, n, m) = masked_call(valid, first), valid.shape
    if is_padded:
        padding = torch.zeros(b, m, dtype=torch.bool)
        padding[0, m - 2 :] = True
        call = replace(call, padding=padding)
    weights, output = call.weights.double().tolist(), call.output.double().tolist()
    seen = [[any(valid[e, :, j]) for j in range(m)] for e in range(b)]
    is_live = [
        [n != m or ((seen[e][i] or not any(seen[e])) and not (is_padded and e == 0 and i >= m - 2)) for i in range(n)]
        for e in range(b)
    ]
    keys = {(e, i): [j for j in range(m) if valid[e, i, j]] for e in range(b) for i in range(n) if is_live[e][i]}
    queries = [at for at, seen in keys.items() if len(seen) >= 3]
    rows = [{(e, i): [weights[e][head][i][j] for j in keys[e, i]] for e, i in queries} for head in range(4)]
    means = [fmean(math.hypot(*output[e][head][i]) for e, i in queries) for head in range(4)]
    heads = checked_heads(call)
    compared = {head for head, found in enumerate(heads) if found.twin is not None}
    assert 0 not in compared, "it is nearly uniform"
    for head, (found, own) in enumerate(zip(heads, rows, strict=True)):
        numbers = found.numbers
        entropies = {at: -math.fsum(x * math.log(x) for x in row if x > 0) for at, row in own.items()}
        assert numbers["uniform"] == pytest.approx(fmean(entropies[at] / math.log(len(keys[at])) for at in queries))
        assert numbers["saturated"] == fmean(max(row) > 0.99 for row in own.values())
        begins = [min(j for j in range(m) if any(valid[e, :, j])) for e in range(b)]
        assert numbers["first_key"] == pytest.approx(fmean(weights[e][head][i][begins[e]] for e, i in queries))
        for check, step in (("previous_key", -1), ("next_key", 1)):
            able = [(e, i) for e, i in queries if first + i + step in keys[e, i]]
            hits = sum(keys[at][own[at].index(max(own[at]))] == first + at[1] + step for at in able)
            assert numbers[check] == pytest.approx(hits / max(len(able), 6)), check
        assert numbers["silent"] == pytest.approx(means[head] / median(means))
        assert numbers["dead_query"] == sum(not seen for seen in keys.values())
        on_padding = [sum(weights[0][head][i][m - 2 :]) if e == 0 else 0.0 for (e, i), seen in keys.items() if seen]
        assert numbers["padding"] == (pytest.approx(fmean(on_padding)) if is_padded else None)
        if found.twin is not None:
            assert found.twin == max(compared - {head}, key=lambda other: overlap(own, rows[other]))
            pairs = [*own.values()], [*rows[found.twin].values()]
            assert numbers["duplicate"] == pytest.approx(slow_comparison(*pairs, [], [])["js_divergence"])


def overlap(a: dict[tuple[int, int], list[float]], b: dict[tuple[int, int], list[float]]) -> float:
    return math.fsum(math.sqrt(x * y) for at in a for x, y in zip(a[at], b[at], strict=True))
