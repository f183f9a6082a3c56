"""YAML as its users read it: PyYAML's parser with the scalars of YAML 1.2 (https://yaml.org/spec/1.2.2/#103-core-schema).

PyYAML follows YAML 1.1, where `1e-3` is a string, `on` is true, `010` is eight and `12:30` is 750. Here `1e-3` is a
number, `on` is a string, `010` is ten, and dates are strings.
"""

import re
from collections.abc import Callable
from typing import Any, TypeVar

import yaml

NULL = re.compile(r"^(?:~|null|Null|NULL|)$")
BOOL = re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$")
INT = re.compile(r"^(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)$")
FLOAT = re.compile(
    r"^(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
)


Number = TypeVar("Number", int, float)


class Loader(yaml.SafeLoader):
    """Safe loading with YAML 1.2's plain scalars; merge keys (`<<`) stay."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # none of YAML 1.1's  # noqa: RUF012


def _integer(loader: Loader, node: yaml.ScalarNode) -> int:
    text = str(loader.construct_scalar(node))
    return _converted(lambda: int(text, 0 if text.startswith(("0x", "0o")) else 10), node, "an integer")


def _number(loader: Loader, node: yaml.ScalarNode) -> float:
    text = re.sub(r"\.(inf|nan)", r"\1", str(loader.construct_scalar(node)).lower())
    return _converted(lambda: float(text), node, "a number")


def _converted(convert: Callable[[], Number], node: yaml.ScalarNode, kind: str) -> Number:
    try:
        return convert()
    except ValueError as error:  # an explicit tag such as `!!int x`, or thousands of digits
        raise yaml.constructor.ConstructorError(None, None, f"this is not {kind}", node.start_mark) from error


def _as_written(loader: Loader, node: yaml.ScalarNode) -> Any:
    return loader.construct_scalar(node)


# In this order: what an integer matches, a float would match too.
Loader.add_implicit_resolver("tag:yaml.org,2002:null", NULL, ["~", "n", "N", ""])
Loader.add_implicit_resolver("tag:yaml.org,2002:bool", BOOL, list("tTfF"))
Loader.add_implicit_resolver("tag:yaml.org,2002:int", INT, list("-+0123456789"))
Loader.add_implicit_resolver("tag:yaml.org,2002:float", FLOAT, list("-+.0123456789"))
Loader.add_implicit_resolver("tag:yaml.org,2002:merge", re.compile(r"^(?:<<)$"), ["<"])
Loader.add_constructor("tag:yaml.org,2002:int", _integer)
Loader.add_constructor("tag:yaml.org,2002:float", _number)
Loader.add_constructor("tag:yaml.org,2002:timestamp", _as_written)
