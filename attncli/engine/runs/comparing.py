"""Compare two runs: their settings, inputs, rows and stages of attention. The verdict is one of three words.

Rows are merged by the columns that identify them, tensors by name. `relative_difference` measures how far numbers are
apart, and `rounding_of` returns the largest such difference that counts as rounding.
"""

import json
import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from attncli.core.numbers import distinct, row_name, several
from attncli.engine.runs.loading import StoredRun, reading
from attncli.engine.views import result_columns
from attncli.errors import dotted, plain
from attncli.results import (
    LABEL,
    LAYER,
    PAIR,
    STAGES,
    Column,
    Comparison,
    Result,
    Row,
    SweepResult,
    in_sentence,
    nan_to_null,
    single_numbers,
    tensor_name,
)
from attncli.studies import load_study

ULPS = 1000  # of float32 or float64: a score of 100 has many of them, and the exponential passes them on
ULPS_STORED = 2  # of float16 and bfloat16: a result is rounded to them only once
MOST_NAMED = 3  # changed settings named in the sentence
MOST_VALUES = 6  # values of a column that the sentence lists
NO_SETTINGS = ("name", "about", "figure", "expect", "from")  # keys that do not change results
FILE_KEYS = ("file", "capture")  # keys with paths, ignored at any depth
DIGEST = 12  # hexadecimal digits of an input's fingerprint
PAIRED = ("a", "b")  # columns with the labels of a pair
NAMES = ("label", *PAIRED)
ONE_WAY = "output_difference"  # metric of a pair that changes if the two are swapped
VERDICTS = ("rounding", "different")

Pair = tuple[Tensor, Tensor]


def compare_runs(a: StoredRun, b: StoredRun) -> Comparison:
    """Return the differences between two runs.

    Names, figure options, expectations and paths do not count as settings, and columns that depend on a clock are not
    compared.

    Raises:
        InputError: files of a run folder are damaged.
    """
    empty = Comparison(a.result.study, str(a.path), str(b.path), "different", "")
    if reason := _incomparable(a.result, b.result):
        return replace(empty, sentence=f"different: {reason}", largest=math.inf, largest_of="the study")
    stated = chain.from_iterable(chain(*(result_columns(run.result).values() for run in (a, b))))
    columns = {column.key: column for column in (LABEL, LAYER, *PAIR, *stated)}
    between = load_study(a.result.study).between  # of studies with weights and outputs
    places = [key for key, column in columns.items() if column.kind == "place"]
    with reading(Path(f"{a.path} or {b.path}")):  # damaged files are found when tensors are read
        rounding = max(run_rounding(a), run_rounding(b))
        only = list(_one_sided(a.result, b.result, map(_axis, places)))
        lacking = {row["key"]: {*row["a"], *row["b"]} for row in only}
        layers = [layer for layer in a.result.layer_names if layer in b.result.layer_names]
        layers = [layer for layer in layers if a.result.head_numbers(layer) == b.result.head_numbers(layer)]
        changes = list(_changes(_fingerprints(a), _fingerprints(b)))
        inputs = [row for row in changes if (row["key"].rpartition("/")[0] or None) in layers]
        stages = [
            tensor_name(label, stage, layer=layer) for layer, label, stage in product(layers, a.result.labels, STAGES)
        ]
        stages = [name for name in stages if name in a.result.tensors and name in b.result.tensors]
        rows = list(_merged(a.result, b.result, places, lacking))
        both = [row for row in rows if row.a is not None and row.b is not None]
        differences = list(_inputs(a.result, b.result, inputs, rounding))
        for name in stages:
            differences += _tensor("stages", name, (a.result.tensors[name], b.result.tensors[name]), rounding)
        differences += chain.from_iterable(_figures(row, columns, rounding) for row in both)
        alone = {"a": [row_name(row.where) for row in rows if row.b is None]}
        alone |= {"b": [row_name(row.where) for row in rows if row.a is None], "both": []}
        if any(alone.values()):
            only.append({"key": "the row of", **alone})
        weights = [] if between is None else between(a.result, b.result)
    results = [row for row in differences if row["rows"] != "inputs"]
    largest = max(results, key=lambda row: row["relative"], default=None)
    changed = list(_changes(_settings(a, b), _settings(b, a)))
    comparison = replace(
        empty,
        verdict="different"
        if only
        else max((row["verdict"] for row in differences), key=VERDICTS.index, default="identical"),
        settings=[row for row in changed if row["key"] != "seed" or None not in row.values()],
        inputs=inputs,
        only=only,
        differences=sorted(differences, key=lambda row: (-VERDICTS.index(row["verdict"]), -row["relative"])),
        weights=weights,
        rounding=rounding,
        largest=math.inf if only else largest["relative"] if largest else 0.0,
        largest_of=_listed(only, "a") or _listed(only, "b") or (_name(largest) if largest else ""),
        notes=list(_notes(a, b, columns.values())),
    )
    counts = [several(count, name) for count, name in ((len(both), "row"), (len(stages), "tensor")) if count]
    same = ["the inputs"] if a.stored.inputs and not changes else []
    random = {label for run in (a, b) for label in run.result.random}
    return replace(comparison, sentence=_sentence(comparison, differences, same, counts, random))


def relative_difference(a: Tensor, b: Tensor, least: float | Tensor) -> Tensor:
    """Return |b - a| / max(|a|, |b|, least), elementwise and in float64.

    The difference is 0 where both are NaN or the same infinity, and infinite where `a` or `b` is otherwise not finite.
    """
    a, b = a.double(), b.double()
    size = torch.maximum(a.abs(), b.abs()).clamp(min=least)
    apart = ((b - a).abs() / size).nan_to_num(math.inf, math.inf)
    return apart.masked_fill((a == b) | (a.isnan() & b.isnan()), 0.0)


def run_rounding(run: StoredRun) -> float:
    """Return the largest relative difference that counts as rounding, given the run's dtype."""
    inputs = [stored.dtype for stored in run.stored.inputs.values() if "float" in stored.dtype]
    name = (run.config or {}).get("dtype") or [*inputs, "float32"][0]
    eps = torch.finfo(getattr(torch, name)).eps
    return max(ULPS * min(eps, torch.finfo(torch.float32).eps), ULPS_STORED * eps)


def _incomparable(a: Result, b: Result) -> str:
    """Return why two results cannot be compared, or an empty string if they can."""
    if a.study != b.study:
        return f"runs of the studies {a.study} and {b.study}"
    is_sweep, is_other = (isinstance(result, SweepResult) for result in (a, b))
    if is_sweep == is_other:
        return ""
    return f"{'A' if is_sweep else 'B'} alone is a sweep of {a.study}; compare a sweep with a sweep"


def _sentence(
    comparison: Comparison,
    in_order: Sequence[Row],
    same: Sequence[str],
    counts: Sequence[str],
    random: Collection[str],
) -> str:
    """Return the verdict as a sentence: facts that only one run has, the first difference, or the largest by rounding.

    `in_order` has the differences in the order of the computation. `same` are the inputs, if they are the same,
    `counts` the rows and tensors that were compared, and `random` the labels with random parameters.
    """
    beyond = [row for row in in_order if row["verdict"] == "different"]
    verdict = f"identical, bit for bit: {', '.join([*same, *counts]) or 'neither has any row'}"
    if beyond:
        first, others = beyond[0], len(beyond) - 1
        in_a, in_b = (
            "null" if value is None else text
            for value, text in zip((first["a"], first["b"]), distinct(first["a"], first["b"]), strict=True)
        )
        verdict = f"different: first in {_name(first, random)} ({in_a} -> {in_b})"
        if others:
            verdict += f"; {others} more {'differs' if others == 1 else 'differ'}"
        if same:
            verdict += "; the inputs are the same"
    elif in_order:
        most = max(in_order, key=lambda row: row["relative"])
        verdict = f"equal up to rounding: the largest relative difference is {most['relative']:.1e}"
        verdict += f", in {_name(most, random)}; up to {comparison.rounding:.1e} counts as rounding"
    if comparison.only:
        sides = [f"only in {side.upper()}: {text}" for side in PAIRED if (text := _listed(comparison.only, side))]
        if counts or in_order:
            result = verdict.removeprefix("different: ") if in_order else "equal"
            sides.append(f"{_listed(comparison.only, 'both') or 'all else'}: {result}")
        verdict = f"different: {'; '.join(sides)}"
    keys = [row["key"] for row in comparison.settings]
    changed = f"; changed settings: {', '.join(keys[:MOST_NAMED])}{', ...' if len(keys) > MOST_NAMED else ''}"
    return verdict + changed if keys else verdict


def _listed(only: Sequence[Row], side: str) -> str:
    """Return the values of columns that one side has alone, or `both` have, as text: `dot, Negative, d 16, 64`."""
    texts = list[str]()
    for row in only:
        values = list(map(plain, row[side]))
        rest = f" and {len(values) - MOST_VALUES} more" if len(values) > MOST_VALUES else ""
        name = "" if row["key"] == "label" else f"{row['key']} "
        if values:
            texts.append(f"{name}{', '.join(values[:MOST_VALUES])}{rest}")
    return ", ".join(texts)


def _name(difference: Row, random: Collection[str] = ()) -> str:
    """Return words for the place of a difference, such as `entropy of scaled_dot, batch 1`."""
    before = "the input " if difference["rows"] == "inputs" else ""
    between = " of " if {"label", "a"} & difference["where"].keys() else ", " if difference["where"] else ""
    where = {key: in_sentence(value, random) if key in NAMES else value for key, value in difference["where"].items()}
    return f"{before}{difference['metric']}{between}{row_name(where)}"


def _notes(a: StoredRun, b: StoredRun, columns: Iterable[Column]) -> Iterator[str]:
    if a.result is b.result or (a.stored.files and a.path.resolve() == b.path.resolve()):
        yield "both are the same run"
    for name, run in (("A", a), ("B", b)):
        if run.config is None:
            yield f"{name} is results.json alone, without tensors"
        if run.result.interrupted:
            yield f"{name} was interrupted: rows are missing"
    if timed := [column.key for column in columns if column.kind == "measured"]:
        yield f"not compared, since they vary from run to run: {', '.join(timed)}"


def _settings(run: StoredRun, other: StoredRun) -> Row:
    """Return the settings in config.yaml of `run`; only the seed if either run has no config."""
    if run.config is None or other.config is None:
        seed = run.stored.seed if run.config is None else run.config.get("seed")
        return {} if seed is None else {"seed": seed}
    return {key: value for key, value in run.config.items() if key not in NO_SETTINGS}


def _fingerprints(run: StoredRun) -> Row:
    """Return dtype, shape and hash of each input as text, by name."""
    return {
        name: f"{stored.dtype} {'x'.join(map(str, stored.shape))} {stored.sha256[:DIGEST]}"
        for name, stored in run.stored.inputs.items()
    }


def _changes(a: Any, b: Any, path: tuple[str, ...] = ()) -> Iterator[Row]:
    """Yield the values that differ in nested data, with their paths. Scorers that both have are matched by label."""
    if _are_entries(a) and _are_entries(b):
        a, b = ({entry["label"]: entry for entry in entries} for entries in (a, b))
        a, b = ({label: a[label] for label in a if label in b}, {label: b[label] for label in a if label in b})
    if isinstance(a, dict) and isinstance(b, dict):
        for key in dict.fromkeys([*a, *b]):
            if key not in FILE_KEYS:
                yield from _changes(a.get(key), b.get(key), (*path, key))
    elif a != b:
        yield {"key": dotted(path), "a": a, "b": b}


def _are_entries(value: Any) -> bool:
    """Whether a value is a list of entries with labels."""
    entries = value if isinstance(value, list) else []
    return bool(entries) and all(isinstance(item, dict) and isinstance(item.get("label"), str) for item in entries)


def _axis(key: str) -> str:
    """Return the name of a column, `label` for the labels of a pair."""
    return "label" if key in PAIRED else key


def _values(result: Result, axis: str) -> list[Any]:
    """Return the values of a column in rows of any kind; those of `label` are in pairs, too."""
    keys, rows = NAMES if axis == "label" else [axis], chain.from_iterable(result.rows.values())
    return list(dict.fromkeys(row[key] for row in rows for key in keys if row.get(key) is not None))


def _one_sided(a: Result, b: Result, axes: Iterable[str]) -> Iterator[Row]:
    """Yield a row `key, a, b, both` for each column with values that only one run has: these, and the common ones."""
    for key in dict.fromkeys(axes):
        in_a, in_b = _values(a, key), _values(b, key)
        row = {"key": key, "a": [value for value in in_a if value not in in_b]}
        row |= {"b": [value for value in in_b if value not in in_a], "both": [value for value in in_a if value in in_b]}
        if row["a"] or row["b"]:
            yield row


class RowPair(NamedTuple):
    """A row of each of two runs, or of one alone: the kind of rows, and the values that identify it."""

    kind: str
    where: Row
    a: Row | None
    b: Row | None


def _merged(a: Result, b: Result, places: Sequence[str], lacking: Mapping[str, Collection[Any]]) -> Iterator[RowPair]:
    """Yield the outer merge of the rows of each kind by the values of `places`, except what follows from `lacking`.

    `lacking` has the values of columns that only one run has. Rows with the same values are matched in their order. The
    two labels of a pair may come in either order.
    """
    for kind in a.rows:
        sides = list[dict[tuple[str, int], Row]]()
        for run in (a, b):
            seen, side = Counter[str](), dict[tuple[str, int], Row]()
            for row in run.rows[kind]:
                pair = sorted(row[key] for key in PAIRED if key in row)
                at = json.dumps([pair, *(row.get(key) for key in places if key not in PAIRED)])
                side[at, seen[at]] = row
                seen[at] += 1
            sides.append(side)
        for place, row in (sides[1] | sides[0]).items():
            where = {key: row[key] for key in places if row.get(key) is not None}
            if any(key not in where for key in lacking if key != "label"):
                continue  # a mean over heads, for example, of which one run has others
            merged = RowPair(kind, where, sides[0].get(place), sides[1].get(place))
            if None not in merged or not any(value in lacking.get(_axis(key), ()) for key, value in where.items()):
                yield merged


def _figures(rows: RowPair, columns: Mapping[str, Column], rounding: float) -> Iterator[Row]:
    """Yield the differences between the figures of two rows; the two ends of an interval are figures, too."""
    a, b = rows.a or {}, rows.b or {}
    is_turned = a.get("a") != b.get("a")
    first, second = single_numbers(a), single_numbers(b)
    for key in dict.fromkeys([*first, *second]):
        stem = key.removesuffix("_low").removesuffix("_high")
        column = columns.get(key) or columns.get(stem) or Column(key, key, "")
        x, y = nan_to_null(first.get(key)), nan_to_null(second.get(key))
        if column.kind == "figure" and x != y and not (is_turned and key == ONE_WAY):
            numbers = torch.tensor([_number(x), _number(y)], dtype=torch.float64)
            relative = float(relative_difference(numbers[0], numbers[1], column.least)) or math.inf
            is_rounded = isinstance(x, float) or isinstance(y, float)  # counts and words have no rounding
            yield _difference(rows.kind, rows.where, key, (x, y), relative, rounding if is_rounded else 0.0)


def _inputs(a: Result, b: Result, changes: Sequence[Row], rounding: float) -> Iterator[Row]:
    """Yield the differences between inputs with other fingerprints: of their numbers if both runs have the tensor."""
    for change in changes:
        name = change["key"]
        if name in a.inputs and name in b.inputs:
            yield from _tensor("inputs", name, (a.inputs[name], b.inputs[name]), rounding)
        else:
            yield _difference("inputs", {}, name, (change["a"], change["b"]), math.inf, rounding)


def _tensor(kind: str, name: str, pair: Pair, rounding: float) -> Iterator[Row]:
    """Yield the largest difference between two tensors, of any dtypes, if any, relative to the largest value in either.

    The key `at` in `where` of the difference is the index of the values that differ most.
    """
    (a, b), (owner, _, metric) = pair, name.rpartition("/")
    where: Row = {"label": owner} if owner else {}
    if a.shape != b.shape:
        kinds = [f"{tensor.dtype} {'x'.join(map(str, tensor.shape))}".removeprefix("torch.") for tensor in (a, b)]
        yield _difference(kind, where, metric, kinds, math.inf, rounding)
    elif a.numel():
        size = max(float(tensor.double().nan_to_num(0.0, 0.0, 0.0).abs().max()) for tensor in (a, b))
        relative = relative_difference(a, b, size)
        at = list(map(int, np.unravel_index(int(relative.argmax()), a.shape)))  # torch's loads sympy
        values = float(a[tuple(at)]), float(b[tuple(at)])
        if relative.max() > 0:  # 0 is -0
            yield _difference(kind, {**where, "at": at}, metric, values, float(relative.max()), rounding)


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan


def _difference(kind: str, where: Row, metric: str, of: Sequence[Any], relative: float, rounding: float) -> Row:
    row = {"rows": kind, "where": where, "metric": metric, "a": of[0], "b": of[1]}
    are_numbers = not any(map(math.isnan, map(_number, of)))
    row |= {"difference": of[1] - of[0] if are_numbers else None, "relative": relative}
    return {**row, "verdict": "rounding" if relative <= rounding else "different"}
