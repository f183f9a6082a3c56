"""Matrices in a browser: what is read there is what the run has."""

import itertools
import re
import shlex
from pathlib import Path
from urllib.parse import urlencode

import numpy as np
import pytest
from matplotlib import colormaps
from playwright.sync_api import Locator, Page, expect
from safetensors.numpy import load_file

from attncli import reports
from attncli.config.looks import HeatmapLook
from attncli.runs.loading import read_run
from attncli.show.colours import scaling_of
from attncli.studies import STUDIES
from tests.cli import experiment, good, run
from tests.show.report.conftest import Open, ready, report
from tests.show.report.pages import TOKENS, attention, choose, has_numbers, pixels, point, settles, state

STAGES = ("scores", "weights")
FIRST = "batch=0&head=0"
LABELS = ("additive", "scaled_dot", "dot")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("attention") / "small"
    attention(out)
    return out


@pytest.fixture(scope="module")
def file(folder: Path) -> Path:
    return report(folder.parent / "report.html", folder)


@pytest.fixture
def page(open_page: Open, file: Path) -> Page:
    return open_page(file, FIRST)


@pytest.mark.parametrize("stage", STAGES)
def test_values_under_the_pointer_are_those_of_the_run(page: Page, folder: Path, stage: str) -> None:
    tensors = load_file(folder / "tensors.safetensors")
    for name, value in {"stage": stage, "batch": "1", "head": "2"}.items():
        choose(page, name, value)
    expect(page.locator(".cells").first).to_have_attribute("aria-label", re.compile(f"{stage}, batch 1, head 2"))
    for row, column in ((0, 0), (7, 3), (11, 11)):
        point(page, 1, row, column)
        expect(page.locator("#tip .head")).to_contain_text(f"query {row}: {TOKENS[row]}")
        expected = [tensors[f"{label}/{kind}"][1, 2, row, column].item() for label in LABELS for kind in STAGES]
        has_numbers(page.locator("#tip td.number"), expected)


def test_the_row_is_a_table_that_sorts(page: Page, folder: Path) -> None:
    tensors = load_file(folder / "tensors.safetensors")
    page.get_by_text("This row as a table").click()
    point(page, 0, 9, 2)
    expect(page.locator(".stage h3").first).to_contain_text("query 9")
    valid = tensors["valid"][0, 0, 9]
    rows = page.locator(".stage details").first.locator("tbody tr")
    expect(rows).to_have_count(int(valid.sum()))
    for index, label in enumerate(LABELS):
        expected = tensors[f"{label}/weights"][0, 0, 9][valid]
        has_numbers(rows.locator(f"td:nth-child({3 + index})"), expected.tolist())
    page.locator(".stage details th button", has_text="scaled_dot").click()
    for row in (9, 10):
        point(page, 0, row, 2)
        weights = tensors["scaled_dot/weights"][0, 0, row][tensors["valid"][0, 0, row]]
        has_numbers(rows.locator("td:nth-child(4)"), sorted(weights.tolist(), reverse=True))


def test_a_masked_cell_says_so(page: Page) -> None:
    point(page, 0, 2, 7)
    expect(page.locator("#tip")).to_contain_text("masked")
    expect(page.locator("#tip td")).to_have_count(0)


def test_the_same_cell_is_outlined_in_all_panels(page: Page) -> None:
    point(page, 2, 11, 2)
    expect(page.locator(".stage h3").first).to_contain_text("query 11")
    marks, cells = page.locator(".mark.cell").all(), page.locator(".cells").all()
    boxes = [(mark.bounding_box(), cell.bounding_box()) for mark, cell in zip(marks, cells, strict=True)]
    places = {(round(mark["x"] - cell["x"]), round(mark["y"] - cell["y"])) for mark, cell in boxes if mark and cell}
    assert len(boxes) == 3
    assert len(places) == 1


def test_it_opens_on_the_largest_difference(open_page: Open, file: Path, folder: Path) -> None:
    page = open_page(file)
    tensors = load_file(folder / "tensors.safetensors")
    spread = np.ptp(np.stack([tensors[f"{label}/weights"] for label in LABELS]), axis=0)
    batch, head, row, _ = map(int, np.unravel_index(np.argmax(spread), spread.shape))
    expect(page.locator(".cells").first).to_have_attribute("aria-label", re.compile(f"batch {batch}, head {head}"))
    expect(page.locator(".stage h3").first).to_contain_text(f"query {row}:")
    point(page, 0, (row + 1) % 12, 0)
    expect(page.locator(".stage h3").first).not_to_contain_text(f"query {row}:")
    page.get_by_role("button", name="largest difference").click()
    expect(page.locator(".stage h3").first).to_contain_text(f"query {row}:")


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


def test_masked_cells_are_transparent(page: Page, folder: Path) -> None:
    valid = load_file(folder / "tensors.safetensors")["valid"][0, 0]
    assert [pixel[3] for pixel in pixels(picture(page, 0))] == [255 if each else 0 for each in valid.ravel()]


def test_colours_are_those_of_heatmaps(page: Page, folder: Path) -> None:
    tensors = load_file(folder / "tensors.safetensors")
    valid = tensors["valid"][0, 1]
    options = (STAGES, (None, "root", "log"), (None, "panel"), (None, "scaled_dot"))
    for stage, colours, scale, minus in itertools.product(*options):
        chosen = {"stage": stage, "batch": "0", "head": "1", "minus": minus, "scale": scale, "colours": colours}
        page.evaluate(
            "(text) => (location.hash = text)", urlencode({key: each for key, each in chosen.items() if each})
        )
        words = " ".join(f"--{key} {each}" for key, each in chosen.items() if each and key != "stage")
        expect(page.locator("code")).to_have_text(re.compile(f"--stage {stage} {words}$"))
        values = {label: tensors[f"{label}/{stage}"][0, 1] for label in LABELS}
        if minus:
            values = {label: each - values[minus] for label, each in values.items() if label != minus}
        look = HeatmapLook.model_validate({"colours": colours, "scale": scale, "minus": minus})
        scaling = scaling_of([each[valid] for each in values.values()], look, stage)
        for panel, (label, each) in enumerate(values.items()):
            share = scaling.norm(panel)(each[valid])
            expected = colormaps["RdBu_r" if minus else "Reds"](share, bytes=True)[:, :3].astype(int)
            shown = np.array([pixel[:3] for pixel in pixels(picture(page, LABELS.index(label))) if pixel[3]])
            assert np.abs(shown - expected).max() <= 8, chosen  # of 255: a neighbour among the 256 colours


def test_what_lies_beyond_the_colours_is_counted_at_their_bar(open_page: Open, tmp_path: Path) -> None:
    """Cells, or blocks of cells where these are joined; for a screen reader, too."""
    shape = {"shape": [1, 1, 160, 8], "std": 0.5}
    config = {"data": dict.fromkeys(("queries", "keys", "values"), shape), "mask": {"causal": "top_left"}}
    run(experiment(tmp_path / "causal.yaml", scorers=["scaled_dot"], **config), tmp_path / "run")
    valid = np.tril(np.ones((160, 160), bool))
    weights = load_file(tmp_path / "run" / "tensors.safetensors")["scaled_dot/weights"][0, 0]
    sums, counts = (each.reshape(32, 5, 32, 5).sum((1, 3)) for each in (weights * valid, valid))
    joined = sums[counts > 0] / counts[counts > 0]
    for budget, unit, values in ((10**6, "cell", weights[valid]), (1, "block", joined)):
        file = tmp_path / f"{unit}.html"
        file.write_text(reports.report([read_run(tmp_path / "run", STUDIES)], budget), encoding="utf-8")
        page = open_page(file)
        high = scaling_of([values], HeatmapLook(), "weights").ends[0][1]
        above = int((values > high * (1 + 1e-5)).sum())
        assert above > 0, "some are beyond"
        beyond = f"{above} {unit}{'s' * (above > 1)} above"
        expect(page.locator(".beyond span").last).to_have_text(f"{beyond} ▶")
        expect(page.locator(".beyond span").first).to_be_empty()
        expect(page.locator(".cells")).to_have_attribute("aria-label", re.compile(f", {beyond}$"))
        page.evaluate("() => (location.hash = 'colours=linear')")
        expect(page.locator(".beyond span").last).to_be_empty()


@pytest.mark.parametrize("colours", ["linear", "root", "log"])
def test_values_stand_at_the_colour_bar(open_page: Open, file: Path, folder: Path, colours: str) -> None:
    """Of both ends and of round numbers between; under the root and the logarithm those of heatmaps."""
    page = open_page(file, f"batch=0&head=1&minus=dot&colours={colours}")
    tensors = load_file(folder / "tensors.safetensors")
    valid = tensors["valid"][0, 1]
    weights = [tensors[f"{label}/weights"][0, 1][valid] for label in LABELS]
    look = HeatmapLook.model_validate({"colours": colours, "minus": "dot"})
    scaling = scaling_of([each - weights[-1] for each in weights[:-1]], look, "weights")
    spans = page.locator(".ticks").first.locator("span").all()
    values = [float(span.inner_text()) for span in spans]
    assert values[:2] == pytest.approx(scaling.ends[0], rel=1e-3)
    assert scaling.ends[0][0] < min(values[2:]) <= max(values[2:]) < scaling.ends[0][1]
    if scaling.ticks is not None:
        assert all(any(value == pytest.approx(tick) for tick in scaling.ticks) for value in values[2:])
    assert len(values) >= (3 if colours == "linear" else 5)
    boxes = [box for span in spans if (box := span.bounding_box())]
    sides = sorted((box["x"], box["x"] + box["width"]) for box in boxes)
    assert all(right < left for (_, right), (left, _) in itertools.pairwise(sides)), "none overlaps another"
    bar = page.locator(".scale canvas").first.bounding_box()
    assert bar is not None
    assert bar["x"] - 1 <= sides[0][0] < sides[-1][1] <= bar["x"] + bar["width"] + 1
    norm = scaling.norm(0)
    for box, value in zip(boxes[2:], values[2:], strict=True):
        at = (box["x"] + box["width"] / 2 - bar["x"]) / bar["width"]
        assert at == pytest.approx(float(norm(value)), abs=0.01)


def test_a_view_is_sent_by_its_address(open_page: Open, file: Path) -> None:
    page = open_page(file, FIRST)
    for name, value in {"stage": "scores", "head": "3", "minus": "dot", "colours": "log", "scale": "panel"}.items():
        choose(page, name, value)
    page.get_by_role("button", name="additive", exact=True).click()
    page.locator("input[type=search]").fill("ju")
    point(page, 1, 8, 4)
    page.mouse.down()
    page.mouse.up()
    expect(page).to_have_url(re.compile("held=yes"))
    sent = state(page)
    about = page.locator(".cells").nth(1).get_attribute("aria-label")
    assert {key: value for key, value in sent.items() if key != "batch"} == {
        "stage": "scores", "head": "3", "minus": "dot", "colours": "log", "scale": "panel",
        "query": "8", "key": "4", "held": "yes", "hidden": "additive", "search": "ju",
    }  # fmt: skip
    received = open_page(file, page.url.partition("#")[2])
    assert state(received) == sent
    assert received.locator(".cells").nth(1).get_attribute("aria-label") == about
    expect(received.locator(".stage h3").first).to_contain_text("scores of query 8")
    expect(received.get_by_role("button", name="release")).to_be_visible()
    expect(received.get_by_role("button", name="additive", exact=True)).to_have_attribute("aria-pressed", "false")
    expect(received.locator(".rows").first.locator(".found")).to_have_text(["jumps"])
    assert pixels(picture(received, 1)) == pixels(picture(page, 1))


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
    page.evaluate("location.hash = 'head=1&stage=no&batch=99&query=-1&hidden=nobody'")
    expect(cells).to_have_attribute("aria-label", re.compile(r"weights, batch \d, head 1"))


def test_the_command_draws_the_view(open_page: Open, file: Path, folder: Path) -> None:
    page = open_page(file, "stage=scores&batch=0&head=3&minus=scaled_dot&colours=log")
    command = page.locator("code").inner_text()
    assert command.startswith("attncli heatmap ")
    assert command.endswith(" --stage scores --batch 0 --head 3 --minus scaled_dot --colours log")


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
    """Whether a cell of the first panel is in sight, and nothing lies above it."""
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
    """Moved by a button or by keys, held or not; a resting pointer takes nothing away."""
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


def test_rounded_numbers_have_no_more_digits_than_are_known(open_page: Open, big: Path, page: Page) -> None:
    rounded = open_page(big, FIRST)
    bits = rounded.evaluate("JSON.parse(document.querySelector('.data').textContent).bits")
    for shown, digits, size in ((page, 4, 12), (rounded, 3, 256)):
        point(shown, 0, 11, 3, size)
        expect(shown.locator("#tip .head")).to_contain_text("query 11")
        texts = shown.locator("#tip td.number").all_inner_texts()
        counts = [len(text.partition("e")[0].lstrip("-0.").replace(".", "")) for text in texts]
        assert max(counts) == digits
    assert bits < 10


def test_indices_are_named_in_round_steps(open_page: Open, big: Path) -> None:
    for cell, step in ((2, 10), (1, 20), (6, 2)):
        page = open_page(big, f"cell={cell}")
        names = [int(text) for text in page.locator(".rows").first.locator("bdi").all_inner_texts()]
        assert {index % step for index in names} == {0}
        assert names[-2:] == [names[-1] - step, names[-1]]


def test_thumbnails_by_keyboard(page: Page) -> None:
    heads = page.locator(".heads button")
    expect(heads).to_have_count(12)
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


def test_many_heads_fit_into_a_page(open_page: Open, big: Path) -> None:
    assert big.stat().st_size < 6e6
    page = open_page(big)
    expect(page.locator(".cells").first).to_have_attribute("aria-label", re.compile("256 queries by 256 keys"))
    page.get_by_role("heading", name="All heads").click()
    expect(page.locator(".heads button")).to_have_count(24)
    expect(page.locator(".heads button[aria-pressed=true]")).to_have_count(2)


def test_each_of_several_runs_has_its_own_state(open_page: Open, folder: Path) -> None:
    attention(folder.parent / "other")
    page = open_page(report(folder.parent / "both.html", folder, folder.parent / "other"))
    sections = page.locator("section.run")
    sections.nth(1).locator("select").first.select_option("scores")
    sections.nth(0).locator(".legend button").first.click()
    settles(page, lambda: state(page), {"1.stage": "scores", "0.hidden": "additive"})
    page.locator("nav a").nth(1).click()
    expect(sections.nth(0)).to_be_in_viewport()
    assert state(page) == {"1.stage": "scores", "0.hidden": "additive"}
    page.reload()
    ready(page)
    expect(sections.nth(1).locator(".cells").first).to_have_attribute("aria-label", re.compile("scores"))
    expect(sections.nth(0).locator(".cells").first).to_have_attribute("aria-label", re.compile("weights"))


def test_layers_have_their_names(open_page: Open, tmp_path: Path) -> None:
    good("run", "minilm", "--no-plots", "--quiet", "--out", tmp_path / "minilm")
    page = open_page(report(tmp_path / "report.html", tmp_path / "minilm"))
    layer = "encoder.layer.{}.attention.self"
    choose(page, "layer", layer.format(3))
    expect(page.locator(".cells").first).to_have_attribute("aria-label", re.compile(f"layer {layer.format(3)}, head"))
    expect(page.locator("code")).to_have_text(
        re.compile(f" --stage weights --batch 0 --layer {layer.format(3)} --head ")
    )
    words = shlex.split(page.locator("code").inner_text())[1:]
    good(*words, "--out", tmp_path / "drawn.png", "--quiet")
    page.get_by_role("heading", name="All heads").click()
    expect(page.locator(".heads button")).to_have_count(4 * 6 * 12)
    expect(page.locator(".heads button[aria-pressed=true]")).to_have_count(4)
    page.get_by_role("button", name=f"cosine, {layer.format(5)}, head 7").click()
    expect(page.locator(".cells").first).to_have_attribute("aria-label", re.compile(f"{layer.format(5)}, head 7"))
    expect(page).to_have_url(re.compile("layer=5&head=7"))
