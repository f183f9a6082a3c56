"""What the signature of a scorer or normaliser says: its formula, and its options, which are YAML keys."""

import inspect
import typing
from typing import Any

from pydantic import JsonValue


def formula_of(cls: type) -> str:
    """The first line of the docstring, the formula and its source; the name of a class without one."""
    return inspect.cleandoc(cls.__doc__ or cls.__name__).partition("\n")[0]  # getdoc would give a parent's


def options_of(cls: type) -> dict[str, tuple[Any, Any]]:
    """The keyword-only parameters: name to (type, default), the default `...` where it must be given."""
    hints = typing.get_type_hints(cls.__init__, include_extras=True)  # type: ignore[misc]
    parameters = inspect.signature(cls).parameters.values()
    keyword = [p for p in parameters if p.kind is p.KEYWORD_ONLY and not p.name.startswith("_")]
    return {p.name: (hints.get(p.name, JsonValue), ... if p.default is p.empty else p.default) for p in keyword}
