"""Scores against the slow oracles, and against numbers worked out by hand."""

from typing import Any

import pytest
import torch
from torch import Tensor

from attncli.scorers import SCORERS
from tests.reference import ORACLES, for_each_matrix
from tests.scorers.catalogue import VARIANTS, make, normal

every_variant = pytest.mark.parametrize(("name", "options"), VARIANTS)


def oracle_scores(name: str, options: dict[str, Any], scorer: Any, queries: Tensor, keys: Tensor) -> Tensor:
    return for_each_matrix(lambda q, k: ORACLES[name](scorer, q, k, **options), queries, keys)


def assert_scores(scores: Tensor, wanted: Tensor) -> None:
    """Assert scores equal within rtol 2e-5, or within a few roundings of the largest score if terms cancel."""
    torch.testing.assert_close(scores.double(), wanted, rtol=2e-5, atol=1e-6 * float(wanted.abs().max()))


LEADING = [((2, 3), (2, 3)), ((), ()), ((2, 1, 3), (2, 2, 3)), ((1,), (4,)), ((2, 1), (1, 3)), ((), (2,)), ((2,), ())]
SIZES = [(3, 4, 5), (1, 4, 5), (3, 1, 5), (2, 5, 1), (1, 1, 1), (4, 3, 33)]  # n m d


@every_variant
def test_every_shape(name: str, options: dict[str, Any]) -> None:
    """Leading axes are broadcast, and their elements do not mix; parameters have any values."""
    for (first, second), (n, m, d) in [
        *((axes, SIZES[0]) for axes in LEADING),
        *((LEADING[0], size) for size in SIZES),
    ]:
        scorer, queries, keys = make(name, d, **options), normal(*first, n, d), normal(*second, m, d, seed=1)
        for index, parameter in enumerate(scorer.parameters()):
            parameter.data.add_(normal(*parameter.shape, seed=index), alpha=d**-0.5)
        assert_scores(scorer(queries, keys), oracle_scores(name, options, scorer, queries, keys))


@every_variant
def test_every_dtype(name: str, options: dict[str, Any]) -> None:
    """Half precision is only storage."""
    for dtype in (torch.float16, torch.bfloat16, torch.float64):
        scorer = make(name, 64, **options).to(dtype)
        queries, keys = normal(2, 3, 64, dtype=dtype), normal(2, 4, 64, seed=1, dtype=dtype)
        scores, wanted = scorer(queries, keys), oracle_scores(name, options, scorer, queries, keys)
        if dtype == torch.float64:
            torch.testing.assert_close(scores, wanted, rtol=1e-13, atol=1e-13)
        else:
            assert_scores(scores, wanted)


PARAMETERS = {
    "additive": {"W_q.weight": (8, 3), "W_k.weight": (8, 5), "w_v.weight": (1, 8)},
    "general": {"W.weight": (3, 5)},
}


@pytest.mark.parametrize("name", [name for name, scorer in SCORERS.items() if scorer.sizes_may_differ])
def test_different_sizes(name: str) -> None:
    scorer, queries, keys = make(name, 3, 5), normal(2, 4, 3), normal(2, 6, 5, seed=1)
    assert_scores(scorer(queries, keys), oracle_scores(name, {}, scorer, queries, keys))
    assert {key: tuple(tensor.shape) for key, tensor in scorer.state_dict().items()} == PARAMETERS[name]


# q = (1, 2) and (0, -1), k = (3, 1) and (1/2, -2). Products 1*3+2*1 = 5, 1/2-4 = -7/2, -1 and 2; squared lengths 5, 1
# and 10, 17/4; squared distances 4+1 = 5, 1/4+16 = 65/4, 9+4 = 13, 1/4+1 = 5/4; sums 3, -1 and 4, -3/2.
HAND_WRITTEN = [
    ("dot", {}, [[5.0, -3.5], [-1.0, 2.0]]),
    ("scaled_dot", {}, [[3.5355339059, -2.4748737342], [-0.7071067812, 1.4142135624]]),  # over sqrt(2)
    # 5/sqrt(50), -3.5/sqrt(21.25), -1/sqrt(10), 2/sqrt(4.25)
    ("cosine", {}, [[0.7071067812, -0.7592566024], [-0.3162277660, 0.9701425001]]),
    ("gaussian", {}, [[-2.5, -8.125], [-6.5, -0.625]]),  # squared distances over -2
    ("vector_sum", {}, [[7.0, 1.5], [3.0, -2.5]]),
    # elu + 1 of q is (2, 3) and (1, 1/e), of k (4, 2) and (3/2, 1/e^2)
    ("kernel", {}, [[14.0, 3.4060058497], [4.7357588823, 1.5497870684]]),  # 8+6, 3+3/e^2, 4+2/e, 3/2+1/e^3
    # With W below, W k = (3+2, -1) = (5, -1) and (1/2-4, 2) = (-7/2, 2); with q: 5-2, -7/2+4, 1, -2
    ("general", {}, [[3.0, 0.5], [1.0, -2.0]]),
    # W_k k = (1, 3) and (-2, 1/2); hidden units (2, 5), (-1, 5/2), (1, 2), (-2, -1/2) before the tanh, where
    # tanh 1/2 = 0.46211716, tanh 1 = 0.76159416, tanh 2 = 0.96402758, tanh 5/2 = 0.98661430, tanh 5 = 0.99990920
    ("additive", {"num_hiddens": 2}, [[-1.03579083, -2.73482275], [-1.16646100, -0.03979327]]),
]
STATES = {
    "general": {"W.weight": [[1.0, 2.0], [0.0, -1.0]]},
    "additive": {
        "W_q.weight": [[1.0, 0.0], [0.0, 1.0]],
        "W_k.weight": [[0.0, 1.0], [1.0, 0.0]],
        "w_v.weight": [[1.0, -2.0]],
    },
}


@pytest.mark.parametrize(("name", "options", "wanted"), HAND_WRITTEN)
def test_hand_written(name: str, options: dict[str, Any], wanted: list[list[float]]) -> None:
    queries, keys = torch.tensor([[[1.0, 2.0], [0.0, -1.0]]]), torch.tensor([[[3.0, 1.0], [0.5, -2.0]]])
    scorer = make(name, 2, **options)
    scorer.load_state_dict({key: torch.tensor(rows) for key, rows in STATES.get(name, {}).items()})
    torch.testing.assert_close(scorer(queries, keys), torch.tensor([wanted]), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("length", [0.0, 1e-37, 1e-20, 1e-6, 1e6, 1e20, 1e37])
def test_cosine_at_every_length(length: float) -> None:
    queries, keys = normal(3, 5) * length, normal(4, 5, seed=1) / (length or 1)
    scores = make("cosine", 5)(queries, keys)
    assert_scores(scores, oracle_scores("cosine", {}, None, queries, keys))
    assert bool((scores == 0).all()) is (length == 0)
