"""Pictures and tables of studies on a page."""

import base64
import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from playwright.sync_api import expect

from tests.cli import good
from tests.show.page.conftest import Open, report
from tests.show.page.pages import has_numbers, study
from tests.show.page.reading import Read

STUDIES = ("variance", "saturation", "train", "bench")
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    base = tmp_path_factory.mktemp("studies")
    for name in STUDIES:
        study(base / name, name)
    sweep = ["d2l", "--over", "scorers[0].num_hiddens=2,4,8", "--out", base / "sweep", "--quiet"]
    good("sweep", *sweep)
    return {name: base / name for name in (*STUDIES, "sweep")}


@pytest.fixture(scope="module")
def file(folders: dict[str, Path]) -> Path:
    """Write a page of all runs, with one run given twice."""
    first = next(iter(folders.values()))
    (first.parent / "again").mkdir()
    for each in first.iterdir():
        (first.parent / "again" / each.name).write_bytes(each.read_bytes())
    return report(first.parent / "report.html", *folders.values(), first.parent / "again")


def test_a_run_without_tensors_has_its_picture(tmp_path: Path) -> None:
    good("swap", "tests.studies.swap.models:tower", "--by", "layer", "--out", tmp_path / "run", "--quiet")
    page = Read(report(tmp_path / "page.html", tmp_path / "run").read_text(encoding="utf-8"))
    assert [each.attributes["alt"] for each in page.all("img")] == ["Picture swap of swap"] * 2


def test_pictures_are_the_studys_own_in_both_themes(file: Path, folders: dict[str, Path]) -> None:
    """They are SVG of matplotlib, in images, which run no scripts; the first is of all runs of one study."""
    images = Read(file.read_text(encoding="utf-8")).all("img")
    names = [str(each.attributes["alt"]) for each in images]
    assert names[:2] == ["Picture runs of all runs"] * 2
    assert {f"Picture {name} of {name}" for name in folders} <= set(names)
    assert [each.attributes["class"] for each in images] == ["light", "dark"] * (len(images) // 2)
    for image in images:
        kind, _, content = str(image.attributes["src"]).partition(",")
        assert kind == "data:image/svg+xml;base64"
        assert ElementTree.fromstring(base64.b64decode(content)).tag == f"{SVG}svg"
    words = base64.b64decode(
        str(images[names.index("Picture variance of variance")].attributes["src"]).partition(",")[2]
    )
    assert b"variance of the scores" in words


def records(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((folder / "results.json").read_text(encoding="utf-8"))["records"]
    return found


def test_tables_sort(open_page: Open, folders: dict[str, Path], tmp_path: Path) -> None:
    page = open_page(report(tmp_path / "train.html", folders["train"]))
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
