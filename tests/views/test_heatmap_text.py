"""Ticks, tokens and fonts."""

from itertools import pairwise

import pytest
from matplotlib.font_manager import fontManager

from attncli.errors import InputError
from attncli.studies.study import Matrices, Tokens
from attncli.views import fonts
from attncli.views.fonts import typeface_for
from attncli.views.heatmaps import heatmap_figure
from tests.views.artists import ONLY_STIX, artists, draw, heatmap, inches, panels, renderer, weights, words


def test_ticks_stand_at_the_middle_of_true_cells() -> None:
    figure = heatmap(weights(1, 3000, 1500)).figure
    left, top, width, height = inches(figure, panels(figure)[0])
    for gid, count in (("key", 1500), ("query", 3000)):
        ticks = artists(figure, gid)
        assert len(ticks) > 2
        for tick in ticks:
            x, y = tick.get_position()
            place = (x - left) / width if gid == "key" else (figure.get_figheight() - y - top) / height
            assert place * count == pytest.approx(int(tick.get_text()) + 0.5)


def test_numbered_ticks_keep_their_distance() -> None:
    for m in (1, 2, 7, 31, 1000, 12345):
        figure = heatmap(weights(1, 2, m)).figure
        ticks = artists(figure, "key")
        measure = renderer(figure)
        boxes = [tick.get_window_extent(measure) for tick in ticks]
        assert all(second.x0 > first.x1 for first, second in pairwise(boxes))
        assert ticks[0].get_text() == "0"
        assert m == 1 or len(ticks) > 1


def test_tokens_name_the_ticks_of_their_batch_element() -> None:
    tokens = Tokens([["q0", "q1"], ["r0", "r1"]], [["k0", "k1", "k2"], ["l0", "l1", "l2"]])
    figure = heatmap(weights(2, 2, 3), weights(2, 2, 3), tokens=tokens).figure
    assert words(figure, "query") == ["q0", "q1", "r0", "r1"]  # the left column only
    assert words(figure, "key") == ["k0", "k1", "k2"] * 2 + ["l0", "l1", "l2"] * 2  # every row: they differ
    beside = heatmap(weights(2, 2, 3), tokens=tokens).figure
    assert words(beside, "query") == ["q0", "q1", "r0", "r1"]
    same = Tokens(None, [["k0", "k1", "k2"]] * 2)
    figure = heatmap(weights(2, 2, 3), weights(2, 2, 3), tokens=same).figure
    assert words(figure, "key") == ["k0", "k1", "k2"] * 2
    assert words(figure, "query") == ["0", "1"] * 2


def test_long_names_of_keys_stand_upright() -> None:
    for names, rotation in ((["a", "b"], 0), (["a", "unbelievable"], 90)):
        figure = heatmap(weights(1, 2, 2), tokens=Tokens(None, [names])).figure
        assert [tick.get_rotation() for tick in artists(figure, "key")] == [rotation] * 2


def test_tokens_that_cannot_all_be_read_are_thinned_out_with_a_note() -> None:
    names = [f"token{i}" for i in range(200)]
    heat = heatmap(weights(1, 200, 200), tokens=Tokens([names], [names]))
    shown = words(heat.figure, "query")
    step = 200 // len(shown) if 200 % len(shown) == 0 else 200 // len(shown) + 1
    assert shown == words(heat.figure, "key") == names[::step]
    assert step > 1
    assert f"too many tokens to label them all: of the queries one in {step}, of the keys one in {step}" in heat.notes
    assert heatmap(weights(1, 30, 30), tokens=Tokens([names[:30]], [names[:30]])).notes == ()


def test_tokens_are_drawn_as_they_are() -> None:
    tokens = ["$x^2$", "a_b", "\\frac{", "$", "a\nb", "\t", "", "x" * 40]
    shown = ["$x^2$", "a_b", "\\frac{", "$", "a\\nb", "\\t", "''", "x" * 23 + "…"]
    figure = heatmap(weights(1, 8, 8), tokens=Tokens([tokens], [tokens])).figure
    assert words(figure, "key") == words(figure, "query") == shown
    assert not any(text.get_parse_math() for text in artists(figure, "key") + artists(figure, "title"))
    draw(figure)


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        (Tokens([["a"]], None), "got 1 query tokens for batch element 0; expected 2"),
        (Tokens(None, [["a"] * 3, ["a"] * 4]), "got 4 key tokens for batch element 1; expected 3"),
        (
            Tokens(None, [["a"] * 3] * 2),
            "got key tokens for 2 batch elements; expected them for batch element 2 too",
        ),
    ],
)
def test_tokens_that_do_not_fit_are_refused(tokens: Tokens, message: str) -> None:
    with pytest.raises(InputError) as error:
        heatmap(weights(3, 2, 3), tokens=tokens)
    assert str(error.value) == message


def test_long_labels_lose_their_middle() -> None:
    label = "scaled dot product with a very long name, variant 7"
    (title,) = words(heatmap_figure(Matrices("weights", {label: weights(2, 2)})).figure, "title")
    head, tail = title.split("…")
    assert label.startswith(head)
    assert label.endswith(tail)
    assert 1.4 <= typeface_for([label]).width(title, 9) <= 1.6


def test_the_default_font_alone_is_used_for_what_it_can_draw() -> None:
    assert typeface_for(["abc", "déjà vu", "ждать", "−∞ ≤ α", "😀"]).families == (fonts.DEFAULT,)


def test_another_font_is_used_for_what_the_default_lacks() -> None:
    face = typeface_for(["a", ONLY_STIX])
    assert len(face.families) == 2
    assert not face.missing
    figure = heatmap(weights(1, 1, 1), tokens=Tokens([[ONLY_STIX]], None)).figure
    (tick,) = artists(figure, "query")
    assert tick.get_fontfamily() == list(face.families)
    assert tick.get_text() == ONLY_STIX
    draw(figure)  # would warn, and so fail, of a missing glyph


@pytest.mark.parametrize(
    "token", ["我", "かな", "한", "👨\u200d👩\u200d👧", "❤\ufe0f", "क", "\U0010fffd", "\ud800", "e\u0301"]
)
def test_what_no_font_has_is_a_box_and_a_note_and_never_a_warning(token: str) -> None:
    heat = heatmap(weights(1, 1, 2), tokens=Tokens([[token]], [[token, "a"]]))
    draw(heat.figure)
    (shown,) = words(heat.figure, "query")
    assert ("□" in shown) == any("no installed font can draw" in note for note in heat.notes)


@pytest.mark.parametrize(
    ("token", "lost", "font"),
    [
        ("我爱", "我 爱", "Noto Sans CJK (Debian, Ubuntu: fonts-noto-cjk)"),
        ("かな한", "か な 한", "Noto Sans CJK (Debian, Ubuntu: fonts-noto-cjk)"),
        ("👨\u200d👩", "👨 👩", "Noto Emoji or Symbola"),
        ("क", "क", "Noto Sans Devanagari"),
        ("我👨", "我 👨", "Noto Emoji or Symbola and Noto Sans CJK (Debian, Ubuntu: fonts-noto-cjk)"),
    ],
)
def test_the_note_says_once_which_font_to_install(
    monkeypatch: pytest.MonkeyPatch, token: str, lost: str, font: str
) -> None:
    monkeypatch.setattr(fonts, "_candidates", lambda lacking: [])
    heat = heatmap(weights(2, 1, 2), weights(2, 1, 2), tokens=Tokens([[token]] * 2, [[token, "a"]] * 2))
    assert heat.notes == (f"no installed font can draw {lost} (drawn as □); install {font}",)
    assert words(heat.figure, "query") == ["□" * len(lost.split())] * 2
    draw(heat.figure)


def test_fonts_made_for_the_script_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = {"AR PL UMing", "Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans CJK KR", "DejaVu Serif"}
    monkeypatch.setattr(fonts, "_installed", lambda: installed)
    monkeypatch.setattr(fonts, "_notice_new_fonts", lambda: None)
    for text, best in (("我", "SC"), ("我かな", "JP"), ("한", "KR")):
        names = list(fonts._candidates(set(text)))
        assert names[0] == f"Noto Sans CJK {best}"
        assert sorted(names) == sorted(installed)


def test_fonts_installed_since_matplotlib_last_looked_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = [{"old"}, {"old", "new"}]
    monkeypatch.setattr(fonts, "_installed", lambda: seen[0])
    monkeypatch.setattr(fonts, "_notice_new_fonts", lambda: seen.pop(0))
    assert list(fonts._candidates({"我"})) == ["old", "new"]


def test_broken_and_bitmap_fonts_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def addfont(path: str) -> None:
        tried.append(path)
        raise NotImplementedError("Non-scalable fonts are not supported")

    monkeypatch.setattr(fonts, "findSystemFonts", lambda: ["/fonts/b.ttf", "/fonts/a.ttf"])
    monkeypatch.setattr(fontManager, "addfont", addfont)
    fonts._notice_new_fonts()
    assert tried == ["/fonts/a.ttf", "/fonts/b.ttf"]


@pytest.mark.parametrize("text", ["attention weight", "0.25", "Wij", "𝒳x", "我"])
def test_widths_are_those_that_are_drawn(text: str) -> None:
    face = typeface_for([text])
    figure = heatmap(weights(1, 1, 1), tokens=Tokens([[text]], None)).figure
    (tick,) = artists(figure, "query")
    box = tick.get_window_extent(renderer(figure))
    assert face.width(face.drawable(text), tick.get_fontsize()) == pytest.approx(box.width / figure.dpi, rel=0.1)
