"""The result of a study: frozen records that tables, pictures, files and expectations read."""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field

from attncli.core.numbers import number

if TYPE_CHECKING:
    from torch import Tensor

Row = dict[str, Any]
INTERVAL = "_ci"  # the end of the names of columns that are intervals, [low, high] or None
Stage = Literal["scores", "capped", "biased", "weights", "dropped", "output"]  # of attention, in their order
STAGES = get_args(Stage)
PARAMETERS = "parameters.safetensors"  # in a run folder
MOST_KEYS = 10  # of an explained query; the others are summed up
Names = Sequence[Sequence[str]]  # tokens, one list per batch element
Kind = Literal["figure", "place", "measured"]  # of a column
RowKind = Literal["records", "comparisons", "heads", "head_comparisons"]


@dataclass(frozen=True)
class Column:
    r"""One column of a study's rows, as CSV, JSON, tables and expectations use it.

    `key` is its name in records and files, and `heading` its name in tables (with `\n` where it may break). `format`
    turns a value into text for tables, and `about` is a sentence that describes the column. `kind`: the values of a
    `place` identify a row; a `measured` value depends on a clock and differs from run to run; others are a `figure`.
    Relative differences of values smaller than `least` are taken relative to `least`, since rounding is absolute there.
    Only `signed` values can be below 0, and no value can be above `most`. The upper end of `bounded` values depends on
    the input, such as ln m for an entropy. Axes of values with an upper end are linear.
    """

    key: str
    heading: str
    about: str
    unit: str = ""
    format: Callable[[Any], str] = number
    text: bool = False  # its values are words, or true and false
    kind: Kind = "figure"
    least: float = 1e-3
    signed: bool = False
    most: float = math.inf
    bounded: bool = False

    @property
    def is_linear(self) -> bool:
        """Whether its axis is linear, even if its values span decades."""
        return self.bounded or self.most < math.inf

    @property
    def name(self) -> str:
        """Return the heading on one line."""
        return self.heading.replace("-\n", "").strip().replace("\n", " ")

    @property
    def name_with_unit(self) -> str:
        """Return the heading on one line, with the unit in brackets."""
        return f"{self.name} ({self.unit})" if self.unit and f"({self.unit})" not in self.name else self.name


SCORER = Column("scorer", "scorer", "Name of the scoring function.", text=True)
LABEL = Column("label", "label", "Name of the entry in the config.", text=True, kind="place")
LAYER = Column("layer", "layer", "Layer of a captured model, by its name there.", text=True, kind="place")
PAIR = (
    Column("a", "a", "Label of one scorer.", text=True, kind="place"),
    Column("b", "b", "Label of the other scorer.", text=True, kind="place"),
)
NORMALIZER = Column("normalizer", "normalizer", "Name of the normaliser.", text=True)


@dataclass(frozen=True)
class Finding:
    """A sentence about the results and the numbers in it; it is about the scorer `label`, or all scorers if None."""

    text: str
    label: str | None = None
    numbers: Row = field(default_factory=dict)


def place_in_words(row: Row, layers: Mapping[str, int]) -> str:
    """Return the layer and the head of a row, such as `layer 0, head 2`; empty without these.

    `layers` has the numbers of layers by name.
    """
    layer, head = row.get("layer"), row.get("head")
    words = [*([] if layer is None else [f"layer {layers[layer]}"]), *([] if head is None else [f"head {head}"])]
    return ", ".join(words)


def signed_weights(label: str) -> Finding:
    """Return the finding about a scorer with negative weights."""
    text = f"{label}: signed weights, so entropy, effective keys and divergences are undefined."
    return Finding(text, label)


class Facts(BaseModel):
    """Base of the small records of facts in a result, which results.json has under `settings`.

    A study with facts of its own derives a class from it.
    """

    model_config = ConfigDict(frozen=True, populate_by_name=True)
    parameters_file: ClassVar[str] = PARAMETERS  # with the parameters of the result, in a run folder

    @property
    def metadata(self) -> Mapping[str, str] | None:
        """The metadata of the file with the parameters."""
        return None

    @property
    def documents(self) -> "Mapping[str, Row]":
        """Data of further YAML files in a run folder, by name."""
        return {}

    @classmethod
    def of(cls, result: "Result") -> Self:
        """Return the facts of a result of the study that this class belongs to."""
        assert isinstance(result.facts, cls), result.study
        return result.facts

    @property
    def data(self) -> Row:
        """Return the facts that were stated, as data for JSON."""
        return self.model_dump(by_alias=True, exclude_unset=True)


class CallFacts(Facts):
    """Facts about an attention call of a captured model; `heads` are their numbers if the run has only some of them.

    `rescored` is the largest difference between the model's output and the output of a scorer entry that repeats
    its computation, if there is one.
    """

    number: int
    kind: str | None = Field(None, alias="class")
    how: str | None = None
    scale: float | None = None
    pre_scale: float | None = None
    groups: int | None = None
    softcap: float | None = None
    empty_row: str | None = None
    error: float | None = None
    heads: list[int] | None = None
    rescored: float | None = None


class CaptureFacts(Facts):
    """Facts about a captured model: the file, the model's name and text, and the calls of the run by name.

    `left_out` has the reasons why other calls cannot be re-scored, by name.
    """

    file: str
    model: Any = None  # as the user who captured it has said
    text: Any = None
    calls: dict[str, CallFacts] = {}
    left_out: dict[str, str] = {}


@dataclass(frozen=True)
class Tokens:
    """Token names of queries and keys, one list per batch element; None if a side has no names."""

    queries: Names | None = None
    keys: Names | None = None


@dataclass(frozen=True)
class Matrices:
    """One stage of attention of several scorers: (b, n, m) or (b, heads, n, m) tensors by label, for heatmaps."""

    stage: str
    tensors: "Mapping[str, Tensor]"
    valid: "Tensor | None" = None  # boolean, broadcastable to every tensor; True = may attend
    tokens: Tokens = field(default_factory=Tokens)
    with_dropout: Sequence[str] = ()  # labels with dropout on their weights
    layer: str = ""  # of a model, as part of a title
    about: str | None = None  # the question of the experiment
    heads: Sequence[int] | None = None  # their numbers; None: counted from 0


def tensor_name(*parts: str, layer: str | None = None) -> str:
    """Return the name of a tensor in results and files, such as `<label>/weights` or `<layer>/<label>/weights`."""
    return "/".join(parts if layer is None else (layer, *parts))


@dataclass(frozen=True)
class Result:
    """The result of a study.

    `records` has a row for each scorer (and size), and `comparisons` one for each pair; `heads` and `head_comparisons`
    have the same rows for each batch element and head, if the study makes them. `inputs` are the tensors given to the
    study, and `tensors` the tensors that it made. `parameters` are parameters of scorers as
    `<label>/<state_dict name>`, or trained parameters as `<label>/<d>/<seed>/<name>`. `interrupted`: the user stopped
    the run, so rows are missing. `about` is the question of the experiment, one sentence, if it has one.

    `formulas` has the formula of each label, and `random` the labels with random parameters. `layers` has the numbers
    of a model's layers by name; a run without layers has none. `scales` has the scale of each scorer as `<label>`, and
    `tokens` the names of `queries` and `keys`; with `<layer>/` before the name if there are layers. `capture` has facts
    about a captured model, and `facts` has facts that only this study states. `save` has the stages of attention that
    may be stored; None for all. `summaries` has what each layer of a model does, by name.
    """

    study: str
    name: str
    records: Sequence[Row]
    comparisons: Sequence[Row] = ()
    findings: Sequence[Finding] = ()
    inputs: "Mapping[str, Tensor]" = field(default_factory=dict)
    tensors: "Mapping[str, Tensor]" = field(default_factory=dict)
    parameters: "Mapping[str, Tensor]" = field(default_factory=dict)
    interrupted: bool = False
    heads: Sequence[Row] = ()
    head_comparisons: Sequence[Row] = ()
    about: str | None = None
    formulas: Mapping[str, str] = field(default_factory=dict)
    random: Sequence[str] = ()
    scales: Mapping[str, float | None] = field(default_factory=dict)
    tokens: Mapping[str, Names] = field(default_factory=dict)
    layers: Mapping[str, int] = field(default_factory=dict)
    capture: CaptureFacts | None = None
    save: Sequence[Stage] | None = None
    summaries: Mapping[str, Row] = field(default_factory=dict)
    facts: Facts = field(default_factory=Facts)

    @property
    def rows(self) -> dict[RowKind, Sequence[Row]]:
        """Return the rows of each kind."""
        return {
            "records": self.records,
            "comparisons": self.comparisons,
            "heads": self.heads,
            "head_comparisons": self.head_comparisons,
        }

    @property
    def labels(self) -> list[str]:
        """Return the labels of the scorers in the order of their rows, of records or, if there are none, of heads."""
        return list(by_label(self.records or self.heads))

    def place(self, row: Row) -> str:
        """Return the layer and the head of a row in words."""
        return place_in_words(row, self.layers)

    @property
    def layer_names(self) -> list[str | None]:
        """Return the layers of a run on a captured model, by name; [None] for other runs."""
        return [*self.layers] or [None]

    @property
    def scorers(self) -> dict[str, str]:
        """Return the scorer of each label with weights by softmax; other labels stand for themselves."""
        rows = [row for row in self.records or self.heads if row.get("normalizer", "softmax") == "softmax"]
        return {row["label"]: row["scorer"] for row in rows}

    def stage(self, stage: str, layer: str | None = None) -> "dict[str, Tensor]":
        """Return one stage of attention by label, if stored; `layer` is needed for runs with layers."""
        names = {label: tensor_name(label, stage, layer=layer) for label in self.labels}
        return {label: self.tensors[name] for label, name in names.items() if name in self.tensors}

    def keeps(self, stage: str) -> bool:
        """Whether the key `save` allows this attention stage to be stored (default: every stage)."""
        return self.save is None or stage in self.save

    def tokens_in(self, layer: str | None = None) -> Tokens:
        """Return the token names of queries and keys; `layer` is needed for runs with layers."""
        return Tokens(*(self.tokens.get(tensor_name(side, layer=layer)) for side in ("queries", "keys")))

    def head_numbers(self, layer: str | None = None) -> Sequence[int] | None:
        """Return the numbers of the heads in a captured model if the run has only some of them, else None.

        `layer` is needed for runs with layers.
        """
        calls = {} if self.capture is None else self.capture.calls
        call = calls.get(layer) if layer is not None else next(iter(calls.values()), None)
        return None if call is None else call.heads

    def matrices(self, stage: str, layer: str | None = None) -> Matrices:
        """Return one stage of attention of all scorers, to show as heatmaps; `layer` is needed for runs with layers."""
        with_dropout = [label for label in self.labels if tensor_name(label, "dropped", layer=layer) in self.tensors]
        valid, heads = self.inputs.get(tensor_name("valid", layer=layer)), self.head_numbers(layer)
        tokens, about = self.tokens_in(layer), self.about
        return Matrices(stage, self.stage(stage, layer), valid, tokens, with_dropout, about=about, heads=heads)


@dataclass(frozen=True)
class SweepResult(Result):
    """The result of a sweep: the rows of all points, with the swept values before the columns of the study.

    `axes` has for each axis the values of its keys. `metric` is the column that is drawn and described, `chosen` by the
    user or else by default. `points` has the number of points in each state.
    """

    axes: Sequence[Mapping[str, Sequence[Any]]] = ()
    metric: str = ""  # empty if no column is a number
    chosen: str | None = None
    points: Mapping[str, int] = field(default_factory=dict)

    @property
    def swept(self) -> list[str]:
        """Return the swept keys."""
        return [key for axis in self.axes for key in axis]


@dataclass(frozen=True)
class Listing:
    """A table to display: title, columns and rows."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[Row]


@dataclass(frozen=True, repr=False)
class Comparison:
    """The differences between two runs, `a` and `b`, as rows.

    `verdict` is `identical`, `rounding` (equal up to rounding) or `different`; `sentence` gives the verdict in words,
    with the first difference. `settings` and `inputs` have a row `key, a, b` for each that differs. `only` has a row
    `key, a, b, both` for each column with values that only one run has, such as labels, with the values of both runs.
    `differences` has a row for each number that differs in rows and tensors of both, the largest first:
    `rows, where, metric, a, b, difference, relative, verdict`. `rows` is the kind of rows, or `inputs`, or `stages` (of
    attention). `weights` has the distance of weights and outputs by label, batch element and head. `rounding` is the
    largest relative difference that rounding may cause, and `largest` the largest in the results, infinite for values
    that cannot be subtracted and for rows of one run alone; `largest_of` names it.
    """

    study: str
    a: str
    b: str
    verdict: str
    sentence: str
    settings: Sequence[Row] = ()
    inputs: Sequence[Row] = ()
    only: Sequence[Row] = ()
    differences: Sequence[Row] = ()
    weights: Sequence[Row] = ()
    rounding: float = 0.0
    largest: float = 0.0
    largest_of: str = ""
    notes: Sequence[str] = ()

    def __repr__(self) -> str:
        """Return one line with the verdict."""
        return f"<attncli.Comparison {self.sentence}>"


@dataclass(frozen=True, repr=False)
class Explanation:
    """One query of an attention experiment, worked out: each number from the query and the keys to the output.

    `place` has `layer`, `layer_number`, `batch`, `head` and `query`, None for axes that the experiment lacks, and the
    query's `token`. `formula` is the scorer's and, unless it is softmax, the normaliser's. `formulas` has the `score`,
    the `weight` and the `output` in terms of the steps before them, and also `capped` and `dropped`. `of_query` has `q`
    and the steps that do not depend on the key, `of_weights` the normaliser's numbers for the whole query. `keys` has a
    row for each listed key: `key`, `token`, `valid`, `k`, its `steps`, `score`, `capped` (with a softcap), `bias` and
    `biased` (with a bias), `weight_steps`, `weight`, `dropped` (after active dropout), `v` and `part`, the weight times
    v. `rest` sums up the other keys with a weight. `sink` is the model's additional key without a value. `masked` are
    the keys that are not valid. `empty_row` is the rule for the weights if all keys of the query are masked, else None.
    `parameters` has the shapes of the scorer's parameters, `others` the labels of the other scorers.
    """

    name: str
    label: str
    scorer: str
    normalizer: str
    formula: str
    place: Row
    formulas: Row
    of_query: Row
    of_weights: Row
    keys: Sequence[Row]
    rest: Row | None
    sink: Row | None
    masked: Sequence[int]
    empty_row: str | None
    output: Sequence[float]
    parameters: Row = field(default_factory=dict)
    others: Sequence[str] = ()

    def __repr__(self) -> str:
        """Return one line with the place."""
        axes = ("layer", "batch", "head", "query")
        where = ", ".join(f"{axis} {self.place[axis]}" for axis in axes if self.place[axis] is not None)
        return f"<attncli.Explanation {self.name}: {self.label}, {where}>"


def single_numbers(row: Row) -> Row:
    """Return the row with each interval `X_ci` replaced by two numbers, `X_low` and `X_high`."""
    cells: Row = {}
    for key, value in row.items():
        if key.endswith(INTERVAL):
            stem = key.removesuffix(INTERVAL)
            cells[f"{stem}_low"], cells[f"{stem}_high"] = value or (None, None)
        else:
            cells[key] = value
    return cells


def nan_to_null(value: object) -> Any:
    """Return the value with None in place of NaN and infinity, which strict JSON does not have."""
    if isinstance(value, Mapping):
        return {key: nan_to_null(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [nan_to_null(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def in_sentence(label: str, random: Collection[str]) -> str:
    """Return a label as a sentence has it: `additive (random parameters)` if it is one of the labels `random`.

    Results for random parameters are true of these numbers, not of the scorer.
    """
    return f"{label} (random parameters)" if label in random else label


def label_finding(label: str, clauses: Iterable[str], numbers: Row, name: str | None = None) -> Finding:
    """Return the finding about a label: its name, by default the label itself, and clauses between semicolons."""
    return Finding(f"{name or label}: {'; '.join(clauses)}.", label, numbers)


def group(rows: Iterable[Row], keys: Sequence[str]) -> dict[tuple[Any, ...], list[Row]]:
    """Return the rows by their values in the columns `keys`, in the order of the rows; a missing column is None."""
    groups = dict[tuple[Any, ...], list[Row]]()
    for row in rows:
        groups.setdefault(tuple(row.get(key) for key in keys), []).append(row)
    return groups


def by_label(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Return the rows of each label, in the order of the rows."""
    return {label: of_label for (label,), of_label in group(rows, ["label"]).items()}
