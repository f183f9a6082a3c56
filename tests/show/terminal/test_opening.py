"""The first lines of a run: its name, its question, its shapes and its valid keys."""

from typing import Any

import pytest
import torch
from rich.text import Text
from torch import Tensor

import attncli
from attncli.errors import InputError
from attncli.results import Result
from attncli.show.terminal.opening import opening
from tests.cli import good

LENGTHS = torch.tensor([[2], [6]])
CAUSAL = torch.ones(3, 3, dtype=torch.bool).tril()[None]


def lines(**fields: Any) -> list[str]:
    return [Text.from_markup(str(line)).plain for line in opening(Result("attention", "mine", [], **fields))]


def prefixes(lengths: Tensor, m: int) -> Tensor:
    """Return the mask (b, n, m) of valid lengths (b, n)."""
    return torch.arange(m) < lengths[..., None]


@pytest.mark.parametrize(
    ("valid", "words"),
    [
        (torch.ones(2, 4, 10, dtype=torch.bool), "no key masked"),
        (prefixes(torch.tensor([[1, 3, 2, 4], [4, 4, 0, 1]]), 10), "valid lengths 1, 3, 2, 4, 4, 4, 0, 1"),
        (prefixes(torch.arange(12).reshape(3, 4), 12), "valid lengths 0 to 11"),
        (prefixes(torch.tensor([[3]]), 10), "valid length 3"),
        (prefixes(LENGTHS[:, None].expand(2, 3, 4), 10), "valid lengths 2, 6"),  # of three heads each
        (torch.tensor([[[True, False, True, True]]]), "25 % of the pairs of a query and a key masked"),
        (prefixes(LENGTHS.expand(2, 4), 10).flip(-1), "first keys masked: 8, 4"),
        (CAUSAL & prefixes(torch.tensor([[3], [2]]), 3), "causal, valid lengths 3, 2"),
        (CAUSAL & torch.tensor([True, False, True]), "causal, 56 % of the pairs of a query and a key masked"),
        (torch.ones(2, 4, dtype=torch.bool).tril(2)[None], "causal"),  # bottom right: the last query sees all keys
        (torch.ones(2, 4, dtype=torch.bool).tril()[None], "causal from the top left"),
    ],
)
def test_names_the_valid_keys(valid: Tensor, words: str) -> None:
    inputs = dict.fromkeys(("queries", "keys", "values"), torch.zeros(1, 2, 3)) | {"valid": valid}
    assert lines(inputs=inputs, about="So?") == ["mine: So?", f"1 text, 2 queries, 2 keys, d = 3; {words}"]


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        ([(1, 6, 2, 4), (1, 6, 1, 4), (1, 6, 1, 4)], "1 text, 6 heads, 2 queries, 1 key, d = 4"),
        ([(3, 2, 20), (3, 9, 2), (3, 9, 4)], "3 texts, 2 queries, 9 keys, q = 20, k = 2, v = 4"),
        ([(2, 3, 4, 5, 6), (2, 3, 4, 5, 6), (2, 3, 4, 5, 1)], "2 texts, 12 heads, 5 queries, 5 keys, d = 6, v = 1"),
    ],
)
def test_names_the_sizes(shapes: list[tuple[int, ...]], words: str) -> None:
    inputs = dict(zip(("queries", "keys", "values"), map(torch.zeros, shapes), strict=True))
    assert lines(inputs=inputs) == ["mine", words]


@pytest.mark.usefixtures("here")
def test_a_run_begins_with_it_in_the_terminal_and_in_a_notebook() -> None:
    begin = "d2l: Do additive and scaled dot-product attention agree when all keys are equal?\n"
    shapes = "2 texts, 1 query, 10 keys, d = 2, v = 4; valid lengths 2, 6\n"
    assert good("run", "d2l", "--no-plots").startswith(begin + shapes)
    result = attncli.load("outputs/d2l/latest")
    assert result._repr_mimebundle_()["text/plain"].startswith(begin + shapes)
    assert result.about == "Do additive and scaled dot-product attention agree when all keys are equal?"
    captured = " ".join(good("run", "minilm", "--no-plots").split())
    assert "1 text, 12 heads, 8 queries, 8 keys, d = 32 in the first of 6 layers; no key masked" in captured

    config = {"data": {"queries": [[1.0]], "keys": [[1.0]]}, "scorers": ["dot"]}
    assert attncli.run({**config, "about": " Is it\n  so? "}).about == "Is it so?"
    with pytest.raises(InputError, match="about: "):
        attncli.run({**config, "about": "word " * 50})
