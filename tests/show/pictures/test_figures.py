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
from attncli.show.pictures.figures import Picture, as_png, save_figure
from attncli.show.pictures.panels import PlainFormatter
from tests.show.pictures.drawn import ONLY_STIX, heatmap, labels, panels, ticks, weights

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
    assert not any(date in first.read_bytes() for date in (b"dc:date", b"CreationDate", b"Matplotlib v"))
    assert ending != ".svg" or first.read_text("utf-8").count("<image ") >= 2, "each panel"


def test_characters_that_the_font_lacks_come_from_another_which_a_pdf_embeds(tmp_path: Path) -> None:
    """True type, as publishers want it, holds the outlines of the default font, but not those of all others."""
    for token, families, kind in (("ж", 1, b"/CIDFontType2"), (ONLY_STIX, 2, b"/Type3")):
        drawn = heatmap(weights(1, 2, 1), tokens=Tokens([[token, "$a_b$"]], None)).figure
        (axes,) = panels(drawn)
        assert (labels(axes, "y"), len(ticks(axes, "y")[0].get_fontfamily())) == ([token, "$a_b$"], families)
        save_figure(drawn, tmp_path / "a.pdf")
        content = (tmp_path / "a.pdf").read_bytes()
        assert [each in content for each in (b"/CIDFontType2", b"/Type3")] == [families == 1, families == 2], kind
        read = PdfReader(tmp_path / "a.pdf").pages[0].extract_text()
        assert all(text in read for text in ("attention weight", "$a_b$", token, "Keys"))


def test_the_users_settings_do_not_count(tmp_path: Path) -> None:
    settings: dict[Any, Any] = {"text.usetex": True, "savefig.dpi": 30, "figure.constrained_layout.use": True}
    save_figure(figure(), tmp_path / "usual.png")
    with matplotlib.rc_context(settings):
        save_figure(figure(), tmp_path / "changed.png")
        assert {name: matplotlib.rcParams[name] for name in settings} == settings
    assert (tmp_path / "usual.png").read_bytes() == (tmp_path / "changed.png").read_bytes()


@pytest.mark.parametrize(
    ("token", "lost"),
    [("👨\u200d👩\ufe0f", "👨 👩"), ("一二三四五六七八九", "一 七 三 九 二 五 八 六 …"), ("\ud800e\u0301", "")],
)
def test_a_note_says_once_what_no_font_has_and_what_to_install(
    monkeypatch: pytest.MonkeyPatch, token: str, lost: str
) -> None:
    monkeypatch.setattr(figures, "FALLBACKS", ())
    heat = heatmap(weights(2, 1, 2), tokens=Tokens([[token]] * 2, [[token, "a"]] * 2))
    words = f"warning: no installed font can draw {lost} (drawn as boxes); install one that can, such as Noto Sans"
    assert [note.startswith(words) for note in heat.notes] == [True] * bool(lost)
    as_png(heat.figure)  # without a warning


def test_small_and_large_ticks_are_powers_of_ten_with_their_signs() -> None:
    form = PlainFormatter()
    assert form.format_ticks([-0.5, 0.0, 0.001, 90_000.0]) == ["−0.5", "0", "0.001", "90000"]
    assert form.format_ticks([-2e6, -1e-5, 0.0, 5.0]) == ["−2·10⁶", "−10⁻⁵", "0", "5·10⁰"]
