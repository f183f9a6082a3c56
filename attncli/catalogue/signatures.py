"""Read the formula and the options (YAML keys) of a scorer or normaliser from its class."""

import inspect
import typing
from typing import Any

from pydantic import JsonValue


def class_formula(cls: type) -> str:
    """Return the first line of the class's docstring, the formula; the class's name if it has no docstring."""
    return inspect.cleandoc(cls.__doc__ or cls.__name__).partition("\n")[0]  # getdoc would return a base class's


def options_of(cls: type) -> dict[str, tuple[Any, Any]]:
    """Return (type, default) of the class's keyword-only parameters by name; `...` is the default if required."""
    hints = typing.get_type_hints(cls.__init__, include_extras=True)  # type: ignore[misc]
    parameters = inspect.signature(cls).parameters.values()
    keyword = [p for p in parameters if p.kind is p.KEYWORD_ONLY and not p.name.startswith("_")]
    return {p.name: (hints.get(p.name, JsonValue), ... if p.default is p.empty else p.default) for p in keyword}
