"""Compare two runs; the verdict is identical, equal up to rounding, or different.

Rows are matched by the columns that identify them, tensors by name. `relative_difference` measures how far numbers
are apart, and `rounding_of` returns the largest such difference that counts as rounding.
"""

import itertools
import json
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attncli.config.yaml_loader import parse_yaml
from attncli.engine.runs.loading import StoredRun, reading
from attncli.errors import dotted, plain
from attncli.numbers import distinct, row_name
from attncli.results import (
    INTERVAL,
    LABEL,
    LAYER,
    PAIR,
    STAGES,
    Column,
    Comparison,
    Result,
    Row,
    RowKind,
    SweepResult,
    in_sentence,
    nan_to_null,
    tensor_name,
)

ULPS = 1000  # of float32 or float64: a score of 100 has many of them, and the exponential passes them on
ULPS_STORED = 2  # of float16 and bfloat16: a result is rounded to them only once
MOVED = 4  # counts that rounding may move to the next bin, even in a small histogram
CHUNK = 2**22  # numbers of a tensor that are held in float64 at the same time
MOST_NAMED = 3  # changed settings named in the sentence
NO_SETTINGS = ("name", "about", "figure", "expect", "from")  # keys that do not change results
FILE_KEYS = ("file", "capture")  # keys with paths, ignored at any depth
DIGEST = 12  # hexadecimal digits of an input's fingerprint
OUTCOMES = ("histograms", "configurations", "random", "summary")  # keys of `settings` that are outcomes
NAMES = ("label", "a", "b")
ONE_WAY = "output_difference"  # metric of a pair that changes if the two are swapped
VERDICTS = ("measured", "rounding", "different")

Columns = Mapping[RowKind, Sequence[Column]]  # columns of a study by kind of row, such as `records`
Between = Callable[[Result, Result], Sequence[Row]]


def compare_runs(a: StoredRun, b: StoredRun, columns: Columns, between: Between | None = None) -> Comparison:
    """Return the differences between two runs.

    `columns` maps each kind of rows, such as `records`, to its known columns in the study of `a`. `between`, given for
    studies with weights and outputs, returns rows with the distances between the weights and outputs of two results.
    Names, figure options, expectations and paths do not count as settings.

    Raises:
        InputError: files of a run folder are damaged.
    """
    if reason := _incomparable(a.result, b.result):
        sentence = f"different: {reason}"
        return Comparison(
            a.result.study, str(a.path), str(b.path), "different", sentence, largest=math.inf, largest_of="the study"
        )
    with reading(Path(f"{a.path} or {b.path}")):  # damaged files are found when tensors are read
        rounding, inputs = max(rounding_of(a), rounding_of(b)), list(_changes(_fingerprints(a), _fingerprints(b)))
        changed = list(_changes(_settings(a, b), _settings(b, a)))
        environment = list(_changes(_environment(a), _environment(b)))
        rows = (_rows(kind, a.result, b.result, columns.get(kind, ()), rounding) for kind in a.result.rows)
        differences = list(chain(_tensors(a.result, b.result, inputs, columns, rounding), *rows))
        weights = [] if between is None else between(a.result, b.result)
        counts = {"rows": sum(map(len, a.result.rows.values()))}
        counts["tensors"] = len(a.result.tensors.keys() & b.result.tensors.keys())
    differences.sort(key=lambda row: row["rows"] == "arrays")  # arrays mostly repeat the numbers of rows
    judged = [row for row in differences if row["verdict"] != "measured"]
    results = [row for row in judged if row["rows"] not in ("inputs", "arrays")]
    largest = max(results, key=lambda row: row["relative"], default=None)
    comparison = Comparison(
        a.result.study,
        str(a.path),
        str(b.path),
        max((row["verdict"] for row in judged), key=VERDICTS.index, default="identical"),
        "",
        settings=[row for row in changed if row["key"] != "seed" or None not in row.values()],
        environment=environment if a.content["environment"] and b.content["environment"] else [],
        inputs=inputs,
        differences=sorted(
            differences, key=lambda row: (-VERDICTS.index(row["verdict"]), row["rows"] == "arrays", -row["relative"])
        ),
        weights=weights,
        counted=counts,
        rounding=rounding,
        largest=largest["relative"] if largest else 0.0,
        largest_of=_name(largest) if largest else "",
        notes=list(_notes(a, b)),
    )
    random = {label for run in (a, b) for label in run.result.random}
    same_inputs = bool(a.content["inputs"]) and not inputs
    return replace(comparison, sentence=_sentence(comparison, differences, same_inputs, random))


def relative_difference(a: Tensor, b: Tensor, least: float | Tensor) -> Tensor:
    """Return |b - a| / max(|a|, |b|, least), elementwise and in float64.

    The difference is 0 where both are NaN or the same infinity, and infinite where `a` or `b` is otherwise not finite.
    """
    a, b = a.double(), b.double()
    size = torch.maximum(a.abs(), b.abs()).clamp(min=least)
    apart = ((b - a).abs() / size).nan_to_num(math.inf, math.inf)
    return apart.masked_fill((a == b) | (a.isnan() & b.isnan()), 0.0)


def rounding_of(run: StoredRun) -> float:
    """Return the largest relative difference that counts as rounding, given the run's dtype."""
    inputs = [tensor["dtype"] for tensor in run.content["inputs"].values() if "float" in tensor["dtype"]]
    name = config_in(run).get("dtype") or _stored_settings(run).get("dtype") or [*inputs, "float32"][0]
    eps = torch.finfo(getattr(torch, name)).eps
    return max(ULPS * min(eps, torch.finfo(torch.float32).eps), ULPS_STORED * eps)


def config_in(run: StoredRun) -> Row:
    """Return the config.yaml of a run as a mapping; empty if there is no file."""
    with reading(run.path):
        return dict(parse_yaml(run.config or "{}", lambda line, column: str(run.path))[0])


def _incomparable(a: Result, b: Result) -> str:
    """Return why two results cannot be compared, or an empty string if they can."""
    if a.study != b.study:
        return f"runs of the studies {a.study} and {b.study}"
    is_sweep, is_other = (isinstance(result, SweepResult) for result in (a, b))
    if is_sweep == is_other:
        return ""
    return f"{'A' if is_sweep else 'B'} alone is a sweep of {a.study}; compare a sweep with a sweep"


def _sentence(comparison: Comparison, differences: Sequence[Row], same_inputs: bool, random: Collection[str]) -> str:
    """Return the verdict as a sentence, with the first difference beyond rounding, or else the largest within it.

    `random` has the labels with random parameters.
    """
    beyond = [row for row in differences if row["verdict"] == "different"]
    rounded = [row for row in differences if row["verdict"] == "rounding"]
    if beyond:
        (in_a, in_b), more = distinct(beyond[0]["a"], beyond[0]["b"]), len(beyond) - 1
        sentence = f"different: first in {_name(beyond[0], random)} ({in_a} -> {in_b})"
        sentence += f"; {more} more {'differs' if more == 1 else 'differ'}" * bool(more)
        sentence += "; the inputs are the same" * same_inputs
    elif rounded:
        most = max(rounded, key=lambda row: row["relative"])
        sentence = f"equal up to rounding: the largest relative difference is {most['relative']:.1e}"
        sentence += f", in {_name(most, random)}"
        sentence += f"; up to {comparison.rounding:.1e} counts as rounding"
    elif differences:
        sentence = "identical but for times, whose intervals overlap where there are any"
    else:
        counts = [f"{count} {name}" for name, count in comparison.counted.items() if count]
        sentence = f"identical, bit for bit: {', '.join(['the inputs'] * same_inputs + counts)}"
    keys = [row["key"] for row in comparison.settings]
    named = f"; changed settings: {', '.join(keys[:MOST_NAMED])}{', ...' if len(keys) > MOST_NAMED else ''}"
    return sentence + named * bool(keys)


def _name(difference: Row, random: Collection[str] = ()) -> str:
    """Return words for the place of a difference, such as `entropy of scaled_dot, batch 1`."""
    before = "the input " if difference["rows"] == "inputs" else "the " * (difference["metric"] == "row")
    between = " of " if {"label", "a"} & difference["where"].keys() else ", " * bool(difference["where"])
    where = {key: in_sentence(value, random) if key in NAMES else value for key, value in difference["where"].items()}
    return f"{before}{difference['metric']}{between}{row_name(where)}"


def _notes(a: StoredRun, b: StoredRun) -> Iterator[str]:
    if a.result is b.result or ("files" in a.content and a.path.resolve() == b.path.resolve()):
        yield "both are the same run"
    for name, run in (("A", a), ("B", b)):
        if run.config is None:
            yield f"{name} is results.json alone, without tensors"
        if run.result.interrupted:
            yield f"{name} was interrupted: rows are missing"


def _settings(run: StoredRun, other: StoredRun) -> Row:
    """Return the settings in config.yaml of `run`; from results.json if either run has no config."""
    settings, seed = config_in(run), run.content.get("seed")
    if run.config is None or other.config is None:
        seed = settings.get("seed", seed)
        settings = {"seed": seed, **_stored_settings(run)}
    return {key: value for key, value in settings.items() if key not in (*NO_SETTINGS, *OUTCOMES)}


def _stored_settings(run: StoredRun) -> Row:
    """Return the key `settings` of results.json."""
    settings: Row = run.content.get("settings", {})
    return settings


def _environment(run: StoredRun) -> Row:
    return {"attncli": run.content.get("attncli"), **run.content["environment"]}


def _fingerprints(run: StoredRun) -> Row:
    """Return dtype, shape and hash of each input as text, by name."""
    return {
        name: f"{stored['dtype']} {'x'.join(map(str, stored['shape']))} {stored['sha256'][:DIGEST]}"
        for name, stored in run.content["inputs"].items()
    }


def _changes(a: object, b: object, path: tuple[str, ...] = ()) -> Iterator[Row]:
    """Yield the values that differ in nested data, with their paths. Scorers are matched by label, not by order."""
    a, b = (_by_label(value) for value in (a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        for key in dict.fromkeys([*a, *b]):
            if key not in FILE_KEYS:
                yield from _changes(a.get(key), b.get(key), (*path, key))
    elif a != b:
        yield {"key": dotted(path), "a": a, "b": b}


def _by_label(value: Any) -> Any:
    is_entries = isinstance(value, list) and value and all(isinstance(item, dict) and "label" in item for item in value)
    return {item["label"]: item for item in value} if is_entries else value


def _tensors(a: Result, b: Result, inputs: Sequence[Row], columns: Columns, rounding: float) -> Iterator[Row]:
    """Yield the differences between the inputs, then between all other tensors that both runs have.

    `inputs` has a row for each input with different fingerprints. The values are compared if both runs have the tensor.
    """
    for change in inputs:
        name = change["key"]
        if name in a.inputs and name in b.inputs:
            yield from _tensor("inputs", name, a.inputs[name], b.inputs[name], rounding)
        else:
            yield _difference("inputs", {}, name, (change["a"], change["b"]), math.inf, rounding)
    numbers = [column for column in columns.get("records", ()) if not column.text and column.kind != "place"]
    if numbers and all(column.kind == "measured" for column in numbers):  # the tensors are raw times
        return
    named = itertools.product(a.layer_names, a.labels, STAGES)
    stages = dict.fromkeys(tensor_name(label, stage, layer=layer) for layer, label, stage in named)
    least = {column.key + end: column.least for column in numbers for end in ("", "_low", "_high")}
    for first, second in ((a.tensors, b.tensors), (a.parameters, b.parameters)):
        for name in (name for name in [*(stages | dict.fromkeys(first))] if name in first and name in second):
            tensor, last = first[name], name.rpartition("/")[2]
            size = max(float(tensor.sum()), MOVED / rounding) if last == "counts" else least.get(last, 0.0)
            yield from _tensor("stages" if name in stages else "arrays", name, tensor, second[name], rounding, size)


def _tensor(rows: str, name: str, a: Tensor, b: Tensor, rounding: float, least: float = 0.0) -> Iterator[Row]:
    """Yield the largest difference between two tensors, if any, relative to the largest value in either.

    The key `at` in `where` of the difference is the index of the values that differ most.
    """
    owner, _, metric = name.rpartition("/")
    where: Row = {"label": owner} if owner else {}
    if a.shape != b.shape or a.dtype != b.dtype:
        kinds = [f"{tensor.dtype} {'x'.join(map(str, tensor.shape))}".removeprefix("torch.") for tensor in (a, b)]
        yield _difference(rows, where, metric, kinds, math.inf, rounding)
        return
    first, second = a.contiguous().flatten(), b.contiguous().flatten()
    if torch.equal(first.view(torch.uint8), second.view(torch.uint8)):
        return
    pieces = list(zip(torch.split(first, CHUNK), torch.split(second, CHUNK), strict=True))
    sizes = [float(tensor.double().nan_to_num(0.0, 0.0, 0.0).abs().max()) for pair in pieces for tensor in pair]
    largest = [relative_difference(*pair, max(*sizes, least)).max(0) for pair in pieces]
    piece = max(range(len(largest)), key=lambda index: float(largest[index].values))
    at = piece * CHUNK + int(largest[piece].indices)
    where["at"] = list(map(int, np.unravel_index(at, a.shape)))  # torch's loads sympy
    values = float(first[at]), float(second[at])
    yield _difference(rows, where, metric, values, float(largest[piece].values), rounding)


def _rows(rows: RowKind, a: Result, b: Result, stated: Sequence[Column], rounding: float) -> Iterator[Row]:
    """Yield the rows that only one run has, and the metrics that differ in rows of both."""
    known = {column.key: column for column in (LABEL, LAYER, *PAIR, *stated)}
    columns = {key: known.get(key) or Column(key, key, "") for of in (a, b) for row in of.rows[rows] for key in row}
    has_times = any(column.kind == "measured" for column in columns.values() if column.key.endswith(INTERVAL))
    names = [key for key, column in columns.items() if column.kind == "place"]
    kinds = ("figure", "measured") if has_times else ("figure",)
    judged = [column for key, column in columns.items() if column.kind in kinds and not key.endswith(INTERVAL)]
    of_a, of_b = (_by_place(of.rows[rows], names) for of in (a, b))
    both = {**of_a, **of_b}
    changing = [key for key in names if key in NAMES or len({plain(row.get(key)) for row in both.values()}) > 1]
    unequal = list[tuple[Row, Column, list[Any], list[Any]]]()
    for at, row in both.items():
        where = {key: row[key] for key in changing if row.get(key) is not None}
        if at not in of_a or at not in of_b:
            there = ["present" if at in of else "missing" for of in (of_a, of_b)]
            yield _difference(rows, where, "row", there, math.inf, 0.0)
            continue
        is_turned = of_a[at].get("a") != of_b[at].get("a")
        for column in judged:
            x, y = (_cells(of[at], column.key) for of in (of_a, of_b))
            if x != y and not (is_turned and column.key == ONE_WAY):
                unequal.append((where, column, x, y))
    if not unequal:
        return
    first, second = _matrix(x for _, _, x, _ in unequal), _matrix(y for _, _, _, y in unequal)
    least = _matrix([[column.least] for _, column, _, _ in unequal])
    relative = relative_difference(first, second, least).amax(1).tolist()
    for (where, column, x, y), apart in zip(unequal, relative, strict=True):
        is_rounded = isinstance(x[0], float) or isinstance(y[0], float)  # counts and words have no rounding
        difference = _difference(rows, where, column.key, (x[0], y[0]), apart or math.inf, rounding * is_rounded)
        if None not in (*x[1:], *y[1:]):
            difference |= {"a_ci": x[1:], "b_ci": y[1:], "overlap": x[1] <= y[2] and y[1] <= x[2]}
        if column.kind == "measured":  # times differ if their intervals do not overlap
            difference["verdict"] = "measured" if difference.get("overlap", True) else "different"
        yield difference


def _by_place(rows: Sequence[Row], names: Sequence[str]) -> dict[tuple[str, int], Row]:
    """Return rows by their values in the columns `names`, and by a count from 0 of rows with the same values.

    The two labels `a` and `b` of a pair may come in either order.
    """
    seen, by_name = Counter[str](), {}
    for row in rows:
        pair = sorted(row[key] for key in ("a", "b") if key in row)
        at = json.dumps([pair, *(row.get(key) for key in names if key not in ("a", "b"))])
        by_name[at, seen[at]] = row
        seen[at] += 1
    return by_name


def _cells(row: Row, key: str) -> list[Any]:
    """Return [value, low, high] of a metric and its interval; None for numbers that are missing, NaN or infinite."""
    return [nan_to_null(row.get(key)), *(nan_to_null(row.get(key + INTERVAL)) or (None, None))]


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan


def _matrix(rows: Iterable[Iterable[Any]]) -> Tensor:
    return torch.tensor([list(map(_number, row)) for row in rows], dtype=torch.float64)


def _difference(rows: str, where: Row, metric: str, of: Sequence[Any], relative: float, rounding: float) -> Row:
    row = {"rows": rows, "where": where, "metric": metric, "a": of[0], "b": of[1]}
    are_numbers = not any(map(math.isnan, map(_number, of)))
    row |= {"difference": of[1] - of[0] if are_numbers else None, "relative": relative}
    return {**row, "verdict": "rounding" if relative <= rounding else "different"}
