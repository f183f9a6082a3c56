"""The promise of pooling: at most 16 MiB beside inputs and output, where the weights would be n x m."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from attncli import pooling
from attncli.attention import Bias, Rules
from attncli.core.masks import Valid
from attncli.normalizers import NORMALIZERS
from attncli.pooling import pool_by_rules
from attncli.scorers import SCORERS
from attncli.studies.attention import tiles
from attncli.studies.attention.tiles import pool_with_rows
from tests.combinations import varied
from tests.normalizers.catalogue import fitting
from tests.scorers.catalogue import make, normal
from tests.scorers.peaks import peak_of

N = 2048
SHAPE = (N, N)
RULES = {  # each takes another way through the code
    "no mask": Rules(Valid(SHAPE)),
    "lengths": Rules(Valid(SHAPE, torch.tensor([N // 3]))),
    "causal": Rules(Valid(SHAPE, causal="top_left")),
    "empty rows": Rules(Valid(SHAPE, torch.arange(N)[None])),
    "softcap": Rules(Valid(SHAPE, causal="top_left"), cap=1.0),
    "bias": Rules(Valid(SHAPE), bias=Bias(SHAPE, normal(1, N, seed=3), alibi=True)),
    "everything": Rules(Valid(SHAPE, causal="top_left"), 1.0, "uniform", Bias(SHAPE, normal(N, N, seed=3), alibi=True)),
}


def inputs() -> tuple[Tensor, Tensor, Tensor]:
    return normal(N, 16), normal(N, 16, seed=1), normal(N, 16, seed=2)


@varied(
    mixes=4,
    scorer=sorted(SCORERS, key="vector_sum".__ne__),
    normalizer=sorted(NORMALIZERS, key="softmax".__ne__),
    rules=["everything", "no mask", "causal", "lengths"],
    with_rows=[False, True],
)
def test_within_the_workspace(
    scorer: str, normalizer: str, rules: str, with_rows: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiles, "share", lambda work, jobs, threads: work(iter(jobs)))  # the profiler sees one thread
    (scorer, changed), given = fitting(normalizer, scorer, RULES[rules]), inputs()
    pooled: Callable[..., object] = pool_with_rows if with_rows else pool_by_rules
    with torch.no_grad():
        peak = peak_of(lambda: pooled(make(scorer, 16), *given, changed))
    result_bytes = given[2].nbytes + (6 * 8 * N if with_rows else 0)  # the output, and six statistics of each row
    assert peak - result_bytes <= pooling.WORKSPACE_BYTES == N * N * 4


@varied(mixes=0, name=["dot", "vector_sum"], rules=["bias", "lengths", "softcap"])  # by torch's kernel, and by tiles
def test_with_gradients(name: str, rules: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No n x m tensor is kept for the backward pass, not even the mask."""
    monkeypatch.setattr(pooling, "WORKSPACE_BYTES", 2**20)
    scorer, (queries, keys, values) = make(name, 16), inputs()
    leaves = [each.requires_grad_() for each in (queries, keys, values)]

    def gradients() -> tuple[Tensor, ...]:
        output = pool_by_rules(scorer, queries, keys, values, RULES[rules])
        return torch.autograd.grad(output, leaves, torch.ones_like(output), materialize_grads=True)

    assert peak_of(gradients) < N * N  # bytes: less than a mask


LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "columns": lambda t: t.mT.contiguous().mT,
    "repeated": lambda t: t[:, :1].expand(-1, 16),
}


@varied(layout=list(LAYOUTS), changed=range(3), rules=["no mask", "lengths", "causal"])
def test_layouts_that_the_fused_kernel_does_not_take(layout: str, changed: int, rules: str) -> None:
    queries, keys, values = (LAYOUTS[layout](each) if at == changed else each for at, each in enumerate(inputs()))
    with torch.no_grad():
        peak = peak_of(lambda: pool_by_rules(make("dot", 16), queries, keys, values, RULES[rules]))
    assert peak < N * N  # bytes
