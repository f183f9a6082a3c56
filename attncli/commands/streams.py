"""How commands speak and end: lines for stdout and stderr, which go nowhere once nobody reads them, and exit codes."""

import os
import sys
from typing import IO, Any

import typer

from attncli.errors import as_line

EXPECTATION_FAILED = DIFFERENT = 1  # exit codes
WRONG_INPUT, INTERRUPTED, TERMINATED = 2, 130, 143


def print_line(text: str) -> None:
    """Print a line for people, or for the programs that read what a command gives."""
    _write(text, sys.stdout)


def print_error(text: object, end: str = "\n") -> None:
    """Print a line on stderr: what is wrong, or how a command ends. Where that cannot be, nobody can be told."""
    try:
        _write(text, sys.stderr, end)
    except OSError:
        discard(sys.stderr)


def print_note(text: str) -> None:
    """Print a line on stderr in which names of the user's stand: nothing in them is obeyed by the terminal."""
    print_error(as_line(text))


class ErrorStream:
    """Stderr, for what scorers of the user's own print while stdout is kept clean."""

    def __getattr__(self, name: str) -> Any:
        return getattr(sys.stderr, name)

    def write(self, text: str) -> int:
        """As `print_error`, without a new line."""
        print_error(text, end="")
        return len(text)


def discard(stream: IO[Any]) -> None:
    """Lead what is written from now on, and what is still kept back, to nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def _write(text: object, stream: IO[Any] | None, end: str = "\n") -> None:
    if stream is None:  # closed from the beginning, as by `2>&-`
        return
    try:
        typer.echo(f"{text}{end}", file=stream, nl=False)
    except BrokenPipeError:
        discard(stream)
