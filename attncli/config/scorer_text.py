"""A scorer on one line, as flags and short YAML lists have it: `additive:num_hiddens=64`."""

from typing import Any

from attncli import errors
from attncli.config.parsing import parse_yaml
from attncli.errors import InputError

EXPECTED = "expected a scorer such as dot, additive:num_hiddens=64 or scaled_dot:scale=1/d,label=wide"


def scorer_of(text: str) -> dict[str, Any]:
    """The entry that `name:option=value,option=value` stands for.

    Its label, unless there is one among the options, is the scorer's name with the values, `/` spelt out, since labels
    may not have it.

    Raises:
        InputError: text of another form.
    """
    name, options = _split(text)
    entry: dict[str, Any] = {"scorer": name}
    for option in options:
        key, equals, value = (part.strip() for part in option.partition("="))
        if not key or not equals or not value or key in entry:
            raise InputError.of(errors.got(text, EXPECTED))
        parsed = parse_yaml(value, lambda line, column: "")
        entry[key] = parsed.data if key != "label" else value
    if options:
        entry.setdefault("label", _label(name, [value for key, value in entry.items() if key != "scorer"]))
    return entry


def _split(text: str) -> tuple[str, list[str]]:
    """The name, which may be `module:Class`, and the options behind its last colon."""
    name, colon, options = text.rpartition(":")
    if not colon or "=" not in options:
        return text.strip(), []
    return name.strip(), options.split(",")


def _label(name: str, values: list[Any]) -> str:
    parts = [name.rpartition(":")[2], *(str(value).replace("/", "_over_") for value in values)]
    return "_".join(parts)
