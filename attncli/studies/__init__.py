"""The studies: one folder each, with everything that belongs to it.

A study computes; it prints nothing and writes no files. Its folder has the modules `options` (the pydantic model of
its YAML keys and flags), `columns` (the columns of its rows), `study` (the work), `tables` and `figure`. Modules are
imported when they are needed, since most of them import torch.
"""

import importlib
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from attncli.errors import InputError

if TYPE_CHECKING:
    from attncli.common.study import Column, Study
    from attncli.config.models import Experiment

STUDIES = {  # each with the help of its command
    "attention": "Run several scorers on the same queries, keys, values and mask.",
    "variance": "Measure mean and variance of scores for several d, and compare them with theory.",
    "saturation": "Measure entropy, largest weight and softmax gradient for several d.",
    "bench": "Compare time and memory of scorers with the textbook's code and torch's fused kernel.",
    "train": "Train models to recall the value of a key, with each scorer, size d and seed.",
    "swap": "Run a real model with other scorers inside, and compare its outputs with its own.",
    "doctor": "Check the attention of every head for faults and remarkable patterns.",
}
# The kinds of rows, each with the name that its columns have in `columns`.
ROWS = {"records": "COLUMNS", "comparisons": "COMPARISONS", "heads": "HEADS", "head_comparisons": "HEAD_COMPARISONS"}

# The titles of their tables on a page, in its order; `TITLES` in the module `columns` of a study overrides them.
TITLES = {
    "records": "Summary",
    "comparisons": "Comparisons",
    "heads": "By batch element and head",
    "head_comparisons": "Comparisons by batch element and head",
}


def load_study(name: str) -> "Study[Any, Any]":
    """Return the module `study` of a study, which does its work."""
    return cast("Study[Any, Any]", part_of(name, "study"))


def options_model(name: str) -> "type[Experiment]":
    """Return the pydantic model of a study's YAML."""
    return cast("type[Experiment]", part_of(name, "options").OPTIONS)


def columns_of(name: str) -> "dict[str, Sequence[Column]]":
    """Return the columns of each kind of rows of a study, such as `records`."""
    stated = part_of(name, "columns")
    return {rows: getattr(stated, names, ()) for rows, names in ROWS.items()}


def titles_of(name: str) -> "Mapping[str, str]":
    """Return the title of each kind of rows of a study, in the order of the tables on a report page."""
    titles: Mapping[str, str] = getattr(part_of(name, "columns"), "TITLES", TITLES)
    return titles


def metric_of(name: str) -> str:
    """Return the key of the metric that is drawn by default in the picture of a sweep over a study."""
    metric: str = getattr(part_of(name, "columns"), "METRIC", "entropy")
    return metric


def swept_rows_of(name: str) -> str:
    """Return the kind of rows that a sweep over a study collects: SWEPT of its module `columns`, else `records`."""
    rows: str = getattr(part_of(name, "columns"), "SWEPT", "records")
    return rows


def part_of(name: str, part: str) -> ModuleType:
    """Return a module of a study's folder.

    Raises:
        InputError: the folder has no module `part`, as in a study that is still being written.
    """
    module = f"attncli.studies.{name}.{part}"
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        folder = f"attncli/studies/{name}/"
        raise InputError.of(
            f"the study {name} has no {part}.py in {folder}; CONTRIBUTING.md lists its files"
        ) from error
