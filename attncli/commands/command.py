"""A command that is loaded when it is asked for, since most have much to load, and help without types of Python."""

import functools
import importlib
from typing import Any

import typer
from typer.core import TyperArgument, TyperCommand

from attncli.errors import got
from attncli.studies import STUDIES

NUMBERS = {  # what is expected, by the name of a mistake
    "float_parsing": "a number",
    "int_parsing": "a whole number",
    "greater_than_equal": "a number of at least {ge}",
}


class PlainHelp:
    """Help without types of Python, such as `<bool>`, that ends quietly where its reader has had enough."""

    def get_params(self, ctx: Any) -> Any:
        """The parameters, whose names and metavars say what they are."""
        params = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            is_argument = isinstance(param, TyperArgument)
            if is_argument or param.is_flag:
                param.display_type_rich = lambda ctx: ""
            if is_argument:
                param.get_usage_pieces = lambda ctx, param=param: [] if param.hidden else [_usage_of(param)]
        return params

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help: rich ends the process with an error where nobody reads on."""
        try:
            super().format_help(ctx, formatter)  # type: ignore[misc]
        except SystemExit:
            raise typer.Exit(0) from None


def _usage_of(param: TyperArgument) -> str:
    name = f"{param.metavar}..." if param.nargs != 1 else str(param.metavar)
    return name if param.required else f"[{name}]"


class Command(PlainHelp, TyperCommand):
    """A study's command, or the one that the file of its name in this folder has: `COMMAND`, or else the function."""

    @functools.cached_property
    def _loaded(self) -> Any:
        name = str(self.name)
        if name in STUDIES:
            from attncli.commands.study_flags import command_of_study

            return command_of_study(name)
        module = importlib.import_module(f"attncli.commands.{name}")
        return module.COMMAND if hasattr(module, "COMMAND") else typer_command(name, getattr(module, name))

    @property
    def params(self) -> Any:
        return self._loaded.params

    @params.setter
    def params(self, value: Any) -> None:
        """Typer sets the parameters of its function, which has none here."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments; what is no number is said in our words, not in pydantic's."""
        try:
            rest: list[str] = self._loaded.parse_args(ctx, args)
        except typer.BadParameter as error:
            from pydantic import ValidationError

            if isinstance(error.__cause__, ValidationError):
                found = error.__cause__.errors()[0]
                if expected := NUMBERS.get(found["type"]):
                    error.message = got(found["input"], f"expected {expected.format(**found.get('ctx', {}))}")
            raise
        return rest

    def invoke(self, ctx: Any) -> Any:
        return self._loaded.invoke(ctx)


def typer_command(name: str, function: Any, cls: type[TyperCommand] | None = None) -> Any:
    """The command that Typer makes of a function."""
    app = typer.Typer(add_completion=False)
    app.command(name, cls=cls)(function)
    return typer.main.get_command(app)
