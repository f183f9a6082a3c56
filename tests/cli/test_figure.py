"""`attncli figure` draws the pictures of a run folder again; flags for looks, and mistakes in commands that draw."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from matplotlib.colors import to_hex
from matplotlib.text import Text
from PIL import Image

import attncli
from attncli.engine.runs.loading import read_run
from attncli.errors import InputError
from tests.cli import attncli as attncli_command
from tests.cli import experiment, good, names_in, refusal, results
from tests.cli.test_heatmap import MINILM

pytestmark = pytest.mark.usefixtures("sketches")


def size(path: Path) -> tuple[int, int]:
    with Image.open(path) as image:
        return image.size


def files(folder: Path) -> list[str]:
    found: list[str] = results(folder)["files"]
    assert found == sorted(path.name for path in folder.iterdir()), "the list is true"
    return found


def test_pictures_are_drawn_again_in_other_looks_or_as_they_were(tmp_path: Path) -> None:
    run = tmp_path / "run"
    flags = ["--size", "8x6", "--dpi", "30", "--title", "12"]
    good("variance", "--d", 2, "--d", 4, "--samples", 300, "--out", run, "--quiet", *flags)
    config = yaml.safe_load((run / "config.yaml").read_text("utf-8"))["figure"]
    assert {key: config[key] for key in ("size", "dpi", "title")} == {"size": [8.0, 6.0], "dpi": 30, "title": "12"}
    first, records = (run / "variance.png").read_bytes(), (run / "records.csv").read_bytes()
    assert size(run / "variance.png") == (240, 180)
    assert good("figure", run).splitlines() == [str(run / "variance.png")]
    assert (run / "variance.png").read_bytes() == first
    alone = tmp_path / "x.png"
    assert good("figure", run, "--out", alone, "--dpi", 40, "--size", "8x6").splitlines() == [str(alone)]
    assert size(alone) == (320, 240)
    assert f'got "{alone}", which exists' in refusal("figure", run, "--out", alone)
    good("figure", run, "--size", "5x2", "--theme", "dark")
    assert size(run / "variance.png") == (150, 60)
    good("figure", run, "--format", "svg")
    assert {"variance.png", "variance.svg"} <= set(files(run))
    assert (run / "records.csv").read_bytes() == records
    assert read_run(run).result.name == "variance"


@pytest.fixture
def run(here: Path) -> Path:
    """Save a run without pictures in the working directory, and return its folder."""
    good("run", "d2l", "--out", "run", "--no-plots", "--quiet")
    return here / "run"


@pytest.mark.usefixtures("run")
def test_one_panel_of_each_picture_that_has_it(here: Path) -> None:
    """`figure` leaves out the others, and a run draws them whole, as its work is done."""
    ran = attncli_command("run", "d2l", "--set", "figure.panel=2", "--out", "again")
    words = " ".join((ran.stdout + ran.stderr).split())
    assert "heatmap_additive.png: drawn whole: got 2; expected 1, the only panel" in words
    assert {"heatmaps.png", "heatmap_additive.png"} <= set(files(here / "again"))
    drawn = attncli_command("figure", "run", "--panel", "2", "--out", "new")
    assert (drawn.exit_code, [path.name for path in (here / "new").iterdir()]) == (0, ["heatmaps.png"])
    assert "heatmap_additive.png: not drawn: got 2; expected 1, the only panel" in drawn.stdout + drawn.stderr
    good("heatmap", "d2l", "--scorer", "scaled_dot", "--out", "alone.png", "--quiet")
    good("heatmap", "d2l", "--panel", "2", "--out", "second.png", "--quiet")
    assert (here / "second.png").read_bytes() == (here / "alone.png").read_bytes()


def test_one_picture_elsewhere(run: Path, here: Path) -> None:
    good("figure", run, "--only", "heatmaps", "--out", "out", "--font-size", 12)
    assert [path.name for path in Path("out").iterdir()] == ["heatmaps.png"]
    assert "heatmaps.png" not in files(run)
    assert "exists; expected a new file; --overwrite replaces it" in refusal("figure", run, "--out", "out")
    good("figure", run, "--only", "heatmaps", "--out", "out", "--overwrite", "--format", "pdf", "--cmap", "viridis")
    assert good("figure", run, "--only", "heatmaps", "--out", "new/x.SVG", "--quiet") == ""
    assert (here / "new/x.SVG").read_text("utf-8").startswith("<?xml")


REFUSED = {
    "heatmap d2l --panel 3 --out x.png": "--panel: got 3; expected 1 to 2",
    "figure run --panel 3 --out x": "--panel: got 3; no picture has so many",
    "figure run --panel 0": "run/config.yaml: --panel 0: figure.panel: got 0; expected an integer of at least 1",
    "figure run --only heatmap": '--only: got "heatmap"; expected the name of a picture; did you mean `heatmaps`?',
    "figure run/results.json": 'RUN: got "run/results.json", which has no tensors to draw',
    "figure run --theme blue": 'run/config.yaml: --theme blue: figure.theme: got "blue"; expected light, dark or print',
    "figure run --out x.png": '--out: got "x.png", a file, for 3 pictures; expected --only with one of their names, ',
    "figure run --only heatmaps --out x.png --format pdf": '--format: got "pdf"; expected the ending of --out, "x.png"',
    "figure run --only heatmaps --out x.jpg": '--out: got "x.jpg"; expected a name ending in .png, .svg, .pdf',
    "run d2l --out y.png": '--out: got "y.png", the name of a picture; expected a run folder; `attncli figure ',
    "compare run other --out b.png --cmap redss": '--cmap: got "redss"; expected a colour map of matplotlib; did you ',
    "compare run other --out b.png --keys 17:": '--keys: got "17:"; there are n = 1 queries and m = 10 keys',
    "compare run other --out b.png --font run/config.yaml": '--font: got "HERE/run/config.yaml", which cannot be read',
    "compare run other --theme dark": "--theme dark: got no --out; expected the file of a picture",
    "compare run": 'attncli compare: got one run, "run"; expected two or more\n',
    "compare run nothere": 'got "nothere", which is not a run folder; expected the folder of a run, as outputs/d2l/la',
    "compare run other --fail --tolerance -1": "--tolerance: got -1.0; expected a relative difference, such as 0.01\n",
    "compare run other --tolerance 1": "--tolerance: got 1.0 without --fail; expected both\n",
    "compare run other run --out x.png": '--out: got "x.png" for 3 runs; a picture is of two\n',
    "compare run bare.json --out x.png": "--out: the runs share no weights to draw the difference of; leave it out\n",
    "heatmap MINILM": (
        'SOURCE: got "MINILM", with 6 layers of a model; choose one, such as --layer 0; '
        "expected 0 to 5, or a name such as encoder.layer.0.attention.self\n"
    ),
    "heatmap MINILM --layer 6": "--layer: got 6; expected 0 to 5, of 6 layers with attention\n",
    "heatmap MINILM --layer encoder.layer.1": (
        '--layer: got "encoder.layer.1"; no layer with attention; did you mean `encoder.layer.1.attention.self`?\n'
    ),
    "heatmap MINILM --layer 1 --head 12": "--head: got 12; expected 0 to 11, of 12 heads\n",
    "heatmap MINILM --layer 1 --scorer dot": '--scorer: got "dot"; unknown label; known: model\n',
    "heatmap MINILM --layer 1 --tensor x": '--tensor: got "x"; MINILM has no such tensor; known: encoder.layer.0.',
    "heatmap MINILM --layer 1 --stage score": '--stage: got "score"; did you mean `scores`?\n',
}


@pytest.mark.parametrize("arguments", REFUSED)
def test_wrong_input_is_refused_and_nothing_drawn(arguments: str, run: Path, here: Path) -> None:
    """Messages are whole where they end in a new line."""
    shutil.copytree(run, "other")
    shutil.copy(run / "results.json", "bare.json")
    before = names_in(here)
    line = refusal(*arguments.replace("MINILM", str(MINILM)).split())
    assert f"{line}\n".replace(str(here), "HERE").replace(str(MINILM), "MINILM").startswith(REFUSED[arguments])
    assert names_in(here) == before


def test_looks_in_python() -> None:
    keys: dict[str, Any] = {"figure.theme": "dark"}
    result = attncli.run("d2l", **keys)
    assert to_hex(result.figure().get_facecolor()) == "#161618"
    figure = result.figure("heatmaps", theme="light", size=(5, 4), title="mine")
    assert (to_hex(figure.get_facecolor()), figure.get_size_inches().tolist()) == ("#ffffff", [5.0, 4.0])
    assert figure.get_suptitle() == "mine"
    wrong: dict[str, Any] = {"sise": (3, 4)}
    with pytest.raises(InputError, match=r"result\.figure: sise: unknown key; did you mean `size`"):
        result.figure(**wrong)


def test_keys_of_an_earlier_version_do_not_keep_a_run_from_being_read(run: Path) -> None:
    config = yaml.safe_load((run / "config.yaml").read_text("utf-8"))
    (run / "config.yaml").write_text(yaml.safe_dump(config | {"figure": {"style": "style.mplstyle", "theme": "dark"}}))
    assert to_hex(attncli.load(run).figure().get_facecolor()) == "#161618"


def test_sweeps_take_the_options_of_pictures(here: Path) -> None:
    path = experiment(here / "x.yaml", figure={"theme": "dark", "font_size": 8})
    flags = ["--size", "6x4", "--dpi", "50", "--format", "png", "--subtitle", "", "--title", "Mine"]
    good("sweep", path, "--over", "scorers[0]=dot,cosine", "--out", "out", "--jobs", 1, "--quiet", *flags)
    assert size(here / "out/sweep.png") == (300, 200)
    figure = attncli.load("out").figure()
    assert (figure.get_suptitle(), figure.subtitle.get_text()) == ("Mine", "")
    assert {text.get_fontsize() for text in figure.findobj(Text) if text.get_text()} == {8.0}
    assert to_hex(figure.get_facecolor()) == "#161618"
    good("sweep", "--resume", "out", "--theme", "light", "--size", "5x4", "--quiet")
    assert size(here / "out/sweep.png") == (250, 200)


@pytest.mark.usefixtures("run")
def test_comparisons_take_the_options_of_pictures(here: Path) -> None:
    good("run", "d2l", "--seed", 1, "--out", "other", "--no-plots", "--quiet")
    flags = ["--size", "4x3", "--dpi", 50, "--theme", "dark", "--keys", "1:4", "--cmap", "viridis", "--quiet"]
    assert good("compare", "run", "other", "--out", "a.png", *flags) == ""
    assert size(here / "a.png") == (200, 150)
    assert "exists; expected a new file" in refusal("compare", "run", "other", "--out", "a.png")
    good("compare", "run", "other", "--out", "a.png", "--overwrite", "--quiet", "--dpi", 25)
    assert size(here / "a.png")[0] < 200
    noted = attncli_command("compare", "run", "other", "--out", "words.svg", "--words", "{Querys: a}")
    assert 'no text of the picture is "Querys"' in noted.stdout + noted.stderr
    assert "− run" in (here / "words.svg").read_text("utf-8")
    german = ["--words", "{Keys: Schlüssel}", "--title", "Unterschied", "--subtitle", "zwei Läufe"]
    good("compare", "run", "other", "--out", "a.svg", "--quiet", *german)
    text = (here / "a.svg").read_text("utf-8")
    assert all(f">{each}</text>" in text for each in ("Schlüssel", "Unterschied", "zwei Läufe"))
