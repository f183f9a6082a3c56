"""Accessibility of a page: light and dark themes, keyboard, print, and narrow screens."""

from pathlib import Path

import axe_playwright_python
import pytest
from playwright.sync_api import Page, expect

from tests.cli import good
from tests.show.page.conftest import Open
from tests.show.page.pages import attention, choose, open_all, pixels, point, settles, study

AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
STUDIES = ("variance", "train", "bench")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a page with runs of several studies."""
    base = tmp_path_factory.mktemp("runs")
    attention(base / "attention")
    for name in STUDIES:
        study(base / name, name)
    attention(base / "again")
    (base / "note.md").write_text("# A note\n\n- with *text*, `code` and [a link](#runs)\n\n```\nsome code\n```\n")
    attention(base / "other", scorers=["additive", "scaled_dot", "cosine"])
    runs = [base / name for name in ("attention", *STUDIES, "again", "other")]
    good("report", *runs, "--out", base / "report.html", "--title", "All", "--note", base / "note.md", "--quiet")
    return base / "report.html"


def violations(page: Page) -> list[str]:
    page.evaluate(AXE)
    found: list[str] = page.evaluate(
        """async () => {
            const { violations } = await axe.run();
            return violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html}`));
        }"""
    )
    return found


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(open_page: Open, file: Path, scheme: str) -> None:
    page = open_page(file, color_scheme=scheme, bypass_csp=True)
    choose(page, "minus", "dot")
    open_all(page)
    point(page, 0, 8, 3)
    expect(page.locator("#tip")).to_be_visible()
    assert violations(page) == []


@pytest.mark.parametrize("width", [320, 1280])
def test_a_page_is_no_wider_than_its_window(open_page: Open, file: Path, width: int) -> None:
    page = open_page(file, viewport={"width": width, "height": 800})
    open_all(page)
    beyond = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    settles(page, lambda: page.evaluate(beyond), 0)


KINDS = ("nav a", ".findings a", ".cells", "th button", ".picture", "summary", "select")


def test_all_is_reached_by_tab_and_seen_there(open_page: Open, file: Path) -> None:
    page = open_page(file)
    page.locator("details", has_text="Summary").first.evaluate("(details) => (details.open = true)")
    reached = set()
    for _ in range(400):
        page.keyboard.press("Tab")
        kind, is_seen = page.evaluate(
            """(kinds) => {
                const element = document.activeElement;
                const { outlineStyle, outlineWidth } = getComputedStyle(element);
                const kind = kinds.find((selector) => element.matches(selector)) ?? element.tagName;
                return [kind, outlineStyle !== "none" && parseFloat(outlineWidth) >= 1];
            }""",
            list(KINDS),
        )
        if kind == "BODY":
            break
        assert is_seen, kind
        reached.add(kind)
    assert reached >= set(KINDS)


def looks(page: Page) -> tuple[str, list[int], list[int], list[bool]]:
    """Return the background, the first cells of the first and the last panel, and the visible pictures."""
    canvases = page.locator(".cells canvas")
    seen = [page.locator(f".picture .{theme}").first.is_visible() for theme in ("light", "dark")]
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return background, pixels(canvases.first)[0], pixels(canvases.last)[0], seen


def test_light_dark_and_paper(open_page: Open, file: Path) -> None:
    light = looks(open_page(file, color_scheme="light"))
    dark = looks(open_page(file, color_scheme="dark"))
    assert all(a != b for a, b in zip(light, dark, strict=True))
    page = open_page(file, color_scheme="light")
    page.emulate_media(color_scheme="dark")
    settles(page, lambda: looks(page), dark)
    page.emulate_media(media="print", color_scheme="dark")
    settles(page, lambda: looks(page), light)
    expect(page.locator(".bar").first).to_be_hidden()
    page.emulate_media(media="screen", color_scheme="dark")
    settles(page, lambda: looks(page), dark)
    assert len(page.pdf(print_background=False)) > 20_000
