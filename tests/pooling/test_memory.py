"""What pooling is for: never to hold the n x m weights, whatever the scorer, the mask and the layout of its tensors."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from attncli import pooling
from attncli.attention import Bias, Rules, Valid
from attncli.normalizers import NORMALIZERS
from attncli.pooling import pool, pool_by_rules
from attncli.scorers import SCORERS
from tests.combinations import varied
from tests.scorers.catalogue import make, normal
from tests.scorers.peaks import peak_of

N = 2048
SHAPE = (N, N)
RULES = {  # of which each is another way through the code
    "no mask": Rules(Valid(SHAPE)),
    "lengths": Rules(Valid(SHAPE, torch.tensor([N // 3]))),
    "causal": Rules(Valid(SHAPE, causal="top_left")),
    "empty rows": Rules(Valid(SHAPE, torch.arange(N)[None])),
    "softcap": Rules(Valid(SHAPE, causal="top_left"), cap=1.0),
    "bias": Rules(Valid(SHAPE), bias=Bias(SHAPE, normal(1, N, seed=3), alibi=True)),
    "everything": Rules(Valid(SHAPE, causal="top_left"), 1.0, "uniform", Bias(SHAPE, normal(N, N, seed=3), alibi=True)),
}


def inputs(d: int, v: int, n: int = N) -> tuple[Tensor, Tensor, Tensor]:
    return normal(n, d), normal(n, d, seed=1), normal(n, v, seed=2)


@varied(mixes=0, name=sorted(SCORERS, key="vector_sum".__ne__), rules=["softcap", "no mask", "causal", "bias"])
def test_within_the_workspace_as_shipped(name: str, rules: str) -> None:
    v = 16 if rules in ("causal", "bias") else 5
    scorer, (queries, keys, values) = make(name, 16), inputs(16, v)
    with torch.no_grad():
        peak = peak_of(lambda: pool_by_rules(scorer, queries, keys, values, RULES[rules]))
    assert peak - N * v * 4 <= pooling.WORKSPACE_BYTES == N * N * 4


@varied(mixes=2, name=sorted(NORMALIZERS, key="sparsemax".__ne__), rules=["everything", "no mask"])
def test_every_normaliser_within_the_workspace(name: str, rules: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pooling, "WORKSPACE_BYTES", 2**22)
    (queries, keys, values), changed = inputs(4, 4), replace(RULES[rules], normalizer=NORMALIZERS[name]())
    with torch.no_grad():
        peak = peak_of(lambda: pool_by_rules(make("dot", 4), queries, keys, values, changed))
    assert peak - values.nbytes <= 2**22


@pytest.mark.parametrize("name", ["dot", "vector_sum"])  # by the kernel, and by tiles
@pytest.mark.parametrize("rules", ["lengths", "softcap", "bias"])
def test_with_gradients(name: str, rules: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of n x m is kept for the backward pass, not even the mask."""
    monkeypatch.setattr(pooling, "WORKSPACE_BYTES", 2**20)
    scorer, (queries, keys, values) = make(name, 8), inputs(8, 8)
    leaves = [each.requires_grad_() for each in (queries, keys, values)]

    def gradients() -> tuple[Tensor, ...]:
        output = pool_by_rules(scorer, queries, keys, values, RULES[rules])
        return torch.autograd.grad(output, leaves, torch.ones_like(output), materialize_grads=True)

    assert peak_of(gradients) < N * N  # bytes: less than a mask


def test_many_batch_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pooling, "WORKSPACE_BYTES", 2**18)
    scorer, (queries, keys, values) = make("vector_sum", 4), (normal(4096, n, 4, seed=n) for n in (2, 32, 33))
    with torch.no_grad():
        peak = peak_of(lambda: pool(scorer, queries, keys, values[:, :32]))
    assert peak - queries.nbytes <= 2**18 < 4096 * 2 * 32 * 4


LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "columns": lambda t: t.mT.contiguous().mT,
    "repeated": lambda t: t[:, :1].expand(-1, 8),
    "one entry": lambda t: t[:, 0].contiguous()[None].mT,
}


@varied(layout=list(LAYOUTS), changed=range(3), rules=["no mask", "lengths", "causal"])
def test_layouts_that_the_fused_kernel_does_not_take(
    layout: str, changed: int, rules: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pooling, "WORKSPACE_BYTES", 2**20)
    given = [each[:, :1] if layout == "one entry" else each for each in inputs(8, 8)]
    given[changed] = LAYOUTS[layout](given[changed])
    assert given[changed].stride(-1) != 1
    scorer = make("dot", given[0].shape[-1])
    queries, keys, values = given
    with torch.no_grad():
        peak = peak_of(lambda: pool_by_rules(scorer, queries, keys, values, RULES[rules]))
    assert peak < N * N  # bytes
