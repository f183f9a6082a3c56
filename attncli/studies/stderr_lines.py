"""Lines that libraries write to stderr themselves, past Python, and that nobody needs."""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO

STDERR = 2  # its file descriptor


@contextmanager
def without_lines_of(words: bytes) -> Iterator[None]:
    """Keep lines with these words from stderr; all others appear at the end."""
    with tempfile.TemporaryFile() as kept:
        try:
            before = os.dup(STDERR)
        except OSError:  # closed, so that nothing can appear there
            yield
            return
        try:
            _redirect(kept.fileno())
            yield
        finally:
            _redirect(before)
            os.close(before)
            _pass_on(kept, words)


def _redirect(target: int) -> None:
    if sys.stderr is not None:
        with suppress(OSError, ValueError):
            sys.stderr.flush()
    os.dup2(target, STDERR)


def _pass_on(kept: IO[bytes], words: bytes) -> None:
    kept.seek(0)
    for line in kept:
        if words not in line:
            with suppress(OSError):
                os.write(STDERR, line)
