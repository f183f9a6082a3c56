"""The JSON Schema of an experiment, for editors and for other people's checks."""

from collections.abc import Sequence
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, models_json_schema

from attncli.config.document import DEFAULT_STUDY
from attncli.config.models import Experiment


class Untitled(GenerateJsonSchema):
    """Without titles that only repeat the keys."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Never."""
        return False


def json_schema(studies: Sequence[type[Experiment]]) -> dict[str, Any]:
    """One schema for the experiments of all studies."""
    refs, schema = models_json_schema([(study, "validation") for study in studies], schema_generator=Untitled)
    branches = list(refs.values())
    for definition in schema["$defs"].values():
        _require_as_files_do(definition)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "attncli experiment",
        **(branches[0] if len(branches) == 1 else {"anyOf": branches}),
        "$defs": schema["$defs"],
    }


def _require_as_files_do(definition: dict[str, Any]) -> None:
    """Of a file `name` is not required, since the file's name is filled in, but `study` is, where it is no attention.

    `definition` is changed.
    """
    study = definition.get("properties", {}).get("study")
    if study is not None:
        required = [key for key in definition.get("required", []) if key != "name"]
        definition["required"] = required + ["study"] * (study["const"] != DEFAULT_STUDY)
