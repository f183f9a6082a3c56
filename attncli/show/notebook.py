"""Show a result in a notebook: as text, as a picture and as HTML with the report in a frame."""

from base64 import b64encode
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType

from attncli.config.looks import Look
from attncli.show.terminal.tables import recorded

if TYPE_CHECKING:
    from attncli.show.pictures.figures import Picture

WIDTH = 100  # characters of tables as text
DPI = 100
MOST_BYTES = 1_000_000  # of the matrices in the report, since a notebook stores it
PICTURE = '<img style="max-width: 100%" src="data:image/png;base64,{png}">'  # for viewers that remove frames
PREFORMATTED = '<pre style="font-family: monospace; line-height: 1.3; white-space: pre; overflow-x: auto">{code}</pre>'
FRAME = (
    '<iframe sandbox="allow-scripts" loading="lazy" style="width: 100%; height: 45em; border: 0" title="report" '
    'srcdoc="{page}"></iframe>'
)


def as_text(renderables: Sequence[RenderableType]) -> dict[str, Any]:
    """Return text for the terminal as plain text and as HTML, by MIME type, for `_repr_mimebundle_`."""
    console = recorded(renderables, WIDTH)
    html = console.export_html(inline_styles=True, code_format=PREFORMATTED, clear=False)
    return {"text/plain": console.export_text(), "text/html": html}


def look_in_notebook(look: Look) -> Look:
    """Return the look with a resolution for notebooks, unless it has one."""
    return look.model_copy(update={"dpi": look.dpi or DPI})


def mimebundle(tables: Sequence[RenderableType], picture: "Picture | None", page: str) -> dict[str, Any]:
    """Return the tables, the picture and the HTML page of a report by MIME type, for `_repr_mimebundle_`."""
    from attncli.show.pictures.figures import as_png  # loads matplotlib

    bundle: dict[str, Any] = {"text/plain": recorded(tables, WIDTH).export_text()}
    html = FRAME.format(page=escape(page))
    if picture is not None:
        bundle["image/png"] = b64encode(as_png(picture)).decode()
        html = PICTURE.format(png=bundle["image/png"]) + html
    return {**bundle, "text/html": html}
