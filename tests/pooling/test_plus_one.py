"""softmax_plus_one as a call of the fused kernel, against its formula on the whole matrix."""

from typing import Any

import torch
from torch.testing import assert_close

from attncli.attention import Bias, Rules
from attncli.masks import Valid
from attncli.normalizers import NORMALIZERS
from attncli.pooling import pool_by_rules
from attncli.scorers import SCORERS
from tests.combinations import varied

SHAPE = (2, 3, 7, 9)
MASK = torch.rand(2, 1, 7, 9, generator=torch.Generator().manual_seed(1)) > 0.4
VALID: dict[str, dict[str, Any]] = {
    "all keys": {},
    "causal from the top left": {"causal": "top_left"},
    "causal from the bottom right": {"causal": "bottom_right"},
    "lengths": {"lengths": torch.tensor([4, 9])},
    "an element without keys": {"lengths": torch.tensor([0, 9])},
    "a mask": {"mask": MASK},
    "a window": {"window": 2, "causal": "top_left"},
}


@varied(name=[*VALID], scorer=["scaled_dot", "cosine", "additive"], has_bias=[False, True])
def test_outputs_and_gradients_are_those_of_the_formula(name: str, scorer: str, has_bias: bool) -> None:
    torch.manual_seed(0)
    queries, keys, values = torch.randn(2, 3, 7, 8), torch.randn(2, 3, 9, 8), torch.randn(2, 3, 9, 8)
    valid = Valid(SHAPE, **VALID[name])
    bias = torch.randn(1, 3, 7, 9) if has_bias else None
    rules = Rules(valid, bias=None if bias is None else Bias(SHAPE, bias), normalizer=NORMALIZERS["softmax_plus_one"]())
    made = SCORERS[scorer](8, 8)
    inputs = [each.requires_grad_() for each in (queries, keys, values)]
    powers = (made(queries, keys) + (0.0 if bias is None else bias)).exp() * valid.whole
    expected = powers / (1 + powers.sum(-1, keepdim=True)) @ values
    output = pool_by_rules(made, queries, keys, values, rules)
    assert_close(output, expected)
    found = torch.autograd.grad(output.tanh().sum(), inputs)
    assert_close(found, torch.autograd.grad(expected.tanh().sum(), inputs), rtol=1e-4, atol=1e-5)
    with torch.no_grad():
        assert_close(pool_by_rules(made, queries, keys, values, rules), expected)
