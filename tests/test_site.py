"""The site of the documentation in a browser, as a reader sees it on a screen of 1440 x 900."""

import functools
import http.server
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, ViewportSize

ROOT = Path(__file__).resolve().parents[1]
SCREEN: ViewportSize = {"width": 1440, "height": 900}


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files without a log."""

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Build the site, and return its address."""
    pytest.importorskip("mkdocs", reason="the site, because mkdocs is not installed: pip install -e '.[docs]'")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport=SCREEN)
    yield context.new_page()
    context.close()


def test_first_screen_says_what_it_is_and_how_to_begin(page: Page, site: str) -> None:
    page.goto(f"{site}/", wait_until="networkidle")
    for part in (".hero > p", ".hero img:visible", ".hero pre", ".hero .md-button"):
        box = page.locator(part).first.bounding_box()
        assert box, part
        assert box["y"] + box["height"] <= SCREEN["height"], part
    assert page.locator(".hero .md-button").all_inner_texts() == ["Gallery", "Sample report"]


@pytest.mark.parametrize("path", ["", "claims", "papers", "gallery", "tutorial", "how-to/slides", "reference/commands"])
def test_pages_fit_the_width_of_the_screen(page: Page, site: str, path: str) -> None:
    page.goto(f"{site}/{path}")
    assert page.evaluate("document.documentElement.scrollWidth") <= SCREEN["width"]
    too_wide = page.evaluate(
        "[...document.querySelectorAll('.md-typeset__scrollwrap, pre > code')]"
        ".filter(each => each.scrollWidth > each.clientWidth + 1).map(each => each.textContent)"
    )
    assert too_wide == []


@pytest.mark.parametrize("path", ["claims", "papers"])
def test_verdicts_are_the_first_column(page: Page, site: str, path: str) -> None:
    page.goto(f"{site}/{path}")
    verdicts = page.locator(".wide td:first-child").all_inner_texts()
    assert len(verdicts) > 40
    assert set(verdicts) == {"yes"}
    assert page.locator("article > p").first.inner_text().startswith(f"{len(verdicts)} of {len(verdicts)} hold")


def test_gallery_has_three_thumbnails_in_a_row(page: Page, site: str) -> None:
    page.goto(f"{site}/gallery")
    boxes = [each.bounding_box() for each in page.locator(".gallery >> nth=0 >> details").all()]
    tops = [round(box["y"]) for box in boxes if box]
    assert tops[:6] == [tops[0]] * 3 + [tops[3]] * 3
    page.locator("summary").first.click()
    picture = page.locator("details[open] img:visible").first
    assert picture.evaluate("each => each.naturalWidth >= 1.9 * each.clientWidth")


@pytest.mark.parametrize("path", ["papers", "studies/train", "how-to/slides"])
def test_pictures_have_two_pixels_for_each_one_shown(page: Page, site: str, path: str) -> None:
    page.goto(f"{site}/{path}", wait_until="networkidle")
    pictures = page.locator("article img:visible").all()
    assert pictures
    for each in pictures:
        each.scroll_into_view_if_needed()
        width, shown = each.evaluate("each => [each.naturalWidth, each.clientWidth]")
        assert width >= 1.9 * shown


def test_search_finds_options_with_and_without_dashes(page: Page, site: str) -> None:
    found = []
    for query in ("--theme", "theme"):
        page.goto(f"{site}/", wait_until="networkidle")
        page.locator("[data-md-component=search-query]").click()
        page.keyboard.type(query)
        page.locator(".md-search-result__item").first.wait_for()
        found.append(page.locator(".md-search-result__item h1").all_inner_texts())
    assert found[0] == found[1]
    assert found[0][0] == "Draw for slides and papers"
    assert "Commands" in found[0]
