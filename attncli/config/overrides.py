"""`--set a.b=value` and its shortcuts such as `--seed 3`: changes to a config from the command line."""

import copy
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from attncli import errors
from attncli.config.yaml_loader import Loader
from attncli.errors import InputError, Problem, dotted

KEY = re.compile(r"([^.\[\]=]+)((?:\[\d+\])*)")


@dataclass(frozen=True)
class Override:
    """`text` is what the user typed, for errors."""

    path: errors.Path
    value: Any
    text: str


def parse_override(assignment: str) -> Override:
    """`scorers[0].num_hiddens=16` as an Override; the value is read as YAML."""
    text = f"--set {assignment}"
    target, equals, value = assignment.partition("=")
    if not equals:
        raise InputError.of(f"got {errors.show(assignment)}; expected key=value, for instance seed=1", where=text)
    try:
        return Override(_parse_path(target.strip()), yaml.load(value, Loader), text)
    except yaml.YAMLError as error:
        raise InputError.of(f"the value is not YAML: {' '.join(str(error).split())}", where=text) from error
    except ValueError as error:
        raise InputError.of(str(error), where=text) from error


def _parse_path(target: str) -> errors.Path:
    path: list[str | int] = []
    for part in target.split("."):
        match = KEY.fullmatch(part)
        if match is None:
            raise ValueError(f"got the key {errors.show(target)}; expected names and indices such as scorers[0].scale")
        path.append(match[1])
        path.extend(int(index) for index in re.findall(r"\d+", match[2]))
    return tuple(path)


def apply_overrides(data: Any, overrides: Sequence[Override]) -> tuple[Any, list[Problem]]:
    """A copy of the data with the overrides, in their order; and those that do not fit, as problems."""
    problems: list[Problem] = []
    data = copy.deepcopy(data) if overrides else data
    if data is None and overrides:
        data = {}
    for override in overrides:
        try:
            _set(data, override)
        except LookupError as error:
            problems.append(Problem(str(error.args[0]), (), override.text))
    return data, problems


def _set(data: Any, override: Override) -> None:
    target = data
    for depth, key in enumerate(override.path[:-1]):
        place = override.path[: depth + 1]
        if isinstance(target, dict) and isinstance(key, str) and target.get(key) is None:
            target[key] = {}
        target = _step(target, key, place)
    last = override.path[-1]
    if isinstance(target, dict) and isinstance(last, str):
        target[last] = override.value
    else:
        _step(target, last, override.path)
        target[last] = override.value


def _step(target: Any, key: str | int, place: errors.Path) -> Any:
    if isinstance(key, str) and isinstance(target, dict):
        return target[key]
    if isinstance(key, int) and isinstance(target, list):
        if key < len(target):
            return target[key]
        raise LookupError(f"{dotted(place)}: got index {key}; the config has {len(target)} there, counted from 0")
    kind = "a list" if isinstance(target, list) else "a mapping" if isinstance(target, dict) else errors.show(target)
    raise LookupError(
        f"{dotted(place)}: the config has {kind} there; expected {'a list' if isinstance(key, int) else 'a mapping'}"
    )
