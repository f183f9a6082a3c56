"""What a notebook shows of a result: its tables as HTML or text, and its picture."""

import base64
import io
from collections.abc import Iterable

from rich.console import Console, RenderableType

TABLES = '<pre style="line-height: normal; white-space: pre; overflow-x: auto">{code}</pre>'


def as_html(parts: Iterable[RenderableType], png: bytes | None, width: int) -> str:
    """The parts, `width` characters wide, with the picture above them."""
    encoded = "" if png is None else base64.b64encode(png).decode()
    picture = f'<img style="max-width: 100%" src="data:image/png;base64,{encoded}">' if encoded else ""
    return picture + _printed(parts, width).export_html(code_format=TABLES, inline_styles=True)


def as_text(parts: Iterable[RenderableType], width: int) -> str:
    """The parts without colours, `width` characters wide."""
    return _printed(parts, width).export_text()


def _printed(parts: Iterable[RenderableType], width: int) -> Console:
    console = Console(record=True, width=width, file=io.StringIO())
    for part in parts:
        console.print(part)
    return console
