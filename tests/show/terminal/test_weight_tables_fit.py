"""Tables fit the terminal with any tokens; long tables are shortened, and hidden cells are not read."""

import re
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from torch import Tensor

from attncli.attention import valid_mask
from attncli.results import Result, Tokens
from tests.margins import last_digit
from tests.show.samples import check_grid, grids, random_weights, result_of, run_of, shown

WORDS = ["a", "the", "注意", "한", "🙂", "👩\u200d👧"]
PIECES = [*WORDS, "[bold]", "[/]", "\n\t", "\x1b[31m", "\u202e", " ", "e\u0301", "\u3000"]
TOKENS = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)


def test_tokens_name_rows_and_columns_of_their_batch_element() -> None:
    tokens = Tokens([["ich", "bin"], ["du", "bist"]], [["I", "am", "x"], ["you", "are", "y"]])
    text = shown(result_of(run_of(random_weights(2, 2, 3, sharpness=0.5)), tokens=tokens))
    assert re.search(r"batch +q \\ k +I +am +x *\n─+\n0 +ich +0\.\S+ .*\n0 +bin +0\.", text)
    assert re.search(r"batch +q \\ k +you +are +y *\n─+\n1 +du +0\.\S+ .*\n1 +bist +0\.", text)


def test_tokens_are_text_and_never_markup_or_control_codes() -> None:
    names = ["[bold]", "[/]", "a\nb", "\x1b[2J", "", " ", ":smile:", "\ud800"]
    text = shown(result_of(run_of(random_weights(1, 1, 8)), tokens=Tokens(keys=[names])), 200)
    header = next(line for line in text.splitlines() if "q \\ k" in line)
    assert header.split()[3:] == ["[bold]", "[/]", r"a\nb", r"\x1b[2J", "''", "'", "'", ":smile:", r"\ud800"]


@st.composite
def results(draw: st.DrawFn) -> Result:
    leading = draw(st.lists(st.integers(1, 2), min_size=1, max_size=2))
    n, m = draw(st.integers(1, 20)), draw(st.integers(1, 30))
    names = draw(st.booleans())
    lists = st.lists(st.lists(TOKENS, min_size=max(n, m), max_size=max(n, m)), min_size=leading[0], max_size=leading[0])
    tokens = Tokens(draw(lists), draw(lists)) if names else Tokens()
    valid = valid_mask((*leading, n, m), draw(st.lists(st.integers(0, m), min_size=leading[0], max_size=leading[0])))
    weights = random_weights(*leading, n, m, valid=valid, sharpness=draw(st.sampled_from([0.0, 1.0, 30.0])))
    label = draw(st.sampled_from(["dot", "a label that is rather long [bold]", "注意力 " * 12]))
    return result_of(run_of(weights, label), run_of(weights, "other"), valid=valid, tokens=tokens)


@given(results(), st.integers(20, 200), st.booleans())
def test_every_line_fits_and_nothing_is_cut(result: Result, width: int, full: bool) -> None:
    text = shown(result, width, full)
    assert max(cell_len(line) for line in text.splitlines()) <= width
    assert "…" not in text
    assert "\x1b" not in text
    assert text.count("1.250") == text.count("-0.01230") == 2
    if result.tokens_in().keys is None and width >= 40:
        check_grids(text, result, full)


def check_grids(text: str, result: Result, full: bool) -> None:
    weights, valid = result.tensors[f"{result.labels[-1]}/weights"], result.inputs["valid"]
    tables = {title: grid for title, grid in grids(text).items() if title.startswith(result.labels[-1])}
    assert tables
    for title, grid in tables.items():
        found = dict(re.findall(r"(batch|head) (\d+)", title))
        place = tuple(int(found.get(axis, 0)) for axis in ("batch", "head")[: weights.ndim - 2])
        check_grid(grid, weights[place], valid.expand(weights.shape)[place])
    if full:
        assert sum(map(len, tables.values())) == weights.numel()


def test_shortened_tables_say_what_is_left_out_and_have_the_maximum() -> None:
    weights = random_weights(1, 50, 300)
    text = shown(result_of(run_of(weights)))
    rows, keys = [*range(5), *range(45, 50)], [*range(5), *range(295, 300)]
    assert {*grids(text)["dot"]} == {(row, key) for row in rows for key in keys}
    assert "40 of 50 queries and 290 of 300 keys left out; see them with --full" in re.sub(r"\s+", " ", text)
    assert re.search(r"^4 .*\n\.\.\. *\n45 ", text, re.M), "a gap"
    largest = re.findall(r"^(\d+) .* (\S+)\* +(\d+) *$", text[text.index("max  at key") :], re.M)
    values, positions = weights[0].max(-1)
    assert [(int(row), int(key)) for row, _, key in largest] == [(row, int(positions[row])) for row in rows]
    expected = pytest.approx(values[rows].tolist(), abs=last_digit(1e-3))
    assert [float(weight) for _, weight, _ in largest] == expected
    many = shown(result_of(run_of(random_weights(64, 12, 20, 9))))
    words = "Shown: batch 0 head 0, batch 0 head 1 (2 of 768), the first; others with the keys `heads` and `batch`"
    assert (words in re.sub(r"\s+", " ", many), len(grids(many))) == (True, 2)


def test_empty_and_level_rows_have_no_maximum() -> None:
    valid = valid_mask((1, 2, 100), [[0, 100]])
    text = shown(result_of(run_of(random_weights(1, 2, 100, valid=valid)), valid=valid))
    assert re.search(r"^0 .*· +- *$", text, re.M)
    level = shown(result_of(run_of(torch.full((1, 2, 100), 0.01))))
    assert re.search(r"^1 .*0\.010 +- *$", level, re.M)
    assert "*" not in level


def test_only_what_is_shown_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty thousand million weights would need 160 GB if all of them were read."""
    read: list[int] = []
    original = Tensor.tolist

    def counting(tensor: Tensor) -> Any:
        read.append(tensor.numel())
        return original(tensor)

    monkeypatch.setattr(Tensor, "tolist", counting)
    weights = torch.tensor(5e-6).expand(1, 200_000, 200_000)
    text = shown(result_of(run_of(weights), valid=torch.ones(1, 1, 1, dtype=torch.bool)))
    assert "199990 of 200000 queries" in re.sub(r"\s+", " ", text)
    assert max(read) <= 10 * 10
