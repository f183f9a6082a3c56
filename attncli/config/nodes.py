"""YAML nodes: where a value stands, and what a file must not do with keys and aliases."""

from collections.abc import Iterator
from pathlib import Path

import yaml

from attncli import errors
from attncli.config.yaml_loader import Loader
from attncli.errors import Problem

MOST_VALUES = 5_000_000  # counted with aliases expanded: a few nested aliases can stand for billions
MERGE = "tag:yaml.org,2002:merge"


def check_nodes(loader: Loader, root: yaml.Node, path: Path) -> list[Problem]:
    """Expand merge keys in place, and give the repeated keys.

    Raises:
        yaml.MarkedYAMLError: a key that is not a plain word, an alias that contains itself or stands for too much.
    """
    problems: list[Problem] = []
    sizes: dict[int, int] = {}

    def visit(node: yaml.Node, place: errors.Path, above: tuple[int, ...]) -> int:
        if id(node) in above:
            raise yaml.composer.ComposerError(None, None, "an alias that contains itself", node.start_mark)
        if id(node) not in sizes:
            if isinstance(node, yaml.MappingNode):
                problems.extend(_repeated_keys(node, place, path))
                loader.flatten_mapping(node)
            below = (visit(child, (*place, key), (*above, id(node))) for key, _, child in _children(node))
            sizes[id(node)] = 1 + sum(below)
        if sizes[id(node)] > MOST_VALUES:
            message = f"more than {MOST_VALUES} values with aliases expanded; put large tensors into a file"
            raise yaml.composer.ComposerError(None, None, message, node.start_mark)
        return sizes[id(node)]

    visit(root, (), ())
    return problems


def position(node: yaml.Node | None, path: errors.Path, at_key: bool = False) -> tuple[int, int]:
    """Line and column, from 1, of the deepest part of `path` that the file has, or of its key."""
    mark = node.start_mark if node is not None else None
    for step in path:
        found = [(key, child) for name, key, child in _children(node) if name == step]
        if not found:
            break
        key, node = found[-1]  # of a key that stands twice the last wins; merged pairs come first
        mark = key.start_mark if at_key else node.start_mark
    return (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)


def mark_text(path: Path, mark: yaml.Mark) -> str:
    """`file:line:column`, from 1."""
    return f"{path}:{mark.line + 1}:{mark.column + 1}"


def _children(node: yaml.Node | None) -> Iterator[tuple[str | int, yaml.Node, yaml.Node]]:
    """Name, node of the key (of an entry of a list the entry itself) and node of the value."""
    if isinstance(node, yaml.SequenceNode):
        yield from ((index, child, child) for index, child in enumerate(node.value))
    elif isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield str(key.value), key, value


def _repeated_keys(node: yaml.MappingNode, place: errors.Path, path: Path) -> Iterator[Problem]:
    first: dict[str, yaml.Node] = {}
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise yaml.composer.ComposerError(None, None, "a key must be a plain word", key.start_mark)
        if key.value in first and key.tag != MERGE:
            message = f"the key stands twice, first in line {first[key.value].start_mark.line + 1}; leave out one"
            yield Problem(message, (*place, key.value), mark_text(path, key.start_mark))
        first.setdefault(key.value, key)
