"""The base of all models of YAML, and the wording of pydantic's errors: `path: got X; expected Y; cure`."""

import difflib
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    GetPydanticSchema,
    ModelWrapValidatorHandler,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    WrapValidator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from attncli import errors
from attncli.config.yaml_loader import is_number
from attncli.errors import InputError, Problem

M = TypeVar("M", bound="Model")
KNOWN_KEYS = "known keys"  # in the context of a validation: of every mapping, by its id
_adapter = functools.lru_cache(TypeAdapter)  # a sweep validates thousands of configs; classes of users are made anew


class Model(BaseModel):
    """Strict and closed: no type is converted, numbers are finite, and no key is unknown."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    @model_validator(mode="wrap")
    @classmethod
    def _remember_known_keys(cls, data: Any, handler: ModelWrapValidatorHandler["Model"], info: ValidationInfo) -> Any:
        known = [field.alias or name for name, field in cls.model_fields.items()]
        if info.context and KNOWN_KEYS in info.context:
            info.context[KNOWN_KEYS].here[id(data)] = known
        return handler(data)


@dataclass(frozen=True)
class KnownKeys:
    """The allowed keys of mappings, by the id of the mapping."""

    here: dict[int, list[str]] = field(default_factory=dict)
    _below: dict[int, dict[str, str]] = field(default_factory=dict)

    def cure(self, key: str | int, parent: Mapping[str, Any]) -> str:
        """Suggest a similar key, here or one level below such as `data.keys`; or list all keys known here."""
        here = self.here.get(id(parent), [])
        if id(parent) not in self._below:  # once for all of its unknown keys: there may be thousands
            self._below[id(parent)] = {
                each: f"{name}.{each}" for name, value in parent.items() for each in self.here.get(id(value), [])
            }
        names = self._below[id(parent)] | {each: each for each in here}
        near = difflib.get_close_matches(str(key), names, n=1)
        return f"did you mean `{names[near[0]]}`?" if near else f"known: {errors.listed(here)}"


@dataclass(frozen=True)
class Flag:
    """The display of a key as a flag of its study's command: metadata of the field."""

    metavar: str = ""
    panel: str | None = None
    is_path: bool = False
    is_text: bool = False  # also a list is typed as one text


def problem(message: str, *, under: Sequence[str | int] = ()) -> PydanticCustomError:
    """Return a validation error to raise; its message is prefixed with `got ...` if missing.

    `under` is its path below the validated value.
    """
    return PydanticCustomError("problem", "{message}", {"message": errors.printable(message), "under": [*under]})


def chosen(choose: Callable[[Any], Any]) -> WrapValidator:
    """Validate a union by the type that `choose` returns for the value; it raises a `problem` if there is none."""

    def validate(value: Any, handler: Any, info: ValidationInfo) -> Any:
        if isinstance(value, Model):
            return value
        return _adapter(choose(value)).validate_python(value, strict=True, context=info.context)

    return WrapValidator(validate)


def schema_of(late: Callable[[], Any]) -> GetPydanticSchema:
    """Use the JSON Schema of a type that is created on demand, since its classes load torch."""
    return GetPydanticSchema(get_pydantic_json_schema=lambda _, handler: handler(TypeAdapter(late()).core_schema))


def checked_by(check: Callable[[Any], Any]) -> WrapValidator:
    """Validate with `check`, which returns the value or raises a `problem`; the type is only for the JSON Schema."""
    return WrapValidator(lambda value, handler: check(value))


def worded(expected: str) -> WrapValidator:
    """Use one message for any validation failure."""

    def validate(value: Any, handler: Any) -> Any:
        try:
            return handler(value)
        except ValidationError:
            raise problem(expected) from None

    return WrapValidator(validate)


EXPECTED: dict[str, str] = {  # by pydantic's types of errors
    "int_type": "an integer",
    "int_from_float": "an integer",
    "float_type": "a number",
    "bool_type": "true or false",
    "string_type": "text",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "invalid_key": "keys that are text",
    "finite_number": "a finite number",
    "literal_error": "{expected}",
    "greater_than": "{kind} above {gt}",
    "greater_than_equal": "{kind} of at least {ge}",
    "less_than": "{kind} below {lt}",
    "less_than_equal": "{kind} of at most {le}",
    "too_short": "at least {min_length} entries",
    "too_long": "at most {max_length} entries",
    "string_too_short": "text that is not empty",
    "string_pattern_mismatch": "text that matches {pattern}",
    "invalid-json-value": "numbers, text, lists or mappings, which YAML can hold",
}
EXAMPLES = {  # of lists and mappings, by key
    "data": "{queries: ..., keys: ...}",
    "shape": "[2, 10, 4]",
    "mask": "{causal: top_left}",
    "scorers": "[{scorer: additive}, {scorer: dot}]",
    "parameters": "{file: trained.safetensors}",
    "expect": "[{where: {scorer: dot}, metric: entropy, between: [0, 1]}]",
    "save": "[weights, output]",
    "figure": "{theme: dark, size: 6x4}",
    "where": "{scorer: dot, d: 512}",
}
LEFT_OUT = ("missing", "invalid-json-value")  # errors at keys that the YAML lacks
SECONDARY_ERROR = "default_factory_not_called"  # pydantic's echo of another error in the same model


def validated(model: type[M], data: Any, context: Mapping[str, Any]) -> M:
    """Return the data as a model.

    Raises:
        InputError: all problems by path; the branches of a union are one problem.
    """
    known = KnownKeys()
    try:
        return model.model_validate(data, context={**context, KNOWN_KEYS: known})
    except ValidationError as error:
        by_path: dict[errors.Path, list[tuple[Mapping[str, Any], Any]]] = {}
        for each in error.errors():
            if each["type"] != SECONDARY_ERROR:
                path, parent = _place(each, data)
                by_path.setdefault(path, []).append((each, parent))
        problems = (_problem(path, [each for each, _ in found], found[0][1], known) for path, found in by_path.items())
        raise InputError(problems) from None


def _place(error: Mapping[str, Any], data: Any) -> tuple[errors.Path, Any]:
    """Return the path of an error in the YAML, and the mapping or list around it.

    The path is pydantic's `loc` without the names of union branches.
    """
    path: list[str | int] = []
    parent = None
    for index, key in enumerate(error["loc"]):
        there = key in data if isinstance(data, dict) else isinstance(data, list) and key in range(len(data))
        if there:
            path.append(key)
            parent, data = data, data[key]
        elif error["type"] in LEFT_OUT and index == len(error["loc"]) - 1:
            path.append(key)
    return (*path, *error.get("ctx", {}).get("under", ())), parent


def _problem(path: errors.Path, found: Sequence[Mapping[str, Any]], parent: Any, known: KnownKeys) -> Problem:
    first = found[0]
    kind, value = first["type"], first["input"]
    if kind == "problem":
        message = first["ctx"]["message"]
        return Problem(message if message.startswith(("got ", "the key ")) else errors.got(value, message), path)
    if kind == "extra_forbidden":
        return Problem(f"unknown key; {known.cure(path[-1], parent)}", path, at_key=True)
    if kind == "missing":
        return Problem("this key is missing", path)
    expected = " or ".join(dict.fromkeys(_expected(each) for each in found))
    if expected in ("a list", "a mapping") and path and path[-1] in EXAMPLES:
        expected += f" such as {EXAMPLES[str(path[-1])]}"
    cures = (_cure(each["type"], value) for each in found)
    return Problem(errors.got(value, f"expected {expected}", next(filter(None, cures), "")), path)


def _expected(error: Mapping[str, Any]) -> str:
    context = error.get("ctx", {})
    if error["type"] not in EXPECTED:
        return str(error["msg"]).removeprefix("Input should be ")
    bounds = {key: f"{bound:g}" for key, bound in context.items() if isinstance(bound, float)}
    kind = "a number" if bounds else "an integer"
    words = EXPECTED[error["type"]].format_map({"kind": kind, **context, **bounds})
    return words.replace("'", "").replace(" 1 entries", " 1 entry")


def _cure(kind: str, value: Any) -> str:
    """Return a correction of the value, if there is an obvious one."""
    if kind in ("int_type", "float_type") and isinstance(value, str):
        plain = value.replace("_", "")
        return f"write {plain}" if is_number(plain) else ""
    if kind in ("int_type", "int_from_float") and isinstance(value, float) and abs(value) < 2**53 and value % 1 == 0:
        return f"write {int(value)}"
    if kind == "bool_type" and isinstance(value, str) and value.lower() in ("yes", "no", "on", "off"):
        return f"write {'true' if value.lower() in ('yes', 'on') else 'false'}"
    if kind == "string_type" and not isinstance(value, dict | list):
        return "put it in quotes"
    return ""
