"""A scorer on one line, as flags and short YAML lists have it: `additive:num_hiddens=64`."""

import re
from typing import Any

from attncli.config.parsing import parse_yaml
from attncli.config.scorer_entries import CUSTOM
from attncli.errors import InputError, got

NEXT_OPTION = re.compile(r",(?=[^,=]*=)")  # so that a value may be a list or a mapping, with commas of its own
NOT_IN_LABELS = re.compile(r'[\\:*?"<>|]')


def scorer_of(text: str) -> dict[str, Any] | str:
    """The entry that `name:option=value,option=value` stands for; the text itself, where it has another form.

    Its label, unless there is one among the options, is the scorer's name with the values, `/` spelt out, since labels
    may not have it.
    """
    name, options = _split(text)
    if ":" in name and not re.fullmatch(CUSTOM, name):
        return text
    entry: dict[str, Any] = {"scorer": name}
    for option in options:
        key, equals, value = (part.strip() for part in option.partition("="))
        if not key or not equals or not value or key in entry:
            return text
        entry[key] = value if key == "label" else _read(value)
    if options:
        entry.setdefault("label", _label(name, [value for key, value in entry.items() if key != "scorer"]))
    return entry


def explain_text(text: str) -> str:
    """Why a text is no scorer on one line."""
    return got(text, "expected NAME, NAME:KEY=VALUE,... such as additive:num_hiddens=64, or module:Class")


def _split(text: str) -> tuple[str, list[str]]:
    """The name, which may be `module:Class`, and the options behind the last colon before the first `=`."""
    head, equals, tail = text.partition("=")
    name, colon, key = head.rpartition(":")
    if not equals:
        return text.strip(), []
    return (name.strip(), NEXT_OPTION.split(f"{key}={tail}")) if colon else (text.strip(), [])


def _read(value: str) -> Any:
    """The value as YAML reads it, text where it cannot."""
    try:
        return parse_yaml(value, lambda line, column: "").data
    except InputError:
        return value


def _label(name: str, values: list[Any]) -> str:
    plain = [str(value).replace("/", "_over_") for value in values if not isinstance(value, dict | list)]
    return NOT_IN_LABELS.sub("_", "_".join([name.rpartition(":")[2], *plain]))
