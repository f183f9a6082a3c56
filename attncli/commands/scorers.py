"""`attncli scorers`: the catalogue of scoring functions."""

import pkgutil
from pathlib import Path
from typing import Annotated

import typer


def scorer_names() -> list[str]:
    """Names for shell completion, from the files of the catalogue, since importing them would load torch."""
    folder = Path(__file__).parents[1] / "scorers"
    return sorted(module.name for module in pkgutil.iter_modules([str(folder)]) if not module.name.startswith("_"))


Name = Annotated[str | None, typer.Argument(metavar="NAME", help="One scorer, in detail.", autocompletion=scorer_names)]


def scorers(name: Name = None) -> None:
    """List the scoring functions: formula, options, parameters, source."""
    from attncli.commands.progress import Terminal
    from attncli.errors import InputError, did_you_mean
    from attncli.scorers import SCORERS
    from attncli.show.catalogue import catalogue, details

    if name is not None and name not in SCORERS:
        raise InputError.of(f'got "{name}"; unknown scorer; {did_you_mean(name, SCORERS)}', where="attncli scorers")
    Terminal().print(catalogue(SCORERS) if name is None else details(name, SCORERS[name]))
