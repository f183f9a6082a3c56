"""The base of all models of YAML, and how they say what is wrong."""

from collections.abc import Iterable
from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, ModelWrapValidatorHandler, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError
from pydantic_core.core_schema import ErrorType

from attncli import errors

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
