"""Read sweeps: `KEY=VALUES` on the command line, and the key `sweep` in YAML."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from itertools import product
from typing import Annotated, Any

import yaml
from pydantic import AfterValidator, BeforeValidator, Field, JsonValue, model_validator

from attncli import errors
from attncli.config.overrides import Override, option_path, typed
from attncli.config.strict import Model, as_problem, problem, validated
from attncli.config.yaml_loader import parse_yaml, position
from attncli.errors import Collector, InputError, Problem

NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d{1,3})?"
RANGE = re.compile(rf"({NUMBER})\.\.({NUMBER})(?::(x|lin|log)?({NUMBER}))?")
LIKE_A_RANGE = re.compile(rf"{NUMBER}\.\.")
FORMS = "A..B of whole numbers, A..B:STEP, A..B:xFACTOR, A..B:linN or A..B:logN"
MOST_VALUES = 100_000
MOST_KEYS = 100  # of all axes


def swept_values(text: str) -> list[Any]:
    """Return the values of a YAML list without brackets, such as `16, 64` or `0..4`, with ranges expanded.

    Raises:
        InputError: the text is not such a list, or a range is invalid.
    """
    try:
        terms = parse_yaml(f"[{text}]", lambda line, column: "")[0]
    except InputError:
        raise InputError.of(errors.got(text, "expected a YAML list without its brackets, such as 16, 64")) from None
    return _spread(terms)


def _spread(terms: Sequence[Any]) -> list[Any]:
    """Return the values of a list, with text such as `0..4` expanded to a range that includes both ends.

    Raises:
        InputError: the list is empty, or ranges are invalid; the path of each problem is the index.
    """
    collector, values = Collector(), list[Any]()
    for index, term in enumerate(terms):
        with collector.under(index):
            values += _numbers(term.strip()) if isinstance(term, str) and LIKE_A_RANGE.match(term.strip()) else [term]
    if not terms:
        raise InputError.of("got no values; expected at least one")
    collector.check()
    return values


def _numbers(term: str) -> list[int | float]:
    match, numbers = RANGE.fullmatch(term), list[Decimal]()
    if match is not None:
        with suppress(ArithmeticError):  # a step of 0, or a factor of 1
            numbers = _sequence(Decimal(match[1]), Decimal(match[2]), *match.group(3, 4))
    if match is None or not numbers:
        expected = f"expected {FORMS}, which leads from A to B in at most {MOST_VALUES:,} values"
        raise InputError.of(errors.got(term, f"{expected}; factors and logN need numbers above 0"))
    is_whole = all(re.fullmatch(r"[-+]?\d+", end) for end in match.group(1, 2))
    return [int(value) if is_whole and float(value).is_integer() else float(value) for value in numbers]


def _sequence(first: Decimal, last: Decimal, kind: str | None, amount: str | None) -> list[Decimal]:
    """Return the numbers of a range, computed as Decimal, so 0.1..0.5:0.1 contains exactly 0.3; none if it is wrong.

    `kind` is None, `x`, `lin` or `log`, and `amount` the step, the factor or the number of values.
    """
    by = Decimal(amount or 1)
    is_wrong = amount is None and bool(first % 1 or last % 1)
    is_wrong |= kind in ("x", "log") and min(first, last, by) <= 0
    is_wrong |= kind in ("lin", "log") and (bool(by % 1) or by < 2 or first == last)
    if is_wrong:
        return []
    steps = by - 1 if kind in ("lin", "log") else (last - first) / by if kind is None else (last / first).ln() / by.ln()
    count = math.floor(steps + Decimal("1e-12")) + 1
    if count > MOST_VALUES:
        return []
    if kind is None:
        return [first + index * by for index in range(count)]
    if kind == "x":
        return [first * by**index for index in range(count)]
    shares = [Decimal(index) / (count - 1) for index in range(1, count - 1)]
    inner = [first + (last - first) * share if kind == "lin" else first * (last / first) ** share for share in shares]
    return [first, *inner, last]


def _listed(value: object) -> Any:
    """Return the values of one swept key as a list, with ranges expanded."""
    with as_problem():
        return swept_values(value) if isinstance(value, str) else _spread(value if isinstance(value, list) else [value])


def _path(key: str) -> str:
    with as_problem():
        option_path(key, "")
    return key


Values = Annotated[
    list[JsonValue],
    BeforeValidator(_listed, json_schema_input_type=Annotated[list[Any], Field(min_length=1)] | str | float),
]
Key = Annotated[str, AfterValidator(_path)]
KeysTogether = Annotated[dict[Key, Values], Field(min_length=1)]


class Sweep(Model):
    """A grid of points: the product of all axes. The keys of one axis change together, value by value."""

    over: Annotated[
        list[KeysTogether], Field(min_length=1, description="axes: keys with their values, such as {seed: 0..4}")
    ]
    metric: Annotated[str | None, Field(min_length=1, description="metric to draw and report")] = None

    @model_validator(mode="after")
    def _fit_together(self) -> "Sweep":
        if (count := sum(map(len, self.over))) > MOST_KEYS:
            raise problem(f"got {count:,} keys to sweep over; expected at most {MOST_KEYS}", under=["over"])
        first = dict[str, int]()
        for index, axis in enumerate(self.over):
            counts = {key: len(values) for key, values in axis.items()}
            for key, count in counts.items():
                if first.setdefault(key, index) != index:
                    raise problem(f"got `{key}` on two axes; expected each key once", under=["over", index, key])
                if count != (other := next(iter(counts.values()))):
                    message = f"got {count} values of {key} beside {other} of {next(iter(counts))}; expected as many"
                    raise problem(message, under=["over", index, key])
        return self


GridIndex = tuple[int, ...]  # of a point in the grid: its index on every axis


@dataclass(frozen=True)
class Axis:
    """One axis of a sweep. `changes` has the overrides by swept key for each point on the axis."""

    changes: Sequence[Mapping[str, Override]]

    @property
    def keys(self) -> list[str]:
        """The swept keys."""
        return [*self.changes[0]]

    @property
    def values(self) -> dict[str, list[Any]]:
        """The values of each key along the axis, as under `sweep` in YAML."""
        return {key: [change[key].value for change in self.changes] for key in self.keys}


def swept_keys(axes: Sequence[Axis]) -> list[str]:
    """Return the swept keys of all axes."""
    return [key for axis in axes for key in axis.keys]


def grid_indices(axes: Sequence[Axis]) -> Iterator[GridIndex]:
    """Return the indices of all points of the grid; the index on the last axis changes fastest."""
    return product(*(range(len(axis.changes)) for axis in axes))


def changes_at(axes: Sequence[Axis], index: GridIndex) -> dict[str, Override]:
    """Return the overrides of all swept keys, by key, at the point `index` of the grid."""
    by_axis = (axis.changes[position] for axis, position in zip(axes, index, strict=True))
    return {key: change for changes in by_axis for key, change in changes.items()}


def sweep_axes(sweep: Sweep, path: str = "", root: yaml.Node | None = None) -> list[Axis]:
    """Return the axes of the key `sweep` of a file; each override has the line and column of its value.

    `root` is the root node of the file's YAML, which has the positions, or None if the key is not from the file.
    """
    axes = list[Axis]()
    for index, together in enumerate(sweep.over):
        changes = list[dict[str, Override]]()
        for number, values in enumerate(zip(*together.values(), strict=True)):
            changes.append({})
            for key, value in zip(together, values, strict=True):
                line, column, depth = position(root, ("sweep", "over", index, key, number))
                where = f"{path}:{line}:{column}" if depth else ""
                text = f"{key} = {errors.plain(value)}"
                changes[-1][key] = Override(option_path(key, ""), value, text, may_be_short=True, where=where)
        axes.append(Axis(changes))
    return axes


def typed_axes(options: Sequence[tuple[str, str]]) -> list[Axis]:
    """Return the axes given by the options --over and --with.

    `options` has a pair such as `("over", "KEY=VALUES")` for each option, in the order of the command line.

    Raises:
        InputError: options are invalid; the error has a problem for each.
    """
    collector, axes = Collector(), list[dict[str, str]]()
    texts = dict[tuple[str | int, ...], str]()  # options as typed, by the number of the axis and the key
    for option, assignment in options:
        text = typed(f"--{option}", assignment)
        key, equals, values = (word.strip() for word in assignment.partition("="))
        with collector.under():
            if not equals:
                message = errors.got(assignment, "expected KEY=VALUES, for instance seed=0..4 or d=16,64")
                raise InputError.of(message, where=text)
            if option == "with" and (not axes or key in axes[-1]):
                raise InputError.of("expected an --over before it, of another key, to go along with", where=text)
            if option == "over":
                axes.append({})
            axes[-1][key], texts[len(axes) - 1, key] = values, text
    collector.check()
    if not axes:
        return []
    try:
        sweep = validated(Sweep, {"over": axes}, {})
    except InputError as error:
        located = (Problem(each.message, where=texts.get(each.path[1:3], "--over")) for each in error.problems)
        raise InputError(located) from None
    return sweep_axes(sweep)


def replaced(axes: Sequence[Axis], by: Sequence[Axis]) -> list[Axis]:
    """Return `axes` with each axis replaced by the axes of `by` that share a key with it; other axes of `by` follow."""
    merged = list[Axis]()
    for axis in axes:
        same = [other for other in by if {*other.keys} & {*axis.keys}] or [axis]
        merged += [other for other in same if other not in merged]
    return [*merged, *(axis for axis in by if axis not in merged)]


def as_data(axes: Sequence[Axis], metric: str | None) -> dict[str, Any]:
    """Return axes and metric as the value of the key `sweep` in a config."""
    return {"over": [axis.values for axis in axes], **({"metric": metric} if metric else {})}
