"""A page on paper: everything within the sheet, whole matrices, and no number over another."""

from functools import partial
from pathlib import Path

import pytest

from tests.show.page.conftest import Open, report
from tests.show.page.pages import attention, open_all, settles, study

SHEETS = {"portrait": (718, 1047), "landscape": (1047, 718)}  # A4 without margins of 10 mm, in CSS pixels
SIZES = ((4, 4), (12, 12), (8, 2000), (300, 20))  # queries and keys
PARTS = "figure, .cells, .scale, .strips, .picture svg, table, p, h1, h2, h3, pre"
BEYOND = """([across, down, parts]) => {
    const isCut = ({ scrollWidth, clientWidth }) => scrollWidth > clientWidth;
    return [...document.querySelectorAll(parts)].flatMap((element) => {
        const { left, right, height } = element.getBoundingClientRect();
        const isTall = element.matches("figure, .picture svg") && height > down;
        const isHidden = element.matches(".cells") && isCut(element.parentElement);
        const name = `${element.tagName}.${element.className} to ${right}, height ${height}`;
        return left < 0 || right > across || isTall || isHidden ? [name] : [];
    });
}"""
OVERLAPS = """() => [...document.querySelectorAll(".scroll")].flatMap((scroll) => {
    const range = document.createRange();
    const written = [...scroll.querySelectorAll(".numbers span, .names bdi")].filter((each) => each.textContent);
    const boxes = written.map((each) => {
        range.selectNodeContents(each);
        const [{ left, right, top, bottom }, outer] = [range.getBoundingClientRect(), each.getBoundingClientRect()];
        const text = each.textContent;
        return { left: Math.max(left, outer.left), right: Math.min(right, outer.right), top, bottom, text };
    });
    const isApart = (a, b) => b.left >= a.right - 1 || b.top >= a.bottom - 4; // a line has about 4 pixels of space
    const isOver = (a, b) => !isApart(a, b) && !isApart(b, a);
    const pairs = boxes.flatMap((a, i) => boxes.slice(i + 1).map((b) => [a, b]));
    return pairs.filter(([a, b]) => isOver(a, b)).map(([a, b]) => `${a.text} over ${b.text}`);
})"""
SIZE = "(panels) => panels.style.getPropertyValue('--cell')"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Write pages of matrices of several sizes, and of another study."""
    base = tmp_path_factory.mktemp("printed")
    for n, m in SIZES:
        data = {"queries": {"shape": [1, n, 4]}, "keys": {"shape": [1, m, 4]}}
        attention(base / f"{n}x{m}", data=data, mask={}, tokens={})
    attention(base / "tokens")
    study(base / "variance", "variance")
    names = [f"{n}x{m}" for n, m in SIZES] + ["tokens", "variance"]
    return [report(base / f"{name}.html", base / name) for name in names]


@pytest.mark.parametrize(("sheet", "cell"), [("portrait", ""), ("portrait", "cell=60"), ("landscape", "cell=60")])
def test_all_is_within_the_sheet(open_page: Open, files: list[Path], sheet: str, cell: str) -> None:
    across, down = SHEETS[sheet]
    for file in files:
        page = open_page(file, cell if "variance" not in file.name else "", color_scheme="dark")
        open_all(page)
        page.emulate_media(media="print")
        page.set_viewport_size({"width": across, "height": down})
        settles(page, partial(page.evaluate, BEYOND, [across, down, PARTS]), [])
        settles(page, partial(page.evaluate, OVERLAPS), [])


def test_numbers_stand_in_cells_only_where_they_fit_on_paper(open_page: Open, files: list[Path]) -> None:
    few, many = (open_page(file, "cell=60") for file in files[:2])
    for page, on_paper in ((few, 3 * 16), (many, 0)):
        assert page.locator(".numbers span").count()
        page.emulate_media(media="print")
        settles(page, page.locator(".numbers span").count, on_paper)
        page.emulate_media(media="screen")
        page.locator(".numbers span").first.wait_for(state="attached")


def test_a_file_for_paper_has_whole_matrices(open_page: Open, files: list[Path]) -> None:
    """Browsers announce printing before they lay out the sheet; numbers change with it."""
    page = open_page(files[0], color_scheme="dark")
    page.evaluate(
        f"""addEventListener("beforeprint", () => {{
            window.onPaper = ({SIZE})(document.querySelector(".panels"));
        }})"""
    )
    panels = page.locator(".panels")
    before = panels.evaluate(SIZE)
    assert len(page.pdf()) > 10_000
    assert page.evaluate("window.onPaper") != before
    settles(page, lambda: panels.evaluate(SIZE), before)
