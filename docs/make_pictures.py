"""Draw the pictures of the documentation again: `python docs/make_pictures.py [NAME...]`, all if no name is given.

The page that shows a picture has its command right below it: "Made by `attncli ...`."
"""

import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
MADE_BY = re.compile(r"!\[[^\]]*\]\((?P<picture>\S+\.png)\)\s+Made by `(?P<command>attncli [^`]+)`")
SHOWN = re.compile(r"!\[[^\]]*\]\((?P<picture>\S+\.png)\)")


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


def run(command: str, folder: Path) -> None:
    """Run a command in a folder."""
    subprocess.run([sys.executable, "-m", *shlex.split(command)], cwd=folder, check=True, capture_output=True)


def draw(picture: Path, command: str, folder: Path, run: Callable[[str, Path], object] = run) -> Path:
    """Run the command in `folder`, beside a copy of the experiments, and return the path of the drawn picture.

    The drawn picture has the same name, except that `sweep_NAME.png` is drawn as sweep.png.
    """
    shutil.copytree(ROOT / "experiments", folder / "experiments")
    run(command, folder)
    name = "sweep.png" if picture.name.startswith("sweep_") else picture.name
    return next(path for path in folder.rglob(name) if "latest" not in path.parts)


if __name__ == "__main__":
    for picture, command in commands().items():
        if not sys.argv[1:] or picture.stem in sys.argv[1:]:
            with tempfile.TemporaryDirectory() as folder:
                shutil.copyfile(draw(picture, command, Path(folder)), picture)
            sys.stdout.write(f"{picture.relative_to(ROOT)}: {command}\n")
