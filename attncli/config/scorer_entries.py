"""One entry of `scorers:`: the keys every entry may have, and the options that a scorer's signature declares."""

import inspect
import re
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, Union

from pydantic import (
    Discriminator,
    Field,
    GetCoreSchemaHandler,
    PositiveFloat,
    Tag,
    ValidationInfo,
    WrapValidator,
    create_model,
)
from pydantic_core import CoreSchema

from attncli import errors
from attncli.config.models import FileName, Name
from attncli.config.strict import Model, known_words, problem
from attncli.errors import Problem

CUSTOM = r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*$"


class ParameterFile(Model):
    """A file with a scorer's parameters by their state_dict names, or by the names that `names` gives."""

    file: FileName
    names: dict[str, str] = Field(default_factory=dict, description="state_dict name: name in the file")


def default_label(scorer: str) -> str:
    """The scorer's name; of one of the user's own, the name of its class."""
    return scorer.rpartition(":")[2]


def label_of(entry: Any) -> str | None:
    """The label of an entry as it stands in the YAML, which may be wrong in other ways; None where it has none."""
    if not isinstance(entry, dict):
        return None
    label, scorer = entry.get("label"), entry.get("scorer")
    return label if isinstance(label, str) else default_label(scorer) if isinstance(scorer, str) else None


def clashing_labels(entries: Any, cure: str = "give this entry a `label`") -> list[Problem]:
    """Labels in the YAML of `scorers` that are alike, case aside: they name tensors and files."""
    problems, first = [], dict[str, int]()
    for index, entry in enumerate(entries if isinstance(entries, list) else []):
        label = label_of(entry)
        other = first.setdefault(label.casefold(), index) if label else index
        if other != index:
            message = f'got "{label}", the label of scorers[{other}] too; labels must differ, also without case'
            problems.append(Problem(f"{message}; {cure}", ("scorers", index, "label")))
    return problems


class ScorerEntry(Model):
    """What every entry may have; a scorer's own options are fields of the classes made from this one."""

    scorer: str
    label: Annotated[
        Name,
        Field(
            default_factory=lambda fields: default_label(fields["scorer"]),
            description="name in tables and files; default: the scorer's name",
        ),
    ]
    dropout: Annotated[float, Field(ge=0, lt=1, description="share of the weights set to 0 with `train: true`")] = 0.0
    softcap: Annotated[PositiveFloat | None, Field(description="bound of the scores, before the mask")] = None
    parameters: Annotated[ParameterFile | None, Field(description="read these instead of drawing them")] = None

    @property
    def options(self) -> dict[str, Any]:
        """The scorer's own options."""
        return {key: value for key, value in dict(self).items() if key not in ENTRY_KEYS}


ENTRY_KEYS = tuple(ScorerEntry.model_fields)


class CustomEntry(ScorerEntry, extra="allow"):
    """A scorer of the user's own, `my_package.my_module:MyScorer`; its other keys are the options of that class."""

    scorer: Annotated[str, Field(pattern=CUSTOM)]


def options_of(scorer: type) -> dict[str, tuple[Any, Any]]:
    """A scorer's options from its signature: name to (type, default), the default `...` where it must be given."""
    hints = typing.get_type_hints(scorer.__init__, include_extras=True)  # type: ignore[misc]
    parameters = inspect.signature(scorer).parameters.values()
    keyword = [p for p in parameters if p.kind is p.KEYWORD_ONLY and not p.name.startswith("_")]
    return {p.name: (hints.get(p.name, Any), ... if p.default is p.empty else p.default) for p in keyword}


def entry_model(name: str, scorer: type) -> type[ScorerEntry]:
    """The model of one scorer's entries.

    Raises:
        InputError: a signature that cannot be read as YAML options; only a user's own scorer can have one.
    """
    try:
        fields: Any = options_of(scorer)
        taken = next((option for option in fields if hasattr(ScorerEntry, option) or option in ENTRY_KEYS), None)
        if taken:
            raise TypeError(f"the option `{taken}` has a name that is in use; rename it")
        kind = Literal[name]  # type: ignore[valid-type]
        return create_model(f"{scorer.__name__}Entry", __base__=ScorerEntry, scorer=(kind, ...), **fields)
    except Exception as error:  # annotations may be anything, and reading them runs the user's code
        reason = " ".join(str(error).split())
        raise errors.InputError.of(f'got "{name}", whose options make no sense as YAML: {reason}') from error


class EntriesOf:
    """Annotation of a ScorerEntry: it is validated by the signature of the scorer that it names."""

    def __init__(self, scorers: Mapping[str, type], load: Callable[[str], type]) -> None:
        """`load` gives the class of `module:Class`, or raises an InputError."""
        self.scorers, self.load = scorers, load

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        branches = [Annotated[entry_model(name, cls), Tag(f"<{name}>")] for name, cls in self.scorers.items()]
        custom = Annotated[CustomEntry, WrapValidator(self._custom), Tag("<module:Class>")]
        union: Any = Union[(*branches, custom)]
        choice = Discriminator(self._branch, custom_error_type="scorer_kind", custom_error_message="not a scorer")
        return handler.generate_schema(Annotated[union, choice])

    def _branch(self, entry: Any) -> str | None:
        name = entry.get("scorer") if isinstance(entry, dict) else getattr(entry, "scorer", None)
        if isinstance(name, str) and re.fullmatch(CUSTOM, name):
            return "<module:Class>"
        return f"<{name}>" if isinstance(name, str) and name in self.scorers else None

    def _not_a_class(self, name: str) -> str:
        """The message for a scorer of ours with an option that has no value, such as `additive:num_hiddens`."""
        scorer, _, option = name.partition(":")
        message = f"{scorer} is a scorer and no module; if {option} is an option of it, give it a value"
        return errors.got(name, message) if scorer in self.scorers else ""

    def _custom(self, entry: Any, handler: Any, info: ValidationInfo) -> ScorerEntry:
        if isinstance(entry, ScorerEntry):
            return entry
        try:
            model = entry_model(entry["scorer"], self.load(entry["scorer"]))
        except errors.InputError as error:
            raise problem(self._not_a_class(entry["scorer"]) or error.problems[0].message, under=["scorer"]) from error
        validated = model.model_validate(entry, context=info.context)
        for name in validated.options:
            _require_yaml(validated, name)
        return validated


def _require_yaml(entry: ScorerEntry, option: str) -> None:
    """Refuse an option whose value config.yaml cannot hold, so that every run can be run again."""
    value = entry.options[option]
    try:
        again = entry.model_dump(mode="json", include={option})[option]
        same = type(again) is type(value) and bool(again == value)
    except Exception:  # the value is of a class of the user's own, and may do anything
        same = False
    if not same:
        expected = f"got {type(value).__name__}, which YAML cannot hold; expected numbers, text, lists or mappings"
        raise problem(expected, under=[option])


def explain_scorer(entry: Any, known: list[str]) -> tuple[errors.Path, str]:
    """Why an entry names no scorer: where below it, and the message."""
    if not isinstance(entry, dict):
        example = (
            f"scorer: {entry}" if isinstance(entry, str) and entry in known else "scorer: additive, num_hiddens: 8"
        )
        return (), errors.got(entry, f"expected a mapping such as {{{example}}}")
    if "scorer" not in entry:
        return (), "the key `scorer` is missing; known scorers: " + ", ".join(known)
    name = entry["scorer"]
    if isinstance(name, str) and ":" in name:
        return ("scorer",), errors.got(name, "expected module:Class, for instance my_package.my_module:MyScorer")
    return ("scorer",), errors.got(name, "unknown scorer", known_words(name, known))
