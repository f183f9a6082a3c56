"""Let the copy button of a console block copy its commands alone, and keep its output out of the search."""

import html
import re
from typing import Any

BLOCK = re.compile(r'<div class="language-console highlight">(?P<code>.*?)</div>', flags=re.S)
TAG = re.compile(r"<[^>]*>")
PROMPT = "$ "
OUTPUT = '<span class="go"'


def on_page_content(content: str, **_: Any) -> str:
    """Add the commands of each console block as its attribute `data-copy`, which the theme's button copies.

    Its output gets the attribute that the theme's search leaves out.
    """
    return BLOCK.sub(_with_commands, content)


def _with_commands(block: re.Match[str]) -> str:
    lines = html.unescape(TAG.sub("", block["code"])).splitlines()
    commands = "\n".join(line.removeprefix(PROMPT) for line in lines if line.startswith(PROMPT))
    marked = block[0].replace(OUTPUT, f"{OUTPUT} data-search-exclude")
    return marked.replace("<div ", f'<div data-copy="{html.escape(commands)}" ', 1)
