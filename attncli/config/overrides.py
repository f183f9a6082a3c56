"""`--set a.b=value` and its shortcuts such as `--seed 3`: changes to a config from the command line."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from attncli import errors
from attncli.config.yaml_loader import parse_yaml
from attncli.errors import LONGEST_VALUE, InputError, Problem, dotted

KEY = re.compile(r"([^.\[\]=]+)((?:\[\d{1,9}\])*)")


@dataclass(frozen=True)
class Override:
    """`text` is what the user typed, for errors; `texts` of a flag that was repeated each time it was."""

    path: errors.Path
    value: Any
    text: str
    texts: tuple[str, ...] = ()

    def decides(self, path: errors.Path) -> bool:
        """Whether this path is the value that was given, below it, or the list that it is an entry of."""
        own = self.path
        while isinstance(own[-1], int):
            own = own[:-1]
        return path[: len(own)] == own


def typed(option: str, value: str) -> str:
    """The option as it was typed, on one line and not too long."""
    text = " ".join(value.split()) or '""'
    return f"{option} {text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 1] + '…'}"


def override(path: errors.Path, value: str, text: str) -> Override:
    """The value, as the user typed it, read as YAML."""
    return Override(path, parse_yaml(value, lambda line, column: text)[0], text)


def parse_override(assignment: str) -> Override:
    """`scorers[0].num_hiddens=16` as an Override; the value is read as YAML.

    Raises:
        InputError: no `=`, a path that makes no sense, a value that is not YAML.
    """
    text = typed("--set", assignment)
    target, equals, value = assignment.partition("=")
    if not equals:
        raise InputError.of(errors.got(assignment, "expected KEY=VALUE, for instance seed=1"), where=text)
    target, path = target.strip(), list[str | int]()
    for part in target.split("."):
        match = KEY.fullmatch(part)
        if match is None or not target.isprintable():
            expected = "expected names and indices such as scorers[0].num_hiddens"
            raise InputError.of(errors.got(target, expected), where=text)
        path += [match[1], *(int(index) for index in re.findall(r"\d+", match[2]))]
    return override(tuple(path), value, text)


def from_the_top(change: Override, data: Any) -> Override:
    """The override with its path from the top, where that begins inside `data`, `mask` or a scorer: `keys.fill=ones`.

    Raises:
        InputError: several of them have the key.
    """
    places: list[errors.Path] = [("data",), ("mask",)]
    if isinstance(data, dict) and isinstance(data.get("scorers"), list):
        places += [("scorers", index) for index in range(len(data["scorers"]))]
    key = change.path[0]
    if not change.text.startswith("--set ") or not isinstance(data, dict) or "data" not in data or key in data:
        return change
    found = [place for place in places if key in _mapping_at(data, place)]
    if len(found) > 1:
        known = ", ".join(dotted((*place, *change.path)) for place in found)
        raise InputError.of(f"got {dotted(change.path)}; expected one of {known}", where=change.text)
    return replace(change, path=(*found[0], *change.path)) if found else change


def _mapping_at(data: Any, place: errors.Path) -> dict[str, Any]:
    for key in place:
        data = data.get(key) if isinstance(data, dict) else data[key]
    return data if isinstance(data, dict) else {}


def apply_overrides(data: Any, overrides: Sequence[Override]) -> tuple[Any, list[Problem]]:
    """A copy of the data with the overrides, in their order; and those that do not fit, as problems."""
    problems: list[Problem] = []
    data = _copy(data) if overrides else data
    if data is None and overrides:
        data = {}
    for each in overrides:
        try:
            _set(data, each)
        except LookupError as error:
            problems.append(Problem(str(error.args[0]), (), each.text))
    return data, problems


def _copy(data: Any) -> Any:
    """A copy in which nothing stands at two places, as it does after an alias: an override changes one of them."""
    if isinstance(data, dict):
        return {key: _copy(value) for key, value in data.items()}
    return [_copy(value) for value in data] if isinstance(data, list) else data


def _set(data: Any, change: Override) -> None:
    """Mappings that are missing on the way are made; entries of lists must be there."""
    *way, last = change.path
    target = data
    for depth, key in enumerate(way):
        _check_step(target, key, change.path[:depth])
        if isinstance(target, dict) and target.get(key) is None:
            target[key] = {}
        target = target[key]
    _check_step(target, last, change.path[:-1])
    target[last] = _copy(change.value)


def _check_step(target: Any, key: str | int, place: errors.Path) -> None:
    """Raise a LookupError unless the target, at that place of the config, can have this key or has this index."""
    if isinstance(target, list):
        fits, there = isinstance(key, int) and key < len(target), f"a list of {len(target)}"
    else:
        fits = isinstance(target, dict) and isinstance(key, str)
        there = f"a mapping with {', '.join(target)}" if isinstance(target, dict) else errors.show(target)
    if not fits:
        expected = "expected a key of a mapping, or an index of a list, counted from 0"
        raise LookupError(f"got {dotted((*place, key))}; {dotted(place) or 'the config'} is {there}; {expected}")
