"""Given sizes of pages and text, and titles, checked in the saved files."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.lines import Line2D
from matplotlib.text import Text
from PIL import Image
from pypdf import PdfReader

from attncli.config.looks import HeatmapLook, Look
from attncli.errors import InputError
from attncli.results import Tokens
from attncli.show.pictures.figures import Picture, as_png, save_figure
from attncli.show.pictures.panels import draw_line, lay_out
from attncli.show.pictures.panels import panels as curves
from attncli.show.pictures.themes import look_sheet
from attncli.studies import study_figures
from tests.show.pictures.drawn import bars, check_texts, heatmap, labels, legend, panels, weights
from tests.studies.pairs.samples import swept

pytestmark = pytest.mark.usefixtures("sketches")

PAGES = [(3.3, 4.0, 7.0), (13.33, 7.5, 24.0)]


def variance(notes: list[str] | None = None, **looks: Any) -> Picture:
    """Return the picture of `variance` with two sizes d."""
    result = swept("variance", d=[2, 8], samples=400)
    note = (lambda text: None) if notes is None else notes.append
    return study_figures("variance")(result, note, Look(**looks))["variance"]()


def heat(notes: list[str] | None = None, **looks: Any) -> Picture:
    """Return a heatmap of four panels."""
    figure, found = heatmap(weights(2, 6, 8), weights(2, 6, 8, seed=1), look=HeatmapLook(**looks))
    if notes is not None:
        notes += found
    return figure


@pytest.mark.parametrize("make", [variance, heat])
def test_files_have_exactly_the_size_that_was_asked_for(make: Any, tmp_path: Path) -> None:
    page = make(size=[3.3, 4.1], dpi=100)
    for ending in ("png", "pdf", "svg"):
        save_figure(page, tmp_path / f"a.{ending}")
    with Image.open(tmp_path / "a.png") as image:
        assert image.size == (330, 410)
    box = PdfReader(tmp_path / "a.pdf").pages[0].mediabox
    assert [float(box.width), float(box.height)] == pytest.approx([3.3 * 72, 4.1 * 72])
    assert 'viewBox="0 0 237.6 295.2"' in (tmp_path / "a.svg").read_text("utf-8")


@pytest.mark.usefixtures("laid_out")
@pytest.mark.parametrize(("width", "height", "points"), PAGES)
def test_on_any_page_no_text_is_cut_off_or_overlaps(width: float, height: float, points: float) -> None:
    looks: dict[str, Any] = {"size": [width, height], "font_size": points, "theme": "dark"}
    heatmap = heat(**looks, colours="root")
    check_texts(heatmap)
    assert all(len(axes.get_yticks()) != 1 for axes in panels(heatmap)), "none, or both ends"
    assert len([text for text in heatmap.axes[-1].get_yticklabels() if text.get_text()]) > 2, "of the colour bar"
    notes = list[str]()
    figure = variance(notes, **looks)
    assert notes == []
    assert max(text.get_window_extent().x1 for text in figure.legends[0].get_texts()) <= figure.bbox.width
    box, page = figure.get_tightbbox(), figure.get_size_inches()
    assert min(box.x0, box.y0, page[0] - box.x1, page[1] - box.y1) >= 0
    assert min(axes.get_window_extent().height for axes in figure.axes) / figure.dpi > 0.5


@pytest.mark.parametrize("make", [variance, heat])
@pytest.mark.parametrize(("size", "given", "points"), [(None, None, 9.0), (None, 11, 11), ([10.5, 6.0], None, 13.5)])
def test_text_grows_with_pages_wider_than_seven_inches(make: Any, size: Any, given: Any, points: float) -> None:
    figure = make(size=size, font_size=given, **({"annotate": "no"} if make is heat else {}))
    figure.draw_without_rendering()
    assert {round(text.get_fontsize(), 2) for text in figure.findobj(Text) if text.get_text()} == {points}


FACTS = "normal entries, mean 0, std 1; 400 samples; "


@pytest.mark.usefixtures("laid_out")
@pytest.mark.parametrize(
    ("looks", "title", "subtitle"),
    [
        ({"title": "", "size": [6.0, 4.0]}, "", FACTS),
        ({"subtitle": ""}, "Variance and density of the scores", ""),
        ({"title": "Mine", "subtitle": "my $words$", "size": [13.33, 7.5]}, "Mine", "my $words$"),
    ],
)
def test_facts_stay_below_the_title_whatever_it_is(looks: dict[str, Any], title: str, subtitle: str) -> None:
    figure = variance(**looks)
    assert figure.get_suptitle() == title
    text = figure.subtitle
    assert text.get_text().startswith(subtitle) if subtitle else not text.get_text()
    check_texts(figure)


@pytest.mark.parametrize(("size", "columns"), [(None, 3), ([3.3, 2.5], 3), ([3.0, 9.0], 1)])
def test_three_panels_of_curves_stand_in_one_row_or_in_one_column_of_a_high_page(size: Any, columns: int) -> None:
    _, axes = curves(look_sheet(Look(size=size)), 3, "")
    assert axes[0].get_gridspec().ncols == columns  # type: ignore[union-attr]


def test_a_picture_of_its_own_size_has_no_more_dots_than_memory_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attncli.show.pictures.themes.MOST_DOTS", 1_000_000)
    with Image.open(io.BytesIO(as_png(heat(dpi=600)))) as image:
        assert image.width * image.height == pytest.approx(1_000_000, rel=0.01)


@pytest.mark.usefixtures("laid_out")
@pytest.mark.parametrize(("make", "name"), [(variance, "variance"), (heat, "heatmaps")])
def test_panels_that_are_too_small_to_read_are_one_note(make: Any, name: str) -> None:
    notes = list[str]()
    make(notes, size=[1.5, 1.0])
    given = "1.5 x 1 inches with text of 9 points"
    cure = "make the page larger, or draw one with --panel N"
    assert f"warning: {name}.png: the panels are too small to read on {given}; {cure}" in notes


@pytest.mark.usefixtures("laid_out")
def test_on_a_small_page_panels_have_the_room_of_the_legend() -> None:
    notes = list[str]()
    (axes,) = variance(notes, panel=1, size=[3.3, 1.9]).axes
    assert "variance.png: no room for the legend" in notes
    assert axes.get_window_extent().height / axes.figure.dpi > 4.5 * 9 / 72
    rows, _ = heatmap(*(weights(1, 64, seed=seed) for seed in range(6)), look=HeatmapLook(size=[3.3, 2.5]))
    assert min(axes.get_window_extent().height for axes in panels(rows)) / rows.dpi > 1.3 * 9 / 72


@pytest.mark.parametrize(("theme", "linestyle"), [("light", None), ("dark", "none"), ("print", None)])
def test_lines_on_top_of_each_other_are_all_seen(theme: Any, linestyle: str | None) -> None:
    """As lines and as points; lines that meet others in a few points are left as they are."""
    figure, (axes,) = curves(look_sheet(Look(theme=theme)), 1, "")
    lines, x = figure.sheet.lines(["dot", "additive", "cosine"]), np.arange(1.0, 5.0)
    style: dict[str, Any] = {} if linestyle is None else {"linestyle": linestyle}
    for look in lines.values():
        draw_line(axes, x, [x, x, x], look, **style)
    crossing = figure.sheet.lines(["gaussian"])["gaussian"]
    draw_line(axes, x, [5 - x, 5 - x, 5 - x], crossing)
    lay_out(figure, pytest.fail, "a")
    figure.canvas.draw()
    pixels = np.asarray(figure.canvas.buffer_rgba())[..., :3].reshape(-1, 3)  # type: ignore[attr-defined]
    for look in lines.values():
        own = np.round(255 * np.array(to_rgb(look["color"])))
        assert (np.abs(pixels - own).max(1) <= 2).sum() > 30, look["label"]
    last = axes.lines[-1]
    assert (last.get_markevery(), last.get_linestyle()) == (None, Line2D([], [], **crossing).get_linestyle())


@pytest.mark.usefixtures("laid_out")
@pytest.mark.parametrize(("count", "size"), [(3, None), (2, [3.3, 2.5])])
def test_numbers_of_a_colour_bar_around_zero_keep_their_distance(count: int, size: list[float] | None) -> None:
    scores = [8 * weights(6, 6, seed=seed) - 2 for seed in range(count)]
    figure = heatmap(*scores, stage="scores", look=HeatmapLook(size=size, colours="log", annotate="no")).figure
    check_texts(figure)
    for bar in bars(figure):
        texts = labels(bar, "x") + labels(bar, "y")
        assert "0" in texts
        assert [text.lstrip("−") for text in texts] == [text.lstrip("−") for text in texts[::-1]]


@pytest.mark.usefixtures("laid_out")
def test_on_a_slide_heads_stand_side_by_side_with_all_their_tokens() -> None:
    """Matrices of one query and key each are about as wide as high, not strips with every other token."""
    tokens = Tokens([["the", "cat", "sat", "on", "the", "mat"]], [["the", "cat", "sat", "on", "the", "mat"]])
    matrices = [weights(1, 4, 6, 6, seed=seed) for seed in (0, 1)]
    figure, notes = heatmap(*matrices, tokens=tokens, look=HeatmapLook(size=[13.33, 7.5]))
    assert notes == []
    assert panels(figure)[0].get_gridspec().ncols == 4  # type: ignore[union-attr]
    box = panels(figure)[0].get_window_extent()
    assert 0.7 < box.width / box.height < 1.5
    assert labels(panels(figure)[0], "y") == tokens.queries[0]  # type: ignore[index]
    check_texts(figure)
    assert panels(heatmap(*matrices, tokens=tokens).figure)[0].get_gridspec().ncols == 2  # type: ignore[union-attr]


def test_one_panel_alone_has_the_entries_of_its_lines() -> None:
    whole, alone = variance(), variance(panel=2)
    (axes,), before = alone.axes, whole.axes[1]
    assert axes.get_title().replace("\n", " ") == before.get_title().replace("\n", " ")
    for line, other in zip(axes.lines, before.lines, strict=True):
        np.testing.assert_array_equal(line.get_xydata(), other.get_xydata())
    entries = legend(alone)
    assert {*entries} == {str(line.get_label()).lstrip("_") for line in axes.lines} & {*legend(whole)}
    assert 0 < len(entries) < len(legend(whole))
    with pytest.raises(InputError, match=r"^panel: got 5; expected 1 to 4, a panel of"):
        variance(panel=5)
