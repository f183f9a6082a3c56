"""The site of the documentation in a browser, as a reader sees it on a screen of 1440 x 900."""

import functools
import http.server
import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, ViewportSize

from docs.website.build import build

SCREEN: ViewportSize = {"width": 1440, "height": 900}


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files without a log."""

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site, in which a wrong link is a failure, and return its folder."""
    pytest.importorskip("zensical", reason="the site, because zensical is not installed: pip install -e '.[docs]'")
    folder = tmp_path_factory.mktemp("site")
    assert build(folder) == 0
    return folder / "site"


@pytest.fixture(scope="module")
def site(folder: Path) -> Iterator[str]:
    """Return the address of the site."""
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


@pytest.mark.parametrize("path", ["", "papers", "gallery", "reference/commands", "reference/commands/swap"])
def test_pages_fit_the_width_of_the_screen(page: Page, site: str, path: str) -> None:
    page.goto(f"{site}/{path}")
    assert page.evaluate("document.documentElement.scrollWidth") <= SCREEN["width"]
    too_wide = page.evaluate(
        "[...document.querySelectorAll('.md-typeset__scrollwrap, pre > code')]"
        ".filter(each => each.scrollWidth > each.clientWidth + 1).map(each => each.textContent)"
    )
    assert too_wide == []


def test_verdicts_are_the_first_column(page: Page, site: str) -> None:
    page.goto(f"{site}/claims")
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


def search(page: Page, site: str, query: str) -> list[tuple[str, str]]:
    """Return title and address of each page that the search finds."""
    page.goto(f"{site}/", wait_until="networkidle")
    page.locator(".md-search__button").click()
    page.get_by_placeholder("Search").fill(query)
    page.locator("ol a").first.wait_for()
    found = page.locator("ol a").all()
    return [
        (each.locator("h2").inner_text(), str(each.get_attribute("href")).removeprefix(f"{site}/")) for each in found
    ]


def test_search_finds_options_with_and_without_dashes(page: Page, site: str) -> None:
    found = [[title for title, _ in search(page, site, query)] for query in ("--theme", "theme")]
    assert found[0] == found[1]
    assert {"Draw for slides and papers", "attncli figure"} <= {*found[0]}


WORDS = ["capture", "compare", "doctor", "expect", "explain", "fit", "heatmap", "report", "swap", "sweep", "train"]


@pytest.mark.parametrize("word", WORDS)
def test_search_finds_how_tos_before_the_reference(page: Page, site: str, word: str) -> None:
    first = search(page, site, word)[0][1]
    assert first.startswith(("how-to/", "studies/")), first


def test_search_is_about_text_and_commands_of_pages_for_users(folder: Path) -> None:
    items = json.loads((folder / "search.json").read_text(encoding="utf-8"))["items"]
    text = "".join(item["text"] for item in items if item["location"].startswith("tutorial/"))
    assert "attncli run masked_softmax_1d.yaml" in text
    assert "masked_softmax_1d.yaml is yours" not in text  # the output of a command
    assert not [item for item in items if item["location"].startswith("project/")]


def test_copy_button_of_a_console_block_copies_its_commands(page: Page, site: str) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(f"{site}/tutorial/", wait_until="networkidle")
    page.locator(".language-console [data-md-type=copy]").first.click()
    copied = "attncli init masked_softmax_1d\nattncli run masked_softmax_1d.yaml"
    assert page.evaluate("navigator.clipboard.readText()") == copied


def test_formulas_are_mathml(page: Page, site: str) -> None:
    page.goto(f"{site}/tutorial/")
    assert page.locator("math[display=block] mfrac").count() > 0
    assert page.locator("p math[display=inline]").count() > 0
    assert page.locator(".arithmatex").count() == 0


def test_every_page_is_in_the_navigation_and_every_linked_file_exists(folder: Path) -> None:
    named = set(re.findall(r"([\w./-]+)\.md", (folder.parent / "mkdocs.yml").read_text(encoding="utf-8")))
    built = {path.parent.relative_to(folder).as_posix(): path for path in folder.rglob("index.html")}
    assert built.keys() == named - {"index"} | {"."}
    for path in built.values():
        linked = re.findall(r'(?:src|href)="([^"#:?]+)["#?]', path.read_text(encoding="utf-8"))
        assert [each for each in linked if not (path.parent / each).exists()] == []
