"""A wrong reading of a call is never taken for the right one, however few queries it is wrong for."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

import attncli
from attncli.errors import InputError
from attncli.models.call import SAMPLED, AttentionCall, best_candidate

N = 300


def inputs() -> list[Tensor]:
    torch.manual_seed(0)
    return [torch.randn(2, 4, N, 8) for _ in range(3)]


@pytest.mark.parametrize("row", [0, 1, 150, 299])
def test_every_query_of_attention_in_steps_is_verified(row: int) -> None:
    q, k, v = inputs()

    def attention() -> Tensor:
        scores = q @ k.mT / 8
        scores[1, 2, row].square_()  # in a view, which is not followed
        weights: Tensor = scores.softmax(-1)
        return weights @ v

    with pytest.raises(InputError, match="re-scored, its output differs"), attncli.Swap("uniform"):
        attention()


@pytest.mark.parametrize("row", [0, 150, 299])
@pytest.mark.parametrize("is_boolean", [True, False])
def test_every_query_of_a_kernel_with_a_mask_is_verified(row: int, is_boolean: bool) -> None:
    q, k, v = inputs()
    valid = torch.ones(N, N, dtype=torch.bool)
    valid[row, 5:] = False
    mask = valid if is_boolean else torch.zeros(N, N).masked_fill(~valid, -1e9)
    call = attncli.capture(lambda: scaled_dot_product_attention(q, k, v, mask)).records[0]
    assert call.valid is not None
    wrong = call.valid.clone()
    wrong[..., row, 5] = True
    assert checked(replace(call, valid=wrong)).problem is not None
    assert checked(call).problem is None


def checked(call: AttentionCall) -> AttentionCall:
    return best_candidate([call], is_kernels=True)


WRONG: dict[str, Any] = {
    "scale": lambda call: replace(call, scale=call.scale * 1.01),
    "no causal mask": lambda call: replace(call, is_causal=False, valid=None),
    "another causal mask": lambda call: replace(
        call, is_causal=False, valid=torch.ones(N, N, dtype=torch.bool).tril(1)[None, None]
    ),
    "heads": lambda call: replace(call, keys=call.keys.flip(1)),
    "batch": lambda call: replace(call, queries=call.queries.flip(0)),
    "values": lambda call: replace(call, values=call.values.roll(1, -2)),
    "softcap": lambda call: replace(call, softcap=3.0),
    "one head": lambda call: replace(call, keys=torch.cat([call.keys[:, :3], call.keys[:, :1]], 1)),
}


@pytest.mark.parametrize("name", WRONG)
def test_no_wrong_reading_of_a_kernel_passes_its_sample(name: str) -> None:
    q, k, v = inputs()
    call = attncli.capture(lambda: scaled_dot_product_attention(q, k, v, is_causal=True)).records[0]
    assert call.is_causal
    assert call.sample().queries.shape == (2, 4, SAMPLED, 8)
    assert checked(call).problem is None
    assert checked(WRONG[name](call)).problem is not None


def test_verification_holds_no_matrix_of_all_scores() -> None:
    """For 6,000 queries and keys it would have 144 MB, and the verification held several."""
    import resource

    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 1, 6000, 8) for _ in range(3))
    with torch.no_grad(), attncli.Swap("model") as swap:
        (q[..., :64, :] @ k[..., :64, :].mT).softmax(-1) @ v[..., :64, :]
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        scaled_dot_product_attention(q, k, v, is_causal=True)
        scaled_dot_product_attention(q, k, v)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # KiB
    assert sum(swap.swapped.values()) == 3


def test_torchs_kernel_does_not_verify_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    q, k, v = torch.randn(3, 2, 4, 5, 8)
    (call,) = attncli.capture(lambda: scaled_dot_product_attention(q, k, v)).records
    monkeypatch.setattr("attncli.pooling.scaled_dot_product_attention", lambda *_, **__: pytest.fail("it is used"))
    assert call.difference(call.rescored()) < 1e-5
