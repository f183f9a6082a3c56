"""Lines for stdout and stderr, which go nowhere once nobody reads them any more: that ends no work."""

import os
import sys
from typing import IO, Any

import typer


def say(text: str) -> None:
    """Print a line for people, or for the programs that read what a command gives."""
    _write(text, sys.stdout)


def tell(text: object) -> None:
    """Print a line on stderr: what is wrong, or how a command ends."""
    _write(text, sys.stderr)


def discard(stream: IO[Any]) -> None:
    """Lead what is written from now on, and what is still kept back, to nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def _write(text: object, stream: IO[Any]) -> None:
    try:
        typer.echo(f"{text}", file=stream)
    except BrokenPipeError:
        discard(stream)
