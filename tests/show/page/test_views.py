"""The names beside matrices, the row as a table, and the size of what is shown."""

import math
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

import attncli
from attncli.numbers import number
from tests.show.page.conftest import Open, report
from tests.show.page.pages import TOKENS, attention, box_of, point

pytestmark = pytest.mark.usefixtures("sketches")

SCRIPTS = Path(attncli.__file__).parent / "show" / "page" / "script"
FIRST = "batch=0&head=0"
CUT = """(names) => names.filter(
    (each) => each.scrollWidth > each.clientWidth + 1 || each.scrollHeight > each.clientHeight + 1
).length"""


def page_of(folder: Path, n: int, m: int) -> Path:
    """Write the page of a run with three scorers, n queries and m keys."""
    data = {"queries": {"shape": [1, n, 4]}, "keys": {"shape": [1, m, 4]}}
    attention(folder, data=data, mask={}, tokens={})
    return report(folder.parent / f"{folder.name}.html", folder)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return page_of(tmp_path_factory.mktemp("large") / "large", 64, 64)


def test_few_queries_beside_many_keys_fit_and_are_seen(open_page: Open, tmp_path: Path) -> None:
    page = open_page(page_of(tmp_path / "long", 8, 2000))
    for cells in page.locator(".cells").all():
        box, view = box_of(cells), box_of(cells.locator("xpath=.."))
        assert box["height"] == pytest.approx(8 * 12, abs=1)
        assert box["x"] + box["width"] <= view["x"] + view["width"] + 1
    point(page, 1, 7, 0, 8)
    expect(page.locator(".stage h3").first).to_contain_text("query 7")


def test_names_of_keys_stand_upright_where_they_have_room(open_page: Open, file: Path, large: Path) -> None:
    """Indices of many keys are upright, too; with few queries and many keys the cells are still high enough."""
    page = open_page(file, "cell=40")
    expect(page.locator(".columns").first.locator("bdi.upright")).to_have_text(TOKENS)
    page = open_page(file, "cell=27")
    expect(page.locator(".columns").first.locator("bdi:not(.upright)")).to_have_text(TOKENS)
    page = open_page(large)
    expect(page.locator(".bar label").filter(has_text=re.compile("^(batch|stage) "))).to_have_text(
        re.compile("^stage ")
    )  # a choice with one option is left out
    names = page.locator(".columns").first.locator("bdi")
    assert names.count() > 3
    expect(names).to_have_class(["upright"] * names.count())
    boxes = list(map(box_of, names.all()))
    assert all(a["x"] + a["width"] <= b["x"] for a, b in pairwise(boxes))


LONG = "an uncommonly long token of seventy characters that nobody should ever cut"
MONSTER = "Donaudampfschifffahrtselektrizitaetenhauptbetriebswerk"
TEXT_BEYOND = """(names) => names.flatMap((name) => {
    const range = document.createRange();
    range.selectNodeContents(name);
    const [text, box] = [range.getBoundingClientRect(), name.closest(".scroll").getBoundingClientRect()];
    const isOut = text.left < box.left - 1 || text.top < box.top - 1 || text.bottom > box.bottom + 1;
    return isOut || name.scrollWidth > name.clientWidth + 1 ? [name.textContent] : [];
})"""


@pytest.mark.parametrize("width", [390, 1280])
def test_long_tokens_are_never_cut(open_page: Open, tmp_path: Path, width: int) -> None:
    tokens = [*TOKENS[:4], LONG, *TOKENS[5:8], MONSTER, *TOKENS[9:]]
    attention(tmp_path / "long", tokens={"queries": tokens, "keys": tokens})
    page = open_page(report(tmp_path / "long.html", tmp_path / "long"), viewport={"width": width, "height": 900})
    for side in (".rows", ".columns"):
        names = page.locator(side).first.locator("bdi")
        expect(names.filter(has_text=LONG)).to_have_count(1)
        assert names.evaluate_all(TEXT_BEYOND) == []
        boxes: list[Any] = list(map(box_of, names.all()))
        along, extent = ("y", "height") if side == ".rows" else ("x", "width")
        boxes.sort(key=lambda box: box[along])
        assert all(a[along] + a[extent] <= b[along] + 1 for a, b in pairwise(boxes))
    point(page, 0, 4, 4)
    expect(page.locator("#tip .head")).to_contain_text(f"query 4: {LONG}")
    assert page.locator("#tip .head").evaluate("(head) => head.scrollHeight <= head.clientHeight")


def test_numbers_are_written_as_in_tables(open_page: Open, file: Path) -> None:
    """The page writes numbers like the command line, with zeros at the end and exponents of two digits."""
    script = (SCRIPTS / "elements.js").read_text(encoding="utf-8")
    function = script[script.index("function showNumber") : script.index("/** Return, for example, `1 cell`")]
    constants = "const [DIGITS, MISSING] = [4, '-'];"
    written = f"(values) => {{ {constants} {function} return values.map((each) => showNumber(each)); }}"
    values = [0, 0.5, -1.25, 1.0, 0.08046, 9.77e-4, 0.00099999, 123.456, 12345.678, 999999.9, 1e6, -3.21e-9, 4.5e120]
    page = open_page(file)
    assert page.evaluate(written, values) == [number(float(value)) for value in values]
    assert page.evaluate(written, [math.inf, -math.inf, math.nan, None]) == ["inf", "-inf", "nan", "-"]


def test_axes_have_names_and_the_outline_is_whole(open_page: Open, file: Path) -> None:
    """The outline of the last cell is within the part of the matrix that is seen; no name is cut."""
    page = open_page(file, f"{FIRST}&query=11&key=11")
    for panel in page.locator("figure").all():
        expect(panel.locator(".corner")).to_have_text("Queries")
        expect(panel.locator(".columns span")).to_have_text("Keys")
        mark, view = (box_of(panel.locator(kind)) for kind in (".mark.cell", ".scroll"))
        assert mark["x"] + mark["width"] + 4 <= view["x"] + view["width"] + 0.1
        assert mark["y"] + mark["height"] + 4 <= view["y"] + view["height"] + 0.1
    assert page.locator(".names bdi").evaluate_all(CUT) == 0


def test_the_first_screen_of_a_phone_has_a_matrix(open_page: Open, file: Path) -> None:
    page = open_page(file, viewport={"width": 390, "height": 844})
    box = box_of(page.locator(".cells").first)
    assert box["x"] + box["width"] <= 390
    assert box["y"] + box["height"] <= 844
    assert page.locator(".names bdi").evaluate_all(CUT) == 0
