"""`expect:` in YAML: which rows of the result, which of their figures, and what it must be."""

import math
import re
from typing import Annotated, Any

from pydantic import AfterValidator, ConfigDict, Field, NonNegativeFloat, model_validator

from attncli import errors
from attncli.config.rows import Row, Rows, check_regular
from attncli.config.strict import Given, Model, checked_by, problem

KINDS = ("between", "about", "above", "below", "equal")
HELPERS = {"within": ("about", "equal"), "by": ("above", "below")}  # the kinds that each further key belongs to

AMOUNT = r"((?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)"
SHARE, FACTOR = rf"^{AMOUNT} ?%$", rf"^{AMOUNT} ?[x×]$"
BOUNDS = "expected [low, high], of which one may be null"
VALUE = "expected a number, text, true or false, or nested lists of numbers"
NAMED = f"{VALUE}; or one stage with its numbers, as in {{output: [[2, 3]]}}, and no `metric`"
EXAMPLE = "such as {scorer: dot, d: 512}"


def share_of(within: float | str | None) -> float | None:
    """`5 %` as 0.05; None for what is no share."""
    match = re.match(SHARE, within) if isinstance(within, str) else None
    return float(match[1]) / 100 if match else None


def factor_of(by: float | str | None) -> float | None:
    """`2 x` as 2.0; None for what is no factor."""
    match = re.match(FACTOR, by) if isinstance(by, str) else None
    return float(match[1]) if match else None


def _finite_share(within: float | str) -> float | str:
    if share_of(within) == math.inf:
        raise problem("expected a finite share, such as 5 %")
    return within


def _growing_factor(by: float | str) -> float | str:
    factor = factor_of(by)
    if factor is not None and not 1 < factor < math.inf:
        raise problem("expected a factor above 1 and finite, such as 2 x")
    return by


def _ordered(bounds: list[float | None]) -> list[float | None]:
    low, high = bounds
    if low is None and high is None:
        raise problem(BOUNDS)
    if low is not None and high is not None and low > high:
        raise problem("expected low up to high")
    return bounds


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _row(where: Any) -> Any:
    """Columns and what they must say: one value, or a list of them for several rows."""
    if not isinstance(where, dict):
        raise problem(f"expected a mapping {EXAMPLE}")
    for column, wanted in where.items():
        if wanted == []:
            raise problem("got []; expected at least 1 entry", under=[column])
        values = wanted if isinstance(wanted, list) else [wanted]
        for index, value in enumerate(values):
            place = [column, index] if isinstance(wanted, list) else [column]
            if not (value is None or isinstance(value, str | bool) or _is_number(value)):
                expected = "expected text, a number, true, false or null, or a list of them"
                raise problem(errors.got(value, expected), under=place)
            if any(value == other and isinstance(value, bool) == isinstance(other, bool) for other in values[:index]):
                raise problem(f"got {errors.show(value)} twice; expected each once", under=place)
    return where


def _row_or_number(value: Any) -> Any:
    if not (isinstance(value, dict) and value) and not _is_number(value):
        raise problem(f"expected a number, or another row {EXAMPLE}")
    return _row(value) if isinstance(value, dict) else value


def _exact(value: Any) -> Any:
    if isinstance(value, list):
        check_regular(value)
    elif not isinstance(value, str | bool) and not _is_number(value):
        raise problem(NAMED if isinstance(value, dict) else VALUE)
    return value


_Value = str | float | bool | None
_Row = dict[str, _Value | Annotated[list[_Value], Field(min_length=1, json_schema_extra={"uniqueItems": True})]]
_Limit = Annotated[float | Annotated[_Row, Field(min_length=1)], checked_by(_row_or_number)]
_Pair = Annotated[
    list[float | None], Field(min_length=2, max_length=2, json_schema_extra={"contains": {"type": "number"}})
]
_Within = NonNegativeFloat | Annotated[str, Field(pattern=SHARE)]
_By = NonNegativeFloat | Annotated[str, Field(pattern=FACTOR)]
_Figures = str | float | bool | Row | Rows
_Named = Annotated[dict[str, _Figures], Field(min_length=1, max_length=1)]
_Exact = Annotated[_Figures | _Named, checked_by(_exact)]

# All but Where are None where they are left out, and refuse a null that is written down.
Where = Annotated[_Row, checked_by(_row)]
Number = Annotated[float | None, Given(float, "expected a number")]
Amount = Annotated[
    float | str | None,
    Given(_Within, "expected a number of at least 0, or a share such as 5 %"),
    AfterValidator(_finite_share),
]
Factor = Annotated[
    float | str | None,
    Given(_By, "expected a number of at least 0, or a factor such as 2 x"),
    AfterValidator(_growing_factor),
]
Bounds = Annotated[list[float | None] | None, Given(_Pair, BOUNDS), AfterValidator(_ordered)]
Limit = Annotated[float | dict[str, Any] | None, Given(_Limit)]
Exact = Annotated[Any, Given(_Exact)]


class Expectation(Model):
    """What a figure of one row, or of several, must be: exactly one of KINDS says it."""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [{"required": [kind]} for kind in KINDS],
            "if": {"required": ["metric"]},
            "then": {"properties": {"equal": {"not": {"type": "object"}}}},
            "else": {"required": ["equal"], "properties": {"equal": {"type": "object"}}},
            "required": [],
            "dependentRequired": {"about": ["within"]},
            "dependentSchemas": {
                helper: {"anyOf": [{"required": [kind]} for kind in kinds]} for helper, kinds in HELPERS.items()
            },
        }
    )

    claim: Annotated[str | None, Field(min_length=1, description="what it shows, in a sentence")] = None
    source: Annotated[str | None, Field(min_length=1, description="who says so")] = None
    where: Annotated[
        Where, Field(default_factory=dict, description="columns of the row; a list asks it of several rows")
    ]
    metric: Annotated[str, Field(min_length=1, description="a column; of the study attention also a stage")]
    between: Annotated[Bounds, Field(description="[low, high], ends included; one may be null")] = None
    about: Annotated[Number, Field(description="the number, give or take `within`")] = None
    within: Annotated[Amount, Field(description="an amount, or a share such as 5 %")] = None
    above: Annotated[Limit, Field(description="a number, or another row whose figure must be smaller")] = None
    below: Annotated[Limit, Field(description="a number, or another row whose figure must be larger")] = None
    by: Annotated[Factor, Field(description="at least this amount, or a factor such as 2 x")] = None
    equal: Annotated[Exact, Field(description="exactly; of a stage, as in {output: [[2, 3]]}, up to rounding")] = None

    @property
    def kind(self) -> str:
        """The one of KINDS that it has."""
        return self._given()[0]

    @property
    def expected(self) -> dict[str, Any]:
        """What is expected, as the YAML has it."""
        given = {key: getattr(self, key) for key in (self.kind, *HELPERS)}
        return {key: value for key, value in given.items() if value is not None}

    def _given(self) -> list[str]:
        return [kind for kind in KINDS if getattr(self, kind) is not None]

    @model_validator(mode="before")
    @classmethod
    def _metric_beside_equal(cls, data: Any) -> Any:
        """`equal: {output: [[...]]}` is short for `metric: output` with `equal: [[...]]`."""
        named = data.get("equal") if isinstance(data, dict) and "metric" not in data else None
        if not isinstance(named, dict):
            return data
        metric, numbers = next(iter(named.items()), (None, None))
        if len(named) == 1 and isinstance(metric, str) and metric:
            return {**data, "metric": metric, "equal": numbers}
        return {**data, "metric": "equal"}  # `equal` is what is wrong, and refused as a mapping

    @model_validator(mode="after")
    def _one_kind_and_what_belongs_to_it(self) -> "Expectation":
        given, choice = self._given(), f"expected one of {', '.join(KINDS)}"
        if not given:
            raise problem(f"got no bound of {self.metric}; {choice}")
        if len(given) > 1:
            raise problem(f"got `{given[1]}` beside `{given[0]}`; {choice}", under=[given[1]])
        for helper, kinds in HELPERS.items():
            if getattr(self, helper) is not None and given[0] not in kinds:
                message = f"got `{helper}` beside `{given[0]}`; it belongs to {' and '.join(f'`{k}`' for k in kinds)}"
                raise problem(message, under=[helper])
        if self.about is not None and self.within is None:
            raise problem(f"got about {self.about:g} alone; expected `within` beside it, such as within: 5 %")
        if self.about == 0 and isinstance(self.within, str):
            raise problem(f"got {self.within} of 0, which is 0; expected a number such as 0.05", under=["within"])
        if self.within is not None and self.equal is not None and not isinstance(self.equal, list):
            message = "got `within` beside a single value to equal; use `about` in place of `equal`"
            raise problem(message, under=["within"])
        return self
