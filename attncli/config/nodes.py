"""YAML nodes: where a value stands, and what a file must not do with keys and aliases."""

from collections.abc import Callable, Iterator

import yaml

from attncli import errors
from attncli.config.yaml_loader import STANDARD, refuse
from attncli.errors import Problem

MOST_VALUES = 5_000_000  # counted with aliases expanded: a few nested aliases can stand for billions
MERGE, TEXT = f"{STANDARD}merge", f"{STANDARD}str"
Where = Callable[[int, int], str]  # line and column, from 1, in words


def check_nodes(root: yaml.Node, where: Where) -> list[Problem]:
    """The keys that stand twice; keys become text, whatever they look like.

    Raises:
        yaml.MarkedYAMLError: a key that is a list or a mapping, a merge key without a mapping, an alias that contains
            itself or stands for too much.
    """
    problems: list[Problem] = []
    sizes: dict[int, int] = {}

    def visit(node: yaml.Node, place: errors.Path, above: tuple[int, ...]) -> int:
        if id(node) in above:
            raise refuse(node, "this contains itself, through an alias; write it out")
        if id(node) not in sizes:
            if isinstance(node, yaml.MappingNode):
                problems.extend(_repeated_keys(node, place, where))
            below = (visit(child, (*place, key), (*above, id(node))) for key, _, child in _children(node))
            sizes[id(node)] = 1 + sum(below)
        if sizes[id(node)] > MOST_VALUES:
            raise refuse(node, f"more than {MOST_VALUES} values with aliases expanded; put large tensors into a file")
        return sizes[id(node)]

    visit(root, (), ())
    return problems


def expand_merges(node: yaml.Node) -> None:
    """Replace every `<<` by what it stands for: a mapping's own keys win, then those of the first mapping merged.

    PyYAML does the same, but without dropping what is hidden: a few nested merges could fill the memory.
    """
    for _, _, child in _children(node):
        expand_merges(child)
    if not isinstance(node, yaml.MappingNode) or not any(key.tag == MERGE for key, _ in node.value):
        return
    own = [(key, value) for key, value in node.value if key.tag != MERGE]
    taken = {key.value for key, _ in own}
    merged = []
    for source in (source for key, value in node.value if key.tag == MERGE for source in _sources(value)):
        for key, value in source.value:
            if key.value not in taken:
                taken.add(key.value)
                merged.append((key, value))
    node.value = [*merged, *own]


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


def _children(node: yaml.Node | None) -> Iterator[tuple[str | int, yaml.Node, yaml.Node]]:
    """Name, node of the key (of an entry of a list the entry itself) and node of the value."""
    if isinstance(node, yaml.SequenceNode):
        yield from ((index, child, child) for index, child in enumerate(node.value))
    elif isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield str(key.value), key, value


def _sources(value: yaml.Node) -> list[yaml.MappingNode]:
    """The mappings that `<<` merges: one, or a list of them."""
    sources = value.value if isinstance(value, yaml.SequenceNode) else [value]
    wrong = [source for source in sources if not isinstance(source, yaml.MappingNode)]
    if wrong:
        raise refuse(wrong[0], "expected a mapping after `<<`, or a list of mappings, to take the keys of")
    return list(sources)


def _repeated_keys(node: yaml.MappingNode, place: errors.Path, where: Where) -> Iterator[Problem]:
    first: dict[str, yaml.Node] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise refuse(key, "this key is a list or a mapping; expected text")
        if key.tag == MERGE:
            _sources(value)
            continue
        key.tag = TEXT
        if key.value in first:
            message = f"the key stands twice, first in line {first[key.value].start_mark.line + 1}; leave out one"
            at = where(key.start_mark.line + 1, key.start_mark.column + 1)
            yield Problem(message, (*place, key.value), at)
        first.setdefault(key.value, key)
