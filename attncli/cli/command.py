"""Commands of typer, made of functions, and without the names of Python types in their help."""

from typing import Any

import typer
from typer.core import TyperArgument, TyperCommand


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
