"""Draw the pictures in docs/pictures again: `python -m docs.website.pictures [NAME...]`, all if no name is given.

Each picture has a stamp: the version, its command, and hashes of its experiment and of the code that draws. With
`--check`, nothing is drawn, and pictures whose stamp is not current are listed.

A page that shows such a picture has its command right below it: "Made by `attncli ...`." Each picture is drawn in light
(NAME.png) and in dark (NAME-dark.png). Pages name the light one; the site shows the one of the reader's theme.
The other pictures of the gallery are drawn when the site is built.
"""

import contextlib
import hashlib
import io
import json
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

import attncli
from attncli.cli import app

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PICTURES = DOCS / "pictures"
THEMES = {"light": "", "dark": "-dark"}  # with the ending of the file's name
DPI = 200  # two pixels for each of a column of the site
MADE_BY = re.compile(r"!\[[^\]]*\]\((?P<picture>\S+\.png)\)\s+Made by `(?P<command>attncli [^`]+)`")
SHOWN = re.compile(r"!\[[^\]]*\]\((?P<picture>\S+\.png)\)")
STAMP = "attncli"  # key of the text in a PNG
CODE = (".py", ".js", ".css", ".j2")
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
        yield theme, small(file, stamp(command))


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


def small(file: Path, current: Mapping[str, str]) -> bytes:
    """Return a PNG with at most 256 colours, and with a stamp."""
    from PIL import Image
    from PIL.PngImagePlugin import PngInfo

    packed, info = io.BytesIO(), PngInfo()
    info.add_text(STAMP, json.dumps(current))
    with Image.open(file) as image:
        image.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(packed, "PNG", optimize=True, pnginfo=info)
    return packed.getvalue()


def stamp(command: str) -> dict[str, str]:
    """Return the stamp of a picture that the command draws now: version, command, and hashes of experiment and code."""
    version = ".".join(attncli.__version__.split(".")[:2])
    folders = [ROOT / "attncli/show/page"] if "--report" in command else []
    code = [ROOT / "attncli/config/looks.py", *(ROOT / "attncli").rglob("figure.py")]
    for folder in (ROOT / "attncli/show/pictures", *folders):
        code += [path for path in folder.rglob("*") if path.suffix in CODE]
    return {"version": version, "command": command, "experiment": digest(sources(command)), "code": digest(code)}


def sources(command: str) -> list[Path]:
    """Return the files of the experiment in a command: its YAML file, and the data that this names."""
    path = ROOT / "experiments" / f"{command.split()[2]}.yaml" if len(command.split()) > 2 else ROOT
    if not path.is_file():
        return []
    text = path.read_text(encoding="utf-8")
    others = (ROOT / "experiments").rglob("*.*")
    return [path, *(file for file in others if file.suffix != ".yaml" and file.name in text)]


def digest(files: Sequence[Path]) -> str:
    """Return a hash of the names and contents of files."""
    content = hashlib.sha256()
    for file in sorted(files):
        content.update(file.relative_to(ROOT).as_posix().encode() + b"\0" + file.read_bytes())
    return content.hexdigest()[:16]


def stamped(picture: Path) -> dict[str, str]:
    """Return the stamp of a picture, empty if it has none."""
    from PIL import Image

    with Image.open(picture) as image:
        text = dict(image.info).get(STAMP, "{}")
    stored: dict[str, str] = json.loads(text)
    return stored


def stale(keys: Sequence[str] = ("version", "command", "experiment", "code")) -> Iterator[str]:
    """Yield a line for each picture of the pages, in each theme, whose stamp differs from the current one in `keys`."""
    for picture, command in commands().items():
        current = stamp(command)
        for ending in THEMES.values():
            file = picture.with_stem(picture.stem + ending)
            stored = stamped(file) if file.exists() else {}
            other = [key for key in keys if stored.get(key) != current[key]]
            if other:
                yield f"{file.relative_to(ROOT)}: {', '.join(other)} {'differ' if len(other) > 1 else 'differs'}"


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
    if "--check" in sys.argv[1:]:
        sys.exit("\n".join(stale()) or None)
    wanted = {path: each for path, each in commands().items() if not sys.argv[1:] or path.stem in sys.argv[1:]}
    sys.exit("".join([draw_again(path, command) for path, command in wanted.items()]) or None)
