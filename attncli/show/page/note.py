"""The user's own text on a page: Markdown without HTML and images, which can neither act as code nor load a file."""

import re
from pathlib import Path

from markdown_it import MarkdownIt

from attncli.core.opening import read_config
from attncli.errors import InputError, printable, refusal

LOWEST = 6  # level of headings in HTML


def read_note(path: Path) -> str:
    """Return the text of a file; raise InputError if it cannot be read or is not in UTF-8."""
    try:
        return read_config(path).decode("utf-8-sig")
    except (OSError, ValueError) as error:
        message = f'got "{path}", which cannot be read: {refusal(error)}; expected a text in Markdown and UTF-8'
        raise InputError.of(message, where="--note") from error


def as_html(text: str) -> str:
    """Return Markdown as HTML: `<`, `>` and `&` are escaped, and headings are one level below the page's title."""
    reader = MarkdownIt("commonmark", {"html": False}).disable("image")
    lines = (re.sub(r"\S+", lambda word: printable(word[0]), line) for line in text.splitlines())
    tokens = reader.parse("\n".join(lines))
    for token in tokens:
        if token.type.startswith("heading"):
            token.tag = f"h{min(int(token.tag[1:]) + 1, LOWEST)}"
    return str(reader.renderer.render(tokens, reader.options, {}))
