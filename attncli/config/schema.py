"""The JSON Schema of an experiment, for editors and for other people's checks."""

from collections.abc import Sequence
from typing import Any

from pydantic.json_schema import models_json_schema

from attncli.config.models import Experiment


def json_schema(studies: Sequence[type[Experiment]]) -> dict[str, Any]:
    """One schema for the experiments of all studies."""
    refs, schema = models_json_schema([(study, "validation") for study in studies], ref_template="#/$defs/{model}")
    branches = list(refs.values())
    for definition in schema["$defs"].values():
        _allow_default_name(definition)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "attncli experiment",
        **(branches[0] if len(branches) == 1 else {"anyOf": branches}),
        "$defs": schema["$defs"],
    }


def _allow_default_name(definition: dict[str, Any]) -> None:
    """`name` is required of the model, since the file's name is filled in, but not of the file."""
    properties = definition.get("properties", {})
    if "study" in properties and "name" in definition.get("required", []):
        definition["required"].remove("name")
