"""Commands that are loaded when they are used, and help without Python types."""

import functools
import importlib
from typing import Any

import typer
from typer.core import TyperArgument, TyperCommand

from attncli.errors import got
from attncli.studies import STUDIES

NUMBERS = {  # expected values, by pydantic's name of the error
    "float_parsing": "a number",
    "int_parsing": "a whole number",
    "greater_than_equal": "a number of at least {ge}",
}


class PlainHelp:
    """Help without Python types, such as `<bool>`, that ends quietly if its reader stops reading."""

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
        """Print the help; rich exits with an error if the reader has stopped reading."""
        try:
            super().format_help(ctx, formatter)  # type: ignore[misc]
        except SystemExit:
            raise typer.Exit(0) from None


def _usage_of(param: TyperArgument) -> str:
    name = f"{param.metavar}..." if param.nargs != 1 else str(param.metavar)
    return name if param.required else f"[{name}]"


class Command(PlainHelp, TyperCommand):
    """The command of a study, or of the module with its name in this package: `COMMAND`, else the function."""

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
        """Ignore the parameters that typer finds on the placeholder function."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments; errors in numbers are worded as in the rest of the command line."""
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
    """Return the command that typer makes of a function."""
    app = typer.Typer(add_completion=False)
    app.command(name, cls=cls)(function)
    return typer.main.get_command(app)
