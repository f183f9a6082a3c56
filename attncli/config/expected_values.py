"""What the keys of an expectation may have as their values: rows, bounds, tolerances."""

import math
import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator
from pydantic.json_schema import WithJsonSchema

from attncli import errors
from attncli.config.nested import ROWS, check_regular
from attncli.config.strict import problem

AMOUNT = r"((?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)"
SHARE, FACTOR = rf"^{AMOUNT} ?%$", rf"^{AMOUNT} ?[x×]$"
VALUE = "expected a number, text, true or false, or nested lists of numbers"
EXAMPLE = "such as {scorer: dot, d: 512}"


def share_of(within: float | str | None) -> float | None:
    """`5 %` as 0.05; None for what is no share."""
    match = re.match(SHARE, within) if isinstance(within, str) else None
    return float(match[1]) / 100 if match else None


def factor_of(by: float | str | None) -> float | None:
    """`2 x` as 2.0; None for what is no factor."""
    match = re.match(FACTOR, by) if isinstance(by, str) else None
    return float(match[1]) if match else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _number(value: Any) -> Any:
    if not _is_number(value):
        raise problem("expected a number")
    return value


def _within(value: Any) -> Any:
    share = share_of(value)
    if share is None and not (_is_number(value) and value >= 0):
        raise problem("expected a number of at least 0, or a share such as 5 %")
    if share is not None and not math.isfinite(share):
        raise problem("expected a finite share, such as 5 %")
    return value


def _by(value: Any) -> Any:
    factor = factor_of(value)
    if factor is None and not (_is_number(value) and value >= 0):
        raise problem("expected a number of at least 0, or a factor such as 2 x")
    if factor is not None and not 1 < factor < math.inf:
        raise problem("expected a factor above 1 and finite, such as 2 x")
    return value


def _row(where: Any) -> Any:
    """Columns and what they must say: one value, or a list of them for several rows."""
    if not isinstance(where, dict):
        raise problem(f"expected a mapping {EXAMPLE}")
    for column, wanted in where.items():
        if wanted == []:
            raise problem("got []; expected at least 1 entry", under=[column])
        if isinstance(wanted, list):
            _check_once(column, wanted)
        for index, value in enumerate(wanted if isinstance(wanted, list) else [wanted]):
            if not (value is None or isinstance(value, str | bool) or _is_number(value)):
                place = [column, index] if isinstance(wanted, list) else [column]
                message = "expected text, a number, true, false or null, or a list of them"
                raise problem(errors.got(value, message), under=place)
    return where


def _check_once(column: str, wanted: list[Any]) -> None:
    for index, value in enumerate(wanted):
        if any(value == other and isinstance(value, bool) == isinstance(other, bool) for other in wanted[:index]):
            raise problem(f"got {errors.show(value)} twice; expected each once", under=[column, index])


def _row_or_number(value: Any) -> Any:
    if isinstance(value, dict) and value:
        return _row(value)
    if not _is_number(value):
        raise problem(f"expected a number, or another row {EXAMPLE}")
    return value


def _bounds(value: Any) -> Any:
    pair = isinstance(value, list) and len(value) == 2 and value != [None, None]
    if not pair or not all(bound is None or _is_number(bound) for bound in value):
        raise problem("expected [low, high], of which one may be null")
    if None not in value and value[0] > value[1]:
        raise problem("expected low up to high")
    return value


def _exact(value: Any) -> Any:
    if isinstance(value, list):
        check_regular(value)
    elif isinstance(value, dict):
        raise problem(f"{VALUE}; or one stage with its numbers, as in {{output: [[2, 3]]}}, and no `metric`")
    elif not isinstance(value, str | bool) and not _is_number(value):
        raise problem(VALUE)
    return value


_VALUE = {"type": ["string", "number", "boolean", "null"]}
_VALUES = {"anyOf": [_VALUE, {"type": "array", "items": _VALUE, "minItems": 1, "uniqueItems": True}]}
_ROW: dict[str, Any] = {"type": "object", "additionalProperties": _VALUES}
_BOUND = {"type": ["number", "null"]}
_FLAT = {"type": "array", "items": {"type": "number"}, "minItems": 1}
_EXACT: list[Any] = [{"type": ["string", "number", "boolean"]}, _FLAT, {"$ref": f"#/$defs/{ROWS}"}]
_NAMED = {"type": "object", "minProperties": 1, "maxProperties": 1, "additionalProperties": {"anyOf": _EXACT}}


def _or_text(pattern: str) -> Mapping[str, Any]:
    return {"anyOf": [{"type": "number", "minimum": 0}, {"type": "string", "pattern": pattern}]}


# All but Row are None where they are left out, and refuse a null that is written down.
Row = Annotated[dict[str, Any], BeforeValidator(_row), WithJsonSchema(_ROW)]
Number = Annotated[float | None, BeforeValidator(_number), WithJsonSchema({"type": "number"})]
Amount = Annotated[float | str | None, BeforeValidator(_within), WithJsonSchema({**_or_text(SHARE)})]
Factor = Annotated[float | str | None, BeforeValidator(_by), WithJsonSchema({**_or_text(FACTOR)})]
Bounds = Annotated[
    list[float | None] | None,
    BeforeValidator(_bounds),
    WithJsonSchema({"type": "array", "items": _BOUND, "minItems": 2, "maxItems": 2, "contains": {"type": "number"}}),
]
Limit = Annotated[
    float | dict[str, Any] | None,
    BeforeValidator(_row_or_number),
    WithJsonSchema({"anyOf": [{"type": "number"}, _ROW | {"minProperties": 1}]}),
]
Exact = Annotated[
    Any,
    BeforeValidator(_exact),
    WithJsonSchema({"anyOf": [*_EXACT, _NAMED]}),
]
