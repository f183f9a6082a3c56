"""The columns of a sweep's rows: first the swept keys, then the columns of the study."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from attncli.errors import show
from attncli.results import INTERVAL, LAYER, Column, Row, RowKind, SweepResult
from attncli.studies import load_study

OWN = "record."  # prefix of a study's column if the key is swept, too
REPLICATES = ("seed", f"{OWN}seed")  # columns that differ between repetitions of a run
NAMES = ("head", "layer", "batch")  # columns that identify a row in every study


def shown(value: object) -> str:
    """Return a swept value as text, for a cell or a sentence."""
    if value is None:
        return "null"  # as in YAML
    return f"{value:.4g}" if isinstance(value, float) else value if isinstance(value, str) else show(value)


def in_words(sweep: Mapping[str, Any]) -> str:
    """Return the swept values of a point in words: `d = 16, seed = 0`."""
    return ", ".join(f"{key} = {shown(value)}" for key, value in sweep.items())


def swept_column(key: str) -> Column:
    """Return the column of a swept key."""
    return Column(key, key, f"The swept key `{key}`.", format=shown, kind="place")


def renamed(key: str, keys: Sequence[str]) -> str:
    """Return the name of a study's column in a sweep: with the prefix OWN if one of the swept keys has that name."""
    return f"{OWN}{key}" if key in keys else key


def with_sweep(sweep: Mapping[str, Any], record: Row) -> Row:
    """Return a row of the sweep: the swept values, with lists and mappings as text, followed by the study's record."""
    swept = {key: show(value) if isinstance(value, list | dict) else value for key, value in sweep.items()}
    return {**swept, **{renamed(key, [*sweep]): value for key, value in record.items()}}


def swept_columns(result: SweepResult, rows: RowKind = "records") -> dict[str, Column]:
    """Return the columns by key: first the swept keys, then the study's columns that the rows have.

    `rows` is the kind of rows, `records` or `heads`.
    """
    keys = result.swept
    study = load_study(result.study)
    study_columns = study.columns.get(study.swept if rows == "records" else rows, ())
    stated = {renamed(column.key, keys): column for column in (*study_columns, LAYER)}
    columns = {key: swept_column(key) for key in keys}
    for key in dict.fromkeys(key for row in result.rows[rows] for key in row if key not in keys):
        unknown = Column(key, key, "", signed=True)
        columns[key] = replace(stated.get(key, unknown), key=key)
    return columns


def identifying_columns(result: SweepResult) -> list[str]:
    """Return the names of the columns that identify a row, except the seed: swept keys, label, head, size and so on."""
    keys = result.swept
    study = load_study(result.study)
    of_study = (column.key for column in study.columns[study.swept] if column.kind == "place")
    names = {*keys, *(renamed(key, keys) for key in (*of_study, *NAMES))}
    return [
        key for key, column in swept_columns(result).items() if (key in names or column.text) and key not in REPLICATES
    ]


def metric_columns(result: SweepResult) -> list[str]:
    """Return the names of the columns that can be the metric of the sweep: numbers that do not identify a row."""
    others = {*identifying_columns(result), *result.swept, *REPLICATES}
    columns = [key for key in swept_columns(result) if key not in others and not key.endswith(INTERVAL)]
    values = {key: [row[key] for row in result.records if row.get(key) is not None] for key in columns}
    alike = [key for key in columns if all(isinstance(value, int | float) for value in values[key])]
    return [key for key in alike if any(map(is_number, values[key]))]


def default_metric(result: SweepResult) -> str | None:
    """Return the study's metric if rows have it, else the first numeric column, preferably a column that varies."""
    keys, metrics = result.swept, metric_columns(result)
    wanted = renamed(load_study(result.study).metric, keys)
    return next((key for key in (wanted, *changing(result, metrics)) if key in metrics), next(iter(metrics), None))


def changing(result: SweepResult, columns: Sequence[str]) -> list[str]:
    """Return the `columns` that have more than one value among the rows."""
    return [key for key in columns if len({row.get(key) for row in result.records}) > 1]


def is_repeated(result: SweepResult) -> bool:
    """Whether the sweep is over seeds, so that means over the seeds can be computed."""
    return any(key in row for key in REPLICATES for row in result.records)


def is_number(value: object) -> bool:
    """Whether a value is a number, and not a boolean."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def picture_axes(result: SweepResult) -> dict[str, list[Any]]:
    """Return the axes for pictures: the columns that identify rows and vary, with the values in the order of the rows.

    A column is left out if the label or another axis determines its values.
    """
    records, axes = result.records, dict[str, list[Any]]()
    for name in changing(result, [name for name in identifying_columns(result) if name not in ("label", "scorer")]):
        if not any(_decides(other, name, records) for other in (*axes, "label")):
            axes[name] = list(dict.fromkeys(row.get(name) for row in records))
    return axes


def companions(result: SweepResult, name: str) -> list[str]:
    """Return the swept keys that change together with the key `name`, except other axes of pictures and the seed."""
    (together, *_) = [*(axis for axis in result.axes if name in axis), ()]
    others = (*picture_axes(result), *REPLICATES)
    return [key for key in changing(result, list(together)) if key not in others]


def _decides(a: str, b: str, records: Sequence[Row]) -> bool:
    """Whether rows with the same value in column `a` have the same value in column `b`."""
    return len({(row.get(a), row.get(b)) for row in records}) == len({row.get(a) for row in records})
