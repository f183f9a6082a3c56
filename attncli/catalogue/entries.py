"""Entries of the key `scorers` of any kind: of scorers and plans, and the options that they may have."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any, Union

from pydantic import BeforeValidator, Field
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from attncli.catalogue.normalizer_entries import DEFAULT_NORMALIZER, KEY, as_mapping, entry_normalizer
from attncli.catalogue.plans import PLAN, PlanEntry
from attncli.catalogue.scorer_entries import (
    CATALOGUE,
    ENTRY_KEYS,
    ONCE,
    CustomEntry,
    ScorerEntry,
    entry_model,
    is_models,
    with_fitted,
)
from attncli.config.strict import Flag, chosen, late_schema
from attncli.errors import dotted


def model_of_any(entry: object) -> type[ScorerEntry]:
    """Return the pydantic model of an entry without short forms."""
    return PlanEntry if isinstance(entry, dict) and PLAN in entry else entry_model(entry)


def _any() -> Any:
    return Union[(*CATALOGUE.loadable()[0].values(), CustomEntry, PlanEntry)]


Entry = Annotated[ScorerEntry, late_schema(_any), chosen(model_of_any), BeforeValidator(with_fitted)]


Scorers = Annotated[
    list[Entry],
    Field(min_length=1, validate_default=True, description="a scorer, such as additive:num_hiddens=64"),
    Flag("NAME[:KEY=VALUE,...]"),
]


def option_paths(entries: object) -> dict[str, list[tuple[Any, ...]]]:
    """Return the paths of each option in a list of entries without short forms, by its name.

    It may be an option of the scorer or of the normaliser, or a key common to all entries. A key in ONCE counts only if
    the entry has it. A wrong entry has no options; validation reports it.
    """
    paths = dict[str, list[tuple[Any, ...]]]()
    for index, entry in enumerate(entries if isinstance(entries, list) else ()):
        of_scorer, of_normalizer = _fields(entry)
        for name in of_scorer:
            if name not in ONCE or name in entry:
                paths.setdefault(name, []).append((index, name))
        for name in of_normalizer:
            if name != KEY:
                paths.setdefault(name, []).append((index, KEY, name))
    return paths


def is_known(entry: object) -> bool:
    """Whether the scorer and the normaliser of an entry without short forms exist."""
    return all(_fields(entry))


def keeps(entry: Mapping[str, Any], key: str) -> bool:
    """Whether an option without its path leaves an entry as it is: `scale: model`, and the model's own scores."""
    if not is_models(entry.get("scorer"), entry.get("scale")):
        return False
    of_scorer, _ = _fields(entry)
    others = entry.keys() & of_scorer.keys() - {"scorer", "scale", "label"}
    return key == "scale" or all(entry[key] == of_scorer[key].default for key in others)


def _fields(entry: object) -> tuple[Mapping[str, FieldInfo], Mapping[str, FieldInfo]]:
    """Return the fields of an entry without short forms, and of its normaliser; none if it does not exist."""
    of_scorer, of_normalizer = dict[str, FieldInfo](), dict[str, FieldInfo]()
    with suppress(PydanticCustomError):
        of_scorer = model_of_any(entry).model_fields
    with suppress(PydanticCustomError):
        normalizer = entry.get(KEY, DEFAULT_NORMALIZER) if isinstance(entry, dict) else None
        of_normalizer = entry_normalizer(as_mapping(normalizer)).model_fields
    return of_scorer, of_normalizer


def options_in(entries: object) -> dict[str, str]:
    """Return the options of the scorers and normalisers of entries without short forms, with the path of the first."""
    paths = {name: paths[0] for name, paths in option_paths(entries).items() if name not in ENTRY_KEYS}
    return {name: dotted(("scorers", *path)) for name, path in paths.items()}
