"""Attention calls of a real model: figures that only they have, and results of several layers as one."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from attncli.common.scoring import of_call
from attncli.common.study import Finding, Record, Result, by_label
from attncli.config.normalizer_entries import DEFAULT_NORMALIZER
from attncli.config.scorer_entries import ScorerEntry
from attncli.errors import printable
from attncli.inputs.build import Inputs
from attncli.inputs.captured import Captured
from attncli.show.numbers import finite, several, significant
from attncli.show.report.charts import on_one_line
from attncli.studies import ROWS
from attncli.studies.attention.columns import DIFFERENCES, OF_CALLS
from attncli.studies.attention.options import AttentionOptions
from attncli.studies.attention.places import Place, largest_first, place_of
from attncli.studies.attention.rows import ScorerRows

MEANT = ("entropy", "entropy_share", "max_weight", "first_key")  # figures of heads that are averaged
SAID = ("class", "how", "scale", "pre_scale", "groups", "softcap", "empty_row", "heads", "error")  # of each call


@dataclass(frozen=True)
class HeadFigures:
    """What is said of each batch element and head of a call: how far q . k spreads, and how many keys are valid."""

    variances: Sequence[float | None]  # of q . k at valid keys
    d: int
    counts: Tensor  # heads n: valid keys

    @classmethod
    def of(cls, inputs: Inputs) -> "HeadFigures":
        """Of queries (b, heads, n, d) and keys (b, heads, m, d), one head at a time, in float64."""
        valid = inputs.valid.whole.flatten(0, 1).cpu()
        variances: list[float | None] = []
        for queries, keys, allowed in zip(inputs.queries.flatten(0, 1), inputs.keys.flatten(0, 1), valid, strict=True):
            products = (queries.cpu().double() @ keys.cpu().double().mT)[allowed]
            variances.append(float(products.var(correction=0)) if products.numel() else None)
        return cls(variances, inputs.queries.shape[-1], valid.sum(-1, dtype=torch.float64))

    def of_scorer(self, weights: Tensor | None, rows: ScorerRows) -> list[Record]:
        """The figures `OF_CALLS` of each head; None for what is not known without weights."""
        heads, kept = len(self.variances), self.counts > 0
        spread = kept & (rows.weight_sum.reshape(heads, -1) != 0)
        entropies = rows.entropy.reshape(heads, -1).masked_fill(~spread, 0.0).sum(-1)
        most = self.counts.clamp(min=1.0).log().masked_fill(~spread, 0.0).sum(-1)
        shares = _known(entropies / most)
        first: list[float | None] = [None] * heads
        if weights is not None:
            first = _known(weights[..., 0].double().reshape(heads, -1).masked_fill(~kept, 0.0).sum(-1) / kept.sum(-1))
        return [
            {
                "entropy_share": share,
                "first_key": weight,
                "variance_over_d": None if variance is None else variance / self.d,
                "unit_scale": variance**-0.5 if variance else None,
            }
            for share, weight, variance in zip(shares, first, self.variances, strict=True)
        ]


def _known(figures: Tensor) -> list[float | None]:
    return [figure if math.isfinite(figure) else None for figure in figures.tolist()]


def of_model(
    captured: Captured, inputs: Sequence[Inputs], results: Sequence[Result], options: AttentionOptions
) -> Result:
    """The results of several calls as one, with what is known of the model; a call alone stays as it is.

    Rows of several have a `layer`, and their tensors are `<layer>/<name>`. Where an entry computes what the model does,
    its output is compared with the model's.
    """
    layers, calls = dict[str, Result](), dict[str, Record]()
    for own, result in zip(inputs, results, strict=True):
        assert own.call is not None, "of a model"
        name = own.call.name
        layers[name] = result
        calls[name] = {"number": captured.numbers[name]}
        calls[name] |= {key: captured.layers[name].get(key) for key in SAID}
        for entry in [each for each in options.scorers if _is_as_the_model(each, own.call, options.train)][:1]:
            calls[name]["rescored"] = own.call.difference(result.tensors[f"{entry.label}/output"])
    about = {key: captured.about.get(key) for key in ("model", "text")}
    left_out = {name: entry["problem"] for name, entry in captured.layers.items() if entry["problem"] is not None}
    known: Record = {"file": captured.path.name, **about, "calls": calls, "left_out": left_out}
    found = [_about_capture(known)]
    if "layer" not in results[0].records[0]:
        (result,) = results
        settings = {**result.settings, "capture": known}
        return replace(result, settings=settings, findings=[*found, *result.findings])
    first, of_layer = results[0], ("scales", "tokens")
    settings = {key: value for key, value in first.settings.items() if key not in of_layer}
    settings["capture"] = known
    settings["layers"] = {name: {key: result.settings[key] for key in of_layer} for name, result in layers.items()}
    rows: dict[str, Any] = {kind: [row for result in results for row in getattr(result, kind)] for kind in ROWS}
    return replace(
        first,
        settings=settings,
        findings=[*found, *_about_changes(changes_by_label(rows["head_comparisons"], first.labels))],
        inputs={f"{name}/{key}": tensor for name, each in layers.items() for key, tensor in each.inputs.items()},
        tensors={f"{name}/{key}": tensor for name, each in layers.items() for key, tensor in each.tensors.items()},
        **rows,
    )


def _is_as_the_model(entry: ScorerEntry, call: Any, train: bool) -> bool:
    """Whether an entry does with a call what the model did, by all its keys."""
    is_plain = entry.bias is None and entry.normalizer.normalizer == DEFAULT_NORMALIZER
    has_dropout = train and entry.dropout > 0
    return entry.has_models_scale and of_call(entry, call).softcap == call.softcap and is_plain and not has_dropout


class Below(Mapping[str, Tensor]):
    """The tensors whose names begin alike, without that beginning; each is read when it is asked for."""

    def __init__(self, tensors: Mapping[str, Tensor], prefix: str) -> None:
        self._tensors, self._prefix = tensors, prefix

    def __getitem__(self, name: str) -> Tensor:
        return self._tensors[self._prefix + name]

    def __contains__(self, name: object) -> bool:
        return f"{self._prefix}{name}" in self._tensors  # a Mapping would read the tensor

    def __iter__(self) -> Iterator[str]:
        return (name.removeprefix(self._prefix) for name in self._tensors if name.startswith(self._prefix))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def by_layer(result: Result) -> dict[str, Result]:
    """The result of each layer alone, as a run without layers has it; none where there are no layers."""
    found = {}
    for name, settings in result.settings.get("layers", {}).items():
        rows: dict[str, Any] = {kind: [row for row in getattr(result, kind) if row["layer"] == name] for kind in ROWS}
        inputs, tensors = (Below(each, f"{name}/") for each in (result.inputs, result.tensors))
        found[name] = replace(result, settings=result.settings | settings, inputs=inputs, tensors=tensors, **rows)
    return found


def grids(result: Result) -> dict[str, tuple[str, list[list[float]]]]:
    """What the heads are like with the first scorer, the model's own by default, and what each other scorer changes.

    By its title one figure of every layer (row) and head (column), a mean over batch elements; NaN where there is no
    head. Before it stands the name of its quantity, which several may show.
    """
    first = printable(result.labels[0])
    heads = by_label(result.heads)[result.labels[0]]
    found = {  # each with its rows and its column
        f"Entropy over ln m of {first}": (heads, "entropy_share"),
        f"Weight on the first key of {first}": (heads, "first_key"),
        "Variance of q . k over d": (heads, "variance_over_d"),
        "Scale that gives q . k the variance 1": (heads, "unit_scale"),
    }
    for label, rows in changes_by_label(result.head_comparisons, result.labels).items():
        found[f"Change of the output: {printable(label)} in place of {first}"] = (rows, "output_difference")
    layers = list(result.settings["layers"])
    names = {column.key: on_one_line(column) for column in (*OF_CALLS, *DIFFERENCES)}
    made = {title: (names[key], _values(rows, key, layers)) for title, (rows, key) in found.items()}
    return {title: each for title, each in made.items() if finite(value for row in each[1] for value in row)}


def _values(rows: Sequence[Record], key: str, layers: Sequence[str]) -> list[list[float]]:
    cells: dict[tuple[str, int], list[float]] = {}
    for row in rows:
        value = row[key]
        cells.setdefault((row["layer"], row["head"]), []).append(math.nan if value is None else value)
    heads = head_numbers(rows)
    return [[fmean(cells.get((layer, head), [math.nan])) for head in heads] for layer in layers]


def layer_numbers(result: Result) -> dict[str, int]:
    """The numbers that layers have in the captured file, by name."""
    return {name: result.settings["capture"]["calls"][name]["number"] for name in result.settings["layers"]}


def head_numbers(rows: Sequence[Record]) -> list[int]:
    """The heads that some layer has."""
    return sorted({row["head"] for row in rows})


def means(result: Result) -> list[Record]:
    """Of each scorer the means over heads of figures, and how much it changes the output of the first."""
    found, changes = [], changes_by_label(result.head_comparisons, result.labels)
    for label, heads in by_label(result.heads).items():
        row: Record = {"label": label}
        for rows, keys in ((heads, MEANT), (changes.get(label, []), ["output_difference"])):
            for key in keys:
                known = [each[key] for each in rows if each[key] is not None]
                row[key] = fmean(known) if known else None
        found.append(row)
    return found


def most_changed(result: Result) -> list[tuple[str, Place, str]]:
    """Layer, place and label of what changes the first scorer's output most; each place once, the largest first."""
    found = dict[tuple[str, Place], str]()
    for row in changes_of(result):
        found.setdefault((row["layer"], place_of(row)), row["b"])
    return [(layer, place, label) for (layer, place), label in found.items()]


def changes_of(result: Result) -> list[Record]:
    """The comparisons of heads with the first scorer, the largest change of the output first."""
    return largest_first([row for row in result.head_comparisons if row["a"] == result.labels[0]], "output_difference")


def changes_by_label(rows: Sequence[Record], labels: Sequence[str]) -> dict[str, list[Record]]:
    """The comparisons of every other label with the first, in the order of the labels."""
    return {label: [row for row in rows if (row["a"], row["b"]) == (labels[0], label)] for label in labels[1:]}


def _about_capture(known: Record) -> Finding:
    calls, left_out = known["calls"], known["left_out"]
    errors = [call.get("rescored", call["error"]) or 0.0 for call in calls.values()]
    here = all("rescored" in call for call in calls.values())
    what = f"re-scored {'here' if here else 'when captured'}, outputs differ from the model's by"
    text = f"{known['file']}: {several(len(calls), 'attention call')}; {what} {significant(max(errors), 2)} at most."
    if left_out:
        why = "; ".join(f"{name}: {problem}" for name, problem in left_out.items())
        text += f" Not re-scored: {why}."
    return Finding(text, numbers={"calls": len(calls), "error": max(errors), "left_out": len(left_out)})


def _about_changes(changes: Mapping[str, Sequence[Record]]) -> Iterator[Finding]:
    """How much each scorer changes the outputs of the first, and where most."""
    for label, rows in changes.items():
        differences = finite(row["output_difference"] for row in rows)
        if differences:
            most, mean = largest_first(rows, "output_difference")[0], fmean(differences)
            where = f"layer {most['layer']}, head {most['head']}"
            text = f"{label} changes the outputs of {most['a']} by {mean:.0%},"
            text += f" mean of {several(len(differences), 'head')};"
            text = f"{text} most in {where}: {most['output_difference']:.0%}."
            numbers: Record = {"output_difference": mean, **{key: most[key] for key in ("layer", "batch", "head")}}
            yield Finding(text, label, numbers | {"most": most["output_difference"]})
