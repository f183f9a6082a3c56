"""Parse YAML text into plain data with the positions of all values.

PyYAML's parser with the scalars of YAML 1.2 (https://yaml.org/spec/1.2.2/#103-core-schema). PyYAML itself follows YAML
1.1, where `1e-3` is a string, `on` is true, `010` is eight and `12:30` is 750. Here `1e-3` is a number, `on` is a
string, `010` is ten, and dates are strings. Only the tags of JSON's types are known: others could create any object.
All keys are text.
"""

import itertools
import math
import re
from collections.abc import Callable, Iterator
from typing import Any
from weakref import WeakKeyDictionary

import yaml

from attncli import errors
from attncli.errors import InputError

STANDARD = "tag:yaml.org,2002:"
INT = r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+"
FLOAT = r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
# Pattern, first characters and constructor by type. The order matters: the pattern of a float matches integers.
SCALARS: dict[str, tuple[str | None, list[str], Callable[[str], Any]]] = {
    "null": ("~|null|Null|NULL|", [*"~nN", ""], lambda text: None),
    "bool": ("true|True|TRUE|false|False|FALSE", [*"tTfF"], lambda text: {"true": True, "false": False}[text.lower()]),
    "int": (INT, [*"-+0123456789"], lambda text: int(text, 0 if text.startswith(("0x", "0o")) else 10)),
    "float": (FLOAT, [*"-+.0123456789"], lambda text: float(re.sub(r"\.(inf|nan)", r"\1", text.lower()))),
    "str": (None, [], str),
}
LARGEST = 2**63  # larger integers fit into no tensor
MOST_VALUES = 5_000_000  # with aliases expanded: a few nested aliases can stand for billions
_BY_NAME: WeakKeyDictionary[yaml.MappingNode, dict[str | int, tuple[yaml.Node, yaml.Node]]] = WeakKeyDictionary()
DEEPEST = 100  # levels of lists and mappings, with aliases expanded; a tensor has 64 axes at most
Where = Callable[[int, int], str]  # returns the place as text, given line and column from 1


class Loader(yaml.SafeLoader):
    """PyYAML's loader in Python, with the plain scalars of YAML 1.2."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # none of YAML 1.1's  # noqa: RUF012


for kind, (pattern, first, _) in SCALARS.items():
    if pattern is not None:
        Loader.add_implicit_resolver(f"{STANDARD}{kind}", re.compile(f"^(?:{pattern})$"), first)


def parse_yaml(text: str, where: Where) -> tuple[Any, yaml.Node | None]:
    """Return a YAML document as plain data, and its root node, which has the positions of the values.

    `where` turns a line and a column into text, the place of an error.

    Raises:
        InputError: the text is not valid YAML, has a key twice, or is nested too deeply.
    """
    try:
        root = Loader(text).get_single_node()
        return (None if root is None else _constructed(root, itertools.count(1))), root
    except yaml.reader.ReaderError as error:
        before = text[: error.position]
        location = where(before.count("\n") + 1, error.position - before.rfind("\n"))
        message = f"not valid YAML: the character U+{error.character:04X} is not allowed in YAML; remove it"
        raise InputError.of(message, where=location) from error
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(error, where) from error
    except RecursionError as error:
        message = "nested too deeply, or an alias contains itself; an experiment needs few levels"
        raise InputError.of(message, where=where(1, 1)) from error


def position(node: yaml.Node | None, path: errors.Path, at_key: bool = False) -> tuple[int, int, int]:
    """Return (line, column, depth) of the deepest existing part of `path`: of its value, or of its key if `at_key`.

    Line and column count from 1; `depth` is the number of steps of `path` that exist.
    """
    mark, depth = node.start_mark if node is not None else None, 0
    for step in path:
        child = _child(node, step)
        if child is None:
            break
        key, node = child
        mark, depth = key.start_mark if at_key else node.start_mark, depth + 1
    return (mark.line + 1, mark.column + 1, depth) if mark is not None else (1, 1, 0)


def is_number(text: str) -> bool:
    """Whether YAML reads this text as a number if it has no quotes."""
    return bool(re.fullmatch(f"{INT}|{FLOAT}", text))


def _syntax_error(error: yaml.MarkedYAMLError, where: Where) -> InputError:
    """Return PyYAML's error as an InputError at the position where parsing stopped."""
    begun, stopped = error.context_mark, error.problem_mark
    context = f"{error.context}" + (f" begun at {begun.line + 1}:{begun.column + 1}" if begun else "")
    reason = f"{context}: {error.problem}" if error.context else error.problem
    if stopped and stopped.buffer and stopped.buffer[stopped.pointer] == "\t":
        before = stopped.buffer[: stopped.pointer].rpartition("\n")[2]
        is_indent = not before.strip(" \t-")
        reason = f"{'YAML allows no tabs for indentation' if is_indent else 'got a tab'}; use spaces"
    location = where(stopped.line + 1, stopped.column + 1) if stopped else where(1, 1)
    return InputError.of(f"not valid YAML: {reason}", where=location)


def _child(node: yaml.Node | None, step: str | int) -> tuple[yaml.Node, yaml.Node] | None:
    """Return the nodes of the key `step` and its value, or the node of the list entry `step` twice; None if missing."""
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int):
        return next(((child, child) for child in node.value[step : step + 1]), None)
    if not isinstance(node, yaml.MappingNode):
        return None
    if node not in _BY_NAME:
        _BY_NAME[node] = {str(key.value): (key, value) for key, value in node.value}
    return _BY_NAME[node].get(step)


def _refuse(node: yaml.Node, message: str) -> yaml.YAMLError:
    """Return a YAMLError with the position of a node."""
    return yaml.constructor.ConstructorError(None, None, message, node.start_mark)


def _constructed(node: yaml.Node, numbers: Iterator[int], levels: int = 0) -> Any:
    """Return the value of a node inside so many levels of nesting; `numbers` counts the values of the document."""
    if next(numbers) > MOST_VALUES:
        raise _refuse(node, f"more than {MOST_VALUES} values with aliases expanded; put large tensors into a file")
    if isinstance(node, yaml.ScalarNode):
        return _scalar(node)
    if node.tag not in (f"{STANDARD}seq", f"{STANDARD}map"):
        raise _unknown_tag(node)
    if levels == DEEPEST:  # also of an alias inside its own node, which has no end
        raise RecursionError
    if not isinstance(node, yaml.MappingNode):
        return [_constructed(child, numbers, levels + 1) for child in node.value]
    _check_keys(node)
    return {_scalar(key): _constructed(child, numbers, levels + 1) for key, child in node.value}


def _check_keys(node: yaml.MappingNode) -> None:
    """Raise a YAMLError unless all keys of a mapping are scalars and unique; mark them as text."""
    first: dict[str, yaml.Node] = {}
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise _refuse(key, "this key is a list or a mapping; expected text")
        if key.value == "<<" and not key.style:
            raise _refuse(key, "merge keys are no part of YAML 1.2; write the keys out")
        key.tag = f"{STANDARD}str"
        line = first.setdefault(key.value, key).start_mark.line + 1
        if first[key.value] is not key:
            raise _refuse(key, f"the key `{key.value}` appears twice, first in line {line}; leave out one")


def _scalar(node: yaml.ScalarNode) -> Any:
    """Return the value of a scalar node: text, a number, a boolean or None."""
    text, kind = node.value, node.tag.removeprefix(STANDARD)
    if kind not in SCALARS:
        raise _unknown_tag(node)
    if re.search("[\ud800-\udfff]", text):  # from `"\uD800"`; no file can hold it
        raise _refuse(node, "this text has a lone surrogate, half of a character; write the character itself")
    try:
        value = SCALARS[kind][2](text)
    except (ValueError, LookupError) as error:  # an explicit tag such as `!!int x`, or thousands of digits
        raise _refuse(node, f"this is not of the type {kind}") from error
    if isinstance(value, int) and not -LARGEST <= value < LARGEST:
        raise _refuse(node, "this integer does not fit into 64 bits; write a smaller one, or a float such as 1e20")
    if isinstance(value, float) and math.isinf(value) and "inf" not in text.lower():
        raise _refuse(node, "this number is beyond float64; write .inf for infinity")
    return value


def _unknown_tag(node: yaml.Node) -> yaml.YAMLError:
    """Return the YAMLError for a node with an unknown tag, which is none of the types of JSON."""
    tag = f"!!{node.tag.removeprefix(STANDARD)}" if node.tag.startswith(STANDARD) else node.tag
    return _refuse(node, f"the tag `{tag}` is unknown; leave it out, or put text that begins with ! in quotes")
