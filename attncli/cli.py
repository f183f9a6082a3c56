"""The command line: its table of contents, and the one place where errors are shown."""

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from attncli import __version__
from attncli.commands.command import Command, PlainHelp
from attncli.commands.interrupts import KEPT, exit_code, heeding_sigterm
from attncli.commands.streams import WRONG_INPUT, discard, print_error
from attncli.errors import InputError, got, refusal
from attncli.studies import STUDIES

COMMANDS = {  # each with its help
    "run": "Run experiments: print tables, draw pictures and save a run folder.",
    "heatmap": "Draw attention weights or scores as heatmaps.",
    "figure": "Draw the pictures of a run again, with other looks.",
    "report": "Make one self-contained HTML page to explore runs, and to see what differs between them.",
    **{study: about for study, about in STUDIES.items() if study != "attention"},  # which has more than flags can say
    "sweep": "Run a grid of experiments: one table, one picture.",
    "capture": "Run a real model once and keep what every attention call saw.",
    "compare": "Say what differs between runs: settings, inputs, numbers and weights.",
    "scorers": "List the scorers and normalisers: formula, options, parameters, source.",
    "check": "Find the mistakes in experiments without running them.",
    "init": "List the built-in experiments, or copy one to start from.",
    "schema": "Print the JSON Schema of experiments, for editors.",
}


class Cli(PlainHelp, TyperGroup):
    """Shows errors of the user's input as lines on stderr; what is not caught here is a bug: its traceback helps."""

    def make_context(self, info_name: str | None, args: list[str], *more: Any, **named: Any) -> Any:
        """Read the arguments, which prints the help where it is asked for."""
        with _errors_shown():
            if "--help" not in args:  # which needs no directory
                _check_working_directory()
            for each in args:
                _check_text(each)
            return super().make_context(info_name, args, *more, **named)

    def invoke(self, ctx: Any) -> Any:
        with heeding_sigterm(), _errors_shown():
            return super().invoke(ctx)


def _check_working_directory() -> None:
    """Refuse one that was removed, before libraries are loaded: they fail in it in words of their own."""
    try:
        Path.cwd()
    except FileNotFoundError as error:
        message = "got a working directory that does not exist any more; change to another"
        raise InputError.of(message, where="attncli") from error


def _check_text(argument: str) -> None:
    """Refuse what no shell can give and no file's name can have; typer would call it an error of Python's."""
    try:
        is_good = b"\0" not in os.fsencode(argument)
    except UnicodeEncodeError:
        is_good = False
    if not is_good:
        raise InputError.of(got(argument, "expected text without null characters and lone surrogates"), where="attncli")


@contextmanager
def _errors_shown() -> Iterator[None]:
    try:
        yield
    except InputError as error:
        _fail(error)
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, typer.Exit | typer.Abort) or not _is_for_memory(error):
            raise
        _fail("out of memory; use fewer queries, keys or batch elements")
    except BrokenPipeError:  # `attncli init | head`: nobody reads on
        discard(sys.stdout)
        raise typer.Exit(0) from None
    except KeyboardInterrupt as error:
        print_error(KEPT)
        raise typer.Exit(exit_code(error)) from None
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EBADF):
            raise
        discard(sys.stdout)
        _fail(f"the output cannot be written: {refusal(error)}")


def _is_for_memory(error: Exception) -> bool:
    """Torch says it in an error of its own, or in words; without torch there is Python's only."""
    if "torch" not in sys.modules:
        return isinstance(error, MemoryError)
    from attncli.common.memory import ran_out

    return ran_out(error)


def _fail(error: object) -> None:
    print_error(error)
    raise typer.Exit(WRONG_INPUT) from None


app = typer.Typer(
    cls=Cli,
    name="attncli",
    help="Compare attention scoring functions on the same tensors and the same mask.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"attncli {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Compare attention scoring functions on the same tensors and the same mask."""
    os.environ.pop("MPLBACKEND", None)  # pictures become files without one, and a wrong name would end the command
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a token that the terminal cannot show must not end a run


for name, about in COMMANDS.items():
    app.command(name, cls=Command, help=about)(lambda: None)
