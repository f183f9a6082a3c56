"""Fonts: as few as are needed, and a note where none has a glyph."""

import pytest

from attncli.show import figures
from attncli.show.figures import fonts_for
from attncli.studies.study import Tokens
from tests.show.drawn import ONLY_STIX, draw, heatmap, labels, panels, ticks, weights


def test_the_default_font_alone_is_used_for_what_it_can_draw() -> None:
    assert fonts_for(["abc", "déjà vu", "ждать", "−∞ ≤ α", "😀"]) == ([figures.DEFAULT_FONT], "")


def test_another_font_is_used_for_what_the_default_lacks() -> None:
    families, lost = fonts_for(["a", ONLY_STIX])
    assert len(families) == 2
    assert not lost
    (axes,) = panels(heatmap(weights(1, 1, 1), tokens=Tokens([[ONLY_STIX]], None)).figure)
    assert labels(axes, "y") == [ONLY_STIX]
    assert ticks(axes, "y")[0].get_fontfamily() == families


@pytest.mark.parametrize(
    "token", ["我", "かな", "한", "👨\u200d👩\u200d👧", "❤\ufe0f", "क", "\U0010fffd", "\ud800", "e\u0301"]
)
def test_what_no_font_has_is_never_a_warning(token: str) -> None:
    draw(heatmap(weights(1, 1, 2), tokens=Tokens([[token]], [[token, "a"]])).figure)


@pytest.mark.parametrize(
    ("token", "lost"), [("👨\u200d👩", "👨 👩"), ("一二三四五六七八九", "一 七 三 九 二 五 八 六 …")]
)
def test_the_note_says_once_what_is_missing_and_what_to_install(
    monkeypatch: pytest.MonkeyPatch, token: str, lost: str
) -> None:
    monkeypatch.setattr(figures, "_candidates", lambda lacking: [])
    heat = heatmap(weights(2, 1, 2), tokens=Tokens([[token]] * 2, [[token, "a"]] * 2))
    (note,) = heat.notes
    assert note.startswith(
        f"no installed font can draw {lost} (drawn as boxes); install one that can, such as Noto Sans"
    )
    draw(heat.figure)
