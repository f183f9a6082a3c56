"""Show each picture in the reader's theme, and make the gallery and the sample report when the site is built."""

import contextlib
import functools
import re
import runpy
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from typer.testing import CliRunner

from attncli.cli import app

if TYPE_CHECKING:  # a test imports this module without mkdocs
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

DRAWING = SimpleNamespace(**runpy.run_path(str(Path(__file__).resolve().parents[1] / "make_pictures.py")))
SAMPLE = ("attncli run minilm --report", "sample_report.html")
PICTURE = re.compile(r"!\[(?P<alt>[^\]]*)\]\((?P<path>[^\s()]*pictures/[^\s()]+)\.png\)")
ABOUT = """# Gallery

Open a picture to see it large, with its command. All are drawn from built-in experiments and follow the theme of this
site. `attncli figure RUN` draws the pictures of a run again, [for slides and papers](how-to/slides.md). The
[sample report](sample_report.html) is the page of `attncli run minilm --report`: one file, to
[explore a run](how-to/report.md) in a browser.
"""


def on_files(files: "Files", config: "MkDocsConfig") -> "Files":
    """Add the gallery with its pictures, and the sample report."""
    from mkdocs.structure.files import File

    for path, content in generated().items():
        files.append(File.generated(config, path, content=content))
    return files


@functools.cache  # `mkdocs serve` builds the site again and again
def generated() -> dict[str, str | bytes]:
    """Return the contents of all files that this module makes, by their paths in the site."""
    found, widths = dict[str, str | bytes](), dict[str, int]()
    for picture in drawn_here():
        with tempfile.TemporaryDirectory() as folder:
            name = picture.get("only", "heatmaps")
            for theme, image in DRAWING.draw(picture["command"], name, Path(folder), run):
                found[f"gallery/{picture['name']}{DRAWING.THEMES[theme]}.png"] = image
                widths[picture["name"]] = width_of(image)
    found["gallery.md"] = page(widths)
    with tempfile.TemporaryDirectory() as folder:
        command, path = SAMPLE
        run([*command.split(), "--no-plots", "--quiet", "--out", "run"], Path(folder))
        found[path] = (Path(folder) / "run" / "report.html").read_text(encoding="utf-8")
    return found


def drawn_here() -> Iterator[dict[str, Any]]:
    """Yield the pictures of the gallery that are not in docs/pictures."""
    for group in DRAWING.gallery():
        yield from (each for each in group["pictures"] if not is_stored(each))


def is_stored(picture: dict[str, Any]) -> bool:
    """Whether a picture of the gallery is in docs/pictures."""
    return (DRAWING.PICTURES / f"{picture['name']}.png").exists()


def run(words: Sequence[str], folder: Path) -> None:
    """Run a command in a folder, in this process, which has loaded torch already."""
    with contextlib.chdir(folder):
        result = CliRunner().invoke(app, list(words[1:]))
    if result.exit_code:
        raise RuntimeError(f"{' '.join(words)} ended with {result.exit_code}: {result.output}") from result.exception


def page(widths: Mapping[str, int]) -> str:
    """Return the page of the gallery in Markdown; `widths` has the widths of the pictures that are not stored."""
    parts = ["---\nhide: [navigation, toc]\n---", ABOUT]
    for group in DRAWING.gallery():
        pictures = "\n\n".join(thumbnail(picture, group["page"], widths) for picture in group["pictures"])
        parts += [f"## {group['group']}", group["about"], f'<div class="gallery" markdown>\n\n{pictures}\n\n</div>']
    return "\n\n".join(parts) + "\n"


def thumbnail(picture: dict[str, Any], page: str, widths: Mapping[str, int]) -> str:
    """Return a thumbnail with its name, which opens the picture with its sentence, its command and its page."""
    path = f"{'pictures' if is_stored(picture) else 'gallery'}/{picture['name']}"
    image = f"![{picture['title']}]({path}.png)"  # of docs/pictures: gets its dark one with those of all pages
    shown = image if is_stored(picture) else in_both_themes(picture["title"], path, widths.get(picture["name"], 0))
    lines = [
        f'<details id="{picture["name"]}" markdown>',
        f"<summary markdown>{shown}<span>{picture['title']}</span></summary>",
        picture["shows"],
        f"```console\n$ {picture['command']}\n```",
        f"[More about this]({page}) · [the picture alone]({path}.png)",
        "</details>",
    ]
    return "\n\n".join(lines)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Add the dark picture, if there is one, to each picture of docs/pictures."""

    def shown(found: re.Match[str]) -> str:
        light, dark = (DRAWING.PICTURES / f"{Path(found['path']).name}{end}.png" for end in DRAWING.THEMES.values())
        return in_both_themes(found["alt"], found["path"], width_of(light.read_bytes())) if dark.exists() else found[0]

    return PICTURE.sub(shown, markdown)


def in_both_themes(alt: str, path: str, width: int) -> str:
    """Return a light and a dark picture of this width in Markdown; the theme hides one of them."""
    return "".join(
        f"![{alt}]({path}{ending}.png#only-{theme}){{ loading=lazy width={width} }}"
        for theme, ending in DRAWING.THEMES.items()
    )


def width_of(image: bytes) -> int:
    """Return the width at which a PNG is shown: it has two pixels for each of a usual screen."""
    return int.from_bytes(image[16:20], "big") // 2
