"""The plan of a sweep: its points, all valid and different."""

import hashlib
import json
import math
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import torch

from attncli import errors
from attncli.catalogue.scorer_entries import refuse_objects
from attncli.config.document import Document
from attncli.config.files import marked_files
from attncli.config.looks import is_default
from attncli.config.models import Experiment
from attncli.config.overrides import Override
from attncli.config.sweep import Axis, GridIndex, as_data, changes_at, grid_indices, replaced, swept_keys
from attncli.core.opening import open_file
from attncli.engine.expect.selecting import check_expectations
from attncli.engine.runs.resolved import config_data
from attncli.engine.sweeps.columns import in_words, renamed, swept_column
from attncli.engine.sweeps.work import COSMETIC_KEYS, code_version, point_key, result_config
from attncli.errors import InputError, Problem, below, did_you_mean, dotted, got, show
from attncli.results import INTERVAL, Column, Row
from attncli.runtime import Progress
from attncli.studies import STUDIES, load_study, options_model

MOST_POINTS = 100_000
MOST_TRIED = 400  # points prepared before the work


@dataclass(frozen=True)
class GridPoint:
    """One experiment of a sweep: its `key` (a hash), the values by swept key, and the config with all defaults.

    The config has absolute paths, and lacks the keys COSMETIC_KEYS, which change no number.
    """

    key: str
    sweep: Row
    config: Row

    @property
    def text(self) -> str:
        """Return the swept values in words: `d = 16, seed = 0`."""
        return in_words(self.sweep)


@dataclass(frozen=True)
class SweepPlan:
    """A sweep with valid points.

    `document` is the config without its sweep; `options` and `device` belong to the first point. `metric` is the metric
    to draw and report, None for the default.
    """

    document: Document
    axes: Sequence[Axis]
    options: Experiment
    points: Sequence[GridPoint]
    device: torch.device
    metric: str | None

    @property
    def config(self) -> Row:
        """Return the content of config.yaml: the config as written, with absolute paths.

        Entries in a short form have the labels that they have at the points, without values of swept options.
        """
        data = type(self.options).normalised(self.document.data)
        entries, labels = data.get("scorers", []), [entry["label"] for entry in self.points[0].config["scorers"]]
        if len(entries) == len(labels):  # the list of scorers may be swept
            labelled = zip(entries, labels, strict=True)
            data["scorers"] = [{**entry, "label": label} if "label" in entry else entry for entry, label in labelled]
        files = {path: value for path, value, _ in marked_files(self.options)}
        head = {"study": self.options.study, "name": self.options.name}
        return {**head, **_with_files(data, files), "sweep": as_data(self.axes, self.metric)}


def sweep_plan(
    document: Document, typed: Sequence[Axis] = (), metric: str | None = None, *, elsewhere: bool = False
) -> SweepPlan:
    """Return the plan for a config with the key `sweep`, or with axes and a metric from the command line.

    The axes in `typed` replace the axes of the config that share a key with them. If `elsewhere`, the points run on
    other machines, with unknown devices.

    Raises:
        InputError: all problems of the points, without repetitions, each located in the config.
    """
    study = document.study(STUDIES)
    written, metric_written = document.sweep()
    axes, base = replaced(written, typed), _unswept(document).of_study(options_model(study))
    _check_axes(axes, str(document.path))
    points, options = _points(base, axes)
    _check_given_once(base, changes_at(axes, (0,) * len(axes)))
    if not is_default(options.figure):
        from attncli.show.pictures.heatmaps import check_look  # loads matplotlib

        with document.locating(), below("figure"):
            check_look(options.figure)
    device = _tried(base, axes, points, elsewhere)
    record, keys = load_study(study), swept_keys(axes)
    study_columns = [*record.columns[record.swept], *record.columns.get("heads", ()), *record.call_columns]
    columns = [*map(swept_column, keys), *(replace(column, key=renamed(column.key, keys)) for column in study_columns)]
    labels = [entry["label"] for point in points.values() for entry in point.config["scorers"]]
    _check_metric(metric, columns, "--metric")
    with document.locating():
        check_expectations(options.expect, columns, {*labels, *record.references}, has_arrays=False)
        _check_metric(metric_written, columns)
    return SweepPlan(base, axes, options, [*points.values()], device, metric or metric_written)


def _unswept(document: Document) -> Document:
    """Return the document without its sweep, also in its overrides."""
    overrides = [override for override in document.overrides if override.path[0] != "sweep"]
    written = {key: value for key, value in (document.written or {}).items() if key != "sweep"}
    return replace(document, written=written, overrides=overrides)


def _check_axes(axes: Sequence[Axis], where: str) -> None:
    """Raise InputError if there are no axes, too many points, or keys that cannot be swept."""
    if not axes:
        expected = "expected --over KEY=VALUES, `over={KEY: VALUES}` in Python, or the key `sweep` in the config"
        raise InputError.of(f"got nothing to sweep over; {expected}", where=where)
    for key in swept_keys(axes):
        if key.partition(".")[0] in ("study", *COSMETIC_KEYS) or key.rpartition(".")[2] == "label":
            message = f"got `{key}` as a key to sweep over, which changes no number, or every column"
            raise InputError.of(f"{message}; expected another key of the config", where=where)
    count = math.prod(len(axis.changes) for axis in axes)
    if count > MOST_POINTS:
        points = f"{count:,}" if count < 10**15 else "10^15 or more"
        raise InputError.of(f"got a sweep of {points} points; expected at most {MOST_POINTS:,}", where=where)


def _points(base: Document, axes: Sequence[Axis]) -> tuple[dict[GridIndex, GridPoint], Experiment]:
    """Return the points by their indices on the axes, and the options of the first point.

    Raises:
        InputError: the configs of points have problems, or two points are the same experiment.
    """
    model, code = options_model(base.study(STUDIES)), code_version()
    points, first, versions = dict[GridIndex, GridPoint](), dict[str, GridPoint](), dict[str, str]()
    problems, options = dict[object, Problem](), None
    for index in grid_indices(axes):
        changes = changes_at(axes, index)
        try:
            changed = base.changed([*changes.values()])
            valid = changed.validate(model, absolute=True)
            with changed.locating():
                refuse_objects(valid.scorers, "which the processes of a sweep cannot load")
        except InputError as error:
            for problem in error.problems:
                problems.setdefault((problem.message, problem.path), problem)
            continue
        options = options or valid
        config = result_config(config_data(valid))
        key = point_key(config, code + _files(config, versions))
        point = GridPoint(key, {key: change.value for key, change in changes.items()}, config)
        if (other := first.setdefault(point.key, point)) is not point:
            message = f"got {point.text}, the same experiment as {other.text}; expected each once"
            problems[message] = Problem(message, where=str(base.path))
        points[index] = point
    if problems:
        raise InputError(problems.values())
    assert options is not None, "every point is valid, and there is one"
    return points, options


def _files(config: Row, versions: dict[str, str]) -> str:
    """Return the hashes of the files of a config and of the modules of the user's own classes, such as `mine:Scorer`.

    `versions` has hashes that are known, by the text of the config, and gets the others.
    """
    texts = dict.fromkeys(re.findall(r'"([^"\\]+)"', json.dumps(config, ensure_ascii=False)))
    for text in texts.keys() - versions.keys():
        module = sys.modules.get(text.partition(":")[0]) if ":" in text else None
        path = Path(text if Path(text).is_absolute() else getattr(module, "__file__", None) or "")
        versions[text] = ""
        if path.is_file():
            with open_file(path) as file:
                versions[text] = hashlib.file_digest(file, "sha256").hexdigest()
    return "".join(map(versions.__getitem__, texts))


def _check_given_once(base: Document, swept: Mapping[str, Override]) -> None:
    """Raise InputError if an option such as `--seed 3` changes a swept key; `swept` has the overrides of any point."""
    full = base.changed([*swept.values()]).full_overrides
    for override in chain.from_iterable(base.full_overrides.values()):
        for index, key in enumerate(swept, len(base.overrides)):
            if any(override.path[: len(change.path)] == change.path for change in full[index]):
                message = f"got a value for `{key}`, which the sweep varies; leave out one of them"
                raise InputError.of(message, where=override.described(base.path))


def check_same(plan: SweepPlan, before: Document) -> None:
    """Raise InputError if a plan differs from `before`, the config of the resumed sweep, beyond the swept values."""
    study, first = before.study(STUDIES), changes_at(plan.axes, (0,) * len(plan.axes))
    old, new = {"study": study}, {"study": plan.options.study}
    if old == new:
        options = _unswept(before).changed([*first.values()]).validate(options_model(study), absolute=True)
        old, new = _leaves(result_config(config_data(options))), _leaves(plan.points[0].config)
    for key in dict.fromkeys((*new, *old)):
        if old.get(key) != new.get(key):
            message = f"got {show(new.get(key))} for {key}, which is {show(old.get(key))} in {before.path}"
            cure = "expected the experiment of that sweep; leave out --resume for another one"
            raise InputError.of(f"{message}; {cure}", where=str(plan.document.path))


def _leaves(value: object, path: tuple[str | int, ...] = ()) -> dict[str, Any]:
    """Return the single values of a config by their dotted keys, such as `scorers[0].scale`."""
    if not isinstance(value, dict | list) or not value:
        return {dotted(path): value}
    children = value.items() if isinstance(value, dict) else enumerate(value)
    return {leaf: single for name, child in children for leaf, single in _leaves(child, (*path, name)).items()}


def _check_metric(metric: str | None, columns: Sequence[Column], where: str = "") -> None:
    figures = dict.fromkeys(column.key for column in columns if not column.text and column.kind != "place")
    metrics = [key for key in figures if not key.endswith(INTERVAL)]
    if metric is not None and metric not in metrics:
        message = got(metric, "unknown metric", did_you_mean(metric, metrics))
        raise InputError.of(message, () if where else ("sweep", "metric"), where)


def _tried(
    base: Document, axes: Sequence[Axis], points: Mapping[GridIndex, GridPoint], elsewhere: bool
) -> torch.device:
    """Prepare points without running them, to find errors such as tensors that do not fit together.

    The first MOST_TRIED points and the last one are prepared; of points that differ only in their seed, only the first.
    Return the device of the first.

    Raises:
        InputError: points have problems.
    """
    model, study = options_model(base.study(STUDIES)), load_study(base.study(STUDIES))
    problems, devices, distinct = dict[Problem, GridPoint](), list[torch.device](), dict[str, GridIndex]()
    for index, point in points.items():
        distinct.setdefault(point_key({**point.config, "seed": 0}, ""), index)
    indices = [*distinct.values()]
    for index in [*indices[:MOST_TRIED], *indices[MOST_TRIED:][-1:]]:
        document = base.changed([*changes_at(axes, index).values()])
        options = document.validate(model, absolute=True)
        if elsewhere:
            options = options.model_copy(update={"device": "cpu"})
        try:
            with document.locating():
                devices.append(study.prepare(options, Progress()).device)
        except InputError as error:
            for problem in error.problems:
                problems.setdefault(problem, points[index])
    if problems:
        raise InputError(
            replace(problem, where=f"{problem.where}, at {point.text}") for problem, point in problems.items()
        )
    return devices[0]


def _with_files(written: Any, files: Mapping[errors.Path, Any], path: errors.Path = ()) -> Any:
    """Return the config `written` with the values of `files`, by the paths of their keys, in place of its own."""
    if isinstance(files.get(path), str | list):
        return files[path]
    if isinstance(written, dict):
        return {key: _with_files(value, files, (*path, str(key))) for key, value in written.items()}
    if isinstance(written, list):
        return [_with_files(item, files, (*path, index)) for index, item in enumerate(written)]
    return written
