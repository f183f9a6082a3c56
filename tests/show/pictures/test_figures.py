"""Figures as files: the same bytes every time with any settings of the user, in as few fonts as possible."""

from pathlib import Path
from typing import Any

import matplotlib
import pytest
import torch
from pypdf import PdfReader

from attncli.attention import valid_mask
from attncli.results import Tokens
from attncli.show.pictures import figures
from attncli.show.pictures.figures import Picture, fonts_for, save_figure
from attncli.show.pictures.panels import PlainFormatter
from tests.show.pictures.drawn import ONLY_STIX, draw, heatmap, labels, panels, ticks, weights

pytestmark = pytest.mark.usefixtures("sketches")


def figure() -> Picture:
    """Return a heatmap with every kind of element."""
    matrix = weights(2, 3, 4)
    matrix[0, 0, 0] = torch.nan
    tokens = Tokens([["$a_b$", "ж", "3"]] * 2, None)
    return heatmap(matrix, valid=valid_mask((2, 3, 4), [2, 4]), tokens=tokens).figure


@pytest.mark.usefixtures("laid_out")
@pytest.mark.parametrize("ending", [".PNG", ".svg", ".pdf"])
def test_the_same_matrices_give_the_same_bytes(tmp_path: Path, ending: str) -> None:
    first, second = tmp_path / f"first{ending}", tmp_path / f"second{ending}"
    save_figure(figure(), first)
    save_figure(figure(), second)
    assert first.read_bytes() == second.read_bytes()
    starts = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}
    assert first.read_bytes().startswith(starts[ending.lower()])


def test_svgs_hold_every_panel_and_no_date(tmp_path: Path) -> None:
    figure().savefig(tmp_path / "a.svg")  # as users of Python do
    text = (tmp_path / "a.svg").read_text("utf-8")
    assert text.count("<image ") >= 2
    assert ">weight</text>" in text
    assert "dc:date" not in text
    assert "Matplotlib v" not in text


def test_pdfs_have_no_date_and_true_type_fonts(tmp_path: Path) -> None:
    save_figure(figure(), tmp_path / "a.pdf")
    content = (tmp_path / "a.pdf").read_bytes()
    assert b"CreationDate" not in content
    assert b"/CIDFontType2" in content
    assert b"/Type3" not in content
    read = PdfReader(tmp_path / "a.pdf").pages[0].extract_text()
    assert all(text in read for text in ("attention weight", "$a_b$", "ж", "Keys", "masked"))


def test_fonts_that_true_type_may_not_hold_are_embedded_otherwise(tmp_path: Path) -> None:
    save_figure(heatmap(weights(1, 1, 1), tokens=Tokens([[ONLY_STIX]], None)).figure, tmp_path / "a.pdf")
    content = (tmp_path / "a.pdf").read_bytes()
    assert b"/CIDFontType2" not in content
    assert b"/Type3" in content


def test_the_users_settings_do_not_count(tmp_path: Path) -> None:
    settings: dict[Any, Any] = {"text.usetex": True, "savefig.dpi": 30, "savefig.bbox": "tight"}
    settings["figure.constrained_layout.use"] = True
    save_figure(figure(), tmp_path / "usual.png")
    with matplotlib.rc_context():
        for name, value in settings.items():
            matplotlib.rcParams[name] = value
        save_figure(figure(), tmp_path / "changed.png")
        assert {name: matplotlib.rcParams[name] for name in settings} == settings
    assert (tmp_path / "usual.png").read_bytes() == (tmp_path / "changed.png").read_bytes()


def test_another_font_is_used_for_what_the_default_lacks() -> None:
    families, lost = fonts_for(["a", ONLY_STIX])
    assert len(families) == 2
    assert not lost
    (axes,) = panels(heatmap(weights(1, 2, 1), tokens=Tokens([[ONLY_STIX, "a"]], None)).figure)
    assert labels(axes, "y") == [ONLY_STIX, "a"]
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
    monkeypatch.setattr(figures, "FALLBACKS", ())
    heat = heatmap(weights(2, 1, 2), tokens=Tokens([[token]] * 2, [[token, "a"]] * 2))
    (note,) = heat.notes
    assert note.startswith(
        f"warning: no installed font can draw {lost} (drawn as boxes); install one that can, such as Noto Sans"
    )
    draw(heat.figure)


def test_small_and_large_ticks_are_powers_of_ten_with_their_signs() -> None:
    form = PlainFormatter()
    assert form.format_ticks([-0.5, 0.0, 0.001, 90_000.0]) == ["−0.5", "0", "0.001", "90000"]
    assert form.format_ticks([-2e6, -1e-5, 0.0, 5.0]) == ["−2·10⁶", "−10⁻⁵", "0", "5·10⁰"]
