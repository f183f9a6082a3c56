"""Curves and tables of studies in a browser."""

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.show.report.conftest import Open, report
from tests.show.report.pages import choose, has_numbers, settles, state, study

STUDIES = ("variance", "saturation", "train", "bench")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    base = tmp_path_factory.mktemp("studies")
    for name in STUDIES:
        study(base / name, name)
    return {name: base / name for name in STUDIES}


@pytest.fixture(scope="module")
def files(folders: dict[str, Path]) -> dict[str, Path]:
    return {name: report(folder.parent / f"{name}.html", folder) for name, folder in folders.items()}


def records(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((folder / "results.json").read_text(encoding="utf-8"))["records"]
    return found


def read_first(page: Page) -> None:
    """Read the values at the first x by keyboard."""
    page.locator(".chart > svg").focus()
    page.keyboard.press("Home")


@pytest.mark.parametrize("name", STUDIES)
def test_every_figure_is_drawn(open_page: Open, files: dict[str, Path], name: str) -> None:
    page = open_page(files[name])
    figures = page.locator(".bar select").first
    for title in figures.locator("option").all_inner_texts():
        figures.select_option(title)
        for mark in ("line", "marker"):
            expect(page.locator(f".chart > svg path.{mark}")).not_to_have_count(0)
        assert not re.search("NaN|Infinity|undefined", page.locator(".chart > svg").inner_html()), title
        read_first(page)
        expect(page.locator("#tip")).to_be_visible()


def test_values_under_the_pointer_are_those_of_the_run(
    open_page: Open, files: dict[str, Path], folders: dict[str, Path]
) -> None:
    page = open_page(files["variance"])
    rows = [row for row in records(folders["variance"]) if row["d"] == 32]
    read_first(page)
    page.keyboard.press("ArrowRight")
    tip = page.locator("#tip")
    expect(tip.locator(".head")).to_have_text("d 32")
    expect(tip.locator("tr th[scope=row]")).to_have_text([row["label"] for row in rows])
    has_numbers(tip.locator("td:nth-child(2)"), [row["variance"] for row in rows])
    has_numbers(tip.locator("td:nth-child(4)"), [row["theory_variance"] for row in rows])
    low, high = tip.locator("tr:nth-child(2) td:nth-child(3)").inner_text().split(" to ")
    assert [float(low), float(high)] == pytest.approx(rows[0]["variance_ci"], rel=1e-3)
    expect(page.locator("#said")).to_contain_text(f"d 32: {rows[0]['label']}")
    hovered = page.locator(".chart > svg").bounding_box()
    assert hovered is not None
    page.locator(".chart > svg").hover(position={"x": hovered["width"] - 15, "y": 100})
    expect(tip.locator(".head")).to_have_text("d 128")


def test_a_point_lies_where_its_value_is(open_page: Open, files: dict[str, Path], folders: dict[str, Path]) -> None:
    """Between two ticks of the axis, as far as its logarithm says."""
    page = open_page(files["variance"])
    places = page.locator(".chart > svg").evaluate(
        """(svg) => {
            const tick = (text) => [Number(text.textContent), Number(text.getAttribute("y")) - 4];
            const height = (marker) => Number(marker.getAttribute("transform").match(/[-.\\d]+/g)[1]);
            const ticks = [...svg.querySelectorAll("text[text-anchor=end]")].map(tick);
            return { ticks, points: [...svg.querySelectorAll("g .marker")].map(height) };
        }"""
    )
    (low, bottom), *_, (high, top) = [(math.log(value), y) for value, y in places["ticks"]]
    rows = records(folders["variance"])
    labels = dict.fromkeys(row["label"] for row in rows)
    values = [row["variance"] for label in labels for row in rows if row["label"] == label]
    expected = [bottom + (math.log(value) - low) / (high - low) * (top - bottom) for value in values]
    assert places["points"] == pytest.approx(expected, abs=0.01)


def test_scorers_are_hidden_and_axes_changed_and_all_that_is_in_the_address(
    open_page: Open, files: dict[str, Path]
) -> None:
    page = open_page(files["train"])
    title = page.locator(".bar select").first.locator("option").last.inner_text()
    choose(page, "figure", title)
    choose(page, "of", "d 16")
    page.get_by_label("log x").check()
    page.get_by_label("log y").uncheck()
    page.locator(".legend").get_by_role("button", name="scaled_dot", exact=True).click()
    expect(page.locator(".chart > svg path.line")).to_have_count(2)
    sent = {"figure": title, "facet": "d 16", "logx": "yes", "logy": "no", "hidden": "scaled_dot"}
    settles(page, lambda: state(page), sent)
    drawn = page.locator(".chart > svg").inner_html()
    received = open_page(files["train"], page.url.partition("#")[2])
    assert received.locator(".chart > svg").inner_html() == drawn
    expect(received.get_by_label("log x")).to_be_checked()
    page.go_back()
    expect(page.locator(".chart > svg path.line")).to_have_count(3)
    page.evaluate("location.hash = 'figure=none&hidden=nobody&logx=maybe'")
    expect(page.locator(".bar select").first).not_to_have_value(title)


def test_a_scorer_looks_the_same_in_every_figure(open_page: Open, files: dict[str, Path]) -> None:
    looks = set()
    for name in ("train", "saturation", "variance"):
        button = open_page(files[name]).locator(".legend").get_by_role("button", name="scaled_dot", exact=True)
        looks.add(
            button.locator("svg").evaluate(
                """(svg) => [getComputedStyle(svg.querySelector(".line")).stroke,
                    svg.querySelector(".marker").getAttribute("d"), svg.querySelector(".line").outerHTML].join()"""
            )
        )
    assert len(looks) == 1


def test_tables_sort(open_page: Open, files: dict[str, Path], folders: dict[str, Path]) -> None:
    page = open_page(files["train"])
    table = page.get_by_role("region", name=re.compile("^Records of")).locator("table")
    rows = records(folders["train"])
    index = table.locator("th").all_inner_texts().index("accuracy") + 1
    accuracy = table.locator(f"td:nth-child({index})")
    heading = table.locator("th", has_text="accuracy").locator("button")
    heading.focus()
    page.keyboard.press("Enter")
    has_numbers(accuracy, sorted((row["accuracy"] for row in rows), reverse=True))
    expect(table.locator("th[aria-sort=descending]")).to_have_count(1)
    page.keyboard.press("Space")
    has_numbers(accuracy, sorted(row["accuracy"] for row in rows))
    expect(table.locator("th[aria-sort=ascending]")).to_have_count(1)
