"""A matrix that is not square, with masked cells and numbers beyond all colours, in two bytes a number."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from playwright.sync_api import Page, expect

import attncli
from attncli.core.numbers import number
from attncli.engine.report import report
from attncli.engine.runs.loading import read_run
from tests.show.page.conftest import Open
from tests.show.page.pages import box_of, choose, pixels, point, tip_has

pytestmark = pytest.mark.usefixtures("sketches")

N, M, VALID = 3, 7, 5
KEYS = ["k0", "x1", "k2", "x3", "k4", "x5", "k6"]
LAST = [0.125, 0.5, 1.0, -1.0, 0.0]
DOT = [[-0.5, 0.25, 0.125, 1.0, 0.75], [0.5, -0.25, 2.0, -1.0, 0.0], LAST]
COSINE = [[-0.5, 0.5, 0.25, 1.0, 0.5], [0.5, 0.25, 1.75, 1.0, 0.0], LAST]
BEYOND = [0.125, 0.5, torch.inf, -torch.inf, torch.nan]  # last row of `dot` in batch element 1


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the page of a run with these scores and a missing number, with room for two bytes a number."""
    folder = tmp_path_factory.mktemp("rectangle")
    lengths = [[VALID] * N, [VALID] * N, [VALID, VALID, 0]]
    data = {"queries": {"shape": [3, N, 4]}, "keys": {"shape": [3, M, 4]}, "valid_lens": lengths}
    attncli.run({"data": data, "scorers": ["dot", "cosine"], "tokens": {"keys": KEYS}}, out=folder / "run")
    run = read_run(folder / "run")
    scores = {"dot/scores": torch.zeros(3, N, M), "cosine/scores": torch.zeros(3, N, M)}
    for tensor, rows in zip(scores.values(), (DOT, COSINE), strict=True):
        tensor[:, :, :VALID] = torch.tensor(rows)
    scores["dot/scores"][1, -1, :VALID] = torch.tensor(BEYOND)
    scores["cosine/scores"][1, -1, 1] = torch.inf
    first, second = run.result.records
    records = [{**first, "score_std": None}, second]
    result = replace(run.result, tensors={**run.result.tensors, **scores}, records=records)
    result.tensors["cosine/weights"][2, -1] = 1 / M
    (folder / "page.html").write_text(report([replace(run, result=result)], 600), encoding="utf-8")
    return folder / "page.html"


@pytest.fixture
def page(open_page: Open, file: Path) -> Page:
    page = open_page(file, color_scheme="light")
    choose(page, "stage", "scores")
    choose(page, "batch", "0")
    return page


def test_numbers_and_masked_cells_of_two_bytes(page: Page) -> None:
    expect(page.get_by_text("rounded to float16")).to_be_visible()
    for row, column in ((0, 3), (1, 1), (1, 4)):
        point(page, 1, row, column, M, N)
        texts = [f"{label} {number(values[row][column], 3)}" for label, values in (("dot", DOT), ("cosine", COSINE))]
        tip_has(page, f"query {row}", f"key {column}: {KEYS[column]}", *texts)
    unmasked = [pixel[3] > 0 for pixel in pixels(page.locator(".cells canvas").first)]
    assert unmasked == [column < VALID for _ in range(N) for column in range(M)]


def test_numbers_beyond_the_colours_are_written_and_have_arrows(page: Page) -> None:
    choose(page, "batch", "1")
    point(page, 0, 2, 1, M, N)
    tip_has(page, "query 2", "key 1: x1", "dot 0.500", "cosine inf")
    numbers = page.locator(".numbers").first.locator("span")
    assert numbers.all_inner_texts()[2 * M : 2 * M + VALID] == ["0.13", "0.50", "∞", "−∞", "nan"]
    dot, cosine = (page.locator(".scale .label").nth(panel).locator("span") for panel in range(2))
    expect(dot).to_have_text(["◀ beyond", "dot: score", "beyond ▶"])
    expect(cosine).to_have_text(["", "cosine: score", "beyond ▶"])
    expect(page.locator(".cells").first).to_have_attribute("aria-label", re.compile("colours from -2 to 2$"))
    light, dark = (numbers.nth(cell).evaluate("(cell) => getComputedStyle(cell).color") for cell in (M + 4, M + 2))
    assert (light, dark) == ("rgb(0, 0, 0)", "rgb(255, 255, 255)"), "on the colours of 0 and of the largest number"


def test_a_difference_has_the_cells_that_either_scorer_sees(page: Page) -> None:
    for name, value in {"batch": "2", "stage": "weights", "minus": "dot"}.items():
        choose(page, name, value)
    expect(page.locator("figcaption bdi")).to_have_text(["dot", "cosine − dot"])
    alone, difference = (pixels(page.locator(".cells canvas").nth(panel))[-M:] for panel in range(2))
    assert ({pixel[3] for pixel in alone}, {pixel[3] for pixel in difference}) == ({0}, {255})
    assert page.locator(".numbers").nth(1).locator("span").all_inner_texts()[-M:] == ["+0.14"] * M
    point(page, 1, 2, 0, M, N)
    expect(page.locator(".view .wide tbody td:nth-child(2)")).to_have_text(["-"] * M)


def test_bars_begin_at_0(page: Page) -> None:
    point(page, 0, 1, 3, M, N)
    bars = page.locator(".view .bars:nth-child(2)").evaluate_all(
        "cells => cells.map(({ style }) => ['--from', '--to'].map((end) => parseFloat(style.getPropertyValue(end))))"
    )
    share = [100 * (value + 1) / 3 for value in DOT[1]]  # from -1 to 2
    assert bars == [pytest.approx(sorted([100 / 3, end])) for end in share]


def test_the_keyboard_moves_holds_and_releases(page: Page) -> None:
    tip, held = page.locator("#tip"), page.locator(".panels.held")
    page.locator(".cells").first.focus()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    steps = [("Home", 0, 0), ("End", 0, 6), ("ArrowLeft", 0, 5), ("ArrowRight", 0, 6), ("ArrowUp", 0, 6)]
    steps += [("ArrowDown", 1, 6), ("ArrowDown", 2, 6), ("ArrowDown", 2, 6), *(("ArrowLeft", 2, i) for i in (5, 4, 3))]
    for key, row, column in steps:
        page.keyboard.press(key)
        expect(tip).to_contain_text(f"query {row}key {column}: {KEYS[column]}")
    expect(page.locator("#said")).to_have_text("query 2, key 3: x3, dot -1.00, cosine -1.00")
    page.keyboard.press("Enter")
    expect(held).to_have_count(1)
    page.keyboard.press("Escape")
    expect(held).to_have_count(0)
    expect(tip).to_be_hidden()
    page.keyboard.press("ArrowRight")
    expect(tip).to_contain_text(KEYS[4])
    page.keyboard.press("Tab")
    expect(tip).to_be_hidden()


def test_the_box_has_room_at_the_edge_of_a_narrow_window(page: Page) -> None:
    point(page, 0, 0, 0, M, N)
    page.set_viewport_size({"width": 390, "height": 844})
    expect(page.locator("#tip")).to_be_hidden()  # the cells have moved from below the pointer
    point(page, 0, 1, 6, M, N)
    expect(page.locator("#tip")).to_contain_text(KEYS[6])
    box, cells = box_of(page.locator("#tip")), box_of(page.locator(".cells").first)
    assert 0 <= box["x"] < box["x"] + box["width"] < cells["x"] + 6.5 / M * cells["width"], "left of the pointer"


def test_tables_sort_with_missing_numbers_last(page: Page) -> None:
    table = page.get_by_role("region", name=re.compile("^Summary of")).locator("table")
    labels = table.locator("td:first-child")
    for heading, first, second in (("score std", "cosine", "cosine"), ("label", "dot", "cosine")):
        table.locator("th", has_text=heading).locator("button").focus()
        for key, direction, label in (("Enter", "descending", first), ("Space", "ascending", second)):
            page.keyboard.press(key)
            expect(table.locator(f"th[aria-sort={direction}]")).to_have_text(heading)
            expect(labels.first).to_have_text(label)
