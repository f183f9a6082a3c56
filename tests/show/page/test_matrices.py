"""Matrices in a browser have the numbers of the run."""

import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib import colormaps
from playwright.sync_api import Page, expect
from safetensors.numpy import load_file

from attncli.core.numbers import number
from attncli.engine.report import report as page_of
from attncli.engine.runs.loading import StoredRun
from attncli.engine.runs.stored import StoredResult
from attncli.show.pictures.scales import colour_scale
from tests.cli import good, results
from tests.margins import sampled
from tests.show.page.conftest import Open, report
from tests.show.page.pages import TOKENS, box_of, choose, has_numbers, pixels, point, tip_has
from tests.show.page.test_numbers import over_layers

pytestmark = pytest.mark.usefixtures("sketches")

LABELS = ("additive", "scaled_dot", "dot")


@pytest.fixture
def page(open_page: Open, file: Path) -> Page:
    page = open_page(file)
    choose(page, "batch", "0")
    choose(page, "head", "0")
    return page


def shows(page: Page, words: str) -> None:
    """Wait until the first matrix says that it shows this."""
    expect(page.locator(".cells").first).to_have_attribute("aria-label", re.compile(re.escape(words)))


def test_values_under_the_pointer_are_those_of_the_run(page: Page, folder: Path) -> None:
    tensors = load_file(folder / "tensors.safetensors")
    for name, value in {"stage": "scores", "batch": "1", "head": "2"}.items():
        choose(page, name, value)
    shows(page, "scores, batch 1, head 2")
    for row, column in ((0, 0), (7, 3), (11, 11)):
        point(page, 1, row, column)
        values = [number(tensors[f"{label}/scores"][1, 2, row, column].item()) for label in LABELS]
        texts = [f"{label} {value}" for label, value in zip(LABELS, values, strict=True)]
        tip_has(page, f"query {row}: {TOKENS[row]}", f"key {column}: {TOKENS[column]}", *texts)
    point(page, 0, 2, 7)
    tip_has(page, f"query 2: {TOKENS[2]}", f"key 7: {TOKENS[7]}", "masked")


def test_the_row_is_a_table_that_sorts(page: Page, folder: Path) -> None:
    tensors = load_file(folder / "tensors.safetensors")
    rows = page.locator(".view").first.locator(".wide tbody tr")
    point(page, 0, 9, 2)
    expect(page.locator(".view h3").first).to_have_text(f"weights of query 9: {TOKENS[9]}")
    valid = tensors["valid"][0, 0, 9]
    weights = {label: tensors[f"{label}/weights"][0, 0, 9][valid] for label in LABELS}
    keys = [f"{index}: {token}" for index, token in enumerate(TOKENS[: int(valid.sum())])]
    expect(rows.locator("td:nth-child(1)")).to_have_text(keys)
    expect(page.locator(".view .current td").first).to_have_text(keys[2])
    for index, label in enumerate(LABELS):
        has_numbers(rows.locator(f"td:nth-child({2 + index})"), weights[label].tolist())
    page.locator(".view th button", has_text="scaled_dot").click()
    for row in (9, 10):
        point(page, 0, row, 2)
        own = tensors["scaled_dot/weights"][0, 0, row][tensors["valid"][0, 0, row]]
        has_numbers(rows.locator("td:nth-child(3)"), sorted(own.tolist(), reverse=True))


@pytest.fixture(scope="module")
def layers(tmp_path_factory: pytest.TempPathFactory, sketches: object) -> Path:
    """Write a run over the layers of a captured model, and its page."""
    folder = tmp_path_factory.mktemp("layers")
    good("run", "minilm", "--no-plots", "--quiet", "--out", folder / "run")
    return report(folder / "report.html", folder / "run")


def test_findings_lead_to_what_they_name(open_page: Open, layers: Path) -> None:
    """The page of a model opens on the first layer and head that a finding names; each finding opens its own."""
    page = open_page(layers)
    findings = results(layers.parent / "run")["findings"]
    places = [each["numbers"] for each in findings if "layer" in each["numbers"]]
    shows(page, f"layer {places[0]['layer']}, head {places[0]['head']}:")
    links = page.locator(".findings a")
    texts = [each["text"] for each in findings if each["label"] or "a" in each["numbers"]]
    expect(links).to_have_text(texts)
    assert (texts[0], len(places)) == (findings[1]["text"], len(findings) - 1)  # the first is about the file
    for link, numbers in zip(links.all(), places, strict=True):
        link.click()
        shows(page, f"layer {numbers['layer']}, head {numbers['head']}:")
    label = next(each["label"] for each in reversed(findings))
    expect(page.locator("figure:focus-within figcaption bdi")).to_have_text(label)


def test_a_click_holds_a_cell(page: Page) -> None:
    """A held cell stays while the pointer moves and other heads are chosen; a second click or Escape releases it."""
    heading = page.locator(".view h3").first

    def click() -> None:
        point(page, 0, 5, 3)
        page.mouse.down()
        page.mouse.up()

    for release in (click, lambda: page.locator(".cells").first.press("Escape")):
        click()
        point(page, 0, 9, 1)
        expect(page.locator("#tip")).to_contain_text("query 9")  # values are read nonetheless
        choose(page, "head", "1")
        expect(heading).to_contain_text("query 5")
        release()
        point(page, 0, 9, 1)
        expect(heading).to_contain_text("query 9")


def test_single_queries_are_rows_of_one_map_in_the_colours_of_the_run(open_page: Open, tmp_path: Path) -> None:
    good("run", "d2l", "--no-plots", "--quiet", "--out", tmp_path / "d2l", "--set", "figure.vmax=1")
    page = open_page(report(tmp_path / "page.html", tmp_path / "d2l"))
    tensors = load_file(tmp_path / "d2l" / "tensors.safetensors")
    expect(page.locator(".corner").first).to_have_text("Batch elements")
    expect(page.locator(".scale .ticks span").last).to_have_text("1")
    point(page, 0, 1, 5, 10, 2)
    values = [number(tensors[f"{label}/weights"][1, 0, 5].item()) for label in ("additive", "scaled_dot")]
    tip_has(page, "batch 1", "key 5", f"additive {values[0]}", f"scaled_dot {values[1]}")
    expect(page.locator(".view h3").first).to_have_text("weights of batch 1")


@pytest.mark.parametrize("minus", [None, "scaled_dot"])
def test_colours_are_those_of_the_scale(open_page: Open, file: Path, folder: Path, minus: str | None) -> None:
    """Panels have these colours in both themes; numbers in cells and at bars agree."""
    tensors = load_file(folder / "tensors.safetensors")
    valid = tensors["valid"]
    values = {label: tensors[f"{label}/weights"] for label in LABELS}
    scale = colour_scale([np.stack([each[valid] for each in values.values()])], "weights")
    if minus:
        changes = [a[valid] - b[valid] for a in values.values() for b in values.values()]
        scale = colour_scale([np.stack(changes)], "weights", is_difference=True)
        values = {label: each - values[minus] for label, each in values.items() if label != minus}
    for theme, maps in {"light": ("Reds", "RdBu_r"), "dark": ("inferno", "berlin")}.items():
        page = open_page(file, color_scheme=theme, viewport={"width": 1800, "height": 900})
        for name, value in {"head": "1", "batch": "0", "minus": minus or "nothing"}.items():
            choose(page, name, value)
        for label, each in values.items():
            panel, cells = LABELS.index(label), each[0, 1][valid[0, 1]]
            share = np.ma.filled(scale.norm(scale.clip(cells)), 0)
            expected = colormaps[maps[bool(minus)]](share, bytes=True)[:, :3].astype(int)
            colours = np.array([pixel[:3] for pixel in pixels(page.locator(".cells canvas").nth(panel)) if pixel[3]])
            assert np.abs(colours - expected).max() <= 8  # of 255: a neighbour among the 256 colours
            written = [text for text in page.locator(".numbers").nth(panel).locator("span").all_inner_texts() if text]
            assert [float(text.replace("−", "-")) for text in written] == pytest.approx(
                cells.tolist(), rel=0.51, abs=sampled(0.005, 0.01 / math.sqrt(12))
            )
        bar = page.locator(".scale", has_text="weight difference" if minus else "weight").first
        ends = [float(text) for text in bar.locator(".ticks span").all_inner_texts()]
        assert [ends[0], ends[-1]] == pytest.approx([scale.low, scale.high], rel=0.06)


def test_a_scorer_is_shown_alone(page: Page) -> None:
    choose(page, "scorer", "dot")
    expect(page.locator("figcaption bdi:visible")).to_have_text(["dot"])
    choose(page, "minus", "additive")
    expect(page.locator("figcaption bdi:visible")).to_have_text(["dot − additive"])
    choose(page, "scorer", "all")
    expect(page.locator("figcaption bdi:visible")).to_have_text(["additive", "scaled_dot − additive", "dot − additive"])


@pytest.mark.parametrize(("width", "rows"), [(1280, 1), (390, 3)])
def test_panels_stand_in_one_row_or_below_each_other(open_page: Open, file: Path, width: int, rows: int) -> None:
    page = open_page(file, viewport={"width": width, "height": 500})
    boxes = list(map(box_of, page.locator("figure").all()))
    assert len({box["y"] + box["height"] for box in boxes}) == rows
    assert max(box_of(cells)["height"] for cells in page.locator(".cells").all()) <= 0.75 * 500


VALUES = torch.tensor([0, 0.5, -1.25, 1, 0.08046, 9.77e-4, 0.00099999, 123.456, 12345.678, 999999.9, 1e6, -3.21e-9])
VALUES = torch.cat([VALUES, torch.tensor([4.5e30, math.inf, -math.inf, math.nan])])


def test_each_layer_has_its_tokens(open_page: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The names beside the matrix, in the box, and above the row follow the layer and the batch element.

    The page writes numbers like the command line, with zeros at the end and exponents of two digits.
    """
    words, shape = {"encoder": "cat", "decoder": "chat", "cross": "all"}, (2, 1, 3, len(VALUES))
    names = {layer: [["[CLS]", f"{word}{batch}", "."] for batch in "01"] for layer, word in words.items()}
    names["cross"] = [["[CLS]", "all", "."]]  # of both batch elements
    monkeypatch.setattr("attncli.engine.report.pictures", lambda *_: [])
    result = over_layers(dict.fromkeys(words, shape), {layer: {"queries": names[layer]} for layer in words})
    result.tensors["cross/a/scores"][:] = VALUES
    (tmp_path / "report.html").write_text(
        page_of([StoredRun(Path(), result, StoredResult.of(result))]), encoding="utf-8"
    )
    page = open_page(tmp_path / "report.html")
    for layer, batch in (("decoder", "1"), ("encoder", "1"), ("decoder", "0"), ("cross", "1")):
        choose(page, "layer", layer)
        choose(page, "batch", batch)
        point(page, 0, 1, 0, len(VALUES), 3)
        word = names[layer][int(batch) % len(names[layer])][1]
        query = f"query 1: {word}"
        expect(page.locator("#tip")).to_contain_text(query)
        expect(page.locator(".view h3").first).to_have_text(f"scores of {query}")
        expect(page.locator(".names.rows").first.locator("bdi").nth(1)).to_have_text(word)
    expect(page.locator(".view .wide tbody td:nth-child(2)")).to_have_text([number(each) for each in VALUES.tolist()])
