"""Matrices in a browser have the numbers of the run."""

import json
import re
import shlex
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pytest
from matplotlib import colormaps
from playwright.sync_api import Locator, Page, expect
from safetensors.numpy import load_file

from attncli.engine.runs.loading import StoredRun
from attncli.show.page.report import report as page_of
from attncli.show.pictures.scales import colour_scale
from tests.cli import good
from tests.show.page.conftest import Open, ready, report
from tests.show.page.pages import TOKENS, attention, box_of, choose, has_numbers, pixels, point, settles, state
from tests.show.page.test_numbers import over_layers

pytestmark = pytest.mark.usefixtures("sketches")

STAGES = ("scores", "weights")
FIRST = "batch=0&head=0"
LABELS = ("additive", "scaled_dot", "dot")


@pytest.fixture
def page(open_page: Open, file: Path) -> Page:
    return open_page(file, FIRST)


def test_values_under_the_pointer_are_those_of_the_run(page: Page, folder: Path) -> None:
    tensors = load_file(folder / "tensors.safetensors")
    for name, value in {"stage": "scores", "batch": "1", "head": "2"}.items():
        choose(page, name, value)
    expect(page.locator(".cells").first).to_have_attribute("aria-label", re.compile("scores, batch 1, head 2"))
    for row, column in ((0, 0), (7, 3), (11, 11)):
        point(page, 1, row, column)
        expect(page.locator("#tip .head")).to_contain_text(f"query {row}: {TOKENS[row]}")
        expected = [tensors[f"{label}/{kind}"][1, 2, row, column].item() for label in LABELS for kind in STAGES]
        has_numbers(page.locator("#tip td.number"), expected)
    point(page, 0, 2, 7)
    expect(page.locator("#tip")).to_contain_text("masked")
    expect(page.locator("#tip td")).to_have_count(0)


def test_the_row_is_a_table_that_sorts(page: Page, folder: Path) -> None:
    tensors = load_file(folder / "tensors.safetensors")
    page.get_by_text("This row as a table").click()
    point(page, 0, 9, 2)
    expect(page.locator(".stage h3").first).to_contain_text("query 9")
    valid = tensors["valid"][0, 0, 9]
    rows = page.locator(".stage details").first.locator("tbody tr")
    expect(rows.locator("td:nth-child(2)")).to_have_text(TOKENS[: int(valid.sum())])
    for index, label in enumerate(LABELS):
        expected = tensors[f"{label}/weights"][0, 0, 9][valid]
        has_numbers(rows.locator(f"td:nth-child({3 + index})"), expected.tolist())
    page.locator(".stage details th button", has_text="scaled_dot").click()
    for row in (9, 10):
        point(page, 0, row, 2)
        weights = tensors["scaled_dot/weights"][0, 0, row][tensors["valid"][0, 0, row]]
        has_numbers(rows.locator("td:nth-child(4)"), sorted(weights.tolist(), reverse=True))


@pytest.fixture(scope="module")
def layers(minilm_run: Path, sketches: object) -> Path:
    """Write the page of a run over layers."""
    return report(minilm_run.parent / "report.html", minilm_run)


def test_findings_lead_to_what_they_name(open_page: Open, minilm_run: Path, layers: Path) -> None:
    """The page of a model opens on the first layer and head that a finding names; each finding opens its own."""
    page = open_page(layers)
    findings = json.loads((minilm_run / "results.json").read_text(encoding="utf-8"))["findings"]
    cells = page.locator(".cells").first
    named = [each["numbers"] for each in findings if "layer" in each["numbers"]]
    expect(cells).to_have_attribute("aria-label", re.compile(f"layer {named[0]['layer']}, head {named[0]['head']}:"))
    links = page.locator(".findings a")
    texts = [each["text"] for each in findings if each["label"] or "a" in each["numbers"]]
    expect(links).to_have_text(texts)
    assert (texts[0], len(named)) == (findings[1]["text"], len(findings) - 1)  # the first is about the file
    assert len({(each["layer"], each["head"]) for each in named}) > 1
    for link, numbers in zip(links.all(), named, strict=True):
        link.click()
        expect(cells).to_have_attribute("aria-label", re.compile(f"layer {numbers['layer']}, head {numbers['head']}:"))
    label = next(each["label"] for each in reversed(findings))
    expect(page.locator("figure:focus-within figcaption bdi")).to_have_text(label)
    address = links.last.get_attribute("href")
    page.goto(f"{page.url.partition('#')[0]}{address}")
    page.reload()
    ready(page)
    expect(cells).to_have_attribute("aria-label", re.compile(f"layer {named[-1]['layer']}, head {named[-1]['head']}:"))


def test_a_click_holds_a_cell(page: Page) -> None:
    point(page, 0, 5, 3)
    page.mouse.down()
    page.mouse.up()
    expect(page.get_by_role("button", name="release")).to_be_visible()
    point(page, 0, 9, 1)
    expect(page.locator("#tip .head")).to_contain_text("query 9")  # values are read nonetheless
    expect(page.locator(".stage h3").first).to_contain_text("query 5")
    page.get_by_role("button", name="release").click()
    point(page, 0, 9, 1)
    expect(page.locator(".stage h3").first).to_contain_text("query 9")


def picture(page: Page, panel: int) -> Locator:
    return page.locator(".cells canvas").nth(panel)


@pytest.mark.parametrize("minus", [None, "scaled_dot"])
@pytest.mark.parametrize("colours", [None, "log"])
def test_colours_are_those_of_the_scale(
    open_page: Open, file: Path, folder: Path, minus: str | None, colours: str | None
) -> None:
    """Panels and small pictures of all heads have these colours in both themes; numbers in cells and at bars agree."""
    tensors = load_file(folder / "tensors.safetensors")
    valid, chosen = tensors["valid"], {"batch": "0", "head": "1", "minus": minus, "colours": colours, "cell": "40"}
    values = {label: tensors[f"{label}/weights"] for label in LABELS}
    if minus:
        values = {label: each - values[minus] for label, each in values.items() if label != minus}
    shared = np.stack([each[valid] for each in values.values()])
    kind: Any = colours
    scale = colour_scale([shared], "weights", kind=kind, is_difference=bool(minus))
    address = urlencode({key: each for key, each in chosen.items() if each})
    for theme, maps in {"light": ("Reds", "RdBu_r"), "dark": ("inferno", "berlin")}.items():
        page = open_page(file, address, color_scheme=theme)
        expect(page.locator(".stage code")).to_have_text(re.compile(f"minus {minus}" if minus else "--head 1"))
        for label, each in values.items():
            panel, cells = LABELS.index(label), each[0, 1][valid[0, 1]]
            small = {head: page.locator(".heads canvas").nth(4 * panel + head) for head in range(4)}
            for head, canvas in ((1, picture(page, panel)), *small.items()):
                share = np.ma.filled(scale.norm(scale.clip(each[0, head][valid[0, head]])), 0)
                expected = colormaps[maps[bool(minus)]](share, bytes=True)[:, :3].astype(int)
                shown = np.array([pixel[:3] for pixel in pixels(canvas) if pixel[3]])
                assert np.abs(shown - expected).max() <= 8  # of 255: a neighbour among the 256 colours
            written = [text for text in page.locator(".numbers").nth(panel).locator("span").all_inner_texts() if text]
            assert [float(text.replace("−", "-")) for text in written] == pytest.approx(
                cells.tolist(), rel=0.51, abs=0.005
            )
        bar = page.locator(".scale").nth(int(bool(minus)))
        ends = [float(text) for text in bar.locator(".ticks span").all_inner_texts()]
        assert [ends[0], ends[-1]] == pytest.approx([scale.low, scale.high], rel=0.06)


def test_scores_of_each_label_have_a_bar_and_colours_around_0(open_page: Open, file: Path, folder: Path) -> None:
    tensors = load_file(folder / "tensors.safetensors")
    valid, page = tensors["valid"], open_page(file, "stage=scores&batch=0&head=1", color_scheme="light")
    expect(page.locator(".caption").first).to_contain_text("scores")
    bars = page.locator(".scale:visible")
    assert bars.locator(".label").all_inner_texts() == [f"{label}: score" for label in LABELS]
    for panel, label in enumerate(LABELS):
        scores = tensors[f"{label}/scores"]
        end = float(np.abs(scores[valid]).max())
        ticks = [float(text) for text in bars.nth(panel).locator(".ticks span").all_inner_texts()]
        assert [ticks[0], ticks[2], ticks[-1]] == pytest.approx([-end, 0, end], rel=0.06)
        expected = colormaps["RdBu_r"]((scores[0, 1][valid[0, 1]] / end + 1) / 2, bytes=True)[:, :3].astype(int)
        shown = np.array([pixel[:3] for pixel in pixels(picture(page, panel)) if pixel[3]])
        assert np.abs(shown - expected).max() <= 8


def test_panels_fit_into_one_row(open_page: Open, big: Path, file: Path) -> None:
    for each, width in ((file, 1280), (big, 1280), (big, 800)):
        page = open_page(each, viewport={"width": width, "height": 900})
        boxes = [box for panel in page.locator("figure").all() if (box := panel.bounding_box())]
        assert len({box["y"] for box in boxes}) == 1
        assert max(box["x"] + box["width"] for box in boxes) <= width
    phone = open_page(file, viewport={"width": 390, "height": 900})
    lefts = [box["x"] for panel in phone.locator("figure").all() if (box := panel.bounding_box())]
    assert len(set(lefts)) == 1


def test_the_bar_of_a_key_selects_it(page: Page) -> None:
    point(page, 0, 7, 2)
    expect(page.locator(".stage h3").first).to_contain_text("query 7")
    bars = page.locator(".strips svg").nth(1)
    bars.hover(position={"x": 3.5 / 12 * box_of(bars)["width"], "y": 20})
    expect(page.locator("#tip .head")).to_contain_text("key 3")
    expect(page).to_have_url(re.compile("query=7&key=3"))


def test_panels_scroll_together(open_page: Open, big: Path) -> None:
    """A panel that was scrolled along with another panel does not scroll it back."""
    page = open_page(big, f"{FIRST}&cell=20", viewport={"width": 1280, "height": 500})
    still = page.evaluate(
        """() => {
            const [first, second] = document.querySelectorAll(".scroll");
            first.scrollTop = 100;
            first.dispatchEvent(new Event("scroll"));
            const followed = second.scrollTop;
            first.scrollTop = 200;
            second.dispatchEvent(new Event("scroll"));
            return [followed, first.scrollTop];
        }"""
    )
    assert still == [100, 200]
    expect(page.locator(".scroll").nth(1)).to_have_js_property("scrollTop", 200)


def test_a_view_is_sent_by_its_address(open_page: Open, file: Path) -> None:
    page = open_page(file, FIRST)
    for name, value in {"stage": "scores", "head": "3", "minus": "dot", "colours": "log"}.items():
        choose(page, name, value)
    page.locator("input[type=search]").fill("ju")
    point(page, 1, 8, 4)
    page.mouse.down()
    page.mouse.up()
    expect(page).to_have_url(re.compile("held=yes"))
    sent = state(page)
    about = page.locator(".cells").nth(1).get_attribute("aria-label")
    assert {key: value for key, value in sent.items() if key != "batch"} == {
        "stage": "scores", "head": "3", "minus": "dot", "colours": "log",
        "query": "8", "key": "4", "held": "yes", "search": "ju",
    }  # fmt: skip
    received = open_page(file, page.url.partition("#")[2])
    assert state(received) == sent
    assert received.locator(".cells").nth(1).get_attribute("aria-label") == about
    expect(received.locator(".stage h3").first).to_contain_text("scores of query 8")
    expect(received.get_by_role("button", name="release")).to_be_visible()
    expect(received.locator(".rows").first.locator(".found")).to_have_text(["jumps"])
    command = received.locator(".stage code").inner_text()
    assert command.startswith("attncli heatmap ")
    assert command.endswith(" --stage scores --batch 0 --head 3 --minus dot --colours log")
    formula = re.compile(r"^additive − dot w_v \. tanh\(W_q q \+ W_k k\) \(")
    expect(received.locator("figcaption").first).to_have_text(formula)
    assert pixels(picture(received, 1)) == pixels(picture(page, 1))


def test_a_choice_is_taken_back(page: Page) -> None:
    """With the first option of these lists, `auto` and `nothing`, the view is again as it was at the beginning."""
    first, about = pixels(picture(page, 0)), str(page.locator(".cells").first.get_attribute("aria-label"))
    for name, value in (("colours", "linear"), ("colours", "log"), ("minus", "dot")):
        choose(page, name, value)
        expect(page).to_have_url(re.compile(f"{name}={value}"))
        choose(page, name, "auto" if name == "colours" else "nothing")
        expect(page).not_to_have_url(re.compile(name))
        expect(page.locator(".cells").first).to_have_attribute("aria-label", about)
        assert pixels(picture(page, 0)) == first


def test_back_and_forward(page: Page) -> None:
    cells = page.locator(".cells").first
    choose(page, "head", "2")
    choose(page, "stage", "scores")
    expect(cells).to_have_attribute("aria-label", re.compile("scores, batch 0, head 2"))
    page.go_back()
    expect(cells).to_have_attribute("aria-label", re.compile("weights, batch 0, head 2"))
    page.go_back()
    expect(cells).to_have_attribute("aria-label", re.compile("weights, batch 0, head 0"))
    page.go_forward()
    expect(cells).to_have_attribute("aria-label", re.compile("weights, batch 0, head 2"))
    page.evaluate("location.hash = 'head=1&stage=no&batch=99&query=-1&minus=nobody'")
    expect(cells).to_have_attribute("aria-label", re.compile(r"weights, batch \d, head 1"))


def test_keyboard_alone(page: Page) -> None:
    page.locator(".cells").first.focus()
    for key in ("Home", "PageUp", "ArrowDown", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    expect(page.locator("#tip .head")).to_contain_text("query 2: brown")
    expect(page.locator("#tip .head")).to_contain_text("key 1: quick")
    expect(page.locator("#said")).to_contain_text(re.compile("brown, quick: additive .*scaled_dot .*dot "))
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="release")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="hold")).to_be_visible()
    expect(page.locator("#tip")).to_be_hidden()


def is_seen(page: Page, row: int, column: int, size: int) -> bool:
    """Whether a cell of the first panel is visible and not covered."""
    found: bool = page.locator(".cells").first.evaluate(
        """(cells, [row, column, size]) => {
            const box = cells.getBoundingClientRect();
            const x = box.left + ((column + 0.5) / size) * box.width;
            const y = box.top + ((row + 0.5) / size) * box.height;
            return cells.contains(document.elementFromPoint(x, y));
        }""",
        [row, column, size],
    )
    return found


def test_the_cell_is_in_sight_where_cells_are_large(open_page: Open, big: Path) -> None:
    """The cell may be moved by buttons or keys, held or not; a resting pointer does not change it."""
    page = open_page(big, f"{FIRST}&cell=20", viewport={"width": 1280, "height": 700})
    row, column = (
        int(page.locator(".panels").evaluate(f"(panels) => panels.style.getPropertyValue('--{name}')"))
        for name in ("row", "column")
    )
    assert not is_seen(page, row, column, 256), "or the button has nothing to do"
    page.get_by_role("button", name="largest difference").click()
    expect(page.locator(".stage h3").first).to_contain_text(f"query {row}")
    settles(page, lambda: is_seen(page, row, column, 256), True)
    page.locator(".cells").first.focus()
    for key in ("Home", *["PageUp"] * 26, "Enter", *["PageDown"] * 4, "End"):
        page.keyboard.press(key)
    expect(page.locator("#tip .head")).to_contain_text("query 40")
    expect(page).to_have_url(re.compile("held=yes"))
    settles(page, lambda: is_seen(page, 40, 255, 256), True)
    page.keyboard.press("Escape")
    expect(page.locator("#tip")).to_be_hidden()
    expect(page.locator(".stage h3").first).to_contain_text("query 40")
    expect(page.get_by_role("button", name="hold")).to_be_attached()
    settles(page, lambda: is_seen(page, 40, 255, 256), True)
    page.keyboard.press("PageUp")
    expect(page.locator("#tip .head")).to_contain_text("query 30")
    page.keyboard.press("Tab")
    expect(page.locator("#tip")).to_be_hidden()


def test_indices_are_named_in_round_steps(open_page: Open, big: Path) -> None:
    for cell, step in ((2, 10), (1, 20), (6, 2)):
        page = open_page(big, f"cell={cell}")
        names = [int(text) for text in page.locator(".rows").first.locator("bdi").all_inner_texts()]
        assert {index % step for index in names} == {0}
        assert names[-2:] == [names[-1] - step, names[-1]]


def test_thumbnails_by_keyboard(page: Page) -> None:
    expect(page.locator(".overview")).to_have_attribute("open", "")
    expect(page.locator(".heads button")).to_have_count(12)
    assert box_of(page.locator(".heads canvas").first)["width"] <= 48
    page.locator(".heads button[tabindex='0']").focus()
    for key in ("ArrowRight", "ArrowDown", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    expect(page.locator(".cells").first).to_have_attribute("aria-label", re.compile("head 2"))
    expect(page.locator(".heads button:focus")).to_have_attribute("aria-label", "scaled_dot, head 2")
    expect(page.locator(".heads button[aria-pressed=true]")).to_have_count(3)


def test_search_steps_through_what_it_finds(open_page: Open, file: Path) -> None:
    page = open_page(file, f"{FIRST}&query=0&key=0")
    page.locator("input[type=search]").press_sequentially("the")
    expect(page.locator(".rows").first.locator(".found")).to_have_text(["the", "the", "then"])
    expect(page.get_by_text("3 queries, 3 keys")).to_be_visible()
    for index in (6, 10, 0, 6):
        page.locator("input[type=search]").press("Enter")
        expect(page.locator(".stage h3").first).to_have_text(f"weights of query {index}: {TOKENS[index]}")


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("big") / "big"
    shape = {"shape": [1, 12, 256, 16]}
    data = {"queries": shape, "keys": shape, "values": shape}
    attention(folder, data=data, mask={}, tokens={}, scorers=["scaled_dot", "cosine"])
    return report(folder.parent / "big.html", folder)


def test_each_of_several_runs_has_its_own_state(open_page: Open, folder: Path) -> None:
    attention(folder.parent / "other")
    page = open_page(report(folder.parent / "both.html", folder, folder.parent / "other"))
    sections = page.locator("section.run")
    sections.nth(1).locator("select").first.select_option("scores")
    choose(page, "minus", "dot")
    settles(page, lambda: state(page), {"1.stage": "scores", "0.minus": "dot"})
    page.locator("nav a").nth(1).click()
    expect(sections.nth(0)).to_be_in_viewport()
    assert state(page) == {"1.stage": "scores", "0.minus": "dot"}
    page.reload()
    ready(page)
    expect(sections.nth(1).locator(".cells").first).to_have_attribute("aria-label", re.compile("scores"))
    expect(sections.nth(0).locator(".cells").first).to_have_attribute("aria-label", re.compile("weights"))


def test_layers_have_their_names(open_page: Open, layers: Path, tmp_path: Path) -> None:
    page = open_page(layers)
    layer = "encoder.layer.{}.attention.self"
    choose(page, "layer", layer.format(3))
    expect(page.locator(".cells").first).to_have_attribute("aria-label", re.compile(f"layer {layer.format(3)}, head"))
    expect(page.locator(".stage code")).to_have_text(
        re.compile(f" --stage weights --batch 0 --layer {layer.format(3)} --head ")
    )
    words = shlex.split(page.locator(".stage code").inner_text())[1:]
    good(*words, "--out", tmp_path / "drawn.png", "--quiet")
    expect(page.locator(".heads button")).to_have_count(4 * 6 * 12)
    expect(page.locator(".heads button[aria-pressed=true]")).to_have_count(4)
    page.get_by_role("button", name=f"cosine, {layer.format(5)}, head 7").click()
    expect(page.locator(".cells").first).to_have_attribute("aria-label", re.compile(f"{layer.format(5)}, head 7"))
    expect(page).to_have_url(re.compile("layer=5&head=7"))


def test_each_layer_has_its_tokens(open_page: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The names beside the matrix, in the box, and above the row follow the layer and the batch element."""
    words, shape = {"encoder": "cat", "decoder": "chat"}, (2, 1, 3, 3)
    names = {layer: [["[CLS]", f"{word}{batch}", "."] for batch in "01"] for layer, word in words.items()}
    monkeypatch.setattr("attncli.show.page.report.pictures", lambda *_: [])
    result = over_layers(dict.fromkeys(words, shape), {layer: {"queries": names[layer]} for layer in words})
    (tmp_path / "report.html").write_text(page_of([StoredRun(Path(), result, {})]), encoding="utf-8")
    page = open_page(tmp_path / "report.html")
    for layer, batch in (("decoder", "1"), ("encoder", "1"), ("decoder", "0")):
        choose(page, "layer", layer)
        choose(page, "batch", batch)
        point(page, 0, 1, 0, 3)
        named = f"query 1: {words[layer]}{batch}"
        expect(page.locator("#tip .head")).to_contain_text(named)
        expect(page.locator(".stage h3").first).to_have_text(f"scores of {named}")
        expect(page.locator(".names.rows").first.locator("bdi").nth(1)).to_have_text(f"{words[layer]}{batch}")
