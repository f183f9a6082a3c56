"""What differs between two runs, and a verdict: identical, equal up to rounding, or different, and where first."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attncli.config.yaml_loader import parse_yaml
from attncli.errors import dotted, show
from attncli.expect.asking import described
from attncli.runs.loading import StoredRun, reading
from attncli.studies.study import INTERVAL, LAYER, STAGES, Column, Comparison, Record, Result, nan_to_null

ULPS = 1000  # of float32 or float64: a score of a hundred has many of them, and the exponential passes them on
ULPS_STORED = 2  # of 16 bits, to which is rounded once more
MOVED = 4  # counts of a histogram that rounding may move from one bin to the next, however few there are
AT_A_TIME = 2**22  # numbers of a tensor that are in float64 at the same time
MOST_NAMED = 3  # settings in the sentence
NO_SETTINGS = ("name", "figure", "expect", "from", "resume")  # names, looks, and places of files
OUTCOMES = ("histograms", "configurations", "capture")  # what `settings` of results.json has beside settings
NAMES = ("label", "a", "b")
ONE_WAY = "output_difference"  # of a pair, relative to the first of the two
VERDICTS = ("identical", "rounding", "different")

Columns = Mapping[str, Sequence[Column]]  # of a study, by the kind of row
Between = Callable[[Result, Result], Sequence[Record]]


class Found(NamedTuple):
    """Something that was compared: what it is, how it differs, and how large the difference is, relative."""

    verdict: str
    what: str
    how: str
    relative: float


def compare_runs(a: StoredRun, b: StoredRun, columns: Columns, between: Between | None = None) -> Comparison:
    """What differs between two runs.

    `columns` are what the study of `a` has; `between` says how far weights and outputs of two results are apart, in a
    study that has some. Names, looks, expectations and places of files are no settings.

    Raises:
        InputError: files of a run folder are damaged.
    """
    comparison = Comparison(a.result.study, str(a.path), str(b.path), "different", "")
    if reason := _incomparable(a.result, b.result):
        return replace(comparison, sentence=f"different: {reason}", largest=math.inf, largest_of="the study")
    with reading(Path(f"{a.path} or {b.path}")):  # what is wrong inside is seen only now
        rounding, inputs = max(_rounding(a), _rounding(b)), _inputs(a, b)
        first = [_found_input(each, a, b, rounding) for each in inputs]
        stages, arrays = _tensors(a.result, b.result, columns, rounding)
        weights = [] if between is None else between(a.result, b.result)
        only, figures, count = _rows(a.result, b.result, columns, rounding)
        settings = list(_changes(*_settings(a, b)))
    judged = [_found_tensor(each) for each in stages]
    judged += [
        Found("different", f"the row {described(each['where'])}", f"which {each['run']} alone has", math.inf)
        for each in only
    ]
    judged += [_found_figure(each) for each in figures if each["verdict"] != "measured"]
    found = [*first, *judged, *map(_found_tensor, arrays)]
    largest = max(judged, key=lambda each: each.relative, default=Found("identical", "", "", 0.0))
    comparison = replace(
        comparison,
        verdict=max((each.verdict for each in found), key=VERDICTS.index, default="identical"),
        settings=settings,
        environment=list(_changes(_environment(a), _environment(b))) if _environment(a) and _environment(b) else [],
        inputs=inputs,
        only=only,
        figures=figures,
        tensors=[each for each in (*stages, *arrays) if each["verdict"] != "identical"],
        weights=weights,
        counted={"figures": count, "tensors": len(stages) + len(arrays)},
        rounding=rounding,
        largest=largest.relative,
        largest_of=largest.what if largest.relative else "",
    )
    notes = list(_notes(a, b, comparison))
    return replace(comparison, sentence=_sentence(comparison, found), notes=notes)


def _incomparable(a: Result, b: Result) -> str:
    """Why the rows of two results have nothing in common; no text where they can be compared."""
    if a.study != b.study:
        return f"runs of the studies {a.study} and {b.study}"
    sweeps = [name for name, result in (("A", a), ("B", b)) if "sweep" in result.settings]
    if len(sweeps) != 1:
        return ""
    other = "A" if sweeps == ["B"] else "B"
    return f"{sweeps[0]} is a sweep of {a.study}, {other} is no sweep; compare a sweep with a sweep"


def _sentence(comparison: Comparison, found: Sequence[Found]) -> str:
    """The verdict in words, where it is first, and what is known to be the same or to differ beside it."""
    known = [bool(each["same"]) for each in comparison.inputs]
    counted, timed = comparison.counted, [row for row in comparison.figures if row["verdict"] == "measured"]
    if comparison.verdict == "identical":
        named = ["the inputs"] * bool(known) + [f"{counted[of]} {of}" for of in counted if counted[of]]
        sentence = f"identical, bit for bit: {', '.join(named)}"
        if timed:
            sentence = "identical but for times, whose intervals overlap where there are any"
    elif comparison.verdict == "rounding":
        most = max(found, key=lambda each: each.relative)
        sentence = f"equal up to rounding: the largest relative difference is {most.relative:.1e}, in {most.what}"
        sentence += f"; up to {comparison.rounding:.1e} counts as rounding"
    else:
        worst = [each for each in found if each.verdict == "different"]
        sentence = "different: first in " + ", ".join(filter(None, (worst[0].what, worst[0].how)))
        more = len({each.what for each in worst}) - 1
        sentence += f", and in {more} more" if more else ""
        sentence += "; the inputs are the same" if known and all(known) else ""
    if comparison.settings:
        keys = [row["key"] for row in comparison.settings]
        sentence += f"; changed settings: {', '.join(keys[:MOST_NAMED])}{', ...' if len(keys) > MOST_NAMED else ''}"
    return sentence


def _notes(a: StoredRun, b: StoredRun, comparison: Comparison) -> Iterator[str]:
    are_stored = all("files" in run.content for run in (a, b))
    if a.result is b.result or (are_stored and a.path.resolve() == b.path.resolve()):
        yield "both are the same run"
    for name, run in (("A", a), ("B", b)):
        if run.config is None:
            yield f"{name} is results.json alone, without tensors"
        if run.result.interrupted:
            yield f"{name} was interrupted: rows are missing"
    if not comparison.settings and any(row["kind"] == "learnt" for row in comparison.figures):
        yield "training amplifies rounding: another processor, or version of torch, learns something else"


def _rounding(run: StoredRun) -> float:
    """The relative difference that rounding may cause; scores and weights are in float32 at least."""
    inputs = [each["dtype"] for each in run.content["inputs"].values() if "float" in each["dtype"]]
    name = config_in(run).get("dtype") or run.result.settings.get("dtype") or [*inputs, "float32"][0]
    eps = torch.finfo(getattr(torch, name)).eps
    return max(ULPS * min(eps, torch.finfo(torch.float32).eps), ULPS_STORED * eps)


def config_in(run: StoredRun) -> Record:
    """What config.yaml has; nothing where there is none."""
    with reading(run.path):
        return dict(parse_yaml(run.config or "{}", lambda line, column: str(run.path))[0])


def _settings(a: StoredRun, b: StoredRun) -> tuple[Record, Record]:
    """As config.yaml has them; where one run has none, as results.json has them."""
    if a.config is not None and b.config is not None:
        both = [config_in(run) for run in (a, b)]
    else:
        seeds = [run.content.get("seed", config_in(run).get("seed")) for run in (a, b)]
        known = [{"seed": seed} if None not in seeds else {} for seed in seeds]
        both = [{**seed, **_recorded(run.result.settings)} for seed, run in zip(known, (a, b), strict=True)]
    first, second = [{key: value for key, value in each.items() if key not in NO_SETTINGS} for each in both]
    return first, second


def _recorded(settings: Record) -> Record:
    """The settings that results.json has, by the names that config.yaml has for them."""
    scales = {label: {"scale": scale} for label, scale in settings.get("scales", {}).items()}
    kept = {key: value for key, value in settings.items() if key not in (*OUTCOMES, "scales")}
    return {**({"scorers": scales} if scales else {}), **kept}


def _environment(run: StoredRun) -> Record:
    """Versions and machine; nothing of a result that was never kept."""
    content = run.content
    return {**({"attncli": content["attncli"]} if "attncli" in content else {}), **content["environment"]}


def _changes(a: Any, b: Any, path: tuple[str, ...] = ()) -> Iterator[Record]:
    """The leaves that differ, by path; entries of scorers by their labels, whose order changes nothing."""
    a, b = (_by_label(each) for each in (a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        for key in dict.fromkeys([*a, *b]):
            if key not in ("file", "capture"):
                yield from _changes(a.get(key), b.get(key), (*path, key))
    elif a != b:
        yield {"key": dotted(path), "a": a, "b": b}


def _by_label(value: Any) -> Any:
    is_entries = isinstance(value, list) and value and all(isinstance(each, dict) and "label" in each for each in value)
    return {each["label"]: each for each in value} if is_entries else value


def _inputs(a: StoredRun, b: StoredRun) -> list[Record]:
    in_a, in_b = a.content["inputs"], b.content["inputs"]
    pairs = {name: (in_a.get(name), in_b.get(name)) for name in dict.fromkeys([*in_a, *in_b])}
    return [{"name": name, "same": of_a == of_b, "a": of_a, "b": of_b} for name, (of_a, of_b) in pairs.items()]


def _found_input(row: Record, a: StoredRun, b: StoredRun, rounding: float) -> Found:
    """Where the fingerprints differ, the numbers decide, if both runs have them."""
    name = row["name"]
    if row["same"]:
        return Found("identical", name, "", 0.0)
    if name in a.result.inputs and name in b.result.inputs:
        return _found_tensor(_tensor(name, a.result.inputs[name], b.result.inputs[name], rounding), "the input ")
    how = "whose digests differ" if row["a"] and row["b"] else "which one run alone has"
    return Found("different", f"the input {name}", how, math.inf)


def _tensors(a: Result, b: Result, columns: Columns, rounding: float) -> tuple[list[Record], list[Record]]:
    """Stages of attention in their order, and all other arrays that both runs have: curves and parameters."""
    figures = [column for column in columns["records"] if not column.text and column.kind != "place"]
    if all(column.kind == "measured" for column in figures):  # and so are the arrays
        return [], []
    layers = [f"{layer}/" for layer in a.settings.get("layers", {})] or [""]
    names = [f"{layer}{label}/{stage}" for layer in layers for label in a.labels for stage in STAGES]
    stages = [name for name in names if name in a.tensors and name in b.tensors]
    exact = 0.0 if any(column.kind == "learnt" for column in figures) else rounding
    known = {column.key + end: column.least for column in figures for end in ("", "_low", "_high")}

    def least(name: str, tensor: Tensor) -> float:
        last = name.rpartition("/")[2]  # of a histogram whose counts rounding moves to the next bin
        return max(float(tensor.sum()), MOVED / rounding) if last == "counts" else known.get(last, 0.0)

    arrays = [
        _tensor(name, first[name], second[name], exact, least(name, first[name]))
        for first, second in ((a.tensors, b.tensors), (a.parameters, b.parameters))
        for name in first
        if name in second and name not in stages
    ]
    return [_tensor(name, a.tensors[name], b.tensors[name], rounding) for name in stages], arrays


def _tensor(name: str, a: Tensor, b: Tensor, rounding: float, least: float = 0.0) -> Record:
    """The largest difference of two tensors, relative to the largest number in either, or to what is `least`.

    The place is where the first number differs by more than rounding, in (b, n, m) or (b, heads, n, m).
    """
    row: Record = {"name": name, "verdict": "identical", "max_abs_difference": 0.0, "relative": 0.0}
    row |= {"batch": None, "head": None}
    if a.shape != b.shape or a.dtype != b.dtype:
        return row | {"verdict": "different", "max_abs_difference": None, "relative": math.inf}
    if torch.equal(_bytes(a), _bytes(b)):
        return row
    pieces = list(zip(torch.split(a.flatten(), AT_A_TIME), torch.split(b.flatten(), AT_A_TIME), strict=True))
    size = max(float(each.double().nan_to_num(0.0, 0.0, 0.0).abs().max()) for pair in pieces for each in pair)
    size = max(size, least)
    most = max(float(_apart(*pair).max()) for pair in pieces)
    relative = most / size if size and math.isfinite(most) else most and math.inf
    row |= {"max_abs_difference": most, "relative": relative}
    if relative <= rounding:
        return row | {"verdict": "rounding"}
    if a.ndim > 2:
        beyond = torch.cat([_apart(*pair) > rounding * size for pair in pieces])
        matrix = int(beyond.byte().argmax()) // math.prod(a.shape[-2:])
        batch, head = divmod(matrix, math.prod(a.shape[1:-2]))
        row |= {"batch": batch, "head": head if a.ndim > 3 else None}
    return row | {"verdict": "different"}


def _bytes(tensor: Tensor) -> Tensor:
    return tensor.contiguous().flatten().view(torch.uint8)


def _apart(a: Tensor, b: Tensor) -> Tensor:
    """|b - a|, 0 where both are the same infinity or both NaN, infinite where only one is finite."""
    a, b = a.double(), b.double()
    return (b - a).abs().nan_to_num(math.inf, math.inf).masked_fill((a == b) | (a.isnan() & b.isnan()), 0.0)


def _found_tensor(row: Record, before: str = "") -> Found:
    """`weights of additive`, and from which batch element and head on they differ."""
    owner, _, last = row["name"].rpartition("/")
    what = f"{before}{last} of {owner}" if last in STAGES else before + row["name"]
    place = ", ".join(f"{axis} {row[axis]}" for axis in ("batch", "head") if row[axis])
    how = "by shape or dtype" if row["max_abs_difference"] is None else f"from {place} on" if place else ""
    return Found(row["verdict"], what, how, row["relative"])


def _rows(a: Result, b: Result, columns: Columns, rounding: float) -> tuple[list[Record], list[Record], int]:
    """The rows that one run alone has, the figures that differ in the others, and how many figures were compared."""
    only, figures, count = list[Record](), list[Record](), 0
    axes = [axis for result in (a, b) for axis in result.settings.get("sweep", {}).get("over", ())]
    swept = [Column(key, key, "", kind="place") for axis in axes for key in axis]
    for kind, stated in columns.items():
        first = getattr(a, kind)
        pairs = {(row["a"], row["b"]) for row in first if "a" in row}
        second = [_turned(row) if (row.get("b"), row.get("a")) in pairs else row for row in getattr(b, kind)]
        listed = _columns([*first, *second], [LAYER, *stated, *swept])
        places = sorted((column.key for column in listed if column.kind == "place"), key=lambda key: key not in NAMES)
        has_times = any(column.kind == "measured" and column.key.endswith(INTERVAL) for column in listed)
        judged = [each for each in listed if each.kind not in ("place", *["measured"] * (not has_times))]
        of_a, of_b = _by_place(first, places), _by_place(second, places)
        named = [key for key in places if key in NAMES or len({row.get(key) for row in (*first, *second)}) > 1]
        for place in dict.fromkeys([*of_a, *of_b]):
            row = (of_a if place in of_a else of_b)[place]
            head = {"rows": kind, "where": {key: row[key] for key in named if row.get(key) is not None}}
            if place not in of_a or place not in of_b:
                only.append({**head, "run": "A" if place in of_a else "B"})
                continue
            for column in [each for each in judged if not each.key.endswith(INTERVAL)]:
                if column.key == ONE_WAY and ONE_WAY not in of_b[place]:
                    continue
                count += 1
                if found := _figure(column, of_a[place], of_b[place], rounding):
                    figures.append(head | found)
    return only, figures, count


def _turned(row: Record) -> Record:
    """The row of a pair with its scorers in the other order, without what depends on the order."""
    return {**{key: value for key, value in row.items() if key != ONE_WAY}, "a": row["b"], "b": row["a"]}


def _columns(rows: Sequence[Record], known: Sequence[Column]) -> list[Column]:
    """The columns that these rows have; values say what is in one that the study does not list."""
    by_key = {column.key: column for column in known}
    values = {key: value for row in rows for key, value in row.items()}
    return [by_key.get(key) or Column(key, key, "", text=isinstance(value, str)) for key, value in values.items()]


def _by_place(rows: Sequence[Record], places: Sequence[str]) -> dict[tuple[Any, ...], Record]:
    """The rows by the values that tell them apart; where these do not, by their order, too."""
    seen, found = Counter[tuple[Any, ...]](), {}
    for row in rows:
        place = tuple(row.get(key) for key in places)
        found[*place, seen[place]] = row
        seen[place] += 1
    return found


def _figure(column: Column, row_a: Record, row_b: Record, rounding: float) -> Record | None:
    """A figure of both runs with difference and ratio, and whether intervals overlap; None where it is the same.

    A difference is relative to the larger of the two, or to half of the wider interval, or to what is least where
    there is no interval. Intervals decide over times.
    """
    a, b, *ends = (nan_to_null(row.get(key)) for key in (column.key, column.key + INTERVAL) for row in (row_a, row_b))
    if a == b and ends[0] == ends[1]:
        return None
    found: Record = {"figure": column.key, "kind": column.kind, "a": a, "b": b}
    found |= {"difference": None, "ratio": None, "relative": math.inf, "verdict": "different"}
    is_exact = isinstance(a, bool | str | None) or isinstance(b, bool | str | None)
    if not is_exact:
        found |= {"difference": b - a, "ratio": b / a if a else None}
        half = max(((high - low) / 2 for low, high in filter(None, ends)), default=column.least)
        apart = [abs(y - x) for x, y in zip([a, *(ends[0] or ())], [b, *(ends[1] or ())], strict=False)]
        found["relative"] = max(apart) / max(abs(a), abs(b), half)
    if all(ends):
        found |= {"a_ci": ends[0], "b_ci": ends[1], "overlap": ends[0][0] <= ends[1][1] and ends[1][0] <= ends[0][1]}
    if column.kind == "measured":
        return found | ({} if found.get("overlap") is False else {"verdict": "measured"})
    is_counted = isinstance(a, int) and isinstance(b, int)
    if column.kind == "figure" and not is_exact and not is_counted and found["relative"] <= rounding:
        found["verdict"] = "rounding"
    return found


def _found_figure(row: Record) -> Found:
    what = f"{row['figure']} ({described(row['where'])})"
    how = f"which is {show(row['a'])} in A and {show(row['b'])} in B"
    if row["difference"] is not None:
        how = f"with a relative difference of {row['relative']:.1e}"
        how += ", beyond its intervals" if row.get("overlap") is False else ""
    return Found(row["verdict"], what, how, row["relative"])
