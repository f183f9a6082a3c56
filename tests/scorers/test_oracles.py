"""Scores against the slow oracles, and against numbers worked out by hand."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from attncli.scorers import SCORERS, additive
from tests.reference import ORACLES, for_each_matrix
from tests.scorers.catalogue import VARIANTS, make, normal

every_variant = pytest.mark.parametrize(("name", "options"), VARIANTS)


def oracle_scores(name: str, options: dict[str, Any], scorer: Any, queries: Tensor, keys: Tensor) -> Tensor:
    return for_each_matrix(lambda q, k: ORACLES[name](scorer, q, k, **options), queries, keys)


def assert_scores(scores: Tensor, wanted: Tensor) -> None:
    """Equal within rtol 2e-5; where terms cancel, within a few roundings of the largest score."""
    torch.testing.assert_close(scores.double(), wanted, rtol=2e-5, atol=1e-6 * float(wanted.abs().max()))


@every_variant
def test_float32(name: str, options: dict[str, Any]) -> None:
    for n, m, d, leading in [(3, 4, 5, (2,)), (3, 4, 5, (2, 3)), (1, 1, 1, (2,)), (2, 5, 1, (2,)), (4, 3, 33, (2, 3))]:
        scorer, queries, keys = make(name, d, **options), normal(*leading, n, d), normal(*leading, m, d, seed=1)
        assert_scores(scorer(queries, keys), oracle_scores(name, options, scorer, queries, keys))


@every_variant
def test_float64(name: str, options: dict[str, Any]) -> None:
    scorer = make(name, 5, **options)
    queries, keys = normal(2, 3, 5, dtype=torch.float64), normal(2, 4, 5, seed=1, dtype=torch.float64)
    wanted = oracle_scores(name, options, scorer, queries, keys)
    torch.testing.assert_close(scorer(queries, keys), wanted, rtol=1e-13, atol=1e-14)


@every_variant
def test_half_precision_is_only_storage(name: str, options: dict[str, Any]) -> None:
    for dtype in (torch.float16, torch.bfloat16):
        scorer = make(name, 64, **options).to(dtype)
        queries, keys = normal(2, 3, 64, dtype=dtype), normal(2, 4, 64, seed=1, dtype=dtype)
        assert_scores(scorer(queries, keys), oracle_scores(name, options, scorer, queries, keys))


@pytest.mark.parametrize("name", ["additive", "general"])
def test_different_sizes(name: str) -> None:
    scorer, queries, keys = make(name, 3, 5), normal(2, 4, 3), normal(2, 6, 5, seed=1)
    assert_scores(scorer(queries, keys), oracle_scores(name, {}, scorer, queries, keys))


@pytest.mark.parametrize("name", SCORERS)
def test_leading_axes_of_size_one_are_repeated(name: str) -> None:
    for queries, keys in [((2, 1), (1, 3)), ((), (2,)), ((1,), (3,))]:
        scorer, q, k = make(name, 5), normal(*queries, 2, 5), normal(*keys, 4, 5, seed=1)
        assert_scores(scorer(q, k), oracle_scores(name, {}, scorer, q, k))


# q = (1, 2) and (0, -1), k = (3, 1) and (1/2, -2). Products 1*3+2*1 = 5, 1/2-4 = -7/2, -1 and 2; squared lengths 5, 1
# and 10, 17/4; squared distances 4+1 = 5, 1/4+16 = 65/4, 9+4 = 13, 1/4+1 = 5/4; sums 3, -1 and 4, -3/2.
HAND_WRITTEN = [
    ("dot", {}, [[5.0, -3.5], [-1.0, 2.0]]),
    ("scaled_dot", {}, [[3.5355339059, -2.4748737342], [-0.7071067812, 1.4142135624]]),  # over sqrt(2)
    ("scaled_dot", {"scale": "1/d"}, [[2.5, -1.75], [-0.5, 1.0]]),
    ("scaled_dot", {"scale": 10.0}, [[50.0, -35.0], [-10.0, 20.0]]),
    # 5/sqrt(50), -3.5/sqrt(21.25), -1/sqrt(10), 2/sqrt(4.25)
    ("cosine", {}, [[0.7071067812, -0.7592566024], [-0.3162277660, 0.9701425001]]),
    ("cosine", {"scale": 2.0}, [[1.4142135624, -1.5185132047], [-0.6324555320, 1.9402850003]]),
    ("gaussian", {}, [[-2.5, -8.125], [-6.5, -0.625]]),  # squared distances over -2
    ("gaussian", {"sigma": 2.0}, [[-0.625, -2.03125], [-1.625, -0.15625]]),  # and over -8
    ("vector_sum", {}, [[7.0, 1.5], [3.0, -2.5]]),
]


@pytest.mark.parametrize(("name", "options", "wanted"), HAND_WRITTEN)
def test_hand_written(name: str, options: dict[str, Any], wanted: list[list[float]]) -> None:
    queries, keys = torch.tensor([[[1.0, 2.0], [0.0, -1.0]]]), torch.tensor([[[3.0, 1.0], [0.5, -2.0]]])
    torch.testing.assert_close(make(name, 2, **options)(queries, keys), torch.tensor([wanted]), rtol=1e-6, atol=1e-7)


def test_hand_written_general() -> None:
    queries, keys = torch.tensor([[[1.0, 2.0], [0.0, -1.0]]]), torch.tensor([[[3.0, 1.0], [0.5, -2.0]]])
    scorer = make("general", 2)
    scorer.load_state_dict({"W.weight": torch.tensor([[1.0, 2.0], [0.0, -1.0]])})
    # W k = (3+2, -1) = (5, -1) and (1/2-4, 2) = (-7/2, 2); with q: 5-2, -7/2+4, 1, -2
    assert scorer(queries, keys).tolist() == [[[3.0, 0.5], [1.0, -2.0]]]


def test_hand_written_additive() -> None:
    queries, keys = torch.tensor([[[1.0, 2.0], [0.0, -1.0]]]), torch.tensor([[[3.0, 1.0], [0.5, -2.0]]])
    scorer = make("additive", 2, num_hiddens=2)
    swap, one = torch.tensor([[0.0, 1.0], [1.0, 0.0]]), torch.eye(2)
    scorer.load_state_dict({"W_q.weight": one, "W_k.weight": swap, "w_v.weight": torch.tensor([[1.0, -2.0]])})
    # W_k k = (1, 3) and (-2, 1/2); hidden units (2, 5), (-1, 5/2), (1, 2), (-2, -1/2) before the tanh, where
    # tanh 1/2 = 0.46211716, tanh 1 = 0.76159416, tanh 2 = 0.96402758, tanh 5/2 = 0.98661430, tanh 5 = 0.99990920
    wanted = torch.tensor([[[-1.03579083, -2.73482275], [-1.16646100, -0.03979327]]])
    torch.testing.assert_close(scorer(queries, keys), wanted, rtol=1e-6, atol=1e-7)


def test_additive_is_the_textbook_form() -> None:
    scorer, queries, keys = make("additive", 20, 2), normal(2, 3, 20), normal(2, 10, 2, seed=1)
    hidden = torch.tanh(scorer.W_q(queries)[:, :, None] + scorer.W_k(keys)[:, None])  # type: ignore[operator]  # b n m h
    torch.testing.assert_close(scorer(queries, keys), scorer.w_v(hidden).squeeze(-1))  # type: ignore[operator]


# Bytes for 7 queries, 9 keys and 8 hidden units: one pair after another, some of them, and all of them at once.
@pytest.mark.parametrize("workspace", [1, 2**10, 2**12, 2**14, 2**24])
def test_additive_in_tiles(workspace: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(additive.Additive, "workspace_bytes", workspace)
    scorer, queries, keys = make("additive", 5), normal(2, 3, 7, 5), normal(2, 3, 9, 5, seed=1)
    assert_scores(scorer(queries, keys), oracle_scores("additive", {}, scorer, queries, keys))


@pytest.mark.parametrize("length", [0.0, 1e-37, 1e-20, 1e-6, 1e6, 1e20, 1e37])
def test_cosine_at_every_length(length: float) -> None:
    queries, keys = normal(3, 5) * length, normal(4, 5, seed=1) / (length or 1)
    scores = make("cosine", 5)(queries, keys)
    assert_scores(scores, oracle_scores("cosine", {}, None, queries, keys))
    assert bool((scores == 0).all()) is (length == 0)


def test_gaussian_keeps_its_digits_far_from_the_origin() -> None:
    queries, keys = normal(6, 3) + 1e4, normal(7, 3, seed=1) + 1e4
    wanted = ORACLES["gaussian"](None, queries, keys)
    torch.testing.assert_close(make("gaussian", 3)(queries, keys).double(), wanted, rtol=2e-6, atol=0)
    squares = (queries**2).sum(-1)[:, None] + (keys**2).sum(-1) - 2 * queries @ keys.mT
    assert (squares / -2 - wanted).abs().max() > 1, "the expanded square would fail here"


@pytest.mark.parametrize("sigma", [1e-9, 1e9])
def test_gaussian_at_the_ends_of_its_widths(sigma: float) -> None:
    queries, keys = normal(3, 2) * 1e-3, normal(4, 2, seed=1) * 1e-3
    wanted = ORACLES["gaussian"](None, queries, keys, sigma=sigma)
    torch.testing.assert_close(make("gaussian", 2, sigma=sigma)(queries, keys).double(), wanted, rtol=2e-6, atol=0)


def test_dot_variance_is_d_and_the_scale_undoes_it() -> None:
    queries, keys = normal(200, 64), normal(200, 64, seed=1)
    assert make("dot", 64)(queries, keys).var().item() == pytest.approx(64, rel=0.1)
    assert make("scaled_dot", 64)(queries, keys).var().item() == pytest.approx(1, rel=0.1)
    assert math.sqrt(64) * make("scaled_dot", 64)(queries, keys)[0, 0].item() == pytest.approx(
        make("dot", 64)(queries, keys)[0, 0].item(), rel=1e-5
    )
