"""Text that came from the user, made fit for a terminal."""

from rich.cells import cell_len

JOINERS = "\u200c\u200d"  # they shape Persian words and join emoji, and do nothing else


def printable(text: str) -> str:
    r"""The text with everything a terminal would obey or not show written out: `\n`, `\x1b`, `\u202e`, `' '`."""
    shown = "".join(char if char.isprintable() or char in JOINERS else _escaped(char) for char in text)
    return shown if cell_len(shown.strip()) else ascii(text)


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")
