"""The names beside matrices, and the size of what is shown on a screen and on paper."""

from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.show.page.conftest import Open, report
from tests.show.page.pages import TOKENS, attention, box_of, open_all, point, settles, study

pytestmark = pytest.mark.usefixtures("sketches")

SHEETS = {"portrait": (718, 1047), "landscape": (1047, 718)}  # A4 with margins of 10 mm, in CSS pixels
PARTS = "figure, .cells, .scale, .picture img, p, h1, h2, h3, pre"
BEYOND = """([parts, across, down]) => [...document.querySelectorAll(parts)].flatMap((element) => {
    const { left, right, height } = element.getBoundingClientRect();
    const isTall = element.matches("figure") && height > down;
    return left < 0 || right > across || isTall ? [`${element.tagName}.${element.className}, ${right}, ${height}`] : [];
})"""


def page_of(folder: Path, n: int, m: int) -> Path:
    """Write the page of a run with three scorers, n queries and m keys."""
    data = {"queries": {"shape": [1, n, 4]}, "keys": {"shape": [1, m, 4]}}
    attention(folder, data=data, mask={}, tokens={})
    return report(folder.parent / f"{folder.name}.html", folder)


def test_names_of_keys_lie_flat_where_they_have_room(open_page: Open, file: Path, tmp_path: Path) -> None:
    """Indices of many keys lie flat, too, in steps."""
    page = open_page(file, viewport={"width": 1800, "height": 1200})
    for width, place in ((1800, ".flat"), (900, ".panels:not(.flat)")):
        page.set_viewport_size({"width": width, "height": 900})
        expect(page.locator(f"{place} .columns").first.locator("bdi")).to_have_text(TOKENS)
    page = open_page(page_of(tmp_path / "large", 64, 64))
    names = page.locator(".flat .columns").first.locator("bdi")
    boxes = list(map(box_of, names.all()))
    assert len(boxes) > 3
    assert all(a["x"] + a["width"] <= b["x"] for a, b in pairwise(boxes))


def test_long_tokens_leave_room_for_the_matrix_and_are_whole_in_the_box(open_page: Open, tmp_path: Path) -> None:
    long = "an uncommonly long token of seventy characters that has its room in a box"
    tokens = [*TOKENS[:4], long, *TOKENS[5:]]
    attention(tmp_path / "long", tokens={"queries": tokens, "keys": tokens})
    page = open_page(report(tmp_path / "long.html", tmp_path / "long"), viewport={"width": 390, "height": 900})
    box, name = box_of(page.locator(".cells").first), box_of(page.locator(".rows").first.locator("bdi").nth(4))
    assert name["x"] + name["width"] <= box["x"]
    assert box["width"] >= 0.5 * (390 - 32)
    point(page, 0, 4, 4)
    expect(page.locator("#tip")).to_contain_text(f"query 4: {long}")


def test_a_phone_has_findings_first_and_a_hint_beside_wide_tables(open_page: Open, file: Path) -> None:
    page = open_page(file, viewport={"width": 390, "height": 844})
    findings, cells = box_of(page.locator(".findings")), box_of(page.locator(".cells").first)
    assert findings["y"] + findings["height"] <= cells["y"]
    open_all(page)
    wide = page.get_by_role("region", name="Summary of small")
    hint = "(region) => getComputedStyle(region, '::before').content"
    settles(page, lambda: wide.evaluate(hint), '"more columns →"')
    page.set_viewport_size({"width": 2400, "height": 900})
    settles(page, lambda: wide.evaluate(hint), "none")


@pytest.mark.parametrize("sheet", SHEETS)
def test_all_is_within_the_sheet(open_page: Open, tmp_path: Path, sheet: str) -> None:
    """On paper a matrix is whole and on one page, whatever its shape; there are no controls."""
    across, down = SHEETS[sheet]
    files = [page_of(tmp_path / f"{n}x{m}", n, m) for n, m in ((4, 4), (12, 12), (8, 2000), (300, 20))]
    study(tmp_path / "variance", "variance")
    for file in (*files, report(tmp_path / "variance.html", tmp_path / "variance")):
        page = open_page(file, color_scheme="dark")
        page.emulate_media(media="print")
        page.set_viewport_size({"width": across, "height": down})
        settles(page, partial(page.evaluate, BEYOND, [PARTS, across, down]), [])
        for figure in page.locator("figure").all():
            assert figure.evaluate("(figure) => getComputedStyle(figure).breakInside") == "avoid"
        expect(page.locator(".bar:visible")).to_have_count(0)
