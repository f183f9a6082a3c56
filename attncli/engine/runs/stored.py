"""The content of results.json: the same models, which ignore other keys, write and read it."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, Self, get_args

import torch
from pydantic import BaseModel, ConfigDict, Field, Strict, create_model
from torch import Tensor

from attncli.config.models import DType
from attncli.config.strict import validated, worded
from attncli.results import (
    INTERVAL,
    CaptureFacts,
    Column,
    Facts,
    Finding,
    Result,
    Row,
    RowKind,
    Stage,
    SweepResult,
    nan_to_null,
    tensor_name,
)

NAMED = ("study", "name", "about", "findings")  # fields of a result that its file has under the same keys, beside rows
DTYPES = r"^(bool|u?int\d+|b?float\d+)$"  # of torch, without float8: tensors are computed in others


class Fingerprint(BaseModel):
    """Facts about an input; `sha256` is the hash of its values in C order."""

    shape: list[int]
    dtype: Annotated[str, Field(pattern=DTYPES), worded("expected a dtype")]
    sha256: str


def fingerprint(tensor: Tensor) -> Row:
    """Return shape, dtype and the SHA-256 hash of a tensor's values in C order."""
    flat = tensor.contiguous().cpu().flatten()
    numbers = flat.numpy() if flat.dtype.itemsize != 2 else flat.view(torch.int16).numpy()
    digest = hashlib.sha256(numbers.data).hexdigest()
    return {"shape": list(tensor.shape), "dtype": str(tensor.dtype).removeprefix("torch."), "sha256": digest}


class Places(BaseModel):
    """The scale of each label, and the tokens of queries and keys, of a run or of one layer."""

    scales: dict[str, float | None] = {}
    tokens: dict[Literal["queries", "keys"], list[list[str]] | None] = {}


class Swept(BaseModel):
    """The axes of a sweep, and the metric if the user chose one."""

    over: list[dict[str, list[Any]]]
    metric: str | None = None


class Settings(Places, extra="allow"):
    """The key `settings`: facts of the result that are neither rows nor findings, also those of the study.

    `layers` has the scales and tokens of each layer, or its number if it has none of them.
    """

    random: list[str]
    formulas: dict[str, str] = {}
    capture: CaptureFacts | None = None
    save: list[Stage] | None = None
    layers: dict[str, int | Places] = {}
    sweep: Swept | None = None
    points: dict[str, int] = {}
    metric: str | None = None

    @property
    def fields(self) -> Row:
        """The fields of a `Result` or `SweepResult`."""
        calls = {} if self.capture is None else self.capture.calls
        places: dict[str | None, Places] = {None: self}
        places |= {name: layer for name, layer in self.layers.items() if isinstance(layer, Places)}
        numbers = {name: layer if isinstance(layer, int) else calls[name].number for name, layer in self.layers.items()}
        fields: Row = {key: getattr(self, key) for key in ("formulas", "random", "capture", "save")}
        fields |= {"layers": numbers, "scales": {}, "tokens": {}}
        for layer, of_layer in places.items():
            fields["scales"] |= {tensor_name(label, layer=layer): scale for label, scale in of_layer.scales.items()}
            tokens = {tensor_name(side, layer=layer): names for side, names in of_layer.tokens.items()}
            fields["tokens"] |= {side: names for side, names in tokens.items() if names}
        if self.sweep is not None:
            fields |= {"axes": self.sweep.over, "chosen": self.sweep.metric, "points": self.points}
            fields["metric"] = self.metric or ""
        return fields


class StoredResult(BaseModel):
    """The content of results.json: a result without its tensors, and how it was made.

    `sweep` has the state of each point of a sweep. `interrupted` is there only if the user stopped the run, so rows are
    missing; `heads`, `head_comparisons` and `summaries` only if there are any.
    """

    attncli: str | None = None
    study: str
    name: str
    about: str | None = None
    seed: Annotated[int, Strict()] | None = None
    created: str = ""
    command: str = ""
    environment: Row = {}
    settings: Settings
    inputs: dict[str, Fingerprint]
    records: list[Row]
    comparisons: list[Row] = []
    heads: list[Row] = []
    head_comparisons: list[Row] = []
    summaries: dict[str, Row] = {}
    findings: list[Finding]
    expectations: list[Row] = []
    files: list[str] = []
    interrupted: bool = False
    sweep: Row | None = None

    @classmethod
    def of(cls, result: Result, **origin: Any) -> Self:
        """Return the content for a result; `origin` are keys about how it was made, such as `seed` and `created`."""
        rows = {kind: rows for kind, rows in result.rows.items() if result.heads or kind in ("records", "comparisons")}
        content = {key: getattr(result, key) for key in NAMED}
        if "inputs" not in origin:
            content["inputs"] = {name: fingerprint(tensor) for name, tensor in result.inputs.items()}
        content |= {"settings": _settings(result), **({"interrupted": True} if result.interrupted else {})}
        content |= {"summaries": result.summaries} if result.summaries else {}
        return cls.model_validate({**content, **rows, **origin})

    @property
    def content(self) -> Row:
        """The content as data for JSON, with null in place of NaN and infinity, which JSON lacks."""
        content: Row = nan_to_null(self.model_dump(by_alias=True, exclude_unset=True))
        return content

    def result(self, facts: Facts, **tensors: Any) -> Result:
        """Return the result, with the facts of its study and its tensors."""
        kind = Result if self.settings.sweep is None else SweepResult
        fields = {key: getattr(self, key) for key in (*NAMED, *get_args(RowKind), "summaries", "interrupted")}
        return kind(**fields, **self.settings.fields, facts=facts, **tensors)

    def check_rows(self, columns: Mapping[RowKind, Iterable[Column]], needed: Sequence[RowKind]) -> None:
        """Raise an InputError if a value does not fit its column, or a kind of rows in `needed` has none."""
        fields: Row = {}
        for kind, of_kind in columns.items():
            cells: Row = {column.key: (_cell_type(column), None) for column in of_kind}
            if kind in ("records", "heads"):
                cells |= {"scorer": (str, ...), "label": (str, ...)}
            row = create_model("Row", __config__=ConfigDict(strict=True, extra="allow", allow_inf_nan=False), **cells)
            fields[kind] = (Annotated[list[row], Field(min_length=int(kind in needed))], ...)
        validated(create_model("Rows", **fields), {kind: getattr(self, kind) for kind in fields}, {})


def _settings(result: Result) -> Row:
    """Return the settings of a result."""
    if result.layers:
        places: Row = {"layers": {name: _places(result, name) or number for name, number in result.layers.items()}}
    else:
        places = _places(result)
    capture = None if result.capture is None else result.capture.data
    stated = {"formulas": result.formulas or None, "save": result.save, "capture": capture}
    settings = {"random": result.random, **result.facts.data, **places}
    settings |= {key: value for key, value in stated.items() if value is not None}
    if isinstance(result, SweepResult):
        chosen = {"metric": result.chosen} if result.chosen else {}
        settings |= {"sweep": {"over": result.axes, **chosen}, "points": result.points}
        settings["metric"] = result.metric or None
    return settings


def _places(result: Result, layer: str | None = None) -> Row:
    """Return the scales and tokens of a result in a layer; empty for studies without scales."""
    names = {label: tensor_name(label, layer=layer) for label in result.labels}
    scales = {label: result.scales[name] for label, name in names.items() if name in result.scales}
    return {"scales": scales, "tokens": vars(result.tokens_in(layer))} if scales else {}


def _cell_type(column: Column) -> Any:
    if column.key.endswith(INTERVAL):
        return Annotated[list[float], Field(min_length=2, max_length=2)] | None
    return str | bool | None if column.text else float | None


class StoredEntry(BaseModel):
    """The keys of an entry of scorers that are read from a config.yaml."""

    label: str | None = None


class StoredConfig(BaseModel):
    """Keys that are read from a config.yaml, with their types: its experiment may need classes that are not here."""

    seed: Annotated[int, Strict()] = 0
    dtype: DType | None = None
    scorers: list[StoredEntry] = []
    figure: Row = {}
