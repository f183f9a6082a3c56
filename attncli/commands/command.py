"""Commands of typer: made of functions, loaded on first use, and without the names of Python types in their help."""

import functools
import importlib.util
from typing import Any

import typer
from typer.core import TyperArgument, TyperCommand

from attncli.errors import did_you_mean, got
from attncli.studies import STUDIES

CHOICES = " is not one of "  # in typer's message, before the names


class PlainHelp:
    """Mixin for typer commands: their help omits Python types such as `<bool>`."""

    def get_params(self, ctx: Any) -> Any:
        """Return the parameters without the names of their types."""
        params = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            is_argument = isinstance(param, TyperArgument)
            if is_argument or param.is_flag:
                param.display_type_rich = lambda ctx: ""
            if is_argument:
                param.get_usage_pieces = lambda ctx, param=param: [] if param.hidden else [_usage_of(param)]
        return params

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help; exit with 0 if its reader, such as `head`, has ended, where rich would exit with an error."""
        try:
            super().format_help(ctx, formatter)  # type: ignore[misc]
        except SystemExit:
            raise typer.Exit(0) from None


def _usage_of(param: TyperArgument) -> str:
    name = f"{param.metavar}..." if param.nargs != 1 else str(param.metavar)
    return name if param.required else f"[{name}]"


def typer_command(name: str, function: Any, cls: type[TyperCommand] | None = None) -> Any:
    """Return the command `name` that typer makes of a function, an instance of `cls` if given."""
    app = typer.Typer(add_completion=False)
    app.command(name, cls=cls)(function)
    return typer.main.get_command(app)


class LateCommand(PlainHelp, TyperCommand):
    """A stand-in that loads the real command on first use.

    The real command is `COMMAND` of the module attncli.commands.<name>, or is made of the function <name> in it. For
    studies without such a module, `command_of_study` makes the command.
    """

    @functools.cached_property
    def _loaded(self) -> Any:
        name = str(self.name)
        if name in STUDIES and importlib.util.find_spec(f"attncli.commands.{name}") is None:
            from attncli.commands.study_flags import command_of_study  # loads pydantic

            return command_of_study(name)
        module = importlib.import_module(f"attncli.commands.{name}")
        return module.COMMAND if hasattr(module, "COMMAND") else typer_command(name, getattr(module, name))

    @property
    def params(self) -> Any:
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
        return self._loaded.invoke(ctx)
