"""The key `expect` in YAML: which rows of the result to check, which metric, and its bounds."""

import math
from typing import Annotated, Any

from pydantic import AfterValidator, Field, FiniteFloat, NonNegativeFloat, model_validator

from attncli.config.strict import Model, checked_by, chosen, problem, worded
from attncli.config.values import Row, Rows, check_regular, each_once, ordered

KINDS = ("between", "about", "above", "below", "equal")
HELPERS = {"within": ("about", "equal"), "by": ("above", "below")}  # further keys and the kinds they go with

AMOUNT = r"((?:\d{1,15}\.?\d*|\.\d+)(?:[eE][-+]?\d{1,2})?)"  # never infinite, since it is short
SHARE, FACTOR = rf"^{AMOUNT} ?%$", rf"^{AMOUNT} ?[x×]$"
BOUNDS = "expected [low, high] with low <= high"
VALUE = "expected a number, or nested lists of numbers"


def relative_share(within: float | str | None) -> float | None:
    """Return a percentage as a fraction: 0.05 for `5 %`; None for a number or None."""
    return float(within.rstrip("% ")) / 100 if isinstance(within, str) else None


def by_factor(by: float | str | None) -> float | None:
    """Return a factor as a number: 2.0 for `2 x`; None for a number or None."""
    return float(by.rstrip("x× ")) if isinstance(by, str) else None


def _above_one(by: float | str) -> float | str:
    factor = by_factor(by)
    if factor is not None and factor <= 1:
        raise problem("expected a factor above 1, such as 2 x")
    return by


def _exact(value: object) -> Any:
    if isinstance(value, list):
        check_regular(value)
    elif isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise problem(VALUE)
    return value


_Value = Annotated[
    str | int | FiniteFloat | bool | None, worded("expected text, a number, true, false or null, or a list of them")
]
_Values = Annotated[list[_Value], Field(min_length=1), AfterValidator(each_once)]
_Wanted = Annotated[_Value | _Values, chosen(lambda wanted: _Values if isinstance(wanted, list) else _Value)]

Where = dict[str, _Wanted]
Bounds = Annotated[list[float], Field(min_length=2, max_length=2), AfterValidator(ordered), worded(BOUNDS)]
Amount = Annotated[
    NonNegativeFloat | Annotated[str, Field(pattern=SHARE)],
    worded("expected a number of at least 0, or a percentage such as 5 %"),
]
Factor = Annotated[
    NonNegativeFloat | Annotated[str, Field(pattern=FACTOR)],
    worded("expected a number of at least 0, or a factor such as 2 x"),
    AfterValidator(_above_one),
]
_OtherRow = Annotated[Where, Field(min_length=1)]
_Number = Annotated[int | FiniteFloat, worded("expected a number, or another row such as {scorer: dot, d: 512}")]
Limit = Annotated[
    _Number | _OtherRow, chosen(lambda limit: _OtherRow if isinstance(limit, dict) and limit else _Number)
]
Exact = Annotated[float | Row | Rows, checked_by(_exact)]


class Expectation(Model):
    """A bound for a metric in one or several rows of the result.

    Exactly one of `between`, `about`, `above`, `below` and `equal` is given.
    """

    claim: Annotated[str | None, Field(min_length=1, description="the claim, in a sentence")] = None
    source: Annotated[str | None, Field(min_length=1, description="source of the claim")] = None
    where: Annotated[
        Where, Field(default_factory=dict, description="columns that select a row; a list of values selects several")
    ]
    metric: Annotated[str, Field(min_length=1, description="a column, or a stage of the study attention")]
    between: Annotated[Bounds | None, Field(description="[low, high], ends included")] = None
    about: Annotated[float | None, Field(description="the number, within ± `within`")] = None
    within: Annotated[Amount | None, Field(description="an amount, or a percentage such as 5 %")] = None
    above: Annotated[Limit | None, Field(description="a number, or another row with a smaller value")] = None
    below: Annotated[Limit | None, Field(description="a number, or another row with a larger value")] = None
    by: Annotated[Factor | None, Field(description="smallest difference, or a factor such as 2 x")] = None
    equal: Annotated[Exact | None, Field(description="exact number, or the numbers of a stage up to rounding")] = None

    @property
    def kind(self) -> str:
        """The kind of bound, one of KINDS."""
        return self._given()[0]

    @property
    def other_row(self) -> dict[str, Any]:
        """The columns that select the row given under `above` or `below`; empty if the bound is not a row."""
        bound = self.above or self.below
        return bound if isinstance(bound, dict) else {}

    @property
    def expected(self) -> dict[str, Any]:
        """The keys and values of the bound, as in the YAML: `about` and `within`, for instance."""
        bounds = {key: getattr(self, key) for key in (self.kind, *HELPERS)}
        return {key: value for key, value in bounds.items() if value is not None}

    def _given(self) -> list[str]:
        return [kind for kind in KINDS if getattr(self, kind) is not None]

    @model_validator(mode="after")
    def _one_kind_and_what_belongs_to_it(self) -> "Expectation":
        bounds = self._given()
        choice = f"expected one of {', '.join(KINDS)}"
        if not bounds:
            raise problem(f"got no bound for {self.metric}; {choice}")
        if len(bounds) > 1:
            raise problem(f"got `{bounds[1]}` beside `{bounds[0]}`; {choice}", under=[bounds[1]])
        for helper, kinds in HELPERS.items():
            if getattr(self, helper) is not None and bounds[0] not in kinds:
                belongs = " and ".join(f"`{kind}`" for kind in kinds)
                raise problem(f"got `{helper}` beside `{bounds[0]}`; it belongs to {belongs}", under=[helper])
        if self.about is not None and self.within is None:
            raise problem(f"got about {self.about:g} alone; expected `within` beside it, such as within: 5 %")
        if self.about == 0 and isinstance(self.within, str):
            raise problem(f"got {self.within} of 0, which is 0; expected a number such as 0.05", under=["within"])
        if self.within is not None and self.equal is not None and not isinstance(self.equal, list):
            raise problem("got `within` beside `equal` and a single value; use `about`", under=["within"])
        if isinstance(self.within, str) and self.equal is not None:
            raise problem(f"got {self.within} beside `equal`; expected a number such as 0.05", under=["within"])
        return self
