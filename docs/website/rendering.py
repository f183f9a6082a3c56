"""Extend Markdown: formulas become MathML, and the copy button of a console block copies its commands alone."""

import html
import re

from latex2mathml.converter import convert
from markdown import Markdown
from markdown.extensions import Extension
from markdown.postprocessors import Postprocessor

INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', flags=re.S)
DISPLAY = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', flags=re.S)
CONSOLE = re.compile(r'<div class="language-console highlight">(?P<code>.*?)</div>', flags=re.S)
TAG = re.compile(r"<[^>]*>")
PROMPT = "$ "
OUTPUT = '<span class="go"'


class Rendering(Extension):
    """The extension, which mkdocs.yml names."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802
        """Change the HTML of a page after all other extensions."""
        md.postprocessors.register(Html(md), "rendering", 0)


class Html(Postprocessor):
    """Change the HTML of a page."""

    def run(self, text: str) -> str:
        """Convert formulas, which browsers then show without a script, and mark the commands of console blocks."""
        text = DISPLAY.sub(lambda found: convert(html.unescape(found[1].strip()), display="block"), text)
        text = INLINE.sub(lambda found: convert(html.unescape(found[1].strip())), text)
        return CONSOLE.sub(with_commands, text)


def with_commands(block: re.Match[str]) -> str:
    """Return a console block with its commands as the attribute to copy, and with its output out of the search."""
    lines = html.unescape(TAG.sub("", block["code"])).splitlines()
    commands = "\n".join(line.removeprefix(PROMPT) for line in lines if line.startswith(PROMPT))
    marked = block[0].replace(OUTPUT, f"{OUTPUT} data-search-exclude")
    return marked.replace("<div ", f'<div data-copy="{html.escape(commands)}" ', 1)
