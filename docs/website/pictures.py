"""Draw the pictures in docs/pictures again: `python -m docs.website.pictures [NAME...]`, all if no name is given.

A page that shows such a picture has its command right below it: "Made by `attncli ...`." Each picture is drawn in light
(NAME.png) and in dark (NAME-dark.png). Pages name the light one; the site shows the one of the reader's theme.
The other pictures of the gallery are drawn when the site is built.
"""

import contextlib
import io
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from attncli.cli import app

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PICTURES = DOCS / "pictures"
THEMES = {"light": "", "dark": "-dark"}  # with the ending of the file's name
DPI = 200  # two pixels for each of a column of the site
MADE_BY = re.compile(r"!\[[^\]]*\]\((?P<picture>\S+\.png)\)\s+Made by `(?P<command>attncli [^`]+)`")
SHOWN = re.compile(r"!\[[^\]]*\]\((?P<picture>\S+\.png)\)")
WINDOW = {"width": 1280, "height": 800}  # of the browser, in which a report is shown


def pages() -> list[Path]:
    """Return every page of the documentation, including the READMEs."""
    return [*sorted(ROOT.glob("README*.md")), *sorted(DOCS.rglob("*.md"))]


def commands() -> dict[Path, str]:
    """Return the command of each picture."""
    found: dict[Path, str] = {}
    for page in pages():
        for each in MADE_BY.finditer(page.read_text(encoding="utf-8")):
            picture = (page.parent / each["picture"]).resolve()
            if found.setdefault(picture, each["command"]) != each["command"]:
                raise ValueError(f"{picture.name} is made by two commands")
    return found


def shown() -> set[Path]:
    """Return the pictures shown in the pages."""
    texts = {page: page.read_text(encoding="utf-8") for page in pages()}
    return {(page.parent / each["picture"]).resolve() for page, text in texts.items() for each in SHOWN.finditer(text)}


def gallery() -> list[dict[str, Any]]:
    """Return the groups of the gallery."""
    import yaml

    groups: list[dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("gallery.yaml").read_text(encoding="utf-8"))
    return groups


def run(words: Sequence[str], folder: Path) -> None:
    """Run a command in a folder, in this process, which has loaded torch already."""
    with contextlib.chdir(folder):
        result = CliRunner().invoke(app, list(words[1:]))
    if result.exit_code:
        raise RuntimeError(f"{' '.join(words)} ended with {result.exit_code}: {result.output}") from result.exception


def draw(command: str, name: str, folder: Path) -> Iterator[tuple[str, bytes]]:
    """Run a command in `folder`, beside a copy of the experiments, and yield each theme with the picture as PNG.

    `name` is the picture's name in the run folder. The picture of a report is a window of the browser.
    """
    shutil.copytree(ROOT / "experiments", folder / "experiments", dirs_exist_ok=True)
    words = shlex.split(command)
    if words[1] != "heatmap":
        run([*words, "--no-plots", "--quiet", "--out", "run"], folder)
    for theme in THEMES:
        looks, file = ["--theme", theme, "--dpi", str(DPI), "--quiet"], folder / theme / f"{name}.png"
        if "--report" in words:
            photograph(folder / "run" / "report.html", theme, file)
        elif words[1] == "heatmap":
            file.parent.mkdir()
            run([*words, *looks, "--out", str(file)], folder)
        else:
            run(["attncli", "figure", "run", "--only", name, *looks, "--out", theme], folder)
        yield theme, small(file)


def photograph(page: Path, theme: str, file: Path) -> None:
    """Write a picture of a page in a browser."""
    from playwright.sync_api import sync_playwright

    names = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
    chromium = next(filter(None, map(shutil.which, names)), None)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        window: Mapping[str, Any] = {"viewport": WINDOW, "color_scheme": theme, "device_scale_factor": 2}
        opened = browser.new_page(**window)
        opened.goto(page.as_uri(), wait_until="networkidle")
        opened.screenshot(path=file)
        browser.close()


def small(file: Path) -> bytes:
    """Return a PNG with at most 256 colours."""
    from PIL import Image

    packed = io.BytesIO()
    with Image.open(file) as image:
        image.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(packed, "PNG", optimize=True)
    return packed.getvalue()


def name_of(picture: Path) -> str:
    """Return the name of a picture in its run folder: that of the study in front of the name of the experiment."""
    first = picture.stem.partition("_")[0]
    return first if first in ("bench", "fit", "heads", "sweep", "train") else picture.stem


def draw_again(picture: Path, command: str) -> str:
    """Draw a picture of docs/pictures in each theme; return the error of its command, such as a model out of reach."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            for theme, image in draw(command, name_of(picture), Path(folder)):
                picture.with_stem(picture.stem + THEMES[theme]).write_bytes(image)
        except RuntimeError as error:
            return f"{picture.stem}: {error}"
    sys.stdout.write(f"{picture.relative_to(ROOT)}: {command}\n")
    return ""


if __name__ == "__main__":
    wanted = {path: each for path, each in commands().items() if not sys.argv[1:] or path.stem in sys.argv[1:]}
    sys.exit("".join([draw_again(path, command) for path, command in wanted.items()]) or None)
