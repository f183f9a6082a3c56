"""`expect:` in YAML: which rows of the result, which of their figures, and what it must be."""

from typing import Annotated, Any

from pydantic import ConfigDict, Field, model_validator

from attncli.config.expected_values import Amount, Bounds, Exact, Factor, Limit, Number, Row
from attncli.config.strict import Model, problem

KINDS = ("between", "about", "above", "below", "equal")
HELPERS = {"within": ("about", "equal"), "by": ("above", "below")}  # the kinds that each further key belongs to

MAPPING: Any = {"type": "object"}


class Expectation(Model):
    """What a figure of one row, or of several, must be: exactly one of KINDS says it."""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [{"required": [kind]} for kind in KINDS],
            "if": {"required": ["metric"]},
            "then": {"properties": {"equal": {"not": MAPPING}}},
            "else": {"required": ["equal"], "properties": {"equal": MAPPING}},
            "required": [],
            "dependentRequired": {"about": ["within"]},
            "dependentSchemas": {
                helper: {"anyOf": [{"required": [kind]} for kind in kinds]} for helper, kinds in HELPERS.items()
            },
        }
    )

    claim: Annotated[str | None, Field(min_length=1, description="what it shows, in a sentence")] = None
    source: Annotated[str | None, Field(min_length=1, description="who says so")] = None
    where: Annotated[Row, Field(default_factory=dict, description="columns of the row; a list asks it of several rows")]
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
    def _one_kind(self) -> "Expectation":
        given, choice = self._given(), f"expected one of {', '.join(KINDS)}"
        if not given:
            raise problem(f"got no bound of {self.metric}; {choice}")
        if len(given) > 1:
            raise problem(f"got `{given[1]}` beside `{given[0]}`; {choice}", under=[given[1]])
        for helper, kinds in HELPERS.items():
            if getattr(self, helper) is not None and given[0] not in kinds:
                message = f"got `{helper}` beside `{given[0]}`; it belongs to {' and '.join(f'`{k}`' for k in kinds)}"
                raise problem(message, under=[helper])
        return self

    @model_validator(mode="after")
    def _fitting_tolerance(self) -> "Expectation":
        if self.about is not None and self.within is None:
            raise problem(f"got about {self.about:g} alone; expected `within` beside it, such as within: 5 %")
        if self.about == 0 and isinstance(self.within, str):
            raise problem(f"got {self.within} of 0, which is 0; expected a number such as 0.05", under=["within"])
        if self.within is not None and self.equal is not None and not isinstance(self.equal, list):
            message = "got `within` beside a single value to equal; use `about` in place of `equal`"
            raise problem(message, under=["within"])
        return self
