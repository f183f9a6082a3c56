"""Valid lengths and masks: forms that are accepted, and the exact errors for others."""

import itertools
import re
from typing import Any

import numpy as np
import pytest
import torch

from attncli.attention import masked_softmax
from attncli.core.masks import ALL, Valid
from attncli.errors import InputError


@pytest.mark.parametrize(
    "lengths",
    [
        [1, 3],
        torch.tensor([1, 3]),
        [torch.tensor(1), torch.tensor(3)],
        np.array([1, 3], dtype=">i4"),
        [[1, 1], [3, 3]],
    ],
    ids=str,
)
def test_lengths_in_any_form(lengths: Any) -> None:
    third = 1 / 3
    wanted = torch.tensor([[[1.0, 0, 0, 0]] * 2, [[third, third, third, 0]] * 2])
    torch.testing.assert_close(masked_softmax(torch.zeros(2, 2, 4), lengths), wanted)
    torch.testing.assert_close(masked_softmax(torch.zeros(2, 4), lengths[1:]), wanted[1])  # without a batch


EXPECTED = "expected integers, (b,) or (b, n)"
SHAPES = "expected (2,), one per example, or (2, 3), one per query"
RANGE = "expected an integer in 0..5, the number of keys"
BOOLEANS = "expected booleans, True = may attend"
FITTING = "expected (3, 5) or (2, 4, 3, 5), an axis of size 1 is repeated"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"valid_lens": [1.0, 2.0]}, "valid_lens: got torch.float64 values; expected integers"),
        ({"valid_lens": torch.ones(3, 2, dtype=torch.int64)}, f"valid_lens: got shape (3, 2); {SHAPES}"),
        ({"valid_lens": [[0, 1, 2], [3, 9, 8]]}, f"valid_lens[1][1]: got 9; {RANGE}"),
        ({"valid_lens": np.array([1, 2**64 - 1], dtype=np.uint64)}, f"valid_lens[1]: got {2**64 - 1}; {RANGE}"),
        ({"valid_lens": [None, 2]}, f"valid_lens: got [null, 2]; {EXPECTED}"),
        ({"mask": torch.ones(3, 5, dtype=torch.uint8)}, f"mask: got torch.uint8 values; {BOOLEANS}"),
        ({"mask": torch.ones(5, 3, dtype=torch.bool)}, f"mask: got shape (5, 3); {FITTING}"),
        ({"mask": torch.ones(2, 2, 3, 5, dtype=torch.bool)}, f"mask: got shape (2, 2, 3, 5); {FITTING}"),
        ({"mask": [[True], [True, False]]}, f"mask: got [[true], [true, false]]; {BOOLEANS}"),
    ],
    ids=str,
)
def test_wrong_lengths_and_masks(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as error:
        masked_softmax(torch.zeros(2, 4, 3, 5), **given)
    assert str(error.value) == message


CAUSAL = [[True, False, False], [True, True, False]]


@pytest.mark.parametrize(
    "mask", [torch.tensor(CAUSAL), torch.tensor([[CAUSAL]]), CAUSAL, np.asfortranarray(CAUSAL)], ids=str
)
def test_masks_in_any_form(mask: Any) -> None:
    rank = max(np.ndim(mask), 3)
    weights = masked_softmax(torch.zeros(2, 1, 2, 3)[:, 0] if rank == 3 else torch.zeros(2, 2, 2, 3), mask=mask)
    assert torch.equal(weights, torch.tensor([[1.0, 0, 0], [0.5, 0.5, 0]]).expand(weights.shape))


VALIDS = {
    "nothing": Valid((4, 2, 5, 6)),
    "lengths": Valid((4, 2, 5, 6), torch.tensor([0, 6, 2, 3])),
    "of queries": Valid((4, 2, 5, 6), torch.arange(20).reshape(4, 5) % 7),
    "causal": Valid((4, 2, 5, 6), causal="top_left"),
    "from the end": Valid((4, 2, 6, 5), causal="bottom_right"),
    "a mask": Valid((4, 2, 5, 6), mask=torch.rand(4, 1, 5, 6) < 0.3),
    "a mask of keys": Valid.of((4, 2, 5, 6), mask=torch.rand(1, 1, 1, 6) < 0.5),
    "a mask of queries": Valid.of((4, 2, 5, 6), mask=torch.rand(4, 1, 5, 1) < 0.5),
    "all": Valid((4, 2, 5, 6), torch.tensor([0, 6, 2, 3]), "top_left", torch.rand(5, 6) < 0.5),
    "no batch": Valid((5, 6), torch.tensor([3]), "top_left"),
    "square": Valid((5, 5), causal="bottom_right"),
    "long lengths": Valid((2, 5, 6), torch.tensor([6, 6]), "top_left"),
    "window": Valid((2, 5, 6), window=2),
    "window and first keys": Valid((2, 3, 5, 6), window=2, first_keys=3),
    "causal window": Valid((2, 6, 6), causal="top_left", window=3, first_keys=1),
    "window from the end": Valid((2, 3, 8), causal="bottom_right", window=2, first_keys=2, first=5),
    "queries beyond the keys": Valid((2, 8, 3), window=2, first_keys=1),
    "window behind padding": Valid((6, 6), causal="top_left", mask=torch.arange(6)[None] > 1, window=2, first_keys=1),
    "window between padding": Valid(
        (2, 1, 5, 7), None, "bottom_right", torch.tensor([2, 0]).view(2, 1, 1, 1) <= torch.arange(7), None, 2, 2, 2
    ),
    "window and holes": Valid((5, 5), mask=torch.arange(5)[None] % 2 == 1, window=1, first_keys=2),
    "a query at padding": Valid(
        (3, 3), mask=torch.tensor([[1, 0, 0], [0, 1, 1], [0, 1, 1]]) == 1, window=1, first_keys=1
    ),
    "an unseen query": Valid((3, 3), mask=torch.tensor([[0, 1, 0], [0, 0, 1], [0, 0, 1]]) == 1, window=1, first_keys=1),
    "unseen queries alone": Valid(
        (3, 3), mask=torch.tensor([[0, 0, 0], [1, 0, 0], [1, 0, 0]]) == 1, window=1, first_keys=1
    ),
    "window and all": Valid((4, 2, 5, 6), torch.tensor([0, 6, 2, 3]), "top_left", torch.rand(5, 6) < 0.7, None, 2, 1),
}


def seen_keys(mask: torch.Tensor) -> list[bool]:
    """Return whether any query sees each key of a mask (n, m).

    A query whose own key no query sees is padding, unless the others see no key.
    """
    n, m = mask.shape
    seen = [any(mask[i, j] for i in range(n)) for j in range(m)]
    own = [any(mask[i, j] for i in range(n) if n != m or seen[i]) for j in range(m)]
    return own if any(own) else seen


@pytest.mark.parametrize("name", VALIDS)
def test_valid_against_loops(name: str) -> None:
    valid = VALIDS[name]
    *leading, n, m = valid.shape
    mask = torch.ones(n, m, dtype=torch.bool) if valid.mask is None else valid.mask
    mask = mask.expand(valid.shape).clone()
    for *place, i, j in itertools.product(*map(range, valid.shape)):
        lengths = valid.lengths if valid.lengths is None or not leading else valid.lengths[place[0]]
        length = m if lengths is None else int(lengths.expand(n)[i])
        last = {None: m, "top_left": i, "bottom_right": i + m - n}[valid.causal]
        mask[(*place, i, j)] &= j < length and j <= last
    for index in itertools.product(*map(range, leading)):
        assert valid.sees().expand(*leading, 1, m)[index][0].tolist() == seen_keys(mask[index])
        firsts = [j for j, is_seen in enumerate(seen_keys(mask[index])) if is_seen][: valid.first_keys]
        for i, j in itertools.product(range(n), range(m)):
            near = valid.window is None or abs(valid.first + i - j) < valid.window or j in firsts
            mask[(*index, i, j)] &= near
    assert torch.equal(valid.whole, mask)
    assert torch.equal(valid.empty_rows, ~mask.any(-1))
    assert valid.is_full == (name == "nothing")
    assert valid.is_causal == (name in ("causal", "square", "long lengths"))
    for elements, rows in itertools.product((slice(0, 1), slice(1, 3)), (slice(0, 2), slice(3, 5))):
        tile, cells = valid.tile(elements, rows), mask[(elements, ..., rows, ALL) if leading else (rows, ALL)]
        assert torch.equal(torch.ones_like(cells) if tile is None else tile.expand(cells.shape), cells)
        free, reach = valid.reach(elements, rows)
        assert bool(cells[..., :free].all())
        assert not cells[..., reach:].any()
        tile = valid.tile(elements, rows, slice(1, 4))
        assert tile is None or torch.equal(tile.expand(cells[..., 1:4].shape), cells[..., 1:4])


def test_queries_at_known_padding_see_no_first_key() -> None:
    """A query at padding may see everything, as some models let it."""
    mask = torch.ones(2, 1, 3, 3, dtype=torch.bool).tril()
    mask[0, 0, 1:, 0] = False
    padding = torch.tensor([[True, False, False], [False, False, False]])
    valid = Valid((2, 2, 3, 3), mask=mask)
    assert valid.sees()[:, 0, 0, 0].tolist() == [True, True]
    assert valid.sees(padding)[:, 0, 0].tolist() == [[False, True, True], [True, True, True]]


@pytest.mark.parametrize("shape", [(), (4,)])
def test_scores_without_queries_are_refused(shape: tuple[int, ...]) -> None:
    message = f"got scores of shape {list(shape)}; expected (..., n, m)"
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        masked_softmax(torch.zeros(shape), [2])
