"""The user's words and font in pictures: every text can be replaced, and every text has the font of the file."""

import json
from pathlib import Path
from typing import Any

import matplotlib
import pytest
import yaml
from matplotlib.axis import XTick
from matplotlib.font_manager import findfont
from matplotlib.text import Text
from pypdf import PdfReader

from attncli.config.looks import HeatmapLook, Look
from attncli.engine.interactive import InteractiveResult as Result
from attncli.engine.sweeps.figure import figures as sweep_figures
from attncli.show.pictures.figures import as_png, save_figure
from tests.cli import attncli as attncli_command
from tests.cli import good, refusal
from tests.engine.sweeps.test_shown import SEEDS
from tests.engine.sweeps.test_summary import attention, swept
from tests.show.pictures.drawn import heatmap, weights
from tests.studies.train.test_shown import result_of as train
from tests.studies.variance.test_shown import draw, result_of

pytestmark = pytest.mark.usefixtures("sketches")

FONTS = Path(matplotlib.get_data_path()) / "fonts/ttf"
SERIF = FONTS / "DejaVuSerif.ttf"
GERMAN = {
    "theory": "Theorie",
    "score": "Wert",
    "density": "Dichte",
    "d": "Größe d",
    "variance of the scores": "Varianz der Werte",
    "Variance and density of the scores": "Varianz und Dichte",
    "bars: 95 % intervals": "Balken: 95-%-Intervalle",
    "scaled_dot": "skaliert",
}


def texts_of(figure: Any) -> list[str]:
    """Return all texts on one line each."""
    figure.draw_without_rendering()
    return [" ".join(text.get_text().split()) for text in figure.findobj(Text)]


def test_every_text_of_a_picture_can_be_replaced() -> None:
    before, after = texts_of(draw(result_of())), texts_of(draw(result_of(), words=GERMAN))
    facts, _ = (next(text for text in texts if "normal entries" in text) for texts in (before, after))
    expected = [GERMAN.get(text, text) for text in before]
    expected[before.index(facts)] = facts.replace("bars: 95 % intervals", "Balken: 95-%-Intervalle")
    assert after == expected
    assert {*GERMAN.values()} - {"Balken: 95-%-Intervalle"} <= {*after}


def test_a_heatmap_in_german() -> None:
    """A text may have several parts between commas."""
    words = {"Queries": "Anfragen", "Keys": "Schlüssel", "masked": "maskiert", "attention weight": "Gewicht"}
    words |= {"weight": "Gewicht", "batch 0": "Folge 0", "a": "Modell"}
    matrix = weights(2, 3, 4)
    figure = heatmap(matrix, valid=matrix < 0.5, look=HeatmapLook(words=words, annotate="no")).figure
    assert figure.get_suptitle() == "Gewicht, Modell"
    assert {"Anfragen", "Schlüssel", "maskiert", "Gewicht", "Folge 0", "batch 1"} <= {*texts_of(figure)}
    assert not {*words} & {*texts_of(figure)}
    whole = HeatmapLook(words={"attention weight, a": "Alles auf einmal"})
    assert heatmap(matrix, look=whole).figure.get_suptitle() == "Alles auf einmal"


def test_labels_of_ticks_and_titles_of_several_lines() -> None:
    """Dollar signs are no formulas, in titles and subtitles that matplotlib breaks, too."""
    words = {"dot": "Punkt", "Sweep of x": " ".join(["costs $5_ or $_6", "$\\frac{$"] * 9)}
    look = Look(words=words, subtitle=words["Sweep of x"])
    figure = sweep_figures(swept("attention", [SEEDS], attention([SEEDS])), pytest.fail, look)["sweep"]()
    as_png(figure)
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == ["Punkt", "cosine"]
    assert figure.get_suptitle() == words["Sweep of x"]
    title = {"accuracy after 800 steps": "Genauigkeit nach achthundert Schritten mit je 64 Folgen"}
    axes = Result(**vars(train())).figure(words=title).axes[0]
    assert axes.get_title().count("\n") <= 2
    assert axes.get_title().replace("\n", " ") == title["accuracy after 800 steps"]


@pytest.mark.usefixtures("here")
def test_words_on_the_command_line_and_in_a_config() -> None:
    """Unknown words are noted once for all pictures of a command, with the texts of the pictures."""
    config = {
        "data": {"queries": {"shape": [1, 2, 2, 4]}, "keys": {"shape": [1, 2, 3, 4]}},
        "scorers": ["dot", "cosine"],
    }
    Path("x.yaml").write_text(yaml.safe_dump(config))
    good("run", "x.yaml", "--out", "run", "--quiet", "--no-plots")
    good("figure", "run", "--out", "german", "--words", "{Queries: Anfragen, Heads: Köpfe}", "--format", "svg")
    for name, word in (("heatmaps", "Anfragen"), ("heads", "Köpfe")):
        assert f">{word}</text>" in Path(f"german/{name}.svg").read_text("utf-8")
    words = {"Querys": "Anfragen", "Keys": "Tasten", "densety": "Dichte"}
    Path("x.yaml").write_text(yaml.safe_dump(config | {"figure": {"words": words}}))
    unknown = '"Querys", "densety"; its texts: "'
    for command, note in {
        ("figure", "run", "--out", "new", "--words", str(words)): unknown,
        ("heatmap", "run", "--out", "new.png", "--words", str(words)): unknown,
        ("run", "x.yaml", "--out", "once"): unknown,
        ("sweep", "x.yaml", "--over", "seed=0,1", "--out", "swept"): f'"Keys", {unknown}',
    }.items():
        ran = attncli_command(*command)
        assert ran.exit_code == 0
        assert (ran.stdout + ran.stderr).count(f"no text of the picture is {note}") == 1, command


def font_files(figure: Any) -> set[Path]:
    """Return the files of the fonts that the texts of a drawn figure use."""
    figure.draw_without_rendering()
    return {Path(findfont(text.get_fontproperties())) for text in figure.findobj(Text) if text.get_text()}


@pytest.mark.parametrize("name", ["DejaVuSans-Bold", "STIXGeneralItalic", "mine"])
def test_all_texts_have_the_font_of_the_file(name: str, tmp_path: Path) -> None:
    """Also of a bold or italic one, or one that is not installed; it has tick labels that matplotlib makes later."""
    font = FONTS / f"{name}.ttf" if name != "mine" else tmp_path / "mine.ttf"
    if name == "mine":
        font.write_bytes(SERIF.read_bytes())
    figure = heatmap(weights(1, 2, 3), look=HeatmapLook(font=str(font), format="pdf", title="a ж")).figure
    assert font_files(figure) == {font}
    assert isinstance(figure.axes[0].xaxis.get_major_ticks(20)[-1], XTick)
    save_figure(figure, tmp_path / "a.pdf")
    assert "Queries" in PdfReader(tmp_path / "a.pdf").pages[0].extract_text()
    assert b"/Type3" not in (tmp_path / "a.pdf").read_bytes()
    assert font_files(draw(result_of())) == {FONTS / "DejaVuSans.ttf"}, "other pictures keep theirs"


@pytest.mark.usefixtures("here")
def test_a_run_keeps_its_font(tmp_path: Path) -> None:
    Path("sub").mkdir()
    Path("sub/mine.ttf").write_bytes(SERIF.read_bytes())
    config = {"data": {"queries": {"shape": [2, 4]}, "keys": {"shape": [3, 4]}}, "scorers": ["dot"]}
    Path("sub/x.yaml").write_text(yaml.safe_dump(config | {"figure": {"font": "mine.ttf"}}))
    good("run", "sub/x.yaml", "--out", "run", "--quiet")
    before = Path("run/heatmaps.png").read_bytes()
    assert "font.ttf" in json.loads(Path("run/results.json").read_text())["files"]
    Path("sub/mine.ttf").unlink()
    good("figure", "run")
    assert Path("run/heatmaps.png").read_bytes() == before
    message = refusal("run", "sub/x.yaml")
    assert message.startswith("sub/x.yaml:11:9: figure.font: got ")
    assert 'mine.ttf", which cannot be read: No such file or directory; expected a font file, such as .ttf' in message
    assert "it has no font; expected a font file" in refusal(
        "figure", "run", "--font", "run/results.json", "--out", "x"
    )
