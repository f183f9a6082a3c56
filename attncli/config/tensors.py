"""Pydantic models of tensors, valid lengths, masks and tokens in YAML."""

from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, model_validator
from pydantic.json_schema import SkipJsonSchema

from attncli import errors
from attncli.config.files import CAPTURED, TENSORS, StoredAs
from attncli.config.strict import Model, checked_by, chosen, problem, worded
from attncli.config.values import FileName, Indices, Layer, Layers, Numbers, Row, Rows, check_regular, ordered

TENSOR = "expected {shape: [...], fill: ...}, {file: ...} or nested lists of numbers"
LENGTHS = "expected integers such as [2, 6], one list of them per example, {random: [1, 10]} or {file: ...}"
RANGE = "expected [low, high] with 0 <= low <= high"
MOST_AXES = 16  # more than needed, and less than the limits of torch and NumPy


def _sizes(shape: list[int]) -> list[int]:
    if min(shape, default=1) < 1:
        raise problem("sizes must be at least 1")
    if not shape:
        raise problem("expected at least one size")
    if len(shape) > MOST_AXES:
        raise problem(f"expected at most {MOST_AXES} sizes")
    return shape


_SHAPE = {"type": "array", "items": {"type": "integer", "minimum": 1}, "minItems": 1, "maxItems": MOST_AXES}
Shape = Annotated[
    list[int],
    AfterValidator(_sizes),
    WithJsonSchema(_SHAPE),
    Field(description="sizes of the axes: ..., rows, features"),
]
FILL = Field(description="distribution or pattern of the entries")


class NormalFill(Model):
    """Independent normal entries."""

    shape: Shape
    fill: Annotated[Literal["normal"], FILL] = "normal"
    mean: Annotated[float, Field(description="mean of the entries")] = 0.0
    std: Annotated[float, Field(ge=0, description="standard deviation of the entries")] = 1.0


class UniformFill(Model):
    """Independent entries, uniform between `low` and `high`."""

    shape: Shape
    fill: Annotated[Literal["uniform"], FILL]
    low: Annotated[float, Field(description="smallest possible entry")] = 0.0
    high: Annotated[float, Field(description="bound above all entries")] = 1.0

    @model_validator(mode="after")
    def _ordered(self) -> "UniformFill":
        if self.low >= self.high:
            key = "high" if "high" in self.model_fields_set else "low"
            raise problem(f"got low {self.low:g} and high {self.high:g}; expected low below high", under=[key])
        return self


class PlainFill(Model):
    """`arange` is 0, 1, 2, ... through the tensor, `eye` an identity in the last two axes, `rademacher` random ±1."""

    shape: Shape
    fill: Annotated[Literal["ones", "zeros", "arange", "eye", "rademacher"], FILL]

    @model_validator(mode="after")
    def _identity_has_two_axes(self) -> "PlainFill":
        if self.fill == "eye" and len(self.shape) < 2:
            raise problem(f"got {self.shape}; expected at least two sizes for an identity", under=["shape"])
        return self


class ConstantFill(Model):
    """The same number in every entry."""

    shape: Shape
    fill: Annotated[Literal["constant"], FILL]
    value: Annotated[float, Field(description="the value of every entry")]


class StudentTFill(Model):
    """Independent Student t entries, heavy-tailed; their variance is df / (df - 2) for df > 2."""

    shape: Shape
    fill: Annotated[Literal["student_t"], FILL]
    df: Annotated[float, Field(ge=0.1, description="degrees of freedom")]


class CorrelatedFill(Model):
    """rho * (entries of the tensor named by `with`) + sqrt(1 - rho^2) * (independent standard normal entries)."""

    shape: Annotated[Shape | None, Field(description="sizes of the axes; default: as the other tensor")] = None
    fill: Annotated[Literal["correlated"], FILL]
    source: Annotated[Literal["queries", "keys", "values"], Field(alias="with", description="the other tensor")]
    rho: Annotated[float, Field(ge=-1, le=1, description="correlation with the entries of the other tensor")]


class FileTensor(Model):
    """A tensor from .npy .npz .safetensors .pt or .csv; the path is relative to the YAML file."""

    file: Annotated[FileName, Field(description="path of the file"), StoredAs(TENSORS)]
    tensor: Annotated[str | None, Field(description="name of the tensor in a file of several")] = None


class GivenTensor(FileTensor):
    """A tensor given in Python instead of YAML; the saved config of a run names a file of the run folder in its place.

    `numbers` has the tensor's values: a float64 copy (..., rows, features) on the CPU.
    """

    file: Annotated[Literal["in memory"], StoredAs(TENSORS)] = "in memory"
    numbers: Annotated[Any, Field(exclude=True)]

    def __str__(self) -> str:
        """Return the values as text: nested lists of numbers."""
        return str(self.numbers.tolist())


Fill = NormalFill | UniformFill | PlainFill | ConstantFill | StudentTFill | CorrelatedFill
FILLS = {name: model for model in get_args(Fill) for name in get_args(model.model_fields["fill"].annotation)}


Length = Annotated[int, Field(ge=0), worded("expected an integer of at least 0")]
Lengths = Annotated[list[Length], Field(min_length=1)]  # one for each batch element
QueryLengths = Annotated[list[Lengths], Field(min_length=1), AfterValidator(check_regular)]
Range = Annotated[list[Length], Field(min_length=2, max_length=2), AfterValidator(ordered), worded(RANGE)]
Words = Annotated[
    list[str] | list[list[str]], chosen(lambda words: list[list[str]] if _has_lists(words) else list[str])
]


class RandomLens(Model):
    """One random length for each batch element, uniform in [low, high], both included."""

    random: Annotated[Range, Field(description="smallest and largest length")]


def _kind_of_tensor(value: object) -> Any:
    if isinstance(value, list):
        return Numbers
    if isinstance(value, dict) and "file" in value:
        return FileTensor
    if not isinstance(value, dict) or not {"shape", "fill"} & set(value):
        raise problem(TENSOR)
    fill = value.get("fill", "normal")
    if not isinstance(fill, str) or fill not in FILLS:
        raise problem(errors.got(fill, "unknown fill", errors.did_you_mean(fill, FILLS)), under=["fill"])
    return FILLS[fill]


def _kind_of_bias(value: object) -> Any:
    kind = _kind_of_tensor(value)
    return BiasNumbers if kind is Numbers else kind


def _rows_and_features(source: Any) -> Any:
    if len(getattr(source, "shape", None) or (1, 1)) < 2:
        raise problem(f"got {source.shape}; expected at least two sizes: rows, features", under=["shape"])
    return source


def _kind_of_lengths(value: object) -> Any:
    if isinstance(value, dict) and {"file", "random"} & set(value):
        return FileTensor if "file" in value else RandomLens
    if not isinstance(value, list) or not value:
        raise problem(LENGTHS)
    return QueryLengths if _has_lists(value) else Lengths


def _has_lists(value: object) -> bool:
    return isinstance(value, list) and any(isinstance(item, list) for item in value)


BiasNumbers = Annotated[Row | Rows, checked_by(check_regular)]
TensorSource = Annotated[
    Fill | FileTensor | Numbers,
    chosen(_kind_of_tensor),
    AfterValidator(_rows_and_features),
    Field(json_schema_extra={"properties": {"shape": {"minItems": 2}}}),
]
BiasSource = Annotated[Fill | FileTensor | BiasNumbers, chosen(_kind_of_bias)]
LengthSource = Annotated[RandomLens | FileTensor | Lengths | QueryLengths, chosen(_kind_of_lengths)]


Layout = Literal["bhsd", "bshd"]
LAYOUT = Field(
    exclude_if=lambda layout: layout == "bhsd",
    description="axes of queries, keys and values with four axes: bhsd is (batch, heads, tokens, features), bshd is "
    "(batch, tokens, heads, features)",
)


class Data(Model):
    """The tensors of an experiment."""

    queries: Annotated[TensorSource, Field(description="queries (..., n, q)")]
    keys: Annotated[TensorSource, Field(description="keys (..., m, k)")]
    values: Annotated[TensorSource | None, Field(description="values (..., m, v); default: drawn like the keys")] = None
    valid_lens: Annotated[
        LengthSource | None, Field(description="number of valid keys, per example or per query; default: all")
    ] = None
    bias: Annotated[
        BiasSource | None,
        Field(description="added to the scores (..., n, m), to which it broadcasts; -inf masks"),
    ] = None
    grouped: Annotated[
        bool, Field(description="whether keys and values have fewer heads than queries, each shared by a group (GQA)")
    ] = False
    layout: Annotated[Layout, LAYOUT] = "bhsd"


BESIDE = "which has all tensors; expected one of the two"


class CapturedData(Model):
    """Attention calls of a real model, recorded by `attncli capture` in a file: of one layer, some layers, or all."""

    capture: Annotated[FileName, Field(description="path of the captured file"), StoredAs(CAPTURED)]
    layer: Annotated[Layer | None, Field(description="one layer: its name, or its number in the file, from 0")] = None
    layers: Annotated[Layers | None, Field(description="layers, compared head by head; default: all in the file")] = (
        None
    )
    heads: Annotated[
        Indices | None, Field(description="heads of the run, by their numbers in the model; default: all in the file")
    ] = None

    @model_validator(mode="after")
    def _one_or_several(self) -> "CapturedData":
        if self.layer is not None and self.layers is not None:
            raise problem("got layer together with layers; expected one of the two", under=["layer"])
        return self


def _kind_of_data(value: object) -> Any:
    if not isinstance(value, dict) or "capture" not in value:
        return Data
    beside = next((key for key in Data.model_fields if key in value), None)
    if beside is not None:
        raise problem(f"got {beside} together with `capture`, {BESIDE}", under=[beside])
    return CapturedData


DataSource = Annotated[Data | CapturedData, chosen(_kind_of_data)]


class GivenMask(Model):
    """A mask given in Python instead of a file. `numbers` has the mask's values: a copy on the CPU."""

    numbers: Annotated[Any, Field(exclude=True, description="the boolean tensor (..., n, m)")]

    def __repr__(self) -> str:
        """Return the shape as text, for messages."""
        return f"a tensor of shape {[*self.numbers.shape]}"

    __str__ = __repr__


Documents = Annotated[list[Annotated[int, Field(ge=1)]], Field(min_length=1)]


class Mask(Model):
    """The mask, which is and-ed with the mask of valid lengths, and the weights of queries without a valid key."""

    causal: Annotated[
        Literal["top_left", "bottom_right"] | bool,
        Field(description="causal mask, aligned `top_left` or `bottom_right`; `true` only if n = m"),
    ] = False
    align: Annotated[
        Literal["top_left", "bottom_right"] | None,
        Field(description="without `causal`: whether the first queries and keys agree, or the last; for positions"),
    ] = None
    file: Annotated[
        FileName | SkipJsonSchema[GivenMask] | None,
        chosen(lambda value: FileName | None),
        Field(description="file of a boolean tensor (..., n, m); true: the query may attend to the key"),
        StoredAs(TENSORS),
    ] = None
    tensor: Annotated[str | None, Field(description="name of the tensor in a file of several")] = None
    invert: Annotated[
        bool,
        Field(
            exclude_if=lambda invert: not invert,
            description="whether true in the file means: the query may not attend to the key",
        ),
    ] = False
    documents: Annotated[
        Documents | Annotated[list[Documents], Field(min_length=1)] | None,
        chosen(lambda value: list[Documents] if _has_lists(value) else Documents | None),
        Field(
            description="lengths of texts packed one after another, one list or one for each batch element: a query "
            "attends to keys of its own text only",
        ),
    ] = None
    empty_row: Annotated[
        Literal["zero", "uniform", "nan", "error"], Field(description="the weights of a query with no valid key")
    ] = "zero"

    @model_validator(mode="after")
    def _beside_each_other(self) -> "Mask":
        if self.align is not None and self.causal:
            raise problem(f"got {self.align} together with `causal`; expected one of the two", under=["align"])
        for key, value in (("tensor", self.tensor), ("invert", self.invert)):
            if value not in (None, False) and self.file is None:
                raise problem(f"got {errors.show(value)} without a file; expected `file` beside it", under=[key])
        return self


class TokenNames(Model):
    """Names of queries and keys in pictures and tables: one list for all batch elements, or a list for each."""

    queries: Annotated[Words | None, Field(description="names of the queries")] = None
    keys: Annotated[Words | None, Field(description="names of the keys")] = None


def _of_both_sides(value: object) -> Any:
    """Return the names of queries and keys as a mapping; a list alone names the queries and also the keys."""
    if not isinstance(value, list | dict | TokenNames):
        raise problem("expected a list of names, or {queries: [...], keys: [...]}")
    return {"queries": value, "keys": value} if isinstance(value, list) else value


Tokens = Annotated[TokenNames, BeforeValidator(_of_both_sides, json_schema_input_type=Words | TokenNames)]
