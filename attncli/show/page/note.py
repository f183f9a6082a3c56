"""The user's own text on a page: Markdown without HTML and images, which can neither act as code nor load a file."""

import re
from pathlib import Path

from markdown_it import MarkdownIt

from attncli.core.opening import open_file
from attncli.errors import InputError, printable

LONGEST = 100_000  # bytes
LOWEST = 6  # level of headings in HTML


def read_note(path: Path) -> str:
    """Return the text of a file.

    Raises:
        InputError: the file cannot be read, is not text in UTF-8, or has more than LONGEST bytes.
    """
    try:
        with open_file(path) as file:
            content = file.read(LONGEST + 1)
        reason = f"has more than {LONGEST:,} bytes" if len(content) > LONGEST else ""
        text = "" if reason else content.decode("utf-8-sig")
    except UnicodeDecodeError:
        reason = "is not text in UTF-8"
    except OSError as error:
        reason = f"cannot be read: {error.strerror}"
    if reason:
        raise InputError.of(f'got "{path}", which {reason}; expected a file with text in Markdown', where="--note")
    return text


def as_html(text: str) -> str:
    """Return Markdown as HTML: `<`, `>` and `&` are escaped, and headings are one level below the page's title."""
    reader = MarkdownIt("commonmark", {"html": False}).disable("image")
    lines = (re.sub(r"\S+", lambda word: printable(word[0]), line) for line in text.splitlines())
    tokens = reader.parse("\n".join(lines))
    for token in tokens:
        if token.type.startswith("heading"):
            token.tag = f"h{min(int(token.tag[1:]) + 1, LOWEST)}"
    return str(reader.renderer.render(tokens, reader.options, {}))
