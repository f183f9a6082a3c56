"""Change keys of a config, as `--set a.b=value`, `--seed 3`, points of a sweep and arguments in Python do."""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path, PurePath
from typing import Any

from attncli import errors
from attncli.config.tensors import GivenTensor
from attncli.config.yaml_loader import parse_yaml
from attncli.errors import LONGEST_VALUE, Collector, InputError, dotted, shortened

MOST_NUMBERS = 100_000  # of a range given in Python
UNCLOSED = re.compile(r"[\[{][^\]}\s]*")  # the first word of a list or mapping that the shell has split at spaces
KEY = re.compile(r"([^.\[\]=]+)((?:\[\d{1,9}\])*)")


@dataclass(frozen=True)
class Override:
    """A new value for one key of a config.

    `text` is the user's input, for errors; if a flag was repeated, `texts` has the input of each repetition. If
    `may_be_short`, the path may leave out `data`, `mask` or the scorer at its beginning. `where` is `file:line:column`
    if the value is written in a file, else empty.
    """

    path: errors.Path
    value: Any
    text: str
    texts: tuple[str, ...] = ()
    may_be_short: bool = False
    where: str = ""

    def place(self, source: Path) -> str:
        """Return the place of the override for messages: `where`, or `source` (the config's path) and the input."""
        return self.where or f"{source}: {self.text}"

    def decides(self, path: errors.Path) -> bool:
        """Whether the value at `path` comes from this override: the override's path is a beginning of `path`.

        Indices at the end of the override's path do not count: an entry stands for its whole list.
        """
        own = self.path
        while isinstance(own[-1], int):
            own = own[:-1]
        return path[: len(own)] == own


def typed(option: str, value: str) -> str:
    """Return an option and its value as they were typed, on one line and shortened."""
    text = " ".join(value.split()) or '""'
    return f"{option} {shortened(text, LONGEST_VALUE)}"


def override(path: errors.Path, value: str, text: str) -> Override:
    """Return the override of the key at `path`, with `value` read as YAML; `text` is the user's input, for errors.

    Raises:
        InputError: the value is not YAML.
    """
    try:
        return Override(path, parse_yaml(value, lambda line, column: text)[0], text)
    except InputError:
        if UNCLOSED.fullmatch(value):
            option, _, rest = text.partition(" ")
            cure = f'put quotes around it: {option} "{rest} ...{"]" if value.startswith("[") else "}"}"'
            raise InputError.of(errors.got(value, f"the shell splits words at spaces; {cure}"), where=text) from None
        raise


def parse_override(assignment: str) -> Override:
    """Return the override for text such as `scorers[0].num_hiddens=16`, with its value read as YAML.

    Raises:
        InputError: the text has no `=`, the path is invalid, or the value is not YAML.
    """
    text = typed("--set", assignment)
    target, equals, value = assignment.partition("=")
    if not equals:
        raise InputError.of(errors.got(assignment, "expected KEY=VALUE, for instance seed=1"), where=text)
    return replace(override(path_of(target.strip(), text), value, text), may_be_short=True)


def override_in_python(key: str, value: Any) -> Override:
    """Return the override for a keyword argument such as `seed=1`; `key` may be a path such as `data.keys.fill`."""
    plain = as_yaml(value)
    text = typed(f"{key} =", errors.show(plain))
    return Override(path_of(key, text), plain, text, may_be_short=True)


def as_yaml(value: Any) -> Any:
    """Return a Python value as YAML data: tensors become lists, paths and dtypes text, a Decimal a float."""
    if isinstance(value, Mapping):
        return {key: as_yaml(item) for key, item in value.items()}
    if isinstance(value, range) and len(value) > MOST_NUMBERS:
        raise errors.InputError.of(f"got {value}, which are {len(value):,} numbers; expected at most {MOST_NUMBERS:,}")
    if isinstance(value, list | tuple | range):
        return [as_yaml(item) for item in value]
    with suppress(RuntimeError, TypeError):  # a tensor on `meta` has no numbers
        if hasattr(value, "tolist"):  # tensors, arrays, and scalars of NumPy
            return value.tolist()
    if isinstance(value, Decimal):
        return float(value)
    if type(value).__module__ == "torch":  # dtypes and devices
        return str(value).removeprefix("torch.")
    return str(value) if isinstance(value, PurePath) else value


def path_of(target: str, text: str) -> errors.Path:
    """Return `target`, such as `scorers[0].num_hiddens`, as a path; `text` is the user's input, for errors."""
    path = list[str | int]()
    for part in target.split("."):
        match = KEY.fullmatch(part)
        if match is None or not target.isprintable():
            expected = "expected names and indices such as scorers[0].num_hiddens"
            raise InputError.of(errors.got(target, expected), where=text)
        path += [match[1], *(int(index) for index in re.findall(r"\d+", match[2]))]
    return tuple(path)


def from_the_top(change: Override, data: Any) -> Override:
    """Return the override with its full path in the config `data`, such as `data.keys.fill` for `keys.fill`.

    Raises:
        InputError: the path is ambiguous, since several of `data`, `mask` and the scorers have its first key.
    """
    key = change.path[0]
    if not change.may_be_short or not isinstance(data, dict) or "data" not in data or key in data:
        return change
    scorers = data.get("scorers")
    entries = enumerate(scorers if isinstance(scorers, list) else [])
    places: dict[errors.Path, Any] = {("data",): data["data"], ("mask",): data.get("mask")}
    places |= {("scorers", index): entry for index, entry in entries}
    found = [place for place, there in places.items() if isinstance(there, dict) and key in there]
    if len(found) > 1:
        known = errors.listed([dotted((*place, *change.path)) for place in found])
        raise InputError.of(f"got {dotted(change.path)}; expected one of {known}", where=change.where or change.text)
    return replace(change, path=(*found[0], *change.path)) if found else change


def apply_overrides(data: Any, overrides: Sequence[Override], source: Path) -> Any:
    """Return the data with the overrides applied in order to a copy; `source` is the config's path, for errors.

    Raises:
        InputError: all overrides that do not fit the data.
    """
    collector = Collector()
    data = _copy(data) if overrides else data
    if data is None and overrides:
        data = {}
    for each in overrides:
        with collector.under():
            _set(data, each, source)
    collector.check()
    return data


def _copy(data: Any) -> Any:
    """Return a deep copy without shared objects, so that an override changes one use of a YAML alias, not all."""
    if isinstance(data, dict):
        return {key: _copy(value) for key, value in data.items()}
    return [_copy(value) for value in data] if isinstance(data, list) else data


def _set(target: Any, change: Override, source: Path) -> None:
    """Set a value in nested data, creating missing mappings on its path. Raise InputError if the path does not fit."""
    for depth, key in enumerate(change.path, start=1):
        if isinstance(target, list):
            fits, there = isinstance(key, int) and key < len(target), f"a list of {len(target)}"
        else:
            fits = isinstance(target, dict) and isinstance(key, str)
            keys = [*map(str, target)] if isinstance(target, dict) else []
            there = f"a mapping with {errors.listed(keys)}" if isinstance(target, dict) else errors.show(target)
        if not fits:
            place = dotted(change.path[: depth - 1]) or "the config"
            expected = "expected a key of a mapping, or an index of a list, counted from 0"
            message = f"got {dotted(change.path[:depth])}; {place} is {there}; {expected}"
            raise InputError.of(message, where=change.place(source))
        if depth == len(change.path):
            target[key] = _copy(change.value)
        elif isinstance(target, dict) and target.get(key) is None:
            if isinstance(change.path[depth], int):
                place = dotted(change.path[:depth])
                message = f"got {dotted(change.path)}; there is no list `{place}` to change; give `{place}` first"
                raise InputError.of(message, where=change.place(source))
            target[key] = {}
        elif change.path[0] == "scorers" and depth == 2 and isinstance(target[key], str) and "=" not in target[key]:
            target[key] = {"scorer": target[key]}
        if isinstance(target[key], GivenTensor):  # as lists, so that the override can change one number
            target[key] = target[key].numbers.tolist()
        target = target[key]
