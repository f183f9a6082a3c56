"""A page of two runs begins with their matrices and the difference, linked; its numbers are those of the runs."""

import re
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page, expect
from safetensors.numpy import load_file

from attncli.core.numbers import number
from tests.show.page.conftest import Open, report
from tests.show.page.pages import TOKENS, attention, box_of, choose, point, study
from tests.show.page.reading import Read

pytestmark = pytest.mark.usefixtures("sketches")

TITLES = ["first", "second", "second − first"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Save two runs of which `additive`, with other parameters, differs most."""
    base = tmp_path_factory.mktemp("two")
    scorers = [["dot", {"scorer": "additive", "num_hiddens": size}] for size in (2, 64)]
    for name, entries in zip(TITLES, scorers, strict=False):
        attention(base / name, scorers=entries)
    return [base / name for name in TITLES[:2]]


@pytest.fixture(scope="module")
def file(folders: list[Path]) -> Path:
    return report(folders[0].parent / "two.html", *folders)


@pytest.fixture
def page(open_page: Open, file: Path) -> Page:
    return open_page(file)


def test_the_page_opens_where_runs_differ_most_with_their_numbers(page: Page, folders: list[Path]) -> None:
    view = page.locator(".view").first
    expect(page.locator("h3").first).to_have_text("additive: first, second, and second − first")
    expect(view.locator("figcaption bdi")).to_have_text(TITLES)
    expect(view.get_by_text("minus")).to_have_count(0)
    first, second = (load_file(folder / "tensors.safetensors") for folder in folders)
    change = np.abs(second["additive/weights"] - first["additive/weights"])
    batch, head, query, key = np.unravel_index(change.argmax(), change.shape)
    expect(page.locator(".cells").first).to_have_attribute("aria-label", re.compile(f"batch {batch}, head {head}:"))
    expect(view.locator("h3").first).to_have_text(re.compile(f"weights of query {query}:"))
    expect(view.locator(".current td").first).to_have_text(f"{key}: {TOKENS[key]}")
    for row, column in ((int(query), int(key)), (7, 3)):
        point(page, 2, row, column)
        a, b = (run["additive/weights"][batch, head, row, column] for run in (first, second))
        texts = [f"{title} {number(float(value))}" for title, value in zip(TITLES, (a, b, b - a), strict=True)]
        expect(page.locator("#tip div")).to_contain_text([f"query {row}", f"key {column}", *texts])


def test_one_choice_and_one_pointer_are_for_all_three(page: Page) -> None:
    view = page.locator(".view").first
    choose(page, "head", "1")
    point(page, 2, 9, 4)
    expect(view.locator("h3").first).to_contain_text("query 9")
    for cells in view.locator(".cells").all():
        expect(cells).to_have_attribute("aria-label", re.compile("head 1"))
        mark, box = box_of(cells.locator(".mark.cell")), box_of(cells)
        assert (mark["x"] - box["x"]) / box["width"] == pytest.approx(4 / 12, abs=0.01)
        assert (mark["y"] - box["y"]) / box["height"] == pytest.approx(9 / 12, abs=0.01)


@pytest.mark.slow
def test_runs_that_share_no_weights_have_no_matrices_on_top_but_their_curves_in_one_picture(tmp_path: Path) -> None:
    for name in ("variance", "curves"):
        study(tmp_path / name, "variance")
    attention(tmp_path / "run")
    attention(tmp_path / "tokens", tokens={"queries": list("abcdefghijkl"), "keys": list("abcdefghijkl")}, seed=1)
    for name, other in (("run", "run"), ("run", "variance"), ("run", "tokens"), ("variance", "curves")):
        file = report(tmp_path / f"{name}-{other}.html", tmp_path / name, tmp_path / other)
        page = Read(file.read_text(encoding="utf-8"))
        assert not any(view["isPair"] for view in page.views())
    assert [each.attributes["alt"] for each in page.all("img")[:2]] == ["Picture runs of all runs"] * 2
