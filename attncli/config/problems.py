"""pydantic's validation errors in the project's own words: `path: got X; expected Y; cure`."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from attncli import errors
from attncli.config.nested import LENGTHS
from attncli.config.scorer_entries import explain_scorer
from attncli.config.strict import UNKNOWN_KEY
from attncli.config.tensors import explain_tensor
from attncli.config.yaml_loader import is_number
from attncli.errors import Problem

EXPECTED: dict[str, str] = {
    "int_type": "an integer",
    "int_from_float": "an integer",
    "float_type": "a number",
    "bool_type": "true or false",
    "string_type": "text",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "finite_number": "a finite number",
    "literal_error": "{expected}",
    "greater_than": "{kind} above {gt}",
    "greater_than_equal": "{kind} of at least {ge}",
    "less_than": "{kind} below {lt}",
    "less_than_equal": "{kind} of at most {le}",
    "too_short": "at least {min_length} entries",
    "too_long": "at most {max_length} entries",
    "string_too_short": "text that is not empty",
    "string_too_long": "at most {max_length} characters",
}
EXAMPLES = {  # of lists and mappings, by key
    "data": "{queries: ..., keys: ...}",
    "shape": "[2, 10, 4]",
    "random": "[1, 10]",
    "mask": "{causal: top_left}",
    "scorers": "[{scorer: additive}, {scorer: dot}]",
    "scorer": "[{scorer: additive}, {scorer: dot}]",
    "parameters": "{file: trained.safetensors}",
    "names": "{W.weight: its name in the file}",
    "tokens": "{queries: [a, b], keys: [a, b, c]}",
    "queries": "[a, b, c]",
    "keys": "[a, b, c]",
    "expect": "[{where: {scorer: dot}, metric: entropy, between: [0, 1]}]",
}
PATTERNS = {"device": "expected auto, cpu, cuda, cuda:N or mps"}
NOT_AN_ERROR_OF_ITS_OWN = "default_factory_not_called"  # pydantic's echo of another error in the same model


def problems_of(error: ValidationError, data: Any, scorers: Sequence[str]) -> list[Problem]:
    """The problems of a failed validation of `data`, without locations; branches of one union become one problem."""
    by_path: dict[errors.Path, list[Mapping[str, Any]]] = {}
    for each in error.errors():
        if each["type"] != NOT_AN_ERROR_OF_ITS_OWN:
            by_path.setdefault(_path(each, data), []).append(each)
    return [_problem(path, each, scorers) for path, each in by_path.items()]


def _path(error: Mapping[str, Any], data: Any) -> errors.Path:
    """The error's place in the YAML: pydantic's `loc` without the names of union branches, which the data has not."""
    path: list[str | int] = []
    for index, key in enumerate(error["loc"]):
        there = key in data if isinstance(data, dict) else isinstance(data, list) and key in range(len(data))
        if there:
            path.append(key)
            data = data[key]
        elif error["type"] == "missing" and index == len(error["loc"]) - 1:
            path.append(key)
    return (*path, *error.get("ctx", {}).get("under", ()))


def _problem(path: errors.Path, found: Sequence[Mapping[str, Any]], scorers: Sequence[str]) -> Problem:
    first = found[0]
    kind, value = first["type"], first["input"]
    if kind == "problem":
        message = _own_message(first)
        return Problem(message, path, at_key=message.startswith(UNKNOWN_KEY))
    if kind in EXPLAINED:
        below, message = EXPLAINED[kind](value, scorers)
        return Problem(message, (*path, *below))
    if kind == "missing":
        return Problem("this key is missing", path)
    if kind == "string_pattern_mismatch":
        return Problem(errors.got(value, PATTERNS.get(str(path[-1]), "expected text of another form")), path)
    expected = " or ".join(dict.fromkeys(_expected(each) for each in found))
    if expected in ("a list", "a mapping") and path and path[-1] in EXAMPLES:
        expected += f" such as {EXAMPLES[str(path[-1])]}"
    cures = (_cure(each["type"], value) for each in found)
    return Problem(errors.got(value, f"expected {expected}", next(filter(None, cures), "")), path)


def _own_message(error: Mapping[str, Any]) -> str:
    context = error["ctx"]
    message: str = context["expected"]
    if not message.startswith("got ") and message != UNKNOWN_KEY:
        message = errors.got(error["input"], message)
    return "; ".join(part for part in (message, context["cure"]) if part)


def _expected(error: Mapping[str, Any]) -> str:
    context = error.get("ctx", {})
    if error["type"] not in EXPECTED:
        return str(error["msg"]).removeprefix("Input should be ")
    bounds = {key: f"{bound:g}" for key, bound in context.items() if isinstance(bound, float)}
    kind = "a number" if bounds else "an integer"
    words = EXPECTED[error["type"]].format_map({"kind": kind, **context, **bounds})
    return words.replace("'", "").replace(" 1 entries", " 1 entry")


def _cure(kind: str, value: Any) -> str:
    """What the user may have meant."""
    if kind in ("int_type", "float_type") and isinstance(value, str):
        plain = value.replace("_", "")
        return "" if not is_number(plain) else "leave out the quotes" if plain == value else f"write {plain}"
    if kind in ("int_type", "int_from_float") and isinstance(value, float) and abs(value) < 2**53 and value % 1 == 0:
        return f"write {int(value)}"
    if kind == "bool_type" and isinstance(value, str) and value.lower() in ("yes", "no", "on", "off"):
        return f"write {'true' if value.lower() in ('yes', 'on') else 'false'}"
    if kind == "string_type" and isinstance(value, bool | int | float):
        return "put it in quotes"
    return ""


EXPLAINED: dict[str, Callable[[Any, Sequence[str]], tuple[errors.Path, str]]] = {
    "tensor_kind": lambda value, _: explain_tensor(value),
    "lengths_kind": lambda value, _: ((), errors.got(value, LENGTHS)),
    "scorer_kind": lambda value, scorers: explain_scorer(value, list(scorers)),
}
