"""What every experiment may say: the base of all models, and the keys that all studies share."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    StringConstraints,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError
from pydantic_core.core_schema import ErrorType

from attncli import errors

DType = Literal["float16", "bfloat16", "float32", "float64"]
UNKNOWN_KEY = "unknown key"
PYDANTIC_ERRORS = get_args(ErrorType)


class Model(BaseModel):
    """Strict and closed: no type is converted, numbers are finite, and an unknown key is told which keys are known."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    @model_validator(mode="wrap")
    @classmethod
    def _name_known_keys(cls, data: Any, handler: ModelWrapValidatorHandler["Model"]) -> "Model":
        try:
            return handler(data)
        except ValidationError as error:
            known = [field.alias or name for name, field in cls.model_fields.items()]
            details = [_detail(each, known) for each in error.errors()]
            raise ValidationError.from_exception_data(cls.__name__, details) from None


def _detail(error: Any, known: list[str]) -> InitErrorDetails:
    kind: Any = error["type"]
    if kind == "extra_forbidden" and len(error["loc"]) == 1:
        kind = problem(UNKNOWN_KEY, cure=errors.did_you_mean(error["loc"][0], known))
    elif kind not in PYDANTIC_ERRORS:
        kind = PydanticCustomError(kind, "{expected}", error.get("ctx") or {"expected": error["msg"]})
    return InitErrorDetails(type=kind, loc=error["loc"], input=error["input"], ctx=error.get("ctx", {}))


def problem(expected: str, *, cure: str = "", under: list[str | int] | None = None) -> PydanticCustomError:
    """A validation error that says what is expected, the cure, and where below the field it is (`under`)."""
    return PydanticCustomError("problem", "{expected}", {"expected": expected, "cure": cure, "under": under or []})


def known_words(value: Any, known: Iterable[str]) -> str:
    """The cure for a name that is unknown, or no text at all."""
    return errors.did_you_mean(value if isinstance(value, str) else "", known)


def _relative_to_file(file: str, info: ValidationInfo) -> str:
    folder = (info.context or {}).get("folder")
    return str(Path(folder) / file) if folder else file


FileName = Annotated[str, StringConstraints(min_length=1), AfterValidator(_relative_to_file)]


def _plain_name(name: str) -> str:
    if not re.match(PLAIN, name) or not name.isprintable():
        raise problem('expected a name without / \\ : * ? " < > | that does not begin with a dot or a space')
    if len(name.encode()) > LONGEST_NAME:
        raise problem(f"expected at most {LONGEST_NAME} bytes in UTF-8, since it becomes a file's name")
    return name


PLAIN = r"""^[^\s./\\:*?"<>|][^/\\:*?"<>|]*$"""
LONGEST_NAME = 200
NAME_SCHEMA: dict[str, Any] = {"pattern": PLAIN, "maxLength": LONGEST_NAME}
Name = Annotated[str, AfterValidator(_plain_name), Field(json_schema_extra=NAME_SCHEMA)]


class Experiment(Model):
    """The keys that experiments of every study have, beside `study` itself."""

    name: Annotated[Name, Field(description="the run goes to outputs/<name>/; default: the file's name")]
    seed: Annotated[int, Field(ge=0, lt=2**63, description="decides everything that is drawn")] = 0
    device: Annotated[
        str, Field(pattern=r"^(auto|cpu|cuda(:\d+)?|mps)$", description="auto, cpu, cuda, cuda:N or mps")
    ] = "auto"
    dtype: Annotated[DType, Field(description="in which queries, keys and values are kept")] = "float32"

    @classmethod
    def normalised(cls, data: Mapping[str, Any]) -> dict[str, Any]:
        """The YAML with its short forms written out."""
        return dict(data)

    def unused(self) -> set[str]:
        """Keys that another key makes meaningless, and that a resolved config leaves out."""
        return set()

    @classmethod
    def across(cls, data: Mapping[str, Any]) -> list[errors.Problem]:
        """Problems that lie between several entries of the YAML, found whatever else is wrong with it."""
        return []
