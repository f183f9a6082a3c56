"""A browser that opens pages of runs; each page may make only one request, and nothing is logged to its console."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.cli import good
from tests.show.page.pages import PATIENCE, attention

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")  # the first takes half the time
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)
MISSING = (
    "the HTML pages, because Chromium is not installed; on Debian `apt-get install chromium-headless-shell`, elsewhere "
    f"install Chromium or Chrome as one of these commands: {', '.join(NAMES)}"
)
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]

Open = Callable[..., Page]


def running_browser() -> Iterator[Browser]:
    """Yield a browser that runs until the end of the tests."""
    if CHROMIUM is None:
        if os.environ.get("CI"):
            pytest.fail(MISSING)
        pytest.skip(MISSING)
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        ignored = ["--hide-scrollbars"]  # as readers have them
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS, ignore_default_args=ignored)
        yield browser
        browser.close()


def report(out: Path, *folders: Path) -> Path:
    """Write the page of these runs."""
    good("report", *folders, "--out", out, "--quiet")
    return out


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of three scorers on two batch elements and four heads."""
    out = tmp_path_factory.mktemp("attention") / "small"
    attention(out)
    return out


@pytest.fixture(scope="session")
def file(folder: Path) -> Path:
    """The page of this run; some files have another one of this name."""
    return report(folder.parent / "report.html", folder)


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Open]:
    """Opens the page of a file, with options of a browser context, once it is drawn."""
    opened: list[tuple[Page, list[str], list[str]]] = []

    def open_(file: Path, **options: Any) -> Page:
        options = {"viewport": {"width": 1280, "height": 900}, "offline": True, **options}
        context = browser.new_context(**options)
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        requests, complaints = list[str](), list[str]()
        page.on("request", lambda request: requests.append(request.url))
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        opened.append((page, requests, complaints))
        page.goto(file.as_uri())
        if options.get("java_script_enabled", True):
            ready(page)
        return page

    yield open_
    for page, requests, complaints in opened:
        page.context.close()
        assert (len(set(requests)), complaints) == (1, [])


def ready(page: Page) -> None:
    """Wait until all of the page has been drawn."""
    expect(page.locator(".view:not([data-ready])")).to_have_count(0)
