"""The plan of a sweep: every point a valid config, no two the same experiment, and what one of them needs."""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import torch

from attncli.config.document import Document
from attncli.config.looks import is_default
from attncli.config.models import Experiment
from attncli.config.sweep import Axis, as_data, replaced
from attncli.errors import InputError, Problem, did_you_mean, got, in_bytes, show
from attncli.expect.asking import check_expectations
from attncli.runs.resolved import config_of
from attncli.show.numbers import several
from attncli.studies import STUDIES, load_study, options_model, part_of
from attncli.studies.memory import noting_needs, too_large
from attncli.studies.progress import Progress
from attncli.studies.study import INTERVAL, PreparedStudy, Record, Rows
from attncli.sweeps.columns import in_words, renamed, swept_column, with_sweep
from attncli.sweeps.work import NO_PART, code_version, key_of

MOST_POINTS = 100_000
MOST_TOLD = 20  # problems; a mistake in a range has many
PATIENCE = 5.0  # seconds for trying points before the work, beyond those that have every value once


@dataclass(frozen=True)
class Point:
    """One experiment of a sweep: its identity, the values by swept key, and its resolved config."""

    key: str
    sweep: Record
    config: Record

    @property
    def text(self) -> str:
        """`d = 16, seed = 0`."""
        return in_words(self.sweep)


@dataclass(frozen=True)
class Plan:
    """A sweep whose points are all valid.

    `document` is the config without its sweep, `options` those of the first point. `memory` has the bytes of the point
    that needs most, 0 where that is not known; `device` is that of the first point. `rows` has the columns of the
    result.
    """

    document: Document
    axes: Sequence[Axis]
    options: Experiment
    points: Sequence[Point]
    memory: int
    device: torch.device
    rows: Rows
    metric: str | None

    @property
    def keys(self) -> list[str]:
        """The swept keys."""
        return keys_of(self.axes)

    @property
    def size(self) -> str:
        """`12 points; each point needs about 400 MiB of memory`."""
        whole = -(-self.memory // 2**20) * 2**20
        memory = f"; each point needs about {in_bytes(whole).replace('.0 ', ' ')} of memory" if whole else ""
        return f"{several(len(self.points), 'point')}{memory}"

    @property
    def config(self) -> Record:
        """config.yaml of the sweep: what was given, with every file named by its whole path."""
        data = type(self.options).normalised(self.document.data)
        folder = self.document.path.absolute().parent
        whole: Record = _with_whole_paths(data, self.points[0].config, folder)
        head = {"study": self.options.study, "name": self.options.name}
        return {**head, **whole, "sweep": as_data(self.axes, self.metric)}


def keys_of(axes: Sequence[Axis]) -> list[str]:
    """The swept keys of axes."""
    return [key for axis in axes for key in axis.keys]


def plan_of(
    document: Document, typed: Sequence[Axis] = (), metric: str | None = None, *, elsewhere: bool = False
) -> Plan:
    """The points of a config: those of its key `sweep`, and of the axes and the metric of the command line.

    `elsewhere`: it will run on other machines, whose devices and memory are not known.

    Raises:
        InputError: everything that is wrong with the points, once each, with its place.
    """
    document.study(STUDIES)
    written, metric_written = document.sweep()
    axes = replaced(written, typed)
    base = replace(document, data={key: value for key, value in document.data.items() if key != "sweep"})
    if not axes:
        raise InputError.of("got nothing to sweep over; expected --over KEY=VALUES, or the key `sweep` in the file",
                            where=str(document.path))  # fmt: skip
    for key in keys_of(axes):
        if key.partition(".")[0] in ("study", *NO_PART):
            message = f"got `{key}` as a key to sweep over, which changes no number, or every column"
            raise InputError.of(f"{message}; expected another key of the config", where=str(document.path))
    count = math.prod(len(axis.places) for axis in axes)
    if count > MOST_POINTS:
        message = f"got a sweep of {count:,} points; expected at most {MOST_POINTS:,}"
        raise InputError.of(message, where=str(document.path))
    model, code = options_model(document.study(STUDIES)), code_version()
    points, found, first = list[Point](), dict[object, Problem](), dict[str, Point]()
    options = None
    for places in product(*(axis.places for axis in axes)):
        changes = [change for place in places for change in place]
        try:
            valid = base.changed(changes).validate(model, absolute=True)
        except InputError as error:
            for each in error.problems:
                found.setdefault((each.message, each.path), each)  # once for all values of a key
            continue
        options = options or valid
        config = {key: value for key, value in config_of(valid).items() if key not in NO_PART}
        sweep = {key: change.value for key, change in zip(keys_of(axes), changes, strict=True)}
        point = Point(key_of(config, code), sweep, config)
        if (other := first.setdefault(point.key, point)) is not point:
            message = f"got {point.text}, the same experiment as {other.text}; expected each once"
            found[message] = Problem(message, where=str(document.path))
        points.append(point)
    if found:
        raise InputError(_not_too_many([*found.values()]))
    assert options is not None, "every point is valid, and there is one"
    if not is_default(options.figure):
        from attncli.show.heatmaps import check_look

        with document.locating():
            check_look(options.figure)
    memory, device, tried = _tried(base, axes, points, elsewhere)
    rows = _rows(options.study, keys_of(axes), tried)
    if options.expect:
        with document.locating():
            check_expectations(options.expect, replace(rows, records=_records(points, tried)))
    _check_metric(metric, rows, keys_of(axes), "--metric")
    with document.locating():
        _check_metric(metric_written, rows, keys_of(axes))
    return Plan(base, axes, options, points, memory, device, rows, metric or metric_written)


def check_same(plan: Plan, before: Document) -> None:
    """Refuse to go on with a sweep by a plan that differs from its config in more than what is swept.

    Raises:
        InputError: it does; with the first key that differs.
    """
    first = [change for axis in plan.axes for change in axis.places[0]]
    unswept = replace(before, data={key: value for key, value in before.data.items() if key != "sweep"})
    study, where = before.study(STUDIES), str(plan.document.path)
    if study != plan.options.study:
        raise _another("study", plan.options.study, study, before.path, where)
    options = unswept.changed(first).validate(options_model(study), absolute=True)
    old, new = _leaves(config_of(options)), _leaves(plan.points[0].config)
    for key in dict.fromkeys((*new, *old)):
        if key.partition(".")[0] not in NO_PART and old.get(key) != new.get(key):
            raise _another(key, new.get(key), old.get(key), before.path, where)


def _another(key: str, new: Any, old: Any, path: Path, where: str) -> InputError:
    message = f"got {show(new)} for {key}, which is {show(old)} in {path}; expected the experiment of that sweep"
    return InputError.of(f"{message}; leave out --resume for another one", where=where)


def _leaves(value: Any, key: str = "") -> dict[str, Any]:
    """What stands in a config, by its key as `--set` writes it."""
    if isinstance(value, dict) and value:
        parts = ((f"{key}.{name}" if key else name, each) for name, each in value.items())
    elif isinstance(value, list) and value:
        parts = ((f"{key}[{index}]", each) for index, each in enumerate(value))
    else:
        return {key: value}
    return {leaf: found for name, each in parts for leaf, found in _leaves(each, name).items()}


def _check_metric(metric: str | None, rows: Rows, keys: Sequence[str], where: str = "") -> None:
    figures = (column.key for column in rows.columns if not column.text and column.kind != "place")
    known = [key for key in figures if key not in (*keys, *rows.left_out) and not key.endswith(INTERVAL)]
    if metric is not None and metric not in known:
        message = got(metric, "unknown metric", did_you_mean(metric, known))
        raise InputError.of(message, () if where else ("sweep", "metric"), where)


def _not_too_many(found: Sequence[Problem]) -> Iterator[Problem]:
    yield from found[:MOST_TOLD]
    if len(found) > MOST_TOLD:
        yield Problem(f"and {len(found) - MOST_TOLD:,} more problems of points", where=found[-1].where)


def _tried(
    base: Document, axes: Sequence[Axis], points: Sequence[Point], elsewhere: bool
) -> tuple[int, torch.device, dict[str, Rows]]:
    """Memory of the largest point, a device, and the rows to come of what was tried, by identity without the seed.

    It finds what studies refuse beyond the config, such as tensors that do not fit together.

    Points that differ in the seed alone need one try. Each value of each axis is tried, and the last of all together;
    other combinations as long as there is patience.

    Raises:
        InputError: the problems of the points, once each; a point that this machine has not the memory for.
    """
    places = dict(zip(product(*(range(len(axis.places)) for axis in axes)), points, strict=True))
    corners = {place for place in places if sum(map(bool, place)) <= 1} | {max(places)}
    model, study = options_model(base.study(STUDIES)), load_study(base.study(STUDIES))
    tried, found, largest = dict[str, Rows](), dict[Problem, Point](), 0
    began, device = time.monotonic(), torch.device("cpu")
    for place in sorted(places, key=lambda place: place not in corners):
        if place not in corners and time.monotonic() - began > PATIENCE:
            break
        seedless = _seedless(places[place])
        if seedless in tried:
            continue
        changes = [change for axis, index in zip(axes, place, strict=True) for change in axis.places[index]]
        document = base.changed(changes)
        options = document.validate(model, absolute=True)
        if elsewhere:
            options = options.model_copy(update={"device": "cpu"})
        try:
            with noting_needs() as needs, document.locating():
                prepared: PreparedStudy = study.prepare(options, Progress())
                tried[seedless] = study.expected_rows(prepared)
                device = prepared.device
        except InputError as error:
            too_large_here = elsewhere and needs and too_large({"point": needs[-1]}, device)
            for problem in () if too_large_here else error.problems:
                found.setdefault(problem, places[place])
            continue
        largest = max([largest, *needs])
    if found:
        problems = [replace(each, where=f"{each.where}, at {point.text}") for each, point in found.items()]
        raise InputError(_not_too_many(problems))
    return largest, device, tried


def _seedless(point: Point) -> str:
    return key_of({**point.config, "seed": 0}, "")


def _rows(study: str, keys: Sequence[str], tried: Mapping[str, Rows]) -> Rows:
    """The columns of the result."""
    known = list(dict.fromkeys(column for rows in tried.values() for column in rows.columns))
    known = known or list(part_of(study, "columns").COLUMNS)
    own = (replace(column, key=renamed(column.key, keys)) for column in known)
    left_out = {key: option for rows in tried.values() for key, option in rows.left_out.items()}
    columns = [*map(swept_column, keys), *own]
    return Rows(columns, [], no_comparisons="a sweep compares no rows", left_out=left_out)


def _records(points: Sequence[Point], tried: Mapping[str, Rows]) -> list[Record]:
    """The rows to come, as far as they are known: of a point that was not tried only its swept values."""
    records = list[Record]()
    for point in points:
        own = tried.get(_seedless(point))
        records += [with_sweep(point.sweep, record) for record in (own.records if own else [{}])]
    return records


def _with_whole_paths(written: Any, resolved: Any, folder: Path) -> Any:
    """What was written, with whole paths where the resolved config has them."""
    if isinstance(written, dict) and isinstance(resolved, dict):
        return {key: _with_whole_paths(value, resolved.get(key), folder) for key, value in written.items()}
    if isinstance(written, list) and isinstance(resolved, list) and len(written) == len(resolved):
        return [_with_whole_paths(*each, folder) for each in zip(written, resolved, strict=True)]
    is_file = isinstance(written, str) and isinstance(resolved, str) and resolved == str(folder / written)
    return resolved if is_file else written
