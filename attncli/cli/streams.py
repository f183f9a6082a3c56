"""Print lines on stdout and stderr, or discard them once the reader has ended; exit codes."""

import errno
import os
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import typer

from attncli.errors import as_line, printable_lines

EXPECTATION_FAILED = DIFFERENT = FAILED = 1  # exit codes
WRONG_INPUT = 2


def print_line(text: str) -> None:
    """Print a line on stdout. On a terminal, control characters are escaped, as a name or path may have some."""
    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    _write(printable_lines(text) if is_terminal else text, sys.stdout)


def print_error(text: object, end: str = "\n") -> None:
    """Print a line on stderr; do nothing if stderr cannot be written."""
    try:
        _write(text, sys.stderr, end)
    except OSError:
        discard(sys.stderr)


def print_note(text: str) -> None:
    """Print a line on stderr with control characters escaped, since the user's names may contain some."""
    print_error(as_line(text))


def print_notes(texts: Iterable[str], quiet: bool) -> None:
    """Print each note once; if `quiet`, print only warnings."""
    for text in dict.fromkeys(texts):
        if not quiet or text.startswith("warning"):
            print_note(text)


def print_written(paths: Sequence[Path], notes: Iterable[str], quiet: bool, open_: bool) -> None:
    """Print the notes and the paths of written files, unless `quiet`; if `open_`, open the first file."""
    print_notes(notes, quiet)
    for path in [] if quiet else paths:
        print_line(str(path))
    if open_:
        typer.launch(str(paths[0]))


def discard(stream: IO[Any] | int) -> None:
    """Discard the buffered and future output of a stream or descriptor, by redirecting it to the null device."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream if isinstance(stream, int) else stream.fileno())
    os.close(nowhere)


def discard_closed_terminal() -> None:
    """Discard the output to a terminal that was closed, where writing is an error now; leave files and pipes alone."""
    for descriptor in (1, 2):
        with suppress(OSError):  # it is closed
            if stat.S_ISCHR(os.fstat(descriptor).st_mode) and not os.isatty(descriptor):
                discard(descriptor)


@contextmanager
def until_gone(stream: IO[Any]) -> Iterator[None]:
    """Discard the output of a stream from the moment when its reader has ended or its terminal was closed."""
    try:
        yield
    except OSError as error:
        is_closed = error.errno == errno.EIO and stat.S_ISCHR(os.fstat(stream.fileno()).st_mode)  # a terminal
        if not (isinstance(error, BrokenPipeError) or is_closed):
            raise
        discard(stream)


def _write(text: object, stream: IO[Any] | None, end: str = "\n") -> None:
    if stream is None:  # closed by the caller, as with `2>&-`
        return
    with until_gone(stream):
        typer.echo(f"{text}{end}", file=stream, nl=False)
