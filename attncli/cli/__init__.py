"""The command line: its commands, and the only place where errors are printed."""

import errno
import functools
import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from attncli import __version__
from attncli.cli.command import PlainHelp, typer_command
from attncli.cli.streams import WRONG_INPUT, discard, discard_closed_terminal, print_error
from attncli.errors import InputError, did_you_mean, got, ran_out, refusal
from attncli.runtime import MESSAGE, signals
from attncli.studies import STUDIES

COMMANDS = {  # with their help
    "run": "Run experiments: print tables, draw pictures and save a run folder.",
    "heatmap": "Draw attention weights or scores as heatmaps.",
    "explain": "Work out one query by hand: every number from q and the keys to the output.",
    "figure": "Draw the pictures of a run again, with another look.",
    "report": "Make one self-contained HTML page to explore runs and their differences.",
    **{study: about for study, about in STUDIES.items() if study != "attention"},  # too rich for flags
    "sweep": "Run a grid of experiments: one table, one picture.",
    "capture": "Run a real model once and keep the inputs of every attention call.",
    "compare": "Show the differences between runs: settings, inputs, metrics and weights.",
    "scorers": "List the scorers and normalisers: formula, options, parameters, source.",
    "check": "Find the mistakes in experiments without running them.",
    "init": "List the built-in experiments, or copy one to start from.",
    "schema": "Print the JSON Schema of experiments, for editors.",
}

CHOICES = " is not one of "  # in typer's message, before the names
USAGE_ERROR: Any = typer.BadParameter.__base__  # of all mistakes that typer finds; it has no public name
ABOUT = "Compare attention scoring functions on the same tensors and the same mask."


class LateCommand(PlainHelp, TyperCommand):
    """A stand-in that loads the real command on first use.

    The real command is `COMMAND` of the module attncli.cli.<name>, or is made of the function <name> in it. For
    studies without such a module, `command_of_study` makes the command.
    """

    @functools.cached_property
    def _loaded(self) -> Any:
        name = str(self.name)
        if name in STUDIES and importlib.util.find_spec(f"attncli.cli.{name}") is None:
            from attncli.cli.study_flags import command_of_study  # loads pydantic

            return command_of_study(name)
        module = importlib.import_module(f"attncli.cli.{name}")
        return module.COMMAND if hasattr(module, "COMMAND") else typer_command(name, getattr(module, name))

    @property
    def params(self) -> Any:
        """The parameters of the loaded command."""
        return self._loaded.params

    @params.setter
    def params(self, value: Any) -> None:
        """Ignore the parameters that typer finds on the placeholder function."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments, and word errors in numbers and choices as in the rest of the command line."""
        try:
            rest: list[str] = self._loaded.parse_args(ctx, args)
        except typer.BadParameter as error:
            from pydantic import ValidationError  # heavy, and only wrong options need it

            if isinstance(error.__cause__, ValidationError):
                wrong = error.__cause__.errors()[0]
                _, is_choice, names = wrong["msg"].partition(CHOICES)
                expected = f"expected {wrong['msg'].removeprefix('Input should be ').partition(',')[0]}"
                if is_choice:
                    expected = did_you_mean(wrong["input"], [name.strip(" '.") for name in names.split(",")])
                error.message = got(wrong["input"], expected)
            raise
        except Exception as error:
            value = str(getattr(error, "option_name", "")).lstrip("-")
            if hasattr(error, "possibilities") and value in getattr(self._loaded, "choices", ()):
                error.possibilities = [self._loaded.choices[value]]  # of an unknown option, such as --dark
            raise
        return rest

    def invoke(self, ctx: Any) -> Any:
        """Run the loaded command."""
        return self._loaded.invoke(ctx)


class Cli(PlainHelp, TyperGroup):
    """The group of all commands. It prints an InputError as lines on stderr; most other exceptions are bugs."""

    def main(self, *args: Any, **options: Any) -> Any:
        """Run a command, and handle the signals that stop it."""
        with signals.handled(discard_closed_terminal):
            return super().main(*args, **options)

    def make_context(self, info_name: str | None, args: list[str], *rest: Any, **options: Any) -> Any:
        """Parse the arguments, and print the help if requested."""
        with _errors_shown():
            if "--help" not in args:  # it needs no working directory
                _check_working_directory()
            return super().make_context(info_name, args, *rest, **options)

    def invoke(self, ctx: Any) -> Any:
        """Run a command that is parsed, and show its errors."""
        with _errors_shown():
            return super().invoke(ctx)


def _check_working_directory() -> None:
    """Raise InputError if the working directory was removed, since libraries fail to load in it."""
    try:
        Path.cwd()
    except FileNotFoundError as error:
        message = "got a working directory that does not exist any more; change to another"
        raise InputError.of(message, where="attncli") from error


@contextmanager
def _errors_shown() -> Iterator[None]:
    try:
        yield
    except InputError as error:
        _fail(error)
    except USAGE_ERROR as error:
        if not str(error).strip() or type(error).__name__ == "NoArgsIsHelpError":  # its message is the help
            raise
        _fail(_usage(error))
    except (MemoryError, RuntimeError) as error:
        if not ran_out(error):
            raise
        _fail("out of memory; use fewer queries, keys or batch elements, or smaller scorers")
    except BrokenPipeError:  # the reader has ended, as in `attncli init | head`
        discard(sys.stdout)
        raise typer.Exit(0) from None
    except KeyboardInterrupt:
        print_error(MESSAGE)
        raise typer.Exit(signals.exit_code) from None
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EBADF):
            raise
        discard(sys.stdout)
        _fail(f"the output cannot be written: {refusal(error)}")


def _usage(error: Any) -> str:
    """Return an error of the command line in one line, with the option or the command as its place."""
    command = error.ctx.command_path if error.ctx else "attncli"
    param = getattr(error, "param", None)
    if param is not None and error.message:
        return f"{param.opts[0] if param.opts[0].startswith('-') else param.metavar}: {error.message}"
    message = " ".join(error.format_message().split()).rstrip(".")
    return f"{command}: {message[:1].lower()}{message[1:]}; see {command} --help"


def _fail(error: object) -> None:
    print_error(error)
    raise typer.Exit(WRONG_INPUT) from None


app = typer.Typer(
    cls=Cli,
    name="attncli",
    help=f"{ABOUT}\n\nTo begin: attncli run d2l",
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
    """Prepare the environment and the streams for every command."""
    os.environ.pop("MPLBACKEND", None)  # pictures become files without one, and a wrong name would end the command
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a token that the terminal cannot show must not end a run


for name, about in COMMANDS.items():
    app.command(name, cls=LateCommand, help=about)(lambda: None)
