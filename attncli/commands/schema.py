"""`attncli schema`: the JSON Schema of the YAML."""

import typer


def schema() -> None:
    """Print the JSON Schema of experiments, for editors."""
    import json

    from attncli.config.schema import json_schema
    from attncli.studies import STUDIES, load_study

    typer.echo(json.dumps(json_schema([load_study(study).OPTIONS for study in STUDIES]), indent=2))
