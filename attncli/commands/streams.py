"""Lines on stdout and stderr, which are discarded once their reader has ended, and exit codes."""

import os
import sys
from typing import IO, Any

import typer

from attncli.errors import as_line

EXPECTATION_FAILED = DIFFERENT = 1  # exit codes
WRONG_INPUT = 2


def print_line(text: str) -> None:
    """Print a line on stdout."""
    _write(text, sys.stdout)


def print_error(text: object, end: str = "\n") -> None:
    """Print a line on stderr, if it can be written."""
    try:
        _write(text, sys.stderr, end)
    except OSError:
        discard(sys.stderr)


def print_note(text: str) -> None:
    """Print a line on stderr with control characters escaped, as names given by the user may have some."""
    print_error(as_line(text))


class ErrorStream:
    """Stderr in place of stdout, for output of the user's scorers."""

    def __getattr__(self, name: str) -> Any:
        return getattr(sys.stderr, name)

    def write(self, text: str) -> int:
        """Write text on stderr, if possible."""
        print_error(text, end="")
        return len(text)


def discard(stream: IO[Any]) -> None:
    """Discard buffered and future output of a stream."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def _write(text: object, stream: IO[Any] | None, end: str = "\n") -> None:
    if stream is None:  # closed by the caller, as with `2>&-`
        return
    try:
        typer.echo(f"{text}{end}", file=stream, nl=False)
    except BrokenPipeError:
        discard(stream)
