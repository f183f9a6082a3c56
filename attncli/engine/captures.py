"""Compare two captures of a model: where they part, how much each layer inherits and adds, and which side is right."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import torch
from torch import Tensor

from attncli.config.looks import Look
from attncli.config.overrides import as_yaml
from attncli.config.strict import validated
from attncli.core.metrics import relative_l2
from attncli.core.numbers import number, several
from attncli.core.rounding import LIMITS
from attncli.errors import InputError, listed
from attncli.models.call import TENSORS, AttentionCall
from attncli.models.capture import Capture
from attncli.models.summaries import mask_and_padding, padding_mask
from attncli.results import Finding, Row
from attncli.sources.captured import read_captured

if TYPE_CHECKING:
    from attncli.show.pictures.figures import Picture

INPUTS, RULES = ("queries", "keys", "values"), ("scale", "softcap", "mask", "sinks", "bias", "dtype")
BETWEEN = {
    "rotary": "queries and keys differ, but not values",
    "heads": "they are the same heads in another order",
    "groups": "keys and values are of other groups",
    "inputs": "the difference arose between the output of the layer before and its inputs",
}
AGREE = {
    "both": "both sides agree with their own re-scoring in float64",
    "neither": "neither side agrees with its own re-scoring in float64",
    "a": "A agrees with its own re-scoring in float64, and B does not",
    "b": "B agrees with its own re-scoring in float64, and A does not",
}


@dataclass(frozen=True, repr=False)
class CaptureComparison:
    """The differences between two captures, `a` and `b`.

    `verdict` is `identical`, `rounding` or `different`. `first` has `layer` and `kind` of the first layer that differs,
    None if none does. `records` has a row for each pair of calls, and `findings` are sentences.
    """

    a: str
    b: str
    verdict: Literal["identical", "rounding", "different"]
    first: Row | None
    records: Sequence[Row]
    findings: Sequence[Finding]
    notes: Sequence[str] = ()

    def __repr__(self) -> str:
        return f"<attncli.CaptureComparison of {self.a} and {self.b}: {self.verdict}. {self.findings[0].text}>"

    def figure(self, **looks: Any) -> "Picture":
        """Return the matplotlib Figure of the inherited and added differences by layer; `looks` are as for a result.

        Raises:
            InputError: an option is wrong, or the numbers of the captures were not compared.
        """
        from attncli.show.pictures.captures import captures_figure
        from attncli.show.pictures.figures import ignore_note

        return captures_figure(self.records, validated(Look, as_yaml(looks), {}), ignore_note)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        from attncli.show import notebook
        from attncli.show.terminal.comparison import layers

        return notebook.as_text([*layers(self.records, self.findings, self.notes, notebook.WIDTH, is_full=False)])


class Side(NamedTuple):
    """The calls of a capture in their order, and the numbers of padding tokens of each text, if known."""

    name: str
    calls: Sequence[AttentionCall]
    padding: Any = None


def _side(source: Path | Capture, name: str) -> Side:
    """Return the calls with tensors of a Capture or a captured file, also calls that cannot be re-scored."""
    if isinstance(source, Capture):
        return Side(name, source.records)
    try:
        captured = read_captured(source)
        calls = [captured.read(call, must_be_usable=False) for call in captured.with_tensors]
    except InputError as error:  # without the key of a config
        raise InputError.of(error.problems[0].message) from error
    return Side(str(source), calls, captured.about.get("padding"))


class Pair:
    """Two calls in float64, with inputs before any scale, and a head of keys and values for each of queries."""

    def __init__(self, a: AttentionCall, b: AttentionCall, padding: Sequence[Any]) -> None:
        self.a, self.b, self.padding = a, b, padding
        self.limits = sorted(LIMITS[call.output.dtype] for call in (a, b))  # the finer one first
        self.exact = [_in_float64(call) for call in (a, b)]

    @cached_property
    def where(self) -> dict[str, Tensor]:
        """The rows of each tensor that are compared: queries that are no padding, and keys that these see.

        Padding is what both sides record, or one does, or both masks hide: the mask of one side may be the fault.
        """
        a, b = self.padding
        sides = zip((self.a, self.b), (a or b, b or a), strict=True)
        one, other = (mask_and_padding(call, padding_mask(of, call))[-1][:, None, :, None] for call, of in sides)
        live = one | other  # b 1 n 1
        seen = self.exact[0].valid_keys.whole & self.exact[1].valid_keys.whole & live  # b h n m
        keys = seen.any(1, keepdim=True).any(-2)[..., None]  # b 1 m 1
        return {"queries": live, "keys": keys, "values": keys, "output": live, "bias": seen, "sinks": live}

    def apart(self, role: str, x: Tensor, y: Tensor, size: Tensor | None = None) -> float:
        """Return the relative L2 norm of y - x over the rows that are compared, relative to `size`, by default x."""
        x, y, size = (torch.where(self.where[role], each, 0.0) for each in (x, y, x if size is None else size))
        return float(relative_l2(x, y, size))

    def distances(self) -> dict[str, float]:
        """Return how far inputs and outputs are apart, by name."""
        one, other = self.exact
        return {role: self.apart(role, getattr(one, role), getattr(other, role)) for role in (*INPUTS, "output")}

    def rules(self, alike: bool) -> list[str]:
        """Return the names of the rules that differ; masks are compared in words unless the calls are alike."""
        (one, other), limit = self.exact, self.limits[1]
        numbers = {key: [getattr(call, key) or 0.0 for call in self.exact] for key in ("scale", "softcap")}
        differs = [key for key, pair in numbers.items() if not math.isclose(*pair, rel_tol=limit)]
        if alike:
            has_other_mask = bool(((one.valid_keys.whole != other.valid_keys.whole) & self.where["output"]).any())
        else:  # a shorter text may not reach a window or the end of a chunk
            sides = zip(self.exact, self.padding, strict=True)
            words = {mask_and_padding(call, padding_mask(of, call))[0].split()[0] for call, of in sides}
            has_other_mask = len(words) > 1 and words not in ({"causal", "window"}, {"causal", "documents"})
        differs += ["mask"] if has_other_mask else []
        for key in ("sinks", "bias"):
            x, y = (getattr(call, key) for call in self.exact)
            if (x is None) != (y is None) or (x is not None and alike and self.apart(key, x, y) > limit):
                differs.append(key)
        dtypes = [[getattr(call, role).dtype for role in ("queries", "output")] for call in (self.a, self.b)]
        return differs + (["dtype"] if dtypes[0] != dtypes[1] else [])

    def between(self, distances: dict[str, float]) -> str:
        """Return the kind of a difference between inputs."""
        changed = [role for role in INPUTS if distances[role] > self.limits[1]]
        if all(self._are_moved(role) for role in changed):
            is_grouped = max(self.a.groups, self.b.groups) > 1 and "queries" not in changed
            return "groups" if is_grouped else "heads"
        return "rotary" if changed == ["queries", "keys"] else "inputs"

    def _are_moved(self, role: str) -> bool:
        """Whether each head of B is a head of A, in its own place or another."""
        x, y = (getattr(call, role).nan_to_num() for call in self.exact)
        heads = range(x.shape[1])
        return all(any(self.apart(role, x[:, i, None], y[:, j, None]) <= self.limits[1] for i in heads) for j in heads)

    def inherited_and_added(self) -> tuple[float, float]:
        """Return how far B's inputs move the output under A's rules, and how far B's output is from there."""
        one, other = self.exact
        moved = replace(one, **{role: getattr(other, role) for role in INPUTS}).rescored()
        return self.apart("output", one.output, moved), self.apart("output", moved, other.output, one.output)

    @property
    def right(self) -> str:
        """The sides that agree with their own re-scoring."""
        agree = list[str]()
        for name, call, exact in zip("ab", (self.a, self.b), self.exact, strict=True):
            if relative_l2(exact.output, exact.rescored()) <= LIMITS[call.output.dtype]:
                agree.append(name)
        return "both" if len(agree) == 2 else agree[0] if agree else "neither"


def _in_float64(call: AttentionCall) -> AttentionCall:
    """Return a call in float64, without scales before it, and with a head of keys and values for each of queries."""
    tensors = {name: tensor.double() for name in TENSORS if (tensor := getattr(call, name)) is not None}
    tensors |= {} if call.valid is None else {"valid": call.valid}
    repeated = {role: tensors[role].repeat_interleave(call.groups, 1) for role in ("keys", "values")}
    queries, scale = tensors["queries"] / call.pre_scale, call.scale * call.pre_scale
    return replace(call, **{**tensors, **repeated, "queries": queries}, groups=1, scale=scale, pre_scale=1.0)


@torch.no_grad()
def compare_captures(a: Path | Capture, b: Path | Capture) -> CaptureComparison:
    """Return the differences between two captures, each given as a file or as a Capture.

    Calls of one name are pairs, and the others in their order. The first layer where anything differs by more than the
    limit of its dtype *adds* the difference if its inputs agree; else the difference arose before it.

    Raises:
        InputError: a file is damaged, or there is no call to compare.
    """
    one, other = _side(a, "A"), _side(b, "B")
    calls = {call.name: call for call in other.calls}
    rest = iter([call for call in other.calls if call.name not in {call.name for call in one.calls}])
    partners = ((call, calls.get(call.name) or next(rest, None)) for call in one.calls)
    pairs = [(call, partner) for call, partner in partners if partner is not None]
    if not pairs:
        raise InputError.of(f'got "{one.name}" and "{other.name}", without a common attention call')
    counts = {side.name: len(side.calls) - len(pairs) for side in (one, other)}
    notes = [f"{several(lacking, 'call')} of {name} without a partner" for name, lacking in counts.items() if lacking]
    sizes = [(x.name, _sizes(x), _sizes(y)) for x, y in pairs if _sizes(x) != _sizes(y)]
    notes += ["other sizes, first in {}: {} and {}".format(*sizes[0])] if sizes else []
    alike, records, largest = not notes, list[Row](), 0.0
    notes += [] if alike else ["facts alone are compared"]
    for x, y in pairs:
        pair, is_first = Pair(x, y, (one.padding, other.padding)), not any(row["differs"] for row in records)
        row, distance = _row(pair, alike, is_first)
        records.append({"layer": x.name, "layer_b": y.name, **row})
        largest = max(largest, distance)
    first = next((row for row in records if row["differs"]), None)
    if first is None:
        verdict: Any = "different" if not alike else "rounding" if largest else "identical"
        finding = Finding("Nothing differs" + (f" by more than rounding: {largest:.1e} at most." if largest else "."))
        finding = finding if alike else Finding("No fact of the common calls differs; their numbers were not compared.")
        return CaptureComparison(one.name, other.name, verdict, None, records, [finding], notes)
    place, finding = {key: first[key] for key in ("layer", "kind")}, _finding(records.index(first), first, alike)
    return CaptureComparison(one.name, other.name, "different", place, records, [finding], notes)


def _row(pair: Pair, alike: bool, is_first: bool) -> tuple[Row, float]:
    """Return the row of a pair, without names, and the largest distance of its tensors."""
    differs, distances, norms = pair.rules(alike), dict[str, float](), tuple[Any, Any]((None, None))
    kind = next((rule for rule in RULES if rule in differs), None)
    if alike:
        distances, norms = pair.distances(), pair.inherited_and_added()
        agree = all(distances[role] <= pair.limits[1] for role in INPUTS)
        moved = [role for role, distance in distances.items() if distance > pair.limits[0]]
        differs = [*moved, *differs]
        if moved and agree:
            kind = kind or ("output" if "output" in moved else "inputs")
        elif moved and is_first:
            kind = pair.between(distances)
    row = {"inherited": norms[0], "added": norms[1], "differs": differs, "kind": kind, "right": pair.right}
    return row, max(distances.values(), default=0.0)


def _sizes(call: AttentionCall) -> str:
    """Return the sizes of b, h, n and d, and of m and v, in one text."""
    return "x".join(map(str, (*call.queries.shape, *call.values.shape[-2:])))


def _finding(index: int, row: Row, alike: bool) -> Finding:
    """Return a sentence about the first layer that differs."""
    text = f"Layer {index} ({row['layer']}) is the first that differs"
    if not alike:
        text += f", in {listed(row['differs'])}"
    elif row["kind"] in BETWEEN:
        text += f", in its inputs ({row['kind']}): {BETWEEN[row['kind']]}"
    else:
        text += f", and adds {number(row['added'], 2)} of its output's size; the cause is its {row['kind']}"
    numbers = {key: row[key] for key in ("inherited", "added")}
    return Finding(f"{text}; {AGREE[row['right']]}.", numbers=numbers)
