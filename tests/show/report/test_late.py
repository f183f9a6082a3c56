"""What comes late changes nothing: events, numbers that are still decoded, and what the reader does meanwhile."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.show.report.conftest import Open, ready, report
from tests.show.report.pages import attention, choose, pixels, settles

SIZE = 60
LARGE = {"viewport": {"width": 1280, "height": 500}}
CELLS = "batch=0&head=0&cell=20"  # which reach beyond their panel
# numbers are decoded when they are let: `letIn` lets those that are asked for so far, or all for ever
HELD = """
    let held = [];
    const read = Response.prototype.arrayBuffer;
    Response.prototype.arrayBuffer = async function () {
        if (held) await new Promise((resolve) => held.push(resolve));
        return read.call(this);
    };
    window.count = () => held.length;
    window.letIn = (isForEver) => {
        held?.splice(0).forEach((resolve) => resolve());
        if (isForEver) held = null;
    };
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two scorers, of which the first alone has capped scores."""
    folder = tmp_path_factory.mktemp("late") / "run"
    shape = {"shape": [2, 2, SIZE, 8]}
    data = {"queries": shape, "keys": shape, "values": shape}
    attention(folder, data=data, tokens={}, scorers=[{"scorer": "additive", "softcap": 1.0}, "dot"])
    return report(folder.parent / "report.html", folder)


def cells(page: Page) -> Locator:
    return page.locator(".cells").first


def shows(page: Page, what: str) -> None:
    """Wait until the first panel shows it."""
    expect(cells(page)).to_have_attribute("aria-label", re.compile(what))


def test_nothing_is_pointed_at_and_no_page_is_ready_before_it_is_drawn(open_page: Open, file: Path) -> None:
    page = open_page(file, CELLS, before=HELD)
    box = page.locator(".stage").bounding_box()
    assert box is not None
    for x in range(50, 1200, 50):
        for y in (150, 250, 350):
            page.mouse.move(x, box["y"] + y)
    page.evaluate(
        """() => {
            const [stage] = document.querySelectorAll(".stage");
            const [cells] = document.querySelectorAll(".cells");
            const look = () => (window.seen = cells.getAttribute("aria-label"));
            new MutationObserver(look).observe(stage, { attributeFilter: ["data-ready"] });
            cells.focus();
            document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key: "End", bubbles: true }));
        }"""
    )
    page.evaluate("location.hash = 'batch=0&head=1'")
    is_decoding(page, 7)  # also those of the second head
    page.evaluate("letIn(true)")
    ready(page)
    assert "head 1" in page.evaluate("window.seen")
    cells(page).focus()
    expect(cells(page)).to_be_focused()


def test_what_was_chosen_meanwhile_wins(open_page: Open, file: Path) -> None:
    """Small pictures of a batch element are still decoded when another one is chosen."""
    page = open_page(file, CELLS, before=HELD)
    is_decoding(page)
    page.evaluate("letIn()")
    shows(page, "batch 0")
    is_decoding(page)
    page.evaluate("location.hash = 'batch=1&head=0'; letIn()")
    is_decoding(page)
    page.evaluate("letIn(true)")
    ready(page)
    shows(page, "batch 1")
    expect(page.locator(".heads button[aria-pressed=true]")).to_have_count(2)


def test_names_are_those_of_what_is_drawn(open_page: Open, file: Path) -> None:
    """Also where colours change while something else is decoded."""
    page = open_page(file, CELLS, before=HELD)
    is_decoding(page)
    page.evaluate("letIn()")
    shows(page, "head 0")
    names = page.evaluate(
        """async () => {
            location.hash = "batch=0&head=1";
            await new Promise((resolve) => addEventListener("hashchange", resolve, { once: true }));
            document.getElementById("theme").click();
            return document.querySelector(".cells").getAttribute("aria-label");
        }"""
    )
    assert "head 0" in names
    page.evaluate("letIn(true)")
    shows(page, "head 1")
    ready(page)


def is_decoding(page: Page, more_than: int = 0) -> None:
    """Wait until so many numbers are asked for."""
    settles(page, lambda: page.evaluate("count()") > more_than, True)


def scrolled_to(page: Page, panel: int, top: int) -> None:
    expect(page.locator(".scroll").nth(panel)).to_have_js_property("scrollTop", top)


def scroll(page: Page, panel: int, top: int) -> None:
    """Scroll a panel, whose event comes at once."""
    page.locator(".scroll").nth(panel).evaluate(
        "(scroll, top) => { scroll.scrollTop = top; scroll.dispatchEvent(new Event('scroll')); }", top
    )


def test_a_panel_comes_back_where_the_others_are(open_page: Open, file: Path) -> None:
    """It was hidden while its scorer had no such stage; then it is nowhere, and calls nobody there."""
    page = open_page(file, CELLS, **LARGE)
    scroll(page, 0, 100)
    scrolled_to(page, 1, 100)
    choose(page, "stage", "capped")
    expect(page.locator("figure").nth(1)).to_be_hidden()
    page.locator(".scroll").nth(1).dispatch_event("scroll")
    scrolled_to(page, 0, 100)
    scroll(page, 0, 300)
    choose(page, "stage", "scores")
    expect(page.locator("figure").nth(1)).to_be_visible()
    scrolled_to(page, 1, 300)
    scrolled_to(page, 0, 300)
    scroll(page, 1, 200)
    scrolled_to(page, 0, 200)


def test_panels_scroll_together_and_never_back(open_page: Open, file: Path) -> None:
    """A panel that has followed says so late, when the one that it followed has moved on."""
    page = open_page(file, CELLS, **LARGE)
    still = page.evaluate(
        """() => {
            const [first, second] = document.querySelectorAll(".scroll");
            first.scrollTop = 100;
            first.dispatchEvent(new Event("scroll"));
            const followed = second.scrollTop;
            first.scrollTop = 200;
            second.dispatchEvent(new Event("scroll"));
            return [followed, first.scrollTop];
        }"""
    )
    assert still == [100, 200]
    scrolled_to(page, 0, 200)
    scrolled_to(page, 1, 200)


def test_the_largest_difference_is_in_sight_once_it_is_drawn(open_page: Open, file: Path) -> None:
    """Also where something else is chosen while it is decoded."""
    page = open_page(file, CELLS, before=HELD, **LARGE)
    is_decoding(page)
    page.evaluate("letIn()")
    shows(page, "head 0")
    page.evaluate(
        """() => {
            [...document.querySelectorAll("button")].find((each) => each.textContent === "largest difference").click();
            const select = document.querySelectorAll(".bar select")[2];
            select.value = 1;
            select.dispatchEvent(new Event("change"));
            letIn(true);
        }"""
    )
    shows(page, "head 1")
    expect(page.locator(".mark.cell").first).to_be_in_viewport(ratio=1)
    ready(page)


def test_back_leads_to_the_cell_that_was_pointed_at(open_page: Open, file: Path) -> None:
    """However soon something else was chosen."""
    page = open_page(file, CELLS)
    page.evaluate(
        """() => {
            const [cells] = document.querySelectorAll(".cells");
            const press = (key) => cells.dispatchEvent(new KeyboardEvent("keydown", { key }));
            for (const key of ["Home", ...Array(6).fill("PageUp"), "PageDown", "ArrowRight"]) press(key);
            const [stage] = document.querySelectorAll(".bar select");
            stage.value = "scores";
            stage.dispatchEvent(new Event("change"));
        }"""
    )
    shows(page, "scores")
    page.go_back()
    shows(page, "weights")
    expect(page).to_have_url(re.compile("query=10&key=1"))
    expect(page.locator(".stage h3").first).to_have_text("weights of query 10")


def test_a_pointer_that_rests_points_at_nothing_when_cells_move_below_it(open_page: Open, file: Path) -> None:
    """It has never been above a matrix."""
    page = open_page(file, CELLS)
    page.evaluate("addEventListener('pointermove', ({ screenX, screenY }) => (window.at = { screenX, screenY }))")
    page.mouse.move(600, 40)
    settles(page, lambda: page.evaluate("Boolean(window.at)"), True)
    for key in ("Home", *["PageUp"] * 6):
        cells(page).press(key)
    expect(page.locator("#tip .head")).to_contain_text("query 0")
    move = "(cells, more) => cells.dispatchEvent(new PointerEvent('pointermove', { bubbles: true, ...at, ...more }))"
    place = page.locator(".cells").first.bounding_box()
    assert place is not None
    below = {"clientX": place["x"] + 50, "clientY": place["y"] + 150}
    cells(page).evaluate(move, below)
    expect(page.locator("#tip .head")).to_contain_text("query 0")
    cells(page).evaluate(move, {**below, "screenX": 1})
    expect(page.locator("#tip .head")).to_contain_text("query 7")


def test_the_box_beside_the_pointer_goes_with_what_it_tells(open_page: Open, file: Path) -> None:
    page = open_page(file, CELLS)
    cells(page).press("Home")
    expect(page.locator("#tip")).to_be_visible()
    page.evaluate("location.hash = 'batch=0&head=1'")
    shows(page, "head 1")
    expect(page.locator("#tip")).to_be_hidden()


def test_small_pictures_of_a_scorer_without_the_stage_are_empty(open_page: Open, file: Path) -> None:
    page = open_page(file, CELLS)
    first, second = page.locator(".heads canvas").first, page.locator(".heads canvas").last
    for stage, is_drawn in {"weights": True, "capped": False, "scores": True}.items():
        choose(page, "stage", stage)
        settles(page, lambda: [any(map(any, pixels(canvas))) for canvas in (first, second)], [True, is_drawn])
