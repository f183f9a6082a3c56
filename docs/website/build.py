"""Build the documentation into build/site: `python -m docs.website.build`; with `serve`, show it while you write.

Zensical reads a copy of docs/ in build/ with the generated pages, the gallery and a dark picture beside each light one.
"""

import contextlib
import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from docs.website import pictures, reference
from docs.website.pictures import DOCS, ROOT

STORED = (".md", ".css", ".png", ".ipynb")  # suffixes of the files in docs/ that belong to the site
OUTSIDE = {  # pages of the site whose files are not in docs/
    "project/changelog.md": "CHANGELOG.md",
    "project/contributing.md": "CONTRIBUTING.md",
    "project/security.md": "SECURITY.md",
    "zh.md": "README.zh.md",
}
LINK = re.compile(r"(?P<text>!?\[[^\]]*\])\((?P<target>[^)#:]+)(?P<anchor>#[^)]*)?\)")
UNSEARCHED = "---\nsearch: {exclude: true}\n---\n\n"  # front matter of pages that are not for users
SAMPLE = ("attncli run minilm --report", "sample_report.html")
PICTURE = re.compile(r"!\[(?P<alt>[^\]]*)\]\((?P<path>[^\s()]*pictures/[^\s()]+)\.png\)")
ABOUT = """# Gallery

Open a picture to see it large, with its command. All are drawn from built-in experiments and follow the theme of this
site. `attncli figure RUN` draws the pictures of a run again, [for slides and papers](how-to/slides.md). The
[sample report](sample_report.html) is the page of `attncli run minilm --report`: one file, to
[explore a run](how-to/report.md) in a browser.
"""


def build(folder: Path, task: str = "build") -> int:
    """Build the site into `site` in a folder, or serve it; return the exit code, which is not 0 after a wrong link."""
    write(folder)
    command = [sys.executable, "-m", "zensical", task, *(["--clean", "--strict"] if task == "build" else [])]
    with subprocess.Popen(command, cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}) as zensical:
        try:
            while task == "serve" and zensical.poll() is None:
                time.sleep(0.5)
                write(folder)  # the pages that change while they are served
            return zensical.wait()
        finally:
            zensical.terminate()


def write(folder: Path) -> None:
    """Write the configuration and the files of the site that are missing or old."""
    files = {"mkdocs.yml": configuration().encode()} | {f"docs/{path}": each for path, each in files_of_site().items()}
    for path, content in files.items():
        file = folder / path
        if not file.exists() or file.read_bytes() != content:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)


def configuration() -> str:
    """Return the configuration of the site, with the pages of the commands in the navigation."""
    nav = "".join(f"\n          - {path}" for path in reference.pages() if path.startswith("reference/commands"))
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    return text.replace("      - Commands: reference/commands.md", f"      - Commands:{nav}")


def files_of_site() -> dict[str, bytes]:
    """Return the pages in Markdown, and the files they need, by their paths in the site."""
    stored = {path.relative_to(DOCS).as_posix(): path for path in DOCS.rglob("*") if path.suffix in STORED}
    files = {path: each.read_bytes() for path, each in stored.items()} | drawn()
    pages = {path: content.decode() for path, content in files.items() if path.endswith(".md")}
    pages |= {"gallery.md": gallery(), **reference.pages(), **{path: outside_page(path) for path in OUTSIDE}}
    return files | {path: in_both_themes(page, files).encode() for path, page in pages.items()}


@functools.cache  # once for all the time that pages are served
def drawn() -> dict[str, bytes]:
    """Return the sample report, and the pictures of the gallery that are not in docs/pictures."""
    files = dict[str, bytes]()
    for picture in drawn_here():
        with tempfile.TemporaryDirectory() as folder:
            for theme, image in pictures.draw(picture["command"], picture.get("only", "heatmaps"), Path(folder)):
                files[f"pictures/{picture['name']}{pictures.THEMES[theme]}.png"] = image
    with tempfile.TemporaryDirectory() as folder:
        command, path = SAMPLE
        pictures.run([*command.split(), "--no-plots", "--quiet", "--out", "run"], Path(folder))
        files[path] = (Path(folder) / "run" / "report.html").read_bytes()
    return files


def drawn_here() -> Iterator[dict[str, Any]]:
    """Yield the pictures of the gallery that are not in docs/pictures."""
    for group in pictures.gallery():
        yield from (each for each in group["pictures"] if not (pictures.PICTURES / f"{each['name']}.png").exists())


def outside_page(path: str) -> str:
    """Return a page whose file is not in docs/, with links to pages of the site; links to other files become text."""
    pages = {file: page for page, file in OUTSIDE.items()} | {"README.md": "index.md"}
    up = "../" * path.count("/")

    def linked(found: re.Match[str]) -> str:
        target = pages.get(found["target"], found["target"].removeprefix("docs/"))
        is_page = found["target"] in pages or found["target"].startswith("docs/")
        return f"{found['text']}({up}{target}{found['anchor'] or ''})" if is_page else found["text"].strip("[]")

    text = LINK.sub(linked, (ROOT / OUTSIDE[path]).read_text(encoding="utf-8"))
    return UNSEARCHED + text if path.startswith("project/") else text


def gallery() -> str:
    """Return the page of the gallery in Markdown."""
    parts = ["---\nhide: [navigation, toc]\n---", ABOUT]
    for group in pictures.gallery():
        thumbnails = "\n\n".join(thumbnail(picture, group["page"]) for picture in group["pictures"])
        parts += [f"## {group['group']}", group["about"], f'<div class="gallery" markdown>\n\n{thumbnails}\n\n</div>']
    return "\n\n".join(parts) + "\n"


def thumbnail(picture: dict[str, Any], page: str) -> str:
    """Return a thumbnail with its name, which opens the picture with its sentence, its command and its page."""
    path = f"pictures/{picture['name']}.png"
    lines = [
        f'<details id="{picture["name"]}" markdown>',
        f"<summary markdown>![{picture['title']}]({path})<span>{picture['title']}</span></summary>",
        picture["shows"],
        f"```console\n$ {picture['command']}\n```",
        f"[More about this]({page}) · [the picture alone]({path})",
        "</details>",
    ]
    return "\n\n".join(lines)


def in_both_themes(page: str, files: Mapping[str, bytes]) -> str:
    """Return a page with a dark picture, if there is one, beside each light one; the theme hides one of them.

    A picture has two pixels for each of a usual screen.
    """

    def shown(found: re.Match[str]) -> str:
        alt, path, name = found["alt"], found["path"], Path(found["path"]).name
        if f"pictures/{name}-dark.png" not in files:
            return found[0]
        width = int.from_bytes(files[f"pictures/{name}.png"][16:20], "big") // 2
        return "".join(
            f"![{alt}]({path}{ending}.png#only-{theme}){{ loading=lazy width={width} }}"
            for theme, ending in pictures.THEMES.items()
        )

    return PICTURE.sub(shown, page)


if __name__ == "__main__":
    shutil.rmtree(ROOT / "build" / "docs", ignore_errors=True)
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(build(ROOT / "build", *sys.argv[1:]))
