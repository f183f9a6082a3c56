"""`attncli schema`: print the JSON Schema of experiments, for editors."""

import json

import typer

from attncli.config.models import json_schema
from attncli.config.scorer_entries import all_models
from attncli.errors import InputError
from attncli.studies import STUDIES, options_model


def schema() -> None:
    """Print the JSON Schema of experiments."""
    typer.echo(json.dumps(json_schema([options_model(study) for study in STUDIES]), indent=2))
    if problems := all_models()[1]:  # classes that installed packages list and that cannot be loaded are missing
        raise InputError(problems)
