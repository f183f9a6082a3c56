"""A list of scorers as studies with short forms have it: entries on one line, one alone, and both names of the key."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar

from pydantic import AliasChoices, ConfigDict, Field, field_validator, model_validator

from attncli.config.models import Experiment
from attncli.config.scorer_entries import ScorerEntry, clashing_labels
from attncli.config.scorer_text import explain_text, scorer_of
from attncli.config.strict import problem
from attncli.errors import Problem

SCORER_KEYS = ("scorers", "scorer")  # in YAML as for every study, or as the flag is called
DIFFERENT = "give one of them a label of its own, as in `dot:label=second`"


def _also_singular(schema: dict[str, Any]) -> None:
    """The JSON Schema knows both names of the list of scorers, that one may stand alone, and that each may be text."""
    properties = schema.get("properties", {})
    if "scorers" in properties:
        entries = properties["scorers"]
        entries["items"] = {"anyOf": [entries["items"], {"type": "string"}]}
        properties |= {key: {"anyOf": [entries, entries["items"]]} for key in SCORER_KEYS}
        schema["not"] = {"required": list(SCORER_KEYS)}


class ScorersInShort(Experiment):
    """An experiment whose scorers may be written `additive:num_hiddens=64`."""

    model_config = ConfigDict(json_schema_extra=_also_singular)
    no_dropout: ClassVar[str]  # why entries may have none

    scorers: Annotated[list[ScorerEntry], Field(min_length=1, validation_alias=AliasChoices(*SCORER_KEYS))]

    @classmethod
    def normalised(cls, data: Mapping[str, Any]) -> dict[str, Any]:
        """Scorers on one line, and one alone, become a list of mappings."""
        written = dict(data)
        for key in SCORER_KEYS:
            entries = written.get(key)
            if isinstance(entries, str | dict):
                entries = [entries]
            if isinstance(entries, list):
                written[key] = [scorer_of(entry) if isinstance(entry, str) else entry for entry in entries]
        return written

    @classmethod
    def across(cls, data: Mapping[str, Any]) -> list[Problem]:
        """Labels that clash, and dropout."""
        key = next((key for key in SCORER_KEYS if key in data), "scorers")
        clashing = clashing_labels(data.get(key), DIFFERENT)
        return [replace(each, path=(key, *each.path[1:])) for each in clashing] + cls._dropout(key, data.get(key))

    @classmethod
    def _dropout(cls, key: str, entries: Any) -> list[Problem]:
        """Problems of entries with dropout; what is no number is refused elsewhere."""
        problems = []
        for index, entry in enumerate(entries if isinstance(entries, list) else []):
            dropout = entry.get("dropout") if isinstance(entry, dict) else None
            if isinstance(dropout, int | float) and 0 < dropout < 1 and not isinstance(dropout, bool):
                problems.append(Problem(f"got {dropout:g}; {cls.no_dropout}; leave it out", (key, index, "dropout")))
        return problems

    @field_validator("scorers", mode="before")
    @classmethod
    def _on_one_line(cls, entries: Any) -> Any:
        """What is still text was no scorer on one line."""
        for index, entry in enumerate(entries if isinstance(entries, list) else []):
            if isinstance(entry, str):
                raise problem(explain_text(entry), under=[index])
        return entries

    @model_validator(mode="before")
    @classmethod
    def _one_name_only(cls, data: Any) -> Any:
        if isinstance(data, dict) and all(key in data for key in SCORER_KEYS):
            message = "got `scorer` beside `scorers`, which are the same key; expected one of the two"
            raise problem(message, under=["scorer"])
        return data
