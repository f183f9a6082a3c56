"""A scorer on one line, as flags and short YAML lists have it: `additive:num_hiddens=64`."""

from typing import Any

from attncli.config.parsing import parse_yaml
from attncli.errors import InputError


def scorer_of(text: str) -> dict[str, Any]:
    """The entry that `name:option=value,option=value` stands for; all of it as the name, where it has another form.

    Its label, unless there is one among the options, is the scorer's name with the values, `/` spelt out, since labels
    may not have it.
    """
    name, options = _split(text)
    entry: dict[str, Any] = {"scorer": name}
    for option in options:
        key, equals, value = (part.strip() for part in option.partition("="))
        if not key or not equals or not value or key in entry:
            return {"scorer": text}
        entry[key] = value if key == "label" else _read(value)
    if options:
        entry.setdefault("label", _label(name, [value for key, value in entry.items() if key != "scorer"]))
    return entry


def _split(text: str) -> tuple[str, list[str]]:
    """The name, which may be `module:Class`, and the options behind its last colon."""
    name, colon, options = text.rpartition(":")
    if not colon or "=" not in options:
        return text.strip(), []
    return name.strip(), options.split(",")


def _read(value: str) -> Any:
    """The value as YAML reads it, text where it cannot."""
    try:
        return parse_yaml(value, lambda line, column: "").data
    except InputError:
        return value


def _label(name: str, values: list[Any]) -> str:
    parts = [name.rpartition(":")[2], *(str(value).replace("/", "_over_") for value in values)]
    return "_".join(parts)
