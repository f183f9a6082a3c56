"""Promises of every normaliser of the catalogue; a new normaliser is tested as soon as it is listed."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from attncli.normalizers import NORMALIZERS, Normalizer
from tests.normalizers.catalogue import MASKS, SHAPE, VARIANTS, B, H, M, N, oracle, whole, within_reach
from tests.scorers.catalogue import normal, same_bits

every_variant = pytest.mark.parametrize(("name", "options"), VARIANTS)
JUNK = torch.tensor([math.nan, math.inf, -math.inf, 3e38, -3e38, 1e-40, 0.0])


@every_variant
def test_weights_against_the_oracle(name: str, options: dict[str, Any]) -> None:
    """Weights agree for every mask, and are exactly 0 at invalid keys and in rows without a valid key."""
    normalizer = NORMALIZERS[name](**options)
    for size in (0.1, 1.0, 10.0):
        scores = within_reach(name, size * normal(*SHAPE))
        for valid in MASKS.values():
            weights, single = normalizer(scores.double(), valid), normalizer(scores, valid)
            wanted = oracle(name, options, scores, valid)
            assert (weights.dtype, single.dtype) == (torch.float64, torch.float32)
            torch.testing.assert_close(weights, wanted, rtol=1e-9, atol=1e-11)
            torch.testing.assert_close(single.double(), wanted, rtol=1e-5, atol=5e-7)
            for each in (weights, single):
                assert not each[~whole(valid)].any()
                assert bool((each >= 0).all())


@pytest.mark.parametrize("name", [name for name, each in NORMALIZERS.items() if each.learnable])
def test_options_of_each_head(name: str) -> None:
    """A learnable option may differ from head to head; its gradient is that of differences."""
    (option, (low, high)), scores = next(iter(NORMALIZERS[name].learnable.items())), normal(*SHAPE).double()
    start = low if math.isfinite(low) else -1.0
    values = start + (min(high, start + 1.0) - start) * torch.tensor([0.3, 0.5, 0.9], dtype=torch.float64)
    normalizer = NORMALIZERS[name]()
    for valid in MASKS.values():
        setattr(normalizer, option, values[:, None, None].requires_grad_())
        weights = normalizer(scores, valid)
        for head in range(H):
            seen = None if valid is None else valid.expand(SHAPE)[:, head]
            alone = NORMALIZERS[name](**{option: float(values[head])})(scores[:, head], seen)
            torch.testing.assert_close(weights[:, head], alone, rtol=1e-9, atol=1e-12)

    def of(values: Tensor) -> Tensor:
        setattr(normalizer, option, values[:, None, None])
        weights: Tensor = normalizer(scores, MASKS["lengths"])
        return weights

    assert torch.autograd.gradcheck(of, values.detach().requires_grad_(), eps=1e-7)


@every_variant
def test_every_shape_and_layout(name: str, options: dict[str, Any]) -> None:
    normalizer = NORMALIZERS[name](**options)
    for shape in [(N, M), (1, M), (N, 1), (1, 1), (B, N, M), (B, 1, N, M)]:
        scores = within_reach(name, normal(*shape))
        torch.testing.assert_close(normalizer(scores).double(), oracle(name, options, scores), rtol=1e-5, atol=1e-6)
    scores = within_reach(name, normal(M, N, H, B)).permute(3, 2, 1, 0)
    for valid in MASKS.values():
        turned = None if valid is None else whole(valid).permute(3, 2, 1, 0).contiguous().permute(3, 2, 1, 0)
        torch.testing.assert_close(normalizer(scores, turned), normalizer(scores.contiguous(), valid))
    repeated = within_reach(name, normal(B, 1, 1, M)).expand(SHAPE)
    torch.testing.assert_close(normalizer(repeated), normalizer(repeated.contiguous()))


@every_variant
def test_what_stands_at_invalid_keys_changes_no_bit_and_nothing_is_written(name: str, options: dict[str, Any]) -> None:
    normalizer = NORMALIZERS[name](**options)
    for valid in MASKS.values():
        scores = within_reach(name, normal(*SHAPE))
        clean, own = normalizer(scores, valid), scores.clone()
        junk = JUNK[torch.arange(scores.numel()) % len(JUNK)].view(SHAPE)
        dirty = scores.where(whole(valid), junk).requires_grad_()
        copies = dirty.detach().clone(), None if valid is None else valid.clone()
        weights = normalizer(dirty, valid)
        assert same_bits(weights.detach(), clean)
        with torch.autograd.set_detect_anomaly(True, check_nan=True):
            (gradient,) = torch.autograd.grad(normalizer(dirty, valid).square().sum(), dirty)
        assert bool(gradient.isfinite().all())
        assert not gradient[~whole(valid)].any()
        assert torch.equal(scores, own)
        assert same_bits(dirty.detach(), copies[0])
        assert valid is None or torch.equal(valid, copies[1])  # type: ignore[arg-type]


@every_variant
def test_scores_of_every_size(name: str, options: dict[str, Any]) -> None:
    """Scores may be as large as the largest float32, so differences overflow."""
    normalizer = NORMALIZERS[name](**options)
    rows = torch.tensor([[1.0, -1.0, 0.5, 0.9999, -0.3, 0.0], [-1.0, -0.5, -0.7, -0.6, -1.0, -0.9]])
    for size in (0.0, 1e-30, 1e-10, 1e4, 1e30, 3e38):
        single = within_reach(name, size * rows).requires_grad_()
        weights = normalizer(single)
        wanted = oracle(name, options, single.detach())
        torch.testing.assert_close(weights.detach().double(), wanted, rtol=1e-5, atol=5e-7, msg=f"scores of {size}")
        (gradient,) = torch.autograd.grad((weights * torch.arange(6.0)).sum(), single)
        assert bool(gradient.isfinite().all()), size


@every_variant
def test_scores_that_are_not_finite_at_valid_keys(name: str, options: dict[str, Any]) -> None:
    """NaN shows in the weights of its query only; -inf has the weight 0, and so have masked keys beside NaN."""
    normalizer, scores = NORMALIZERS[name](**options), within_reach(name, normal(3, 4))
    clean = normalizer(scores)
    has_lowest = normalizer.lowest_score > -math.inf
    scores[0, 1], scores[2, 3] = math.nan, 0.0 if has_lowest else -math.inf
    for valid in (None, torch.ones(3, 4, dtype=torch.bool)):
        weights = normalizer(scores, valid)
        assert bool(weights[0].isnan().any()) is (name != "uniform")  # uniform ignores scores
        assert same_bits(weights[1], clean[1])
        assert weights[2, 3] == 0
        assert bool(weights[2].isfinite().all())
    for broken in (math.nan, math.inf):
        scores[0, 1], valid = broken, torch.tensor([[True, True, False, True]])
        assert not normalizer(scores, valid)[:, 2].any()


@every_variant
def test_gradients_and_the_norm_of_the_jacobian(name: str, options: dict[str, Any]) -> None:
    """The norm, if it has a closed form, equals the norm of the whole Jacobian of every query from autograd."""
    normalizer = NORMALIZERS[name](**options)
    for valid in (None, MASKS["whole"], MASKS["lengths"]):
        scores = within_reach(name, normal(*SHAPE, seed=5, dtype=torch.float64)).requires_grad_()
        assert torch.autograd.gradcheck(lambda s, v=valid: normalizer(s, v), scores, fast_mode=True)
    if type(normalizer).jacobian_norm is Normalizer.jacobian_norm:
        return
    for size in (0.1, 1.0, 30.0):
        scores = size * normal(*SHAPE, seed=6, dtype=torch.float64).requires_grad_()
        for valid in (None, MASKS["whole"], MASKS["lengths"]):
            weights = normalizer(scores, valid)
            rows = [torch.autograd.grad(weight.sum(), scores, retain_graph=True)[0] for weight in weights.unbind(-1)]
            wanted = torch.stack(rows).square().sum((0, -1)).sqrt()  # no query's weights depend on another's scores
            torch.testing.assert_close(normalizer.jacobian_norm(weights, valid), wanted, rtol=1e-6, atol=1e-12)
