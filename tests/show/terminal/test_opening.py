"""The first lines of a run: its name, its question, its shapes and its valid keys."""

from typing import Any

import pytest
import torch
from rich.text import Text
from torch import Tensor

import attncli
from attncli.errors import InputError
from attncli.results import Result
from attncli.show.terminal.tables import opening
from tests.cli import good

LENGTHS = torch.tensor([[2], [6]])
CAUSAL = torch.ones(3, 3, dtype=torch.bool).tril()[None]


def lines(valid: Tensor, n: int, m: int, **fields: Any) -> list[str]:
    shapes = {"queries": torch.zeros(2, n, 3), "keys": torch.zeros(2, m, 3), "values": torch.zeros(2, m, 4)}
    result = Result("attention", "mine", [], inputs={**shapes, "valid": valid}, **fields)
    return [Text.from_markup(str(line)).plain for line in opening(result)]


def prefixes(lengths: Tensor, m: int) -> Tensor:
    """Return the mask (b, n, m) of valid lengths (b, n)."""
    return torch.arange(m) < lengths[..., None]


@pytest.mark.parametrize(
    ("valid", "words"),
    [
        (torch.ones(2, 4, 10, dtype=torch.bool), "no key masked"),
        (prefixes(LENGTHS.expand(2, 4), 10), "valid lengths 2, 6"),
        (prefixes(torch.tensor([[1, 3, 2, 4], [4, 4, 0, 1]]), 10), "valid lengths 1, 3, 2, 4, 4, 4, 0, 1"),
        (prefixes(torch.arange(12).reshape(3, 4), 12), "valid lengths 0 to 11"),
        (prefixes(torch.tensor([[3]]), 10), "valid length 3"),
        (prefixes(LENGTHS[:, None].expand(2, 3, 4), 10), "valid lengths 2, 6"),  # of three heads each
        (torch.tensor([[[True, False, True, True]]]), "25 % of the pairs of a query and a key masked"),
        (prefixes(LENGTHS.expand(2, 4), 10).flip(-1), "first keys masked: 8, 4"),
        (CAUSAL & prefixes(torch.tensor([[3], [2]]), 3), "causal, valid lengths 3, 2"),
        (torch.zeros(2, 4, 10, dtype=torch.bool), "valid lengths 0, 0"),
        (CAUSAL & torch.tensor([True, False, True]), "causal, 56 % of the pairs of a query and a key masked"),
        (CAUSAL, "causal"),
        (torch.ones(2, 4, dtype=torch.bool).tril(2)[None], "causal"),  # bottom right: the last query sees all keys
        (torch.ones(2, 4, dtype=torch.bool).tril()[None], "causal from the top left"),
    ],
)
def test_names_the_valid_keys(valid: Tensor, words: str) -> None:
    n, m = valid.shape[-2:]
    queries, keys = f"{n} {'query' if n == 1 else 'queries'}", f"{m} keys"
    sizes = f"2 texts, {queries}, {keys}, d = 3, v = 4"
    assert lines(valid, n, m, about="Is it so?") == ["mine: Is it so?", f"{sizes}; {words}"]


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        ([(2, 4, 12, 8), (2, 4, 12, 8), (2, 4, 12, 8)], "2 texts, 4 heads, 12 queries, 12 keys, d = 8"),
        ([(1, 6, 2, 4), (1, 6, 1, 4), (1, 6, 1, 4)], "1 text, 6 heads, 2 queries, 1 key, d = 4"),
        ([(1, 1, 1, 5), (1, 1, 3, 5), (1, 1, 3, 2)], "1 text, 1 head, 1 query, 3 keys, d = 5, v = 2"),
        ([(3, 2, 20), (3, 9, 2), (3, 9, 4)], "3 texts, 2 queries, 9 keys, q = 20, k = 2, v = 4"),
        ([(2, 3, 4, 5, 6), (2, 3, 4, 5, 6), (2, 3, 4, 5, 6)], "2 texts, 12 heads, 5 queries, 5 keys, d = 6"),
    ],
)
def test_names_the_sizes(shapes: list[tuple[int, ...]], words: str) -> None:
    inputs = dict(zip(("queries", "keys", "values"), map(torch.zeros, shapes), strict=True))
    assert [str(line) for line in opening(Result("attention", "mine", [], inputs=inputs))][1] == words


def test_has_one_line_without_question_and_tensors() -> None:
    assert [str(line) for line in opening(Result("variance", "mine", []))] == ["mine"]


@pytest.mark.usefixtures("here")
def test_a_run_begins_with_it_in_the_terminal_and_in_a_notebook() -> None:
    begin = "d2l: Do additive and scaled dot-product attention agree when all keys are equal?\n"
    shapes = "2 texts, 1 query, 10 keys, d = 2, v = 4; valid lengths 2, 6\n"
    assert good("run", "d2l", "--no-plots").startswith(begin + shapes)
    result = attncli.load("outputs/d2l/latest")
    assert result._repr_mimebundle_()["text/plain"].startswith(begin + shapes)
    assert result.about == "Do additive and scaled dot-product attention agree when all keys are equal?"
    captured = good("run", "minilm", "--no-plots")
    assert "1 text, 12 heads, 8 queries, 8 keys, d = 32 in the first of 6 layers; no key masked" in " ".join(
        captured.split()
    )


def test_is_one_sentence_on_one_line(here: Any) -> None:
    config = {"data": {"queries": [[1.0]], "keys": [[1.0]]}, "scorers": ["dot"], "about": " Is it\n  so? "}
    assert attncli.run(config).about == "Is it so?"
    for wrong in ["", "  ", "word " * 50, 3]:
        with pytest.raises(InputError, match="about: "):
            attncli.run({**config, "about": wrong})
