"""`attncli schema`: print the JSON Schema of experiments, for editors."""

import json

import typer

from attncli.catalogue import normalizer_entries, scorer_entries
from attncli.config.models import json_schema
from attncli.errors import InputError
from attncli.studies import STUDIES, options_model


def schema() -> None:
    """Print the JSON Schema of experiments."""
    typer.echo(json.dumps(json_schema([options_model(study) for study in STUDIES]), indent=2))
    catalogues = (scorer_entries.CATALOGUE, normalizer_entries.CATALOGUE)
    problems = [problem for catalogue in catalogues for problem in catalogue.loadable()[1]]
    if problems:  # classes that installed packages list and that cannot be loaded are missing
        raise InputError(dict.fromkeys(problems))
