"""`attncli explain`: one query worked out."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from attncli.cli.options import (
    Device,
    DType,
    Scorers,
    Seed,
    Sets,
    find_source,
    in_place_of_scorers,
    set_overrides,
    without_expectations,
)
from attncli.cli.progress import Terminal, running
from attncli.config.document import read_document
from attncli.errors import InputError
from attncli.results import MOST_KEYS, nan_to_null
from attncli.show.terminal.explanation import lines
from attncli.show.terminal.tables import SCREEN

Source = Annotated[
    Path | None,
    typer.Argument(
        metavar="SOURCE", help="A config, built-in experiment, run folder or captured model; d2l if left out."
    ),
]
Label = Annotated[str | None, typer.Option("--label", metavar="LABEL", help="The scorer; the first if left out.")]
Layer = Annotated[str | None, typer.Option("--layer", metavar="NAME", help="Layer of a model, by its name or number.")]
Batch = Annotated[int, typer.Option("--batch", metavar="N", help="The batch element.")]
Head = Annotated[int | None, typer.Option("--head", metavar="N", help="The head; the first if left out.")]
Query = Annotated[int, typer.Option("--query", metavar="N", help="The query.")]
Json = Annotated[bool, typer.Option("--json", help="Print the explanation as JSON, and nothing else.")]
AllKeys = Annotated[bool, typer.Option("--full", help="List all keys, in place of those with the largest weights.")]


def explain(
    source: Source = None,
    label: Label = None,
    layer: Layer = None,
    batch: Batch = 0,
    head: Head = None,
    query: Query = 0,
    json: Json = False,
    full: AllKeys = False,
    scorers: Scorers = None,
    sets: Sets = None,
    seed: Seed = None,
    device: Device = None,
    dtype: DType = None,
) -> None:
    """Print one query worked out by hand."""
    from attncli.cli.experiments import print_json  # load torch
    from attncli.engine.experiment import load_experiment
    from attncli.engine.runs.loading import read_run

    overrides = set_overrides(sets, seed=seed, device=device, dtype=dtype)
    overrides += in_place_of_scorers(scorers) if scorers else []
    path, is_run = find_source(source, "a config, a run folder or a captured model")
    if is_run and overrides:
        raise InputError.of("only a config can be changed; expected a YAML file as SOURCE", where=overrides[0].text)
    if is_run:
        read_run(path)  # raises InputError if the folder is no run, or damaged
    overrides.append(without_expectations())
    experiment = load_experiment(read_document(path / "config.yaml" if is_run else path, overrides))
    choice = {"label": label, "layer": layer, "batch": batch, "head": head, "query": query}
    with running(experiment.options.name, json=json) as progress:
        explanation = experiment.explain(progress, "--", most=None if full else MOST_KEYS, **choice)
    if json:
        print_json(nan_to_null(asdict(explanation)))
        return
    console = Terminal()
    for line in lines(explanation, console.width, None if full else SCREEN):
        console.print(line)
