"""Findings of random attention runs: what each sentence says is computed again from the weights, by slow loops."""

import math
import re
import warnings
from collections.abc import Callable, Sequence
from itertools import combinations, compress
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import attncli
from attncli.core.numbers import finite
from attncli.results import Result

ROUNDING, TIE = 1e-4, 1e-5  # ten times that of the findings; of weights that share the first place
Vector = list[float]


class Truth:
    """The weights of a result as lists, in double precision, and slow answers to what findings say."""

    def __init__(self, result: Result) -> None:
        self.result = result
        valid = result.inputs["valid"]
        self.valid = valid.flatten(0, -3).tolist()
        self.keys = result.inputs["keys"].flatten(0, -3).tolist()
        self.queries = result.inputs["queries"].flatten(0, -3).tolist()
        self.weights, self.logits = dict[str, Any](), dict[str, Any]()
        for label in result.labels:
            stages = [f"{label}/{stage}" for stage in ("weights", "biased", "capped", "scores")]
            weights, logits, *_ = (result.tensors[name] for name in stages if name in result.tensors)
            self.weights[label], self.logits[label] = (x.double().flatten(0, -3).tolist() for x in (weights, logits))
        self.is_masked = not bool(valid.all())

    def at_valid(self, tensor: Any) -> list[Vector]:
        """Return each query's numbers at its valid keys, of queries that have one."""
        pairs = (pair for each in zip(tensor, self.valid, strict=True) for pair in zip(*each, strict=True))
        return [[*compress(row, valid)] for row, valid in pairs if any(valid)]

    def is_even(self, label: str) -> bool:
        return all(near(max(row), min(row)) for row in self.at_valid(self.weights[label]))

    def are_equal(self, a: str, b: str, up_to_factor: str = "") -> bool:
        for x, y in zip(self.at_valid(self.weights[a]), self.at_valid(self.weights[b]), strict=True):
            one, other = (math.fsum(row) for row in (x, y))
            if up_to_factor and not (one and other):
                continue
            scale = one / other if up_to_factor else 1.0
            if any(abs(p - scale * q) > 2e-3 * max(one, other) for p, q in zip(x, y, strict=True)):
                return False
        return True

    def ordered(self, a: str, b: str, sign: int) -> bool:
        """Whether no pair of keys has one order by the weights of a, and clearly the other by those of b."""
        for x, y in zip(self.at_valid(self.weights[a]), self.at_valid(self.weights[b]), strict=True):
            for i, j in combinations(range(len(x)), 2):
                p, q = x[i] - x[j], sign * (y[i] - y[j])
                if p * q < 0 and abs(p) > ROUNDING * max(x) and abs(q) > ROUNDING * max(y):
                    return False
        return True

    def shares(self, label: str) -> Vector:
        return [max(row) / math.fsum(row) if math.fsum(row) else math.nan for row in self.at_valid(self.weights[label])]

    def top1(self, a: str, b: str) -> list[float]:
        """Return the shares of rows with a common top key, if a window hides keys without weight, and if it does not.

        A row whose largest weight is shared by more than half of its keys, two at least, has no top key.
        """
        shares = list[float]()
        for is_hidden in (False, True):
            rows = list[bool]()
            for x, y in zip(self.at_valid(self.weights[a]), self.at_valid(self.weights[b]), strict=True):
                tops = [{i for i, w in enumerate(row) if max(row) - w <= TIE * max(row)} for row in (x, y)]
                counts = [len([w for w in row if w]) if is_hidden else len(row) for row in (x, y)]
                has_top = all(len(top) < 2 or 2 * len(top) <= m for top, m in zip(tops, counts, strict=True))
                if math.fsum(x) and math.fsum(y) and has_top:
                    rows.append(bool(tops[0] & tops[1]))
            shares += [sum(rows) / len(rows)] if rows else []
        return shares


def near(a: float, b: float) -> bool:
    return abs(a - b) <= ROUNDING * max(abs(a), abs(b))


def one_valid_key(truth: Truth, who: str) -> bool:
    labels = truth.result.labels if who == "every scorer gives" else [who.removesuffix(" gives")]
    rows = [row for label in labels for row in truth.at_valid(truth.weights[label])]
    return all(len(row) == 1 and near(row[0], 1.0) for row in rows)


def all_keys_equal(truth: Truth, valid: str, who: str) -> bool:
    seen = [
        key
        for keys, matrix in zip(truth.keys, truth.valid, strict=True)
        for row in matrix
        for key in compress(keys, row)
    ]
    is_named = who in ("every scorer gives", f"{truth.result.labels[0]} gives")
    is_equal = all(key == seen[0] for key in seen)
    return is_equal and is_named and bool(valid) == truth.is_masked and all(map(truth.is_even, truth.result.labels))


def copies(truth: Truth, label: str) -> bool:
    sums = [math.fsum(row) for row in truth.at_valid(truth.weights[label])]
    return truth.is_even(label) and near(max(sums), min(sums)) and max(sums) > 0 and truth.is_masked


def every_key(truth: Truth, label: str) -> bool:
    rows = [x for matrix in truth.weights[label] for row in matrix for x in row]
    return near(min(rows), max(rows)) and max(rows) > 0


def same_for_every_query(truth: Truth, label: str, of: str) -> bool:
    matrices = truth.weights[label]
    groups = matrices if of else [[row for matrix in matrices for row in matrix]]
    equal = all(
        abs(x - y) <= ROUNDING * max(map(abs, group[0]))
        for group in groups
        for row in group
        for x, y in zip(row, group[0], strict=True)
    )
    return equal and any(row != rows[0] for rows in truth.queries for row in rows) and not truth.is_even(label)


def multiple(truth: Truth, label: str, factor: str, other: str, order: str, sharper: str) -> bool:
    times = float(factor.replace(",", ""))
    scores, others = truth.at_valid(truth.logits[label]), truth.at_valid(truth.logits[other])
    for row, before in zip(scores, others, strict=True):
        if any(abs(x - times * y) > 2e-3 * max(map(abs, row)) for x, y in zip(row, before, strict=True)):
            return False
    if order and not truth.ordered(label, other, 1 if "keep" in order else -1):
        return False
    if sharper:
        a, b = (label, other) if "sharper" in sharper else (other, label)
        shares = list(zip(truth.shares(a), truth.shares(b), strict=True))
        return all(x >= y * (1 - ROUNDING) for x, y in shares) and any(x > y for x, y in shares)
    return True


def differ(truth: Truth, a: str, b: str, most: str, bits: str, share: str | None) -> bool:
    a, b = (label.replace(" (random parameters)", "") for label in (a, b))
    divergences = finite([row["js_divergence"] for row in truth.result.comparisons])
    if share is None:
        return abs(float(bits) - max(divergences)) < 0.06 * max(divergences)  # two or three digits
    text = share.removesuffix(" %")
    is_right = any(
        abs(agreed - float(text) / 100) <= 0.0051 if text.isdigit() else 0 < agreed < 1 for agreed in truth.top1(a, b)
    )
    return is_right and not truth.is_even(a) and not truth.is_even(b) and bool(most) == (len(divergences) > 1)


RANDOM = r"\w+(?: \(random parameters\))?"
RULES: Sequence[tuple[str, Callable[..., bool]]] = [
    (r"Each query has one valid key at most, so (.+) it the weight 1\.", one_valid_key),
    (r"All (valid )?keys are equal, so (.+) each of them the same weight\.", all_keys_equal),
    (r"(\w+): all weights are 0\.", lambda t, a: all(x == 0 for row in t.at_valid(t.weights[a]) for x in row)),
    (r"(\w+): (?:all valid keys of a query get|every key of a query gets) the same weight\.", Truth.is_even),
    (r"(\w+): all valid keys of a query get the same weight, so the weights only copy the mask\.", copies),
    (r"(\w+): every key gets the same weight\.", every_key),
    (
        r"(\w+): every query( of a matrix)? gets the same weights; they do not depend on which query asks\.",
        same_for_every_query,
    ),
    (
        r"(\w+): ([-\d.,e+]+) times the scores of (\w+)"
        r"(; the keys keep their order|; the order of the keys is reversed|)( and the weights are \w+|)\.",
        multiple,
    ),
    (r"(\w+) gives the same weights as (\w+)\.", Truth.are_equal),
    (r"(\w+) and (\w+) give the same weights\.", Truth.are_equal),
    (r"(\w+) and (\w+) give the same weights(, up to a factor for each query)\.", Truth.are_equal),
    (
        r"All scorers give the same weights(, up to a factor for each query|)\.",
        lambda t, factor: all(t.are_equal(a, b, factor) for a, b in combinations(t.weights, 2)),
    ),
    (
        rf"({RANDOM}) and ({RANDOM}) differ( most)?: JS divergence (\S+) bits"
        r"(?:; largest weight at the same key in (.+) of the rows)?\.",
        differ,
    ),
    (rf"Of all heads {RANDOM} and {RANDOM} differ most in head .* bits\.", lambda t: True),  # see test_heads.py
]


def is_true(truth: Truth, text: str) -> bool:
    found = [(match, rule) for pattern, rule in RULES if (match := re.fullmatch(pattern, text))]
    assert len(found) == 1, f"no test knows the sentence: {text}"
    match, rule = found[0]
    return rule(truth, *match.groups())


numbers = st.sampled_from([-2.0, -1.0, 0.0, 0.5, 1.0, 3.0])
normalizers = st.sampled_from(
    ["softmax", "softmax", "softmax", "sparsemax", "sigmoid", "relu", "softmax_plus_one", "uniform", "sum"]
)


@st.composite
def entries(draw: Any, label: str) -> dict[str, Any]:
    scorer = draw(st.sampled_from(["scaled_dot", "scaled_dot", "dot", "vector_sum", "cosine", "kernel", "additive"]))
    entry = {"scorer": scorer, "label": label, "normalizer": draw(normalizers)}
    if entry["normalizer"] == "sum":
        entry["scorer"] = scorer = "kernel"
    if scorer == "scaled_dot":
        entry["scale"] = draw(st.sampled_from([0.1, 0.5, 1.0, 2.0, 30.0]))
    if draw(st.booleans()) and draw(st.booleans()):
        entry["window"] = draw(st.integers(1, 4))
    if draw(st.booleans()) and draw(st.booleans()):
        entry["softcap"] = draw(st.sampled_from([0.5, 5.0]))
    return entry


@st.composite
def configs(draw: Any) -> dict[str, Any]:
    lead = draw(st.sampled_from([[1], [2], [1, 2], [2, 2]]))
    n, m, d = draw(st.integers(1, 3)), draw(st.integers(1, 4)), draw(st.integers(1, 2))

    def tensor(*shape: int) -> Any:
        if draw(st.integers(0, 5)) == 0:
            return torch.full((*lead, *shape), draw(numbers)).tolist()
        each = draw(st.lists(numbers, min_size=math.prod([*lead, *shape]), max_size=math.prod([*lead, *shape])))
        return torch.tensor(each).view(*lead, *shape).tolist()

    data: dict[str, Any] = {"queries": tensor(n, d), "keys": tensor(m, d)}
    if draw(st.booleans()):
        data["valid_lens"] = draw(st.lists(st.integers(0, m), min_size=lead[0], max_size=lead[0]))
    if draw(st.integers(0, 3)) == 0:
        data["bias"] = tensor(n, m)
    scorers = [draw(entries(label)) for label in "abc"[: draw(st.integers(1, 3))]]
    for entry in scorers if "bias" in data else []:
        entry["normalizer"] = entry["normalizer"].replace("sum", "softmax")  # scores may be negative
    mask: dict[str, Any] = {"empty_row": draw(st.sampled_from(["zero", "uniform", "nan"]))}
    mask["causal" if draw(st.integers(0, 3)) == 0 else "align"] = "top_left"
    return {"data": data, "scorers": scorers, "mask": mask}


@pytest.mark.filterwarnings("ignore")
@given(configs())
def test_findings_are_true(config: dict[str, Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = attncli.run(config)
    truth = Truth(result)
    for finding in result.findings:
        assert is_true(truth, finding.text), (finding.text, config)
