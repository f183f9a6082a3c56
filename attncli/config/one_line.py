"""Entries on one line: `name:option=value,option=value`, as YAML and the command line have them."""

import re
from collections.abc import Collection
from typing import Any

from attncli.config.yaml_loader import parse_yaml
from attncli.errors import InputError

NEXT_OPTION = re.compile(r",(?=[^,=]*=)")  # commas in lists and mappings do not count


def named_options(text: str, as_text: Collection[str] = ()) -> tuple[str, dict[str, Any]] | None:
    """Return the name, which may be `module:Class`, and the options; None for text of another form.

    Options are read as YAML, except those in `as_text`.
    """
    head, equals, tail = text.partition("=")
    name, colon, first = (part.strip() for part in head.rpartition(":"))
    if not equals or not colon:
        return (text.strip(), {}) if not equals else None
    options: dict[str, Any] = {}
    for option in NEXT_OPTION.split(f"{first}={tail}"):
        key, equals, value = (part.strip() for part in option.partition("="))
        if not key or not equals or not value or key in options:
            return None
        options[key] = value if key in as_text else _read(value)
    return name, options


def _read(value: str) -> Any:
    try:
        return parse_yaml(value, lambda line, column: "")[0]
    except InputError:
        return value
