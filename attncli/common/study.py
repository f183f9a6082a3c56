"""The study protocol and its result: frozen records that tables, pictures, files and expectations read."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, get_args

from attncli.common.progress import Progress
from attncli.numbers import number

if TYPE_CHECKING:
    import torch
    from torch import Tensor

Record = dict[str, Any]
TIE = 1e-5  # weights that differ by less, relative to the larger, differ by rounding only
INTERVAL = "_ci"  # the end of the names of columns that are intervals, [low, high] or None
Stage = Literal["scores", "capped", "biased", "weights", "dropped", "output"]  # of attention, in their order
STAGES = get_args(Stage)
Names = Sequence[Sequence[str]]  # tokens, one list per batch element
Kind = Literal["figure", "place", "measured"]  # of a column


@dataclass(frozen=True)
class Column:
    r"""One column of a study's rows, stated once: CSV, JSON, tables and expectations follow from it.

    `key` is its name in records, `heading` that in tables (with `\n` where it may break), `format` writes a value for
    people, and `about` is a sentence of description. `kind`: a `place` identifies a row, and a `measured` value depends
    on a clock and differs from run to run.
    Values smaller than `least` are compared as if they were `least`, since rounding is absolute there. Only `signed`
    values can be below 0, and no value can be above `most`.
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

    @property
    def name(self) -> str:
        """The heading on one line."""
        return self.heading.replace("-\n", "").strip().replace("\n", " ")

    @property
    def name_with_unit(self) -> str:
        """The heading on one line, with the unit in brackets."""
        return f"{self.name} ({self.unit})" if self.unit and f"({self.unit})" not in self.name else self.name


SCORER = Column("scorer", "scorer", "Name of the scoring function.", text=True)
LABEL = Column("label", "label", "Name of the entry in the config.", text=True, kind="place")
LAYER = Column("layer", "layer", "Layer of a captured model, by its name there.", text=True, kind="place")
NORMALIZER = Column("normalizer", "normalizer", "Name of the normaliser.", text=True)


@dataclass(frozen=True)
class Finding:
    """A sentence with its numbers, about one `label`, or about all labels if it is None."""

    text: str
    label: str | None = None
    numbers: Record = field(default_factory=dict)

    @property
    def record(self) -> Record:
        """The row of results.json."""
        return {"label": self.label, "text": self.text, "numbers": self.numbers}


@dataclass(frozen=True)
class Result:
    """The result of a study.

    `settings` has the conditions of the work, with `formulas` by label. `records` and `comparisons` are rows with the
    study's columns; `heads` and `head_comparisons` the same by `batch` and `head`, where a study has them. `inputs` are
    the tensors given to the study, `tensors` the arrays that it made, and `parameters` the parameters read from files,
    as `<label>/<state_dict name>`, or learnt, with more names between the two. `interrupted`: the user ended the work,
    and rows are missing.
    """

    study: str
    name: str
    settings: Record
    records: Sequence[Record]
    comparisons: Sequence[Record] = ()
    findings: Sequence[Finding] = ()
    inputs: "Mapping[str, Tensor]" = field(default_factory=dict)
    tensors: "Mapping[str, Tensor]" = field(default_factory=dict)
    parameters: "Mapping[str, Tensor]" = field(default_factory=dict)
    interrupted: bool = False
    heads: Sequence[Record] = ()
    head_comparisons: Sequence[Record] = ()

    @property
    def labels(self) -> list[str]:
        """The labels of the scorers, in their order."""
        return list(by_label(self.records))


@dataclass(frozen=True)
class Listing:
    """Rows of a result as a page lists them: with their title and their columns."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[Record]


@dataclass(frozen=True, repr=False)
class Comparison:
    """The differences of two runs, `a` and `b`, as rows.

    `verdict` is identical, rounding (equal up to it) or different; `sentence` says so, and where first. `settings`,
    `environment` and `inputs` have rows `key, a, b` where they differ. `differences` has the numbers, largest first:
    `rows, where, metric, a, b, difference, relative, verdict`, and `a_ci, b_ci, overlap` where there are intervals.
    `rows` is the kind of rows, or `inputs`, `stages` (of attention) and `arrays`. A row of one run alone has the metric
    `row`. The verdict of a time is `measured` unless intervals are apart. `weights` has the distance of the weights and
    outputs by label, batch element and head. `counted` has the number of rows of `a` and of tensors. `rounding` is the
    largest relative difference that rounding may cause; `largest` the largest in results, found in `largest_of`. It is
    infinite for values that cannot be subtracted.
    """

    study: str
    a: str
    b: str
    verdict: str
    sentence: str
    settings: Sequence[Record] = ()
    environment: Sequence[Record] = ()
    inputs: Sequence[Record] = ()
    differences: Sequence[Record] = ()
    weights: Sequence[Record] = ()
    counted: Record = field(default_factory=dict)
    rounding: float = 0.0
    largest: float = 0.0
    largest_of: str = ""
    notes: Sequence[str] = ()

    def __repr__(self) -> str:
        """One line."""
        return f"<attncli.Comparison {self.sentence}>"


def single_numbers(row: Record) -> Record:
    """The row as tables of single numbers have it: `X_low` and `X_high` for an interval `X_ci`."""
    cells: Record = {}
    for key, value in row.items():
        if key.endswith(INTERVAL):
            stem = key.removesuffix(INTERVAL)
            cells[f"{stem}_low"], cells[f"{stem}_high"] = value or (None, None)
        else:
            cells[key] = value
    return cells


def nan_to_null(value: Any) -> Any:
    """The value as strict JSON has it: null for NaN and infinity."""
    if isinstance(value, Mapping):
        return {key: nan_to_null(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [nan_to_null(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def by_label(records: Sequence[Record]) -> dict[str, list[Record]]:
    """The records of each label, in their order."""
    found: dict[str, list[Record]] = {}
    for record in records:
        found.setdefault(record["label"], []).append(record)
    return found


@dataclass(frozen=True)
class Tokens:
    """Names of queries and keys, one list per batch element; None where there are none."""

    queries: Names | None = None
    keys: Names | None = None


@dataclass(frozen=True)
class Matrices:
    """One stage of several scorers as (b, n, m) or (b, heads, n, m) matrices by label: the content of heatmaps."""

    stage: str
    tensors: "Mapping[str, Tensor]"
    valid: "Tensor | None" = None  # boolean, broadcastable to every tensor; True = may attend
    tokens: Tokens = field(default_factory=Tokens)
    with_dropout: Sequence[str] = ()  # labels with dropout on their weights
    layer: str = ""  # of a model, as a title says it


def tensor_name(*parts: str, layer: str | None = None) -> str:
    """Return the name of a tensor in results and files, such as `<label>/weights`; a layer's begin with the layer."""
    return "/".join(parts if layer is None else (layer, *parts))


def layers_of(result: Result) -> list[str | None]:
    """Return the layers of a captured model that a run is over; [None] if it is a run without layers."""
    return list(result.settings.get("layers", [None]))


def stage_of(result: Result, stage: str, layer: str | None = None) -> "dict[str, Tensor]":
    """Return one stage of attention of every label that has it; of one layer, if the run is over layers."""
    names = {label: tensor_name(label, stage, layer=layer) for label in result.labels}
    return {label: result.tensors[name] for label, name in names.items() if name in result.tensors}


def is_kept(result: Result, stage: str) -> bool:
    """Whether the run folder has a stage of attention: all of them, unless the key `save` names some."""
    return stage in result.settings.get("save", STAGES)


def tokens_of(result: Result, layer: str | None = None) -> Tokens:
    """Return the names of queries and keys; of one layer, if the run is over layers."""
    settings = result.settings if layer is None else result.settings["layers"][layer]
    return Tokens(**settings.get("tokens", {}))


def matrices_of(result: Result, stage: str, layer: str | None = None) -> Matrices:
    """Return one stage of all scorers that have it; of one layer, if the run is over layers."""
    with_dropout = [each for each in result.labels if tensor_name(each, "dropped", layer=layer) in result.tensors]
    valid = result.inputs.get(tensor_name("valid", layer=layer))
    return Matrices(stage, stage_of(result, stage, layer), valid, tokens_of(result, layer), with_dropout)


@dataclass(frozen=True)
class Rows:
    """The rows that a result will have, as far as they are known before the work, to check expectations.

    `heads` and `head_comparisons` are the rows by batch element and head, with separate columns. `shapes` has the
    shapes of every label's stages, `left_out` the columns and stages that an option leaves out, each with that option,
    and `no_comparisons` the reason for their absence.
    """

    columns: Sequence[Column]
    records: Sequence[Record]
    comparison_columns: Sequence[Column] = ()
    comparisons: Sequence[Record] = ()
    no_comparisons: str = "there are none"
    shapes: Mapping[str, Mapping[str, Sequence[int]]] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    head_columns: Sequence[Column] = ()
    heads: Sequence[Record] = ()
    head_comparison_columns: Sequence[Column] = ()
    head_comparisons: Sequence[Record] = ()


class PreparedStudy(Protocol):
    """The input of a study's `run`."""

    @property
    def device(self) -> "torch.device":
        """Where it computes."""


Options = TypeVar("Options", contravariant=True)
Prepared = TypeVar("Prepared", bound=PreparedStudy)


class Study(Protocol[Options, Prepared]):
    """The module `study` in the folder of a study, which computes; it prints nothing and writes no files.

    It may have `between(a, b)`, rows with the distance of the tensors of two results, for `attncli compare`. Beside it
    `columns` has `COLUMNS` and, where there are such, `COMPARISONS`, `HEADS`, `HEAD_COMPARISONS`; and
    `METRIC`, the column that a sweep draws.
    """

    def prepare(self, options: Options, progress: Progress) -> Prepared:
        """Check the options completely, and return the input of `run`.

        Raises:
            InputError: options that make no sense together, or that do not fit into memory.
        """

    def expected_rows(self, prepared: Prepared) -> Rows:
        """The rows that the result will have, for expectations to be checked before the work."""

    def run(self, prepared: Prepared, progress: Progress) -> Result:
        """Do the work.

        Raises:
            InputError: a scorer of the user's own that fails.
            KeyboardInterrupt: the user ended the work before there was anything to keep.
        """
