"""YAML as its users read it: PyYAML's parser with the scalars of YAML 1.2 (https://yaml.org/spec/1.2.2/#103-core-schema).

PyYAML follows YAML 1.1, where `1e-3` is a string, `on` is true, `010` is eight and `12:30` is 750. Here `1e-3` is a
number, `on` is a string, `010` is ten, and dates are strings. Of tags, which can ask for objects of any kind, only
those of JSON's kinds are known.
"""

import math
import re
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

import yaml

STANDARD = "tag:yaml.org,2002:"
NULL = re.compile(r"^(?:~|null|Null|NULL|)$")
BOOL = re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$")
INT = re.compile(r"^(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)$")
FLOAT = re.compile(
    r"^(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
)
LARGEST = 2**63  # integers from here on fit into no tensor

Scalar = TypeVar("Scalar", bool, int, float)


class Loader(yaml.SafeLoader):
    """Safe loading with YAML 1.2's plain scalars; merge keys (`<<`) stay."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # none of YAML 1.1's  # noqa: RUF012
    yaml_constructors: ClassVar[dict[str | None, Callable[..., Any]]] = {}


def is_number(text: str) -> bool:
    """Whether this text, without quotes, would be a number."""
    return bool(INT.match(text) or FLOAT.match(text))


def refuse(node: yaml.Node, message: str) -> yaml.YAMLError:
    """The error that a node is wrong, to be raised."""
    return yaml.constructor.ConstructorError(None, None, message, node.start_mark)


def _text(loader: Loader, node: yaml.ScalarNode) -> str:
    text = str(loader.construct_scalar(node))
    if any("\ud800" <= letter <= "\udfff" for letter in text):  # out of `"\uD800"`; no file can hold it
        raise refuse(node, "this text has half of a character (a lone surrogate); write the character itself")
    return text


def _null(loader: Loader, node: yaml.ScalarNode) -> None:
    loader.construct_scalar(node)


def _boolean(loader: Loader, node: yaml.ScalarNode) -> bool:
    return _converted(node, "true or false", lambda: {"true": True, "false": False}[_text(loader, node).lower()])


def _integer(loader: Loader, node: yaml.ScalarNode) -> int:
    text = _text(loader, node)
    number = _converted(node, "an integer", lambda: int(text, 0 if text.startswith(("0x", "0o")) else 10))
    if not -LARGEST <= number < LARGEST:
        raise refuse(node, "this integer does not fit into 64 bits; write a smaller one, or a float such as 1e20")
    return number


def _number(loader: Loader, node: yaml.ScalarNode) -> float:
    text = re.sub(r"\.(inf|nan)", r"\1", _text(loader, node).lower())
    number = _converted(node, "a number", lambda: float(text))
    if math.isinf(number) and "inf" not in text:
        raise refuse(node, "this number is beyond float64; write .inf for infinity")
    return number


def _converted(node: yaml.ScalarNode, kind: str, convert: Callable[[], Scalar]) -> Scalar:
    try:
        return convert()
    except (ValueError, LookupError) as error:  # an explicit tag such as `!!int x`, or thousands of digits
        raise refuse(node, f"this is not {kind}") from error


def _unknown_tag(loader: Loader, node: yaml.Node) -> None:
    tag = f"!!{node.tag.removeprefix(STANDARD)}" if node.tag.startswith(STANDARD) else node.tag
    raise refuse(node, f"the tag `{tag}` is unknown; leave it out, or put text that begins with ! in quotes")


# In this order: what an integer matches, a float would match too.
Loader.add_implicit_resolver(f"{STANDARD}null", NULL, ["~", "n", "N", ""])
Loader.add_implicit_resolver(f"{STANDARD}bool", BOOL, list("tTfF"))
Loader.add_implicit_resolver(f"{STANDARD}int", INT, list("-+0123456789"))
Loader.add_implicit_resolver(f"{STANDARD}float", FLOAT, list("-+.0123456789"))
Loader.add_implicit_resolver(f"{STANDARD}merge", re.compile(r"^(?:<<)$"), ["<"])
for _kind, _constructor in {
    "null": _null, "bool": _boolean, "int": _integer, "float": _number, "str": _text,
    "seq": Loader.construct_yaml_seq, "map": Loader.construct_yaml_map,
}.items():  # fmt: skip
    Loader.add_constructor(f"{STANDARD}{_kind}", _constructor)
Loader.add_constructor(None, _unknown_tag)
