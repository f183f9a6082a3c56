"""YAML text to plain data that remembers where everything stands.

PyYAML's parser with the scalars of YAML 1.2 (https://yaml.org/spec/1.2.2/#103-core-schema). PyYAML itself follows YAML
1.1, where `1e-3` is a string, `on` is true, `010` is eight and `12:30` is 750. Here `1e-3` is a number, `on` is a
string, `010` is ten, and dates are strings. Of tags, which can ask for objects of any kind, only those of JSON's kinds
are known. Keys are text, whatever they look like.
"""

import math
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar

import yaml

from attncli import errors
from attncli.errors import InputError, Problem

STANDARD = "tag:yaml.org,2002:"
MERGE, TEXT = f"{STANDARD}merge", f"{STANDARD}str"
INT = r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+"
FLOAT = r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
# By type: what it looks like, how it may begin, and its value. In this order: a float would match integers, too.
SCALARS: dict[str, tuple[str | None, list[str], Callable[[str], Any]]] = {
    "null": ("~|null|Null|NULL|", [*"~nN", ""], lambda text: None),
    "bool": ("true|True|TRUE|false|False|FALSE", [*"tTfF"], lambda text: {"true": True, "false": False}[text.lower()]),
    "int": (INT, [*"-+0123456789"], lambda text: int(text, 0 if text.startswith(("0x", "0o")) else 10)),
    "float": (FLOAT, [*"-+.0123456789"], lambda text: float(re.sub(r"\.(inf|nan)", r"\1", text.lower()))),
    "str": (None, [], str),
}
LARGEST = 2**63  # integers from here on fit into no tensor
MOST_VALUES = 5_000_000  # counted with aliases expanded: a few nested aliases can stand for billions
Where = Callable[[int, int], str]  # line and column, from 1, in words


@dataclass(frozen=True)
class Parsed:
    """`problems` are those that still leave data to look at: keys that stand twice, by their path."""

    data: Any
    root: yaml.Node | None
    problems: list[Problem]


def parse_yaml(text: str, where: Where) -> Parsed:
    """One YAML document as plain data.

    Raises:
        InputError: text that is not YAML, or nests without end.
    """
    try:
        root = _composed(text)
        if root is None:
            return Parsed(None, None, [])
        problems = _checked_nodes(root)
        return Parsed(Loader("").construct_document(root), root, problems)
    except yaml.reader.ReaderError as error:
        before = text[: error.position]
        place = where(before.count("\n") + 1, error.position - before.rfind("\n"))
        message = f"not valid YAML: the character U+{error.character:04X} may not stand in YAML; remove it"
        raise InputError.of(message, where=place) from error
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(error, where) from error
    except RecursionError as error:
        message = "nested too deeply, or in itself through an alias; an experiment needs a few levels"
        raise InputError.of(message, where=where(1, 1)) from error


def _composed(text: str) -> yaml.Node | None:
    """The nodes of one document, by libyaml where it can: it parses many times as fast as Python.

    What it refuses is parsed in Python again, so that messages are the same everywhere.
    """
    if yaml.__with_libyaml__:
        with suppress(yaml.YAMLError):
            return FastLoader(text).get_single_node()
    return Loader(text).get_single_node()


def position(node: yaml.Node | None, path: errors.Path, at_key: bool = False) -> tuple[int, int, int]:
    """Line and column, from 1, of the deepest part of `path` that the file has, or of its key; and how deep that is."""
    mark, depth = node.start_mark if node is not None else None, 0
    for step in path:
        found = [(key, child) for name, key, child in _children(node) if name == step]
        if not found:
            break
        key, node = found[-1]  # of a key that stands twice the last wins
        mark, depth = key.start_mark if at_key else node.start_mark, depth + 1
    return (mark.line + 1, mark.column + 1, depth) if mark is not None else (1, 1, 0)


def is_number(text: str) -> bool:
    """Whether this text, without quotes, would be a number."""
    return bool(re.fullmatch(f"{INT}|{FLOAT}", text))


def _syntax_error(error: yaml.MarkedYAMLError, where: Where) -> InputError:
    """PyYAML's own words, at the place where reading stopped."""
    begun, stopped = error.context_mark, error.problem_mark or error.context_mark
    context = error.context or ""
    if begun and stopped and (begun.line, begun.column) != (stopped.line, stopped.column):
        context += f" begun at {begun.line + 1}:{begun.column + 1}"
    reason = ": ".join(part for part in (context, error.problem) if part)
    place = where(stopped.line + 1, stopped.column + 1) if stopped else where(1, 1)
    return InputError.of(f"not valid YAML: {reason}", where=place)


def _refuse(node: yaml.Node, message: str) -> yaml.YAMLError:
    """The error that a node is wrong, to be raised."""
    return yaml.constructor.ConstructorError(None, None, message, node.start_mark)


def _checked_nodes(root: yaml.Node) -> list[Problem]:
    """The keys that stand twice; all keys become text.

    Raises:
        yaml.MarkedYAMLError: a key that is a list or a mapping, or aliases that stand for too much.
    """
    problems: list[Problem] = []
    sizes: dict[int, int] = {}

    def visit(node: yaml.Node, place: errors.Path) -> int:
        if id(node) not in sizes:
            if isinstance(node, yaml.MappingNode):
                problems.extend(_repeated_keys(node, place))
            sizes[id(node)] = 1 + sum(visit(child, (*place, key)) for key, _, child in _children(node))
        if sizes[id(node)] > MOST_VALUES:
            raise _refuse(node, f"more than {MOST_VALUES} values with aliases expanded; put large tensors into a file")
        return sizes[id(node)]

    visit(root, ())
    return problems


def _repeated_keys(node: yaml.MappingNode, place: errors.Path) -> Iterator[Problem]:
    first: dict[str, yaml.Node] = {}
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise _refuse(key, "this key is a list or a mapping; expected text")
        if key.tag == MERGE:
            continue
        key.tag = TEXT
        if key.value in first:
            message = f"the key stands twice, first in line {first[key.value].start_mark.line + 1}; leave out one"
            yield Problem(message, (*place, key.value), at_key=True)
        first.setdefault(key.value, key)


def _children(node: yaml.Node | None) -> Iterator[tuple[str | int, yaml.Node, yaml.Node]]:
    """Name, node of the key (of an entry of a list the entry itself) and node of the value."""
    if isinstance(node, yaml.SequenceNode):
        yield from ((index, child, child) for index, child in enumerate(node.value))
    elif isinstance(node, yaml.MappingNode):
        yield from ((str(key.value), key, value) for key, value in node.value)


class Loader(yaml.SafeLoader):
    """Safe loading with YAML 1.2's plain scalars; merge keys (`<<`) stay."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # none of YAML 1.1's  # noqa: RUF012
    yaml_constructors: ClassVar[dict[str | None, Callable[..., Any]]] = {}

    def construct_scalar_of(self, node: yaml.ScalarNode) -> Any:
        """Text, number, truth value or nothing."""
        text = str(self.construct_scalar(node))
        if re.search("[\ud800-\udfff]", text):  # out of `"\uD800"`; no file can hold it
            raise _refuse(node, "this text has half of a character (a lone surrogate); write the character itself")
        try:
            value = SCALARS[node.tag.removeprefix(STANDARD)][2](text)
        except (ValueError, LookupError) as error:  # an explicit tag such as `!!int x`, or thousands of digits
            raise _refuse(node, f"this is not of the type {node.tag.removeprefix(STANDARD)}") from error
        if isinstance(value, int) and not -LARGEST <= value < LARGEST:
            raise _refuse(node, "this integer does not fit into 64 bits; write a smaller one, or a float such as 1e20")
        if isinstance(value, float) and math.isinf(value) and "inf" not in text.lower():
            raise _refuse(node, "this number is beyond float64; write .inf for infinity")
        return value

    def refuse_tag(self, node: yaml.Node) -> None:
        """No object but those of JSON's kinds."""
        tag = f"!!{node.tag.removeprefix(STANDARD)}" if node.tag.startswith(STANDARD) else node.tag
        raise _refuse(node, f"the tag `{tag}` is unknown; leave it out, or put text that begins with ! in quotes")


if yaml.__with_libyaml__:

    class FastLoader(yaml.composer.Composer, yaml.CSafeLoader):
        """libyaml's parser; the composer is Python's, since that of C crashes where nesting is deep."""

        yaml_implicit_resolvers = Loader.yaml_implicit_resolvers

        def __init__(self, text: str) -> None:
            yaml.composer.Composer.__init__(self)
            yaml.CSafeLoader.__init__(self, text)


for kind, (pattern, first, _) in SCALARS.items():
    if pattern is not None:
        Loader.add_implicit_resolver(f"{STANDARD}{kind}", re.compile(f"^(?:{pattern})$"), first)
Loader.add_implicit_resolver(MERGE, re.compile(r"^(?:<<)$"), ["<"])
Loader.yaml_constructors = {
    **{f"{STANDARD}{kind}": Loader.construct_scalar_of for kind in SCALARS},
    f"{STANDARD}seq": Loader.construct_yaml_seq,
    f"{STANDARD}map": Loader.construct_yaml_map,
    None: Loader.refuse_tag,
}
