"""The ways to say a tensor, valid lengths, a mask and tokens in YAML."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field, NonNegativeFloat, model_validator
from pydantic.json_schema import WithJsonSchema

from attncli import errors
from attncli.config.models import FileName
from attncli.config.nested import LENGTHS, ROWS, nested_lengths, nested_numbers, nested_words
from attncli.config.strict import Model, chosen, known_words, problem

MOST_AXES = 16  # a bound far above any use and below what torch and NumPy can take
TENSOR = "expected {shape: [...], fill: ...}, {file: ...} or nested lists of numbers"


def _sizes(shape: list[int]) -> list[int]:
    if any(size < 1 for size in shape):
        raise problem("sizes must be at least 1")
    if len(shape) > MOST_AXES:
        raise problem(f"expected at most {MOST_AXES} sizes")
    if len(shape) < 2:
        raise problem("expected at least two sizes: rows, features")
    return shape


Shape = Annotated[list[int], AfterValidator(_sizes), WithJsonSchema(
    {"type": "array", "items": {"type": "integer", "minimum": 1}, "minItems": 2}
)]  # fmt: skip


class NormalFill(Model):
    """Independent normal entries."""

    shape: Shape
    fill: Literal["normal"] = "normal"
    mean: float = 0.0
    std: NonNegativeFloat = 1.0


class UniformFill(Model):
    """Independent entries, uniform between `low` and `high`."""

    shape: Shape
    fill: Literal["uniform"]
    low: float = 0.0
    high: float = 1.0

    @model_validator(mode="after")
    def _ordered(self) -> "UniformFill":
        if self.low >= self.high:
            key = "high" if "high" in self.model_fields_set else "low"
            raise problem(f"got low {self.low:g} and high {self.high:g}; expected low below high", under=[key])
        return self


class PlainFill(Model):
    """`arange` counts 0, 1, 2, ... through the whole tensor; `eye` is an identity in the last two axes."""

    shape: Shape
    fill: Literal["ones", "zeros", "arange", "eye", "rademacher"]


class ConstantFill(Model):
    """One number everywhere."""

    shape: Shape
    fill: Literal["constant"]
    value: float


class StudentTFill(Model):
    """Independent Student t entries, heavy-tailed; their variance is df / (df - 2) for df > 2."""

    shape: Shape
    fill: Literal["student_t"]
    df: Annotated[float, Field(ge=0.1)]


class CorrelatedFill(Model):
    """rho * (entries of the tensor named by `with`) + sqrt(1 - rho^2) * (independent standard normal entries)."""

    shape: Shape | None = None  # of the other tensor
    fill: Literal["correlated"]
    source: Annotated[Literal["queries", "keys", "values"], Field(alias="with")]
    rho: Annotated[float, Field(ge=-1, le=1)]


class FileTensor(Model):
    """A tensor from .npy .npz .safetensors .pt or .csv; the path is relative to the YAML file."""

    file: FileName
    tensor: str | None = None


FILLS: dict[str, type[Model]] = {
    "normal": NormalFill, "uniform": UniformFill, "ones": PlainFill, "zeros": PlainFill, "arange": PlainFill,
    "constant": ConstantFill, "eye": PlainFill, "rademacher": PlainFill, "student_t": StudentTFill,
    "correlated": CorrelatedFill,
}  # fmt: skip


def _range(bounds: list[int]) -> list[int]:
    if len(bounds) != 2 or not 0 <= bounds[0] <= bounds[1]:
        raise problem("expected [low, high] with 0 <= low <= high")
    return bounds


_INTEGERS = {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1}
_STRINGS = {"type": "array", "items": {"type": "string"}}
Range = Annotated[list[int], AfterValidator(_range), WithJsonSchema(_INTEGERS | {"minItems": 2, "maxItems": 2})]
Numbers = Annotated[list[Any], WithJsonSchema({"$ref": f"#/$defs/{ROWS}"})]
Lengths = Annotated[list[Any], WithJsonSchema(
    {"anyOf": [_INTEGERS, {"type": "array", "items": _INTEGERS, "minItems": 1}]}
)]  # fmt: skip
Words = Annotated[list[Any], AfterValidator(nested_words), WithJsonSchema(
    {"anyOf": [_STRINGS, {"type": "array", "items": _STRINGS}]}
)]  # fmt: skip


class RandomLens(Model):
    """One length per example, drawn uniformly from low..high, both included."""

    random: Range


def _kind_of_tensor(value: Any) -> Any:
    if isinstance(value, list):
        return nested_numbers
    if isinstance(value, dict) and "file" in value:
        return FileTensor
    if not isinstance(value, dict) or not {"shape", "fill"} & set(value):
        raise problem(TENSOR)
    fill = value.get("fill", "normal")
    if not isinstance(fill, str) or fill not in FILLS:
        raise problem(errors.got(fill, "unknown fill", known_words(fill, FILLS)), under=["fill"])
    return FILLS[fill]


def _kind_of_lengths(value: Any) -> Any:
    if isinstance(value, dict):
        for key, model in {"file": FileTensor, "random": RandomLens}.items():
            if key in value:
                return model
    if not isinstance(value, list):
        raise problem(LENGTHS)
    return nested_lengths


TensorSource = Annotated[
    NormalFill | UniformFill | PlainFill | ConstantFill | StudentTFill | CorrelatedFill | FileTensor | Numbers,
    chosen(_kind_of_tensor),
]
LengthSource = Annotated[RandomLens | FileTensor | Lengths, chosen(_kind_of_lengths)]


class Data(Model):
    """The tensors. Values that are left out are drawn like the keys; without `valid_lens` every key is valid."""

    queries: TensorSource
    keys: TensorSource
    values: TensorSource | None = None
    valid_lens: Annotated[
        LengthSource | None, Field(description="how many keys are valid, per example or per query")
    ] = None


class Mask(Model):
    """Which keys a query may attend to, besides the valid lengths; and what a query without any key gets."""

    model_config = ConfigDict(json_schema_extra={"dependentRequired": {"tensor": ["file"]}})

    causal: Annotated[
        Literal["top_left", "bottom_right"] | bool, Field(description="plain true only for as many queries as keys")
    ] = False
    file: FileName | None = None
    tensor: str | None = None
    empty_row: Annotated[
        Literal["zero", "uniform", "nan", "error"], Field(description="the weights of a query with no valid key")
    ] = "zero"

    @model_validator(mode="after")
    def _tensor_of_a_file(self) -> "Mask":
        if self.tensor is not None and self.file is None:
            raise problem(f"got {errors.show(self.tensor)} without a file; expected `file` beside it", under=["tensor"])
        return self


class TokenNames(Model):
    """Names for axes and tables: one list for all batch elements, or one list each."""

    queries: Words | None = None
    keys: Words | None = None
