"""`attncli scorers`: list the built-in scorers and normalisers."""

import pkgutil
from pathlib import Path
from typing import Annotated

import typer


def scorer_names() -> list[str]:
    """Return the names of scorers, for shell completion."""
    return _names_in("scorers")


def catalogue_names() -> list[str]:
    """Return the names of scorers and normalisers, for shell completion."""
    return [*scorer_names(), *_names_in("normalizers")]


def _names_in(catalogue: str) -> list[str]:
    """Return the names of the modules in a package, without importing it, which would load torch."""
    folder = Path(__file__).parents[1] / catalogue
    return sorted(module.name for module in pkgutil.iter_modules([str(folder)]) if not module.name.startswith("_"))


Name = Annotated[
    str | None,
    typer.Argument(metavar="NAME", help="One scorer or normaliser, in detail.", autocompletion=catalogue_names),
]


def scorers(name: Name = None) -> None:
    from attncli.commands.progress import Terminal
    from attncli.errors import InputError, did_you_mean
    from attncli.normalizers import NORMALIZERS
    from attncli.scorers import SCORERS
    from attncli.show.catalogue import catalogue, details

    known = {**SCORERS, **NORMALIZERS}
    if name is not None and name not in known:
        message = f'got "{name}"; unknown scorer or normaliser; {did_you_mean(name, known)}'
        raise InputError.of(message, where="attncli scorers")
    parts = {
        "Scorers: queries and keys to scores": SCORERS,
        "Normalisers: scores to weights (normalizer: NAME)": NORMALIZERS,
    }
    Terminal().print(catalogue(parts) if name is None else details(name, known[name]))
