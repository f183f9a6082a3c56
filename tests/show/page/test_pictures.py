"""Pictures and tables of studies on a page."""

import json
import math
import re
from itertools import chain
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import torch
from playwright.sync_api import expect

from attncli.config.looks import Look
from attncli.numbers import number
from attncli.show.page.svg import inlined
from attncli.show.pictures.heatmaps import draw_heatmap
from attncli.show.pictures.matrices import Heatmap, Panel
from tests.cli import good
from tests.margins import last_digit
from tests.show.page.conftest import Open, report
from tests.show.page.pages import box_of, has_numbers, study
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
    assert [each.attributes["aria-label"] for each in page.all("svg")] == ["Picture swap of swap"] * 2


@pytest.mark.slow
def test_ids_are_unique_and_all_references_have_one(file: Path) -> None:
    page = Read(file.read_text(encoding="utf-8"))
    assert [each.attributes["aria-label"] for each in page.all("svg")][:2] == ["Picture runs of all runs"] * 2
    ids = [str(each.attributes["id"]) for each in page.elements if "id" in each.attributes]
    assert len(ids) == len(set(ids))
    values = chain.from_iterable(each.attributes.items() for each in page.elements if each.tag != "a")
    found = [str(value) for key, value in values if key in ("href", "clip-path", "fill")]
    references = {value.removeprefix("url(").removeprefix("#").removesuffix(")") for value in found if "#" in value[:5]}
    assert {each for each in references if each.startswith("p")} <= set(ids)
    assert any(each.startswith("p0-variance-light-") for each in references)


def test_the_picture_of_the_theme_is_seen(open_page: Open, file: Path) -> None:
    for theme, other in (("light", "dark"), ("dark", "light")):
        page = open_page(file, color_scheme=theme)
        expect(page.locator(f".{theme} svg").first).to_be_visible()
        expect(page.locator(f".{other} svg").first).to_be_hidden()
        box = box_of(page.locator(f".{theme} svg").first)
        assert box["width"] == 60 * 16  # as wide as the page, at most 60 rem
        assert box["height"] > 200


def test_points_have_their_numbers(open_page: Open, file: Path, folders: dict[str, Path]) -> None:
    """The box of each point lies over its marker, and its title has the numbers of the record, for the pointer."""
    page = open_page(file)
    picture = page.locator("[aria-label='Picture variance of variance']").first
    titles = picture.locator(".hint title").all_text_contents()
    for row in records(folders["variance"]):
        interval = f"({number(row['variance_ci'])})"
        place = f"variance of the scores, {row['label']}, d {row['d']}"
        assert f"{place}: {number(row['variance'])} {interval}" in titles
    markers, boxes = ([each.bounding_box() for each in picture.locator(kind).all()] for kind in ("use", ".hint"))
    middles = [centre(box) for box in boxes if box]
    rows = len(records(folders["variance"]))
    seen = [box for box in markers if box and any(math.dist(centre(box), middle) < 1.5 for middle in middles)]
    assert len(seen) >= rows
    picture.locator(".hint").first.hover()


def centre(box: Any) -> tuple[float, float]:
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def test_cells_of_tables_have_their_numbers() -> None:
    values = torch.tensor([[0.5, 2.0, 0.25], [1.0, torch.nan, 4.0]])
    sides = ("0", "1"), ("first", "second", "third")
    panel = Panel("dot", "", (0, 0), values, ~values.isnan(), *sides, quantity="change of the loss")
    heatmap = Heatmap([panel], "One head at a time", sides=("Layers", "Heads"), name="heads")
    svg = ElementTree.fromstring(inlined(draw_heatmap(heatmap, Look(), pytest.fail), "p", "heads"))
    boxes = {str(box.findtext("title")): box.attrib for box in svg.iter("rect") if box.get("class") == "hint"}
    expected = {
        f"dot, Layers {i}, Heads {sides[1][j]}: change of the loss {number(values[i, j].item())}": (i, j)
        for i, j in ((0, 0), (0, 1), (0, 2), (1, 0), (1, 2))
    }
    assert boxes.keys() == expected.keys()
    size = {side: float(boxes[next(iter(boxes))][side]) for side in ("width", "height")}
    first = min(boxes.values(), key=lambda box: (float(box["x"]), float(box["y"])))
    for text, (row, column) in expected.items():
        assert float(boxes[text]["x"]) == pytest.approx(float(first["x"]) + column * size["width"], abs=last_digit(0.5))
        assert float(boxes[text]["y"]) == pytest.approx(float(first["y"]) + row * size["height"], abs=last_digit(0.5))


def test_cells_of_doctor_open_their_head(open_page: Open, minilm_run: Path, tmp_path: Path) -> None:
    good("doctor", "minilm", "--no-plots", "--quiet", "--out", tmp_path / "checked")
    page = open_page(report(tmp_path / "page.html", tmp_path / "checked", minilm_run))
    row = next(row for row in records(tmp_path / "checked") if row["check"] == "first_key" and row["head"] == 6)
    cell = page.locator(f".light .hint[data-layer='{row['layer']}'][data-head='6'][data-label='{row['label']}']")
    expect(cell.locator("title")).to_contain_text(f"first_key {number(row['value'])}")
    cell.click()
    view = page.locator(".view").first
    expect(view.locator(".cells").first).to_have_attribute("aria-label", re.compile(f"layer {row['layer']}, head 6"))
    expect(page.locator(f"figure:has-text('{row['label']}') .cells").first).to_be_focused()
    alone = open_page(report(tmp_path / "alone.html", tmp_path / "checked"))
    assert alone.locator(".light .hint title").count()
    expect(alone.locator(".picture a")).to_have_count(0)


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
