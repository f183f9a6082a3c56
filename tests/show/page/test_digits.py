"""Numbers in the cells of a page are written as in pictures, and those beside the pointer as in tables."""

from pathlib import Path

import pytest
from playwright.sync_api import expect

import attncli
from attncli.config.looks import HeatmapLook
from attncli.core.numbers import cell_decimals, number
from attncli.show.pictures.heatmaps import heatmap_figure
from tests.show.page.conftest import Open, report
from tests.show.page.pages import attention, choose, point

STATES: dict[str, dict[str, str]] = {"weights": {}, "differences": {"minus": "dot"}, "small": {}, "large": {}}
STD = {"small": 1e-2, "large": 300.0}


@pytest.mark.parametrize("name", STATES)
def test_cells_have_the_texts_of_the_picture(open_page: Open, tmp_path: Path, name: str) -> None:
    """The picture's texts are read from matplotlib."""
    shape = {"shape": [1, 3, 4], "std": STD.get(name, 1.0)}
    stage = "weights" if name in ("weights", "differences") else "scores"
    look = {"annotate": "yes", **STATES[name]}
    attention(tmp_path / "run", data={"queries": shape, "keys": shape}, mask={}, tokens={}, figure=look)
    result = attncli.load(tmp_path / "run")
    expected = texts_of(tmp_path, stage, look)
    page = open_page(report(tmp_path / "page.html", tmp_path / "run"), viewport={"width": 1800, "height": 1200})
    choose(page, "stage", stage)
    choose(page, "minus", look.get("minus", "nothing"))
    titles = page.locator("figcaption bdi").all_inner_texts()
    assert len(result.labels) == 3
    for index, title in enumerate(titles):
        if title in expected:
            expect(page.locator(".numbers").nth(index).locator("span")).to_have_text(expected[title])
    assert set(expected) <= set(titles)
    point(page, 0, 1, 2, 3)
    shown, other = (result.tensors[f"{label}/{stage}"].squeeze()[1, 2].item() for label in ("additive", "dot"))
    shown -= other if "minus" in look else 0
    expect(page.locator("#tip div").nth(2)).to_have_text(f"{titles[0]} {number(shown)}")


def texts_of(folder: Path, stage: str, look: dict[str, str]) -> dict[str, list[str]]:
    """Return the texts in the cells of `attncli heatmap` by the title of the panel, row by row."""
    figure = heatmap_figure(
        attncli.load(folder / "run").matrices(stage), HeatmapLook.model_validate({**look, "size": [14, 5]})
    )
    minus = f" − {look['minus']}" if "minus" in look else ""
    panels = [axes for axes in figure.axes if axes.images and axes.get_label() != "bar"]
    return {axes.get_title() + minus: [text.get_text() for text in axes.texts] for axes in panels}


def test_decimals_leave_two_or_three_digits_of_the_largest_number() -> None:
    decimals = {0.0: 2, 0.005: 3, 0.0999: 3, 0.1: 2, 9.99: 2, 10.0: 1, 99.9: 1, 100.0: 0, 9999.0: 0}
    assert {largest: cell_decimals(largest) for largest in decimals} == decimals
    assert cell_decimals(0.0049) is cell_decimals(1e4) is None
