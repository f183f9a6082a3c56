"""The functions to time of each implementation, and checks of their results against float64."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from attncli import textbook
from attncli.attention import Bias, Rules, alibi_slopes, at_least_float32, computing_dtype, weighted_sum
from attncli.catalogue.building import compile_scorer
from attncli.catalogue.guarding import raw_scores
from attncli.core.masks import Valid
from attncli.errors import InputError
from attncli.normalizers import Normalizer
from attncli.normalizers.softmax import is_softmax
from attncli.pooling import pool_by_rules
from attncli.scorers import is_built_in

# Largest effect of rounding relative to the largest number: some hundred units in the last place for sums of many
# terms, about ten for short dtypes.
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 8e-2}
MOST = 0.2  # upper limit of any tolerance: 0 in place of the result is off by 1, and a factor of 1.3 by 0.3
RESULTS = {"scores": ["scores"], "weights": ["output", "weights"], "output": ["output"]}  # of each measure

Inputs = tuple[Tensor, Tensor, Tensor]  # queries (b, n, d), keys and values (b, m, d), where b is batch times heads
Results = tuple[Tensor, ...]  # as in RESULTS, then gradients if requested
Forward = Callable[..., Results]  # of queries, keys and values
Call = Callable[[], Results]


@dataclass(frozen=True)
class BenchTask:
    """The work of one call: compute a measure (scores, weights or output) by an implementation of a scorer.

    `normalizer` turns scores into weights. If `alibi`, the ALiBi bias of each head is added to the scores first. If
    `backward`, the gradients are computed, too.
    """

    implementation: str
    scorer: Any
    measure: str
    normalizer: Normalizer
    alibi: bool = False
    heads: int = 1
    backward: bool = False

    def split(self, tensor: Tensor) -> Tensor:
        """Return a tensor (b, x, y), where b is batch times heads, as (batch, heads, x, y)."""
        return tensor.reshape(-1, self.heads, *tensor.shape[1:])

    def rules(self, queries: Tensor, keys: Tensor) -> Rules:
        """Return the rules that turn scores into weights, for queries and keys with an axis of heads."""
        shape = (*queries.shape[:-1], keys.shape[-2])
        bias = Bias(shape, alibi=True) if self.alibi else None
        return Rules(Valid(shape, device=queries.device), bias=bias, normalizer=self.normalizer)


def task_forward(task: BenchTask) -> Forward:
    """Return a function of queries, keys and values that computes the results of a measure."""
    if task.implementation == "fused":
        return partial(_fused, task)
    if task.implementation == "linear":
        return partial(_linear, task.scorer)
    scores = task.scorer.as_in_textbooks if task.implementation == "textbook" else task.scorer
    if task.measure == "scores":
        return lambda queries, keys, values: (scores(queries, keys),)
    if task.implementation == "textbook":
        count = len(RESULTS[task.measure])
        return lambda queries, keys, values: textbook.attention(scores(queries, keys), values)[:count]
    return partial(_weights if task.measure == "weights" else _output, task)


def _fused(task: BenchTask, queries: Tensor, keys: Tensor, values: Tensor) -> Results:
    """Call torch's fused kernel, with ALiBi's bias, made here, as a float mask."""
    queries, keys, values = (task.split(tensor) for tensor in (queries, keys, values))  # batch heads ...
    mask, scale = None, float(task.scorer.scale)
    if task.alibi:
        bias = Bias((*queries.shape[:-1], keys.shape[-2]), alibi=True)
        mask = bias.added_to(queries.new_zeros(1, keys.shape[-2]))  # heads n m
    return (F.scaled_dot_product_attention(queries, keys, values, mask, scale=scale).flatten(0, 1),)


def _linear(scorer: Any, queries: Tensor, keys: Tensor, values: Tensor) -> Results:
    """Return the output of linear attention, which first sums features times values, and features, over the keys."""
    (queries, keys, _), (values,) = scorer.as_dot(queries, keys), at_least_float32(values)
    sums = keys.mT @ torch.cat([values, values.new_ones(*values.shape[:-1], 1)], -1)  # b d v+1
    total = queries @ sums  # b n v+1
    return (total[..., :-1] / total[..., -1:].where(total[..., -1:] != 0, 1.0),)


def _weights(task: BenchTask, queries: Tensor, keys: Tensor, values: Tensor) -> Results:
    rules = task.rules(task.split(queries), task.split(keys))
    weights = rules.stages(task.split(task.scorer(queries, keys)))["weights"].flatten(0, 1)  # b n m
    return weighted_sum(weights, values), weights


def _output(task: BenchTask, queries: Tensor, keys: Tensor, values: Tensor) -> Results:
    queries, keys, values = (task.split(tensor) for tensor in (queries, keys, values))
    return (pool_by_rules(task.scorer, queries, keys, values, task.rules(queries, keys)).flatten(0, 1),)


def make_call(task: BenchTask, copies: Sequence[Inputs]) -> Call:
    """Return a function that makes one call of an implementation, on each copy of the inputs in turn.

    The scorer is copied, since compiling changes it.

    Raises:
        InputError: this machine cannot compile.
    """
    scorer = copy.deepcopy(task.scorer)
    if task.implementation == "textbook":  # it computes in the dtype of its inputs
        scorer = scorer.to(copies[0][0].dtype)
    if task.implementation == "compiled" and (reason := compile_scorer(scorer)):
        raise InputError.of(reason)
    parameters = [parameter for parameter in scorer.parameters() if parameter.requires_grad]
    forward = task_forward(replace(task, scorer=scorer))
    turns = cycle([[tensor.detach().requires_grad_(task.backward) for tensor in inputs] for inputs in copies])
    ones: Tensor | None = None  # made by the first call, so later calls don't allocate it

    def call() -> Results:
        """Return the results for the next copy of the inputs."""
        nonlocal ones
        inputs = next(turns)
        with torch.set_grad_enabled(task.backward):
            results = forward(*inputs)
        if not task.backward:
            return results
        ones = torch.ones_like(results[0]) if ones is None else ones
        wanted = [*(inputs[:2] if task.measure == "scores" else inputs), *parameters]
        gradients = torch.autograd.grad(results[0], wanted, ones, allow_unused=True)
        return (*results, *gradients)

    return call


def disagreement(task: BenchTask, inputs: Inputs, results: Results) -> str | None:
    """Return a text on why results are wrong, or None if they agree with a reference in float64.

    The reference is computed by textbook code if the scorer has it. Only the first, the middle and the last query of
    the last matrix are compared, since no row depends on another.
    """
    in_catalogue, measure = is_built_in(task.scorer), task.measure
    exact = copy.deepcopy(task.scorer).cpu().double()
    score = (exact.as_in_textbooks if in_catalogue else None) or partial(raw_scores, exact)
    queries, keys, values = (tensor.cpu().double() for tensor in (_few_rows(inputs[0]), inputs[1][-1:], inputs[2][-1:]))
    with torch.no_grad():
        scores = score(queries, keys)
        if task.alibi and measure != "scores":
            distances = torch.tensor(_few(inputs[0].shape[-2]))[:, None] - torch.arange(scores.shape[-1])
            scores = scores - alibi_slopes(task.heads)[-1] * distances.abs().double()
        if measure == "scores":
            reference: Sequence[Tensor] = [scores]
        elif is_softmax(task.normalizer):
            reference = textbook.attention(scores, values)
        else:
            weights = task.normalizer(scores)
            reference = weights @ values, weights
    upcast = in_catalogue and task.implementation in ("attncli", "compiled", "linear")  # at least in float32
    tolerance = TOLERANCE[computing_dtype(inputs[0].dtype) if upcast else inputs[0].dtype]
    if measure != "scores":  # the absolute error of a score is the relative error of its weight
        tolerance *= 1.0 + float(scores.abs().max())
    for name, result, expected in zip(RESULTS[measure], results, reference, strict=False):  # gradients come after them
        if reason := _difference(name, _few_rows(result), expected, min(tolerance, MOST)):
            return reason
    return None


def _few_rows(tensor: Tensor) -> Tensor:
    """Return the first, middle and last row of the last matrix of (b, n, x), as (1, 3, x); fewer rows if n < 3."""
    return tensor.detach()[-1:, _few(tensor.shape[-2])]


def _few(n: int) -> list[int]:
    return sorted({0, n // 2, n - 1})


def _difference(name: str, result: Tensor, expected: Tensor, tolerance: float) -> str | None:
    """Return a text if `result` differs from `expected` by more than `tolerance` times the largest expected value.

    NaN always differs. Return None if the tensors agree.
    """
    size = float(expected.abs().max())
    difference = float((result.cpu().to(expected.dtype) - expected).abs().max())
    if difference <= tolerance * size:
        return None
    share = f"{difference / size:.2g} of the largest number" if size > 0 else f"{difference:.2g}"
    return f"differs from float64 in {name} by {share}; rounding explains {tolerance:.2g}"
