"""The console of everything that rich prints or records: no text can control the terminal."""

from collections.abc import Iterator
from typing import Any

from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderHook
from rich.segment import Segment

from attncli.errors import printable_lines


class SafeConsole(Console, RenderHook):
    """A console that escapes control characters in texts, and leaves the display in a notebook to its caller.

    The names in a result are the user's, or of a model or file from elsewhere.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(force_jupyter=False, **options)
        self.push_render_hook(self)

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        """Return everything that is to be printed in escaped form."""
        return [_Escaped(renderable) for renderable in renderables]


class _Escaped:
    """A renderable with control characters in its texts escaped. Codes that rich itself makes stay as they are."""

    def __init__(self, renderable: ConsoleRenderable) -> None:
        self._renderable = renderable

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        for segment in console.render(self._renderable, options):
            is_safe = segment.control or segment.text == "\n" or segment.text.isprintable()
            yield segment if is_safe else segment._replace(text=printable_lines(segment.text))
