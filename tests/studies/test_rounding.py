"""Entries in float16, bfloat16 and float8: against torch's kernels and steps in these dtypes, and against loops."""

import math
import re
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from attncli.catalogue.building import entry_inputs, entry_rules, scoring_function
from attncli.catalogue.scorer_entries import ScorerEntry
from attncli.core.masks import Valid
from attncli.core.rounding import DTYPES, Rounding
from tests.docs import ROOT
from tests.experiments import entry_of, result_of
from tests.margins import sampled
from tests.scorers.catalogue import make, normal, same_bits
from tests.studies.pairs.samples import swept

HALF = ["float16", "bfloat16"]
FLOAT8 = ["float8_e4m3", "float8_e5m2"]
B, HEADS, N, D = 2, 8, 128, 64
SCALE = 0.11  # no power of two, with which a product is exact
PAGE = ROOT / "docs" / "how-to" / "rounding.md"
AMX = "pack_vnni2 is only supported when avx512 is supported"  # with ATEN_CPU_CAPABILITY on a processor with AMX


def given(size: float, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    queries, keys, values = (normal(B, HEADS, N, D, seed=seed + i) for i in range(3))
    return size * queries, size * keys, values


def output_of(inputs: tuple[Tensor, Tensor, Tensor], entry: ScorerEntry) -> Tensor:
    """Return the output of the study attention."""
    queries, keys = entry_inputs(entry, *inputs[:2])
    rules = entry_rules(entry, Valid((B, HEADS, N, N)))
    scores = scoring_function(entry, make("scaled_dot", D, scale=SCALE))(queries, keys)
    return rules.pooled(rules.stages(scores)["weights"], rules.rounding.values(inputs[2]))


def error(output: Tensor, exact: Tensor) -> float:
    return float((output.double() - exact).norm() / exact.norm())


def fused(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor | None:
    """Return the output of torch's flash kernel; None where torch has none for this dtype and processor."""
    try:
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            return scaled_dot_product_attention(queries, keys, values, scale=SCALE)
    except RuntimeError as problem:
        if AMX not in str(problem):
            raise
        return None


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("dtype", HALF)
def test_errors_are_those_of_torch(dtype: str, size: int) -> None:
    """Errors agree within 2 % with torch's fused kernel on this CPU, and with attention in steps in this dtype.

    Within 2 % they are also the errors in the documentation.
    """
    inputs = given(size)
    queries, keys, values = (each.double() for each in inputs)
    exact = scaled_dot_product_attention(queries, keys, values, scale=SCALE)
    queries, keys, values = (each.to(DTYPES[dtype]) for each in inputs)
    steps = ((queries @ keys.mT) * SCALE).softmax(-1) @ values
    (row,) = re.findall(rf"^\| {dtype} \| {size} \| (.*) \|$", PAGE.read_text("utf-8"), re.MULTILINE)
    documented = [float(number) for number in row.split(" | ")]
    by_torch = ("flash", fused(queries, keys, values), documented[:2]), ("steps", steps, documented[2:])
    for way, theirs, numbers in by_torch:
        entry = entry_of(scorer="scaled_dot", scale=SCALE, dtype=dtype, rounding=way)
        ours = output_of(inputs, entry)
        assert same_bits(ours, ours.to(DTYPES[dtype]).float()), "as it is stored"
        size_of_errors = error(ours, exact)
        near = sampled(0.02 * size_of_errors, size_of_errors / math.sqrt(2 * exact.numel()))  # of random roundings
        assert numbers == pytest.approx([size_of_errors] * 2, rel=0, abs=near), way
        if theirs is not None:
            assert error(theirs, exact) == pytest.approx(size_of_errors, rel=0, abs=near), way
            assert error(ours, theirs.double()) / error(theirs, exact) < 1, "its errors are not others of the same size"


@pytest.mark.parametrize("way", ["inputs", "flash", "steps"])
@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize(("empty_row", "weight"), [("zero", 0.0), ("uniform", 0.25), ("nan", math.nan)])
def test_queries_without_a_valid_key(empty_row: Any, weight: float, dtype: str, way: str) -> None:
    """They have the same weights as without rounding: 0 divided by the largest weight would be NaN."""
    entry = entry_of(scorer="dot", dtype=dtype, rounding=way)
    rules = entry_rules(entry, Valid((1, 2, 4), torch.tensor([[0, 3]])), empty_row=empty_row)
    weights = rules.stages(normal(1, 2, 4))["weights"]
    assert weights[0, 0].tolist() == pytest.approx([weight] * 4, nan_ok=True)
    assert weights[0, 1].sum().item() == pytest.approx(1.0, rel=2.0**-7)
    output = rules.pooled(weights, torch.ones(1, 4, 3))
    assert output[0, 0].tolist() == pytest.approx([4 * weight] * 3, nan_ok=True)


def nearest(number: float, dtype: torch.dtype) -> float:
    """Return the nearest of all numbers of an 8-bit dtype."""
    every = torch.arange(256, dtype=torch.uint8).view(dtype).double()
    every = every[every.isfinite()]
    return float(every[(every - number).abs().argmin()])


@pytest.mark.parametrize("dtype", FLOAT8)
def test_float8_against_loops(dtype: str) -> None:
    """Each vector has a factor that scales its largest number to the largest of the dtype; zeros stay zeros."""
    vectors = normal(20, 7, dtype=torch.float64) * 10 ** normal(20, 1, seed=1, dtype=torch.float64)
    vectors[3] = 0.0
    kind = DTYPES[dtype]
    wanted = []
    for vector in vectors.tolist():
        factor = torch.finfo(kind).max / (max(map(abs, vector)) or 1.0)
        wanted.append([nearest(number * factor, kind) / factor for number in vector])
    rounding = Rounding(kind)
    torch.testing.assert_close(rounding.vectors(vectors), torch.tensor(wanted, dtype=torch.float64), rtol=1e-12, atol=0)
    assert same_bits(rounding.values(vectors), vectors)


def slow(number: float, digits: int) -> float:
    """Return a number of usual size rounded to this number of binary digits, ties to even."""
    if number == 0:
        return 0.0
    unit = 2.0 ** (math.frexp(number)[1] - digits)
    return round(number / unit) * unit


@pytest.mark.parametrize(("dtype", "digits"), [("bfloat16", 8), ("float16", 11)])
@pytest.mark.parametrize("way", ["inputs", "flash", "steps"])
@pytest.mark.parametrize("scorer", ["dot", "scaled_dot", "cosine", "additive"])
def test_each_way_against_loops(scorer: str, way: str, dtype: str, digits: int) -> None:
    """Runs of the study, with and without weights, equal slow loops."""
    data = {"queries": {"shape": [2, 3, 4]}, "keys": {"shape": [2, 5, 4]}, "valid_lens": [3, 5]}
    keys = {"scorer": scorer, "dtype": dtype, "rounding": way, "softcap": 4.0, "bias": "alibi"}
    run = result_of(data=data, scorers=[keys, {"scorer": scorer, "label": "exact"}], mask={"align": "top_left"})

    def each(tensor: Tensor) -> Tensor:
        flat = [slow(number, digits) for number in tensor.double().flatten().tolist()]
        return torch.tensor(flat, dtype=torch.float64).reshape(tensor.shape)

    queries, sides, values = (each(run.inputs[name]) for name in ("queries", "keys", "values"))
    step = each if way == "steps" else lambda tensor: tensor
    own = make(scorer, 4).double()
    own.load_state_dict({name.partition("/")[2]: x for name, x in run.parameters.items() if name.startswith(scorer)})
    with torch.no_grad():
        product = own.as_dot(queries, sides)
        if way == "steps" and product is not None:
            first, second, scale = product
            scores = each(each(each(first) @ each(second).mT) * scale)
        else:
            scores = step(own(queries, sides))
    capped = step(4.0 * (scores / 4.0).tanh())
    positions = torch.arange(3)[:, None] - torch.arange(5)
    biased = step(capped - positions.abs().double() / 256)
    weights = biased.masked_fill(~run.inputs["valid"], -math.inf).softmax(-1)
    if way == "flash":
        largest = weights.amax(-1, keepdim=True)
        weights = each(weights / largest) * largest
    weights = step(weights)
    stored = step if way == "inputs" else each
    wanted = {"scores": scores, "capped": capped, "biased": biased, "weights": weights}
    wanted["output"] = stored(weights @ values)
    for stage, tensor in wanted.items():
        is_rounded = way == "steps" or (way, stage) == ("flash", "output")
        slack = 2.0 ** (1 - digits) if is_rounded else 1e-5  # a float32 may be rounded to the other side
        torch.testing.assert_close(run.tensors[f"{scorer}/{stage}"].double(), tensor, rtol=slack, atol=slack)
        if is_rounded:  # hardly any is
            alike = (run.tensors[f"{scorer}/{stage}"].double() - tensor).abs() < 1e-6
            assert float(alike.double().mean()) > 0.9
    alone = result_of(data=data, scorers=[keys], weights=False, mask={"align": "top_left"})
    torch.testing.assert_close(alone.tensors[f"{scorer}/output"].double(), wanted["output"], rtol=slack, atol=slack)


def test_gradients_are_those_without_rounding() -> None:
    for dtype in DTYPES:
        vectors = normal(3, 4).requires_grad_()
        rounded = Rounding(DTYPES[dtype]).vectors(vectors)
        assert same_bits(rounded.detach(), Rounding(DTYPES[dtype]).vectors(vectors.detach()))
        assert not torch.equal(rounded.detach(), vectors.detach())
        (gradient,) = torch.autograd.grad(rounded.sum(), vectors)
        torch.testing.assert_close(gradient, torch.ones(3, 4))


def test_in_other_studies() -> None:
    """Rounding increases the variance of scores, and float16 overflows in steps."""
    entries = [{"scorer": "dot"}, {"scorer": "dot", "label": "half", "dtype": "float8_e5m2"}]
    exact, rounded = swept("variance", d=[16], scorers=entries, samples=20000).records
    assert rounded["variance"] != exact["variance"]
    assert rounded["variance"] == pytest.approx(exact["variance"], rel=0.05)
    large = {"scorer": "dot", "label": "large", "dtype": "float16", "rounding": "steps"}
    (record,) = swept("variance", d=[4], std=1000.0, scorers=[large], samples=100).records
    assert not math.isfinite(record["variance"])
