"""Change keys of a config, as `--set a.b=value`, `--seed 3`, points of a sweep and arguments in Python do."""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path, PurePath
from typing import Any

from attncli import errors
from attncli.catalogue.normalizer_entries import KEY as KEY_OF_NORMALIZER
from attncli.catalogue.normalizer_entries import as_mapping
from attncli.config.tensors import GivenTensor
from attncli.config.yaml_loader import parse_yaml
from attncli.errors import LONGEST_VALUE, InputError, dotted, shortened

MOST_NUMBERS = 100_000  # of a range given in Python
UNCLOSED = re.compile(r"[\[{][^\]}\s]*[,:]|[\[{]")  # the first word of a list or mapping that the shell has split
KEY = re.compile(r"([^.\[\]=]+)((?:\[\d{1,9}\])*)")


@dataclass(frozen=True)
class Override:
    """A new value for one key of a config.

    `text` is the user's input, for errors. If `may_be_short`, the path may leave out its beginning: `data`, `mask`, or
    the entries of scorers, all that have the option. `where` is `file:line:column` if the value is written in a file,
    else empty.
    """

    path: errors.Path
    value: Any
    text: str
    may_be_short: bool = False
    where: str = ""

    def described(self, source: Path) -> str:
        """Return the place of the override for messages: `where`, or `source` (the config's path) and the input."""
        return self.where or f"{source}: {self.text}"

    @property
    def stem(self) -> errors.Path:
        """The path without indices at its end: an entry stands for its whole list."""
        stem = self.path
        while isinstance(stem[-1], int):
            stem = stem[:-1]
        return stem

    def decides(self, path: errors.Path) -> bool:
        """Whether the value at `path` comes from this override: the override's stem is a beginning of `path`."""
        return path[: len(self.stem)] == self.stem


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
    return replace(override(option_path(target.strip(), text), value, text), may_be_short=True)


def override_in_python(key: str, value: object) -> Override:
    """Return the override for a keyword argument such as `seed=1`; `key` may be a path such as `data.keys.fill`."""
    plain = as_yaml(value)
    text = typed(f"{key} =", errors.show(plain))
    return Override(option_path(key, text), plain, text, may_be_short=True)


def as_yaml(value: object) -> Any:
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


def option_path(target: str, text: str) -> errors.Path:
    """Return `target`, such as `scorers[0].num_hiddens`, as a path; `text` is the user's input, for errors."""
    path = list[str | int]()
    for name in target.split("."):
        match = KEY.fullmatch(name)
        if match is None or not target.isprintable():
            expected = "expected names and indices such as scorers[0].num_hiddens"
            raise InputError.of(errors.got(target, expected), where=text)
        path += [match[1], *(int(index) for index in re.findall(r"\d+", match[2]))]
    return tuple(path)


def changed(target: Any, change: Override, source: Path, depth: int = 0) -> Any:
    """Return the data with the value of an override; mappings that are missing on its path are created.

    Only the mappings and lists on the path are copied, so an override changes one use of a YAML alias, not all.
    `source` is the config's path, for errors. `target` is at the first `depth` steps of the override's path.

    Raises:
        InputError: the path does not fit the data.
    """
    if depth == len(change.path):
        return change.value
    if isinstance(target, GivenTensor):  # as lists, so that the override can change one number
        target = target.numbers.tolist()
    here, key = dotted(change.path[:depth]), change.path[depth]
    if target is None and depth:
        if isinstance(key, int):
            message = f"got {dotted(change.path)}; there is no list `{here}` to change; give `{here}` first"
            raise InputError.of(message, where=change.described(source))
        target = {}
    if change.path[0] == "scorers" and isinstance(target, str):
        if depth == 2 and "=" not in target:
            target = {"scorer": target}
        elif change.path[2:depth] == (KEY_OF_NORMALIZER,):
            target = as_mapping(target)
    if isinstance(target, list) and isinstance(key, str) and key.isdecimal():  # `scorers.0`, and below `plan[0]`
        key = int(key)
    elif isinstance(target, dict) and key not in target:
        key = str(key)
    is_index = isinstance(target, list) and isinstance(key, int) and key < len(target)
    if not (is_index or isinstance(target, dict)):
        expected = "expected a key of a mapping, or an index of a list"
        if isinstance(target, list) and target:
            expected = f"expected an index, {here}[0] to {here}[{len(target) - 1}]"
        message = f"got {dotted(change.path[: depth + 1])}; {here or 'the config'} is {_kind(target)}; {expected}"
        raise InputError.of(message, where=change.described(source))
    copied: Any = target.copy()
    current = copied[key] if isinstance(target, list) else copied.get(key)
    copied[key] = changed(current, change, source, depth + 1)
    return copied


def _kind(target: object) -> str:
    """Return in words the value that an override does not fit."""
    if isinstance(target, list):
        return f"a list of {len(target)}"
    return f"a mapping with {errors.listed([*map(str, target)])}" if isinstance(target, dict) else errors.show(target)
