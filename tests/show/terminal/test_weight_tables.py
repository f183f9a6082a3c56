"""The tables of weights and outputs, read back from the text for a pipe."""

import itertools
import re

import pytest
import torch
from rich.table import Table
from rich.text import Text

from attncli.attention import softmax_over_valid, valid_mask, with_empty_rows
from attncli.results import Tokens
from attncli.show.terminal.weights import weight_tables
from tests.margins import last_digit
from tests.show.samples import check_grid, grids, random_weights, result_of, run_of, shown


@pytest.mark.parametrize("names", [["batch", "head"], ["batch", "axis 1", "axis 2"]])
def test_each_matrix_has_its_place(names: list[str]) -> None:
    valid = torch.ones(*[2] * len(names), 2, 4, dtype=torch.bool).tril()
    weights = random_weights(*valid.shape, valid=valid)
    found = grids(shown(result_of(run_of(weights), valid=valid), full=True))
    for place in itertools.product(range(2), repeat=len(names)):
        title = ", ".join(f"{name} {index}" for name, index in zip(names, place, strict=True))
        check_grid(found.pop(f"dot {title}"), weights[place], valid[place])
    assert found == {}


def test_ties_are_all_marked_but_level_rows_not_at_all() -> None:
    weights = torch.tensor([[[0.4, 0.2, 0.4], [1 / 3, 1 / 3 + 3e-8, 1 / 3], [1.0, 0.0, 0.0], [torch.nan] * 3]])
    grid = grids(shown(result_of(run_of(weights))))["dot"]
    assert [cell.mark for cell in grid.values()] == ["*", "", "*", "", "", "", "*", "", "", "", "", ""]
    assert grid[2, 1].text == "0"


@pytest.mark.parametrize(("empty_row", "text"), [("zero", "·"), ("uniform", "0.250·"), ("nan", "nan·")])
def test_an_empty_row_shows_the_weights_that_were_used(empty_row: str, text: str) -> None:
    valid = valid_mask((2, 2, 4), [0, 3])
    weights = with_empty_rows(softmax_over_valid(torch.zeros(2, 2, 4), valid), valid, empty_row)  # type: ignore[arg-type]
    grid = grids(shown(result_of(run_of(weights), valid=valid)))["dot batch 0"]
    assert {cell.text + cell.mark for cell in grid.values()} == {text}


@pytest.mark.parametrize(
    ("weights", "length", "expected"),
    [([0.6, 0.4], 2, "* row maximum"), ([0.5, 0.5], 2, ""), ([0.6, 0.4, 0.0], 2, "* row maximum   · masked")],
)
def test_the_legend_explains_the_signs_that_occur(weights: list[float], length: int, expected: str) -> None:
    tensor = torch.tensor([[weights]])
    text = shown(result_of(run_of(tensor), valid=valid_mask(tuple(tensor.shape), [length])))
    assert text.splitlines()[0].strip() == expected


def test_dropout_says_which_weights_are_shown() -> None:
    weights = random_weights(1, 1, 2)
    text = shown(result_of(run_of(weights, stages={"dropped": weights * 0})))
    assert "dot: scale 1, no parameters, weights before dropout, output after it\n" in text
    check_grid(grids(text)["dot"], weights[0])


def outputs(output: torch.Tensor, width: int = 80) -> dict[int, list[float]]:
    """Read the outputs (n, v) by feature."""
    text = shown(result_of(run_of(random_weights(1, len(output), 5), stages={"output": output[None]})), width)
    found = dict[int, list[float]]()
    features: list[int] = []
    for line in text.split("Summary")[0].splitlines():
        if " \\ k " in line:
            features = [int(feature) for feature in re.findall(r"out (\d)", line)]
        elif features and line[:1].isdigit() and " queries" not in line:
            for feature, word in zip(features, line.split()[-len(features) :], strict=True):
                found.setdefault(feature, []).append(float(word))
    return found


@pytest.mark.parametrize(("n", "v", "width"), [(1, 4, 80), (6, 3, 40), (16, 8, 80), (50, 3, 80)])
def test_outputs_read_back_as_the_tensor(n: int, v: int, width: int) -> None:
    output = torch.randn(n, v, generator=torch.Generator().manual_seed(0))
    found = outputs(output, width)
    assert list(found) == list(range(v))
    rows = output if n <= 40 else torch.cat([output[:5], output[-5:]])
    torch.testing.assert_close(torch.tensor(list(found.values())).T, rows, atol=last_digit(1e-3), rtol=5e-3)
    assert outputs(torch.zeros(2, 9)) == {}, "wide ones are left to the files"


def styles_of(values: list[float]) -> dict[str, str]:
    """Return the style of each cell of one row of weights, by its text, as the console gets it."""
    weights = torch.tensor([values])
    matrix = (weights, torch.ones_like(weights).bool(), None)
    (table,) = weight_tables({(0,): matrix}, ["batch"], {}, Tokens(), 100, None)
    assert isinstance(table, Table)
    cells = [cell for column in table.columns[1:] for cell in column.cells if isinstance(cell, Text)]
    return {cell.plain.strip(): str(cell.style) for cell in cells}


def test_small_weights_are_dim_large_ones_bold_and_no_cell_has_a_background() -> None:
    styles = styles_of([0.6, 0.3, 0.06, 0.04])
    assert styles == {"0.600*": "bold magenta", "0.300": "green", "0.060": "none", "0.040": "dim"}
    assert set(styles_of([-0.5, 1.5, -2.0]).values()) == {"none"}  # scores
