"""Plans in the key `scorers`: other entries in other layers of a model, and in other heads."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field, TypeAdapter, ValidationInfo, WrapValidator, model_validator

from attncli.catalogue.entry_files import one_entry
from attncli.catalogue.scorer_entries import ENTRY_KEYS, SCORER, ScorerEntry, entry_model, with_fitted
from attncli.catalogue.short_forms import expand_short_forms, model_entry
from attncli.config.strict import Model, as_problem, problem
from attncli.core.numbers import ranges_in
from attncli.errors import got, show

ZERO = "zero"  # no output at all
PLAN = "plan"


def is_plan(value: Any) -> bool:
    """Whether an entry that was given in Python is a plan itself: a mapping without any key of an entry."""
    return isinstance(value, Mapping) and bool(value) and not {PLAN, *ENTRY_KEYS} & {*value}


def _once(plan: Any) -> Any:
    """Return the plan; raise a `problem` if two keys have a number in common."""
    first = dict[int, Any]()
    for key in plan if isinstance(plan, Mapping) else ():
        for number in (number for numbers in ranges_in(str(key)) or () for number in numbers):
            if (other := first.setdefault(number, key)) != key:
                raise problem(
                    f"got {show(key)}, which has {number} as {show(other)} does; expected each once", under=[key]
                )
    return plan


def _heads(plan: dict[str, Any]) -> dict[str, Any]:
    for key in plan:
        if ranges_in(key) is None:
            raise problem(got(key, "expected numbers of heads, such as 0 or 4-7"), under=[key])
        if isinstance(plan[key], PlanOfHeads):
            raise problem("got heads inside of heads; expected an entry", under=[key])
    return plan


def _part(value: Any, handler: Any, info: ValidationInfo) -> Any:
    """Return the entry of a layer or a head, `zero`, or the entries of the heads of a layer."""
    if value == ZERO or isinstance(value, ScorerEntry):
        return value
    with as_problem():
        value = one_entry(value, Path((info.context or {}).get("folder") or ""))
    kind: type[Model] = PlanOfHeads
    if not (isinstance(value, Mapping) and {*value} == {"heads"}):
        value = with_fitted(expand_short_forms(model_entry(value)), info)
        if isinstance(value, dict) and PLAN in value:
            raise problem("got a plan inside of a plan; expected an entry")
        kind = entry_model(value)
    return TypeAdapter(kind).validate_python(value, strict=True, context=info.context)


Part = Annotated[Any, WrapValidator(_part)]
Parts = Annotated[dict[str, Part], Field(min_length=1), BeforeValidator(_once)]


class PlanOfHeads(Model):
    """Other entries in other heads of a layer."""

    heads: Annotated[Parts, AfterValidator(_heads), Field(description="entries by number of heads: 0, or 4-7")]


class Plan:
    """other entries in other layers"""  # as the formula of a scorer


class PlanEntry(ScorerEntry):
    """An entry that has other entries in other layers of a model; all other layers stay the model's own."""

    implementation: ClassVar[type] = Plan
    is_plan: ClassVar[bool] = True

    scorer: Annotated[Literal["plan"], SCORER] = "plan"
    plan: Annotated[
        Parts,
        Field(description="entries by layer: its number, a range such as 3-5, its name, or a pattern of names"),
    ]

    @model_validator(mode="after")
    def _alone(self) -> "PlanEntry":
        for key, field in PlanEntry.model_fields.items():
            value = self.normalizer.normalizer if key == "normalizer" else getattr(self, key)
            if key not in ("scorer", "label", PLAN) and value != field.default:
                raise problem(got(value, "expected in the entries of the plan"), under=[key])
        return self

    @property
    def entries(self) -> list[ScorerEntry]:
        """The entries of all layers and heads, without `zero`."""
        return [entry for _, _, entry in self.assignments() if isinstance(entry, ScorerEntry)]

    def assignments(self) -> Iterator[tuple[str, list[int] | None, ScorerEntry | str]]:
        """Yield layers, numbers of heads (None for all), and their entry, for each assignment of the plan."""
        for layers, entry_or_heads in self.plan.items():
            if not isinstance(entry_or_heads, PlanOfHeads):
                yield layers, None, entry_or_heads
                continue
            for heads, entry in entry_or_heads.heads.items():
                yield layers, [head for numbers in ranges_in(heads) or () for head in numbers], entry
