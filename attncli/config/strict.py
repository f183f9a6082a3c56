"""The base class of all pydantic models of YAML, and pydantic's errors reworded as `path: got X; expected Y; cure`."""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
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

M = TypeVar("M", bound=BaseModel)
KNOWN_KEYS = "known keys"  # key of the KnownKeys in the context of a validation
OPTIONS = "options"  # key, in that context, of a function that returns the paths of the scorers' options by name
TEMPERATURE = "temperature"  # a key that does not exist, since scores are multiplied by a scale
_adapter = functools.lru_cache(TypeAdapter)  # as sweeps validate thousands of configs


class Model(BaseModel):
    """Base class of the models: types are not converted, numbers must be finite, and unknown keys are errors."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, allow_inf_nan=False, ser_json_inf_nan="constants"
    )

    @model_validator(mode="wrap")
    @classmethod
    def _remember_known_keys(
        cls, data: object, handler: ModelWrapValidatorHandler["Model"], info: ValidationInfo
    ) -> Any:
        if info.context and KNOWN_KEYS in info.context:
            info.context[KNOWN_KEYS].models[id(data)] = cls
        return handler(data)

    @classmethod
    def cure_of_key(cls, key: str) -> str:
        """Return advice on a key that the model does not have, such as another key; empty for a spelling mistake."""
        return ""


def keys_in_yaml(model: type[BaseModel]) -> list[str]:
    """Return the keys of a model, as YAML has them."""
    return [field.alias or name for name, field in model.model_fields.items()]


@dataclass(frozen=True)
class KnownKeys:
    """The models of all mappings in the validated data, by the `id` of the mapping.

    `options` returns the paths of the scorers' options by name, and `names` has the keys to suggest in each mapping.
    """

    options: Callable[[], Mapping[str, str]] = dict
    models: dict[int, type[Model]] = field(default_factory=dict)
    names: dict[int, dict[str, str]] = field(default_factory=dict)

    def cure(self, key: str, parent: Mapping[str, Any]) -> str:
        """Return a hint about the unknown key `key`: the most similar allowed key of `parent`, or one level below.

        If no key is similar, the hint lists the allowed keys of `parent`; at the top also the options of the scorers.
        The model of `parent` may know better.
        """
        model = self.models.get(id(parent), Model)
        hints = ["scale is 1 / temperature" if key == TEMPERATURE else "", model.cure_of_key(key)]
        if any(hints):
            return "; ".join(filter(None, hints))
        here, options = keys_in_yaml(model), self.options() if "scorers" in parent else {}
        if id(parent) not in self.names:
            models = ((name, self.models.get(id(value), Model)) for name, value in parent.items())
            below = {each: f"{name}.{each}" for name, model in models for each in keys_in_yaml(model)}
            self.names[id(parent)] = {**options, **below, **{each: each for each in here}}
        names = self.names[id(parent)]
        near = errors.nearest(key, names)
        hint = f"did you mean `{names[near]}`?" if near else f"known: {errors.listed(here)};"
        return f"{hint} options of the scorers: {errors.listed([*options])}" if options else hint.removesuffix(";")


@dataclass(frozen=True)
class Flag:
    """How a key appears as a command-line flag; put into the metadata of a pydantic field."""

    metavar: str = ""
    panel: str | None = None  # the heading above the flag in the help
    is_path: bool = False
    is_text: bool = False  # the value of the flag is text even if the field is a list
    option: str = ""  # the flag, where it is not the key
    replaced: Mapping[str, str] = field(default_factory=dict)  # earlier flags, with the flags to use instead


def problem(message: str, *, under: Sequence[str | int] = ()) -> PydanticCustomError:
    """Return an error for a pydantic validator to raise; `under` is the path of the wrong part inside the value.

    `got VALUE` is later put before the message, unless it begins with `got` or `the key`.
    """
    return PydanticCustomError("problem", "{message}", {"message": errors.printable(message), "under": [*under]})


@contextmanager
def as_problem(*under: str) -> Iterator[None]:
    """Turn an InputError in the `with` block into a `problem`; `under` is its path inside the validated value."""
    try:
        yield
    except InputError as error:
        raise problem(error.problems[0].message, under=[*under, *error.problems[0].path]) from error


def chosen(choose: Callable[[Any], Any]) -> WrapValidator:
    """Return a validator that validates a value as the type `choose(value)`, unless it is a Model already.

    `choose` raises a `problem` if no type fits.
    """

    def validate(value: object, handler: Any, info: ValidationInfo) -> Any:
        """Return the value as an instance of its type."""
        if isinstance(value, Model):
            return value
        return _adapter(choose(value)).validate_python(value, strict=True, context=info.context)

    return WrapValidator(validate)


def late_schema(late: Callable[[], Any]) -> GetPydanticSchema:
    """Return metadata that gives a field the JSON Schema of `late()`, a type made on demand since it needs torch."""
    return GetPydanticSchema(get_pydantic_json_schema=lambda _, handler: handler(TypeAdapter(late()).core_schema))


def checked_by(check: Callable[[Any], Any]) -> WrapValidator:
    """Return a validator that calls only `check`, which returns the value or raises a `problem`.

    The annotated type is used for the JSON Schema alone.
    """
    return WrapValidator(lambda value, handler: check(value))


def worded(expected: str) -> WrapValidator:
    """Return a validator that replaces any validation error by a `problem` with the message `expected`."""

    def validate(value: Any, handler: Any) -> Any:
        """Return the value as pydantic converts it, or raise the `problem`."""
        try:
            return handler(value)
        except ValidationError:
            raise problem(expected) from None

    return WrapValidator(validate)


EXPECTED: dict[str, str] = {  # expected values, by pydantic's type of error
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
EXAMPLES = {  # of the lists and mappings expected under these keys
    "data": "{queries: ..., keys: ...}",
    "shape": "[2, 10, 4]",
    "mask": "{causal: top_left}",
    "documents": "[3, 2]",
    "scorers": "[{scorer: additive}, {scorer: dot}]",
    "parameters": "{file: trained.safetensors}",
    "expect": "[{where: {scorer: dot}, metric: entropy, between: [0, 1]}]",
    "save": "[weights, output]",
    "figure": "{theme: dark, size: 6x4}",
    "where": "{scorer: dot, d: 512}",
}
LEFT_OUT = ("missing", "invalid-json-value")  # types of errors about keys that are missing in the YAML
SECONDARY_ERROR = "default_factory_not_called"  # pydantic's echo of another error in the same model


def validated(model: type[M], data: Any, context: Mapping[str, Any]) -> M:
    """Return the data as an instance of `model`; validators get `context`, for example the `folder` of the config.

    Raises:
        InputError: all problems, one for each path; errors in several branches of a union are one problem.
    """
    known_keys = KnownKeys(context.get(OPTIONS, dict))
    try:
        return model.model_validate(data, context={**context, KNOWN_KEYS: known_keys})
    except ValidationError as error:
        by_path: dict[errors.Path, tuple[Any, list[Mapping[str, Any]]]] = {}
        for detail in error.errors():
            if detail["type"] != SECONDARY_ERROR:
                path, parent = _place(detail, data)
                by_path.setdefault(path, (parent, []))[1].append(detail)
        problems = by_path.items()
        raise InputError(_problem(path, details, parent, known_keys) for path, (parent, details) in problems) from None


def _place(error: Mapping[str, Any], data: Any) -> tuple[errors.Path, Any]:
    """Return the path of a pydantic error in the YAML, and the mapping or list that contains the wrong value.

    The path is pydantic's `loc` without the names of union branches.
    """
    path: list[str | int] = []
    parent = None
    for index, key in enumerate(error["loc"]):
        exists = key in data if isinstance(data, dict) else isinstance(data, list) and key in range(len(data))
        if exists:
            path.append(key)
            parent, data = data, data[key]
        elif error["type"] in LEFT_OUT and index == len(error["loc"]) - 1:
            path.append(key)
    return (*path, *error.get("ctx", {}).get("under", ())), parent


def _problem(path: errors.Path, details: Sequence[Mapping[str, Any]], parent: Any, known_keys: KnownKeys) -> Problem:
    first = details[0]
    kind, value = first["type"], first["input"]
    if kind == "problem":
        message = first["ctx"]["message"]
        return Problem(message if message.startswith(("got ", "the key ")) else errors.got(value, message), path)
    if kind == "extra_forbidden":
        return Problem(
            "; ".join(filter(None, ["unknown key", known_keys.cure(str(path[-1]), parent)])), path, at_key=True
        )
    if kind == "missing":
        return Problem("this key is missing", path)
    *others, last = " or ".join(dict.fromkeys(_expected(detail) for detail in details)).split(" or ")
    expected = f"{', '.join(others)} or {last}" if others else last
    if expected in ("a list", "a mapping") and path and path[-1] in EXAMPLES:
        expected += f" such as {EXAMPLES[str(path[-1])]}"
    cures = (_cure(detail["type"], value) for detail in details)
    return Problem(errors.got(value, f"expected {expected}", next(filter(None, cures), "")), path)


def _expected(error: Mapping[str, Any]) -> str:
    context = error.get("ctx", {})
    if error["type"] not in EXPECTED:
        return str(error["msg"]).removeprefix("Input should be ")
    bounds = {key: f"{bound:g}" for key, bound in context.items() if isinstance(bound, float)}
    kind = "a number" if bounds else "an integer"
    words = EXPECTED[error["type"]].format_map({"kind": kind, **context, **bounds})
    return words.replace("'", "").replace(" 1 entries", " 1 entry")


def _cure(kind: str, value: object) -> str:
    """Return a suggested correction of a value for an error of pydantic's type `kind`, or empty text."""
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
