"""`attncli scorers`: list the scorers and normalisers, built in or from installed packages."""

import pkgutil
from pathlib import Path
from typing import Annotated, Any

import typer

from attncli.catalogue import normalizer_entries, scorer_entries
from attncli.catalogue.catalogue import Catalogue, names_in_catalogue, short_names
from attncli.catalogue.installed import listed_names, listings
from attncli.cli.progress import Terminal
from attncli.errors import InputError, did_you_mean, got

CATALOGUES: dict[str, Catalogue[Any]] = {
    entries.KIND: entries.CATALOGUE for entries in (scorer_entries, normalizer_entries)
}


def scorer_names() -> list[str]:
    """Return the names of scorers, for shell completion."""
    return _names_in("scorers", "scorer")


def catalogue_names() -> list[str]:
    """Return the names of scorers and normalisers, for shell completion."""
    return [*scorer_names(), *_names_in("normalizers", "normaliser")]


def _names_in(folder: str, kind: str) -> list[str]:
    """Return the names of the built-in and installed classes of a kind, without importing them and torch."""
    modules = pkgutil.iter_modules([str(Path(__file__).parents[1] / folder)])
    return sorted({*(module.name for module in modules if not module.name.startswith("_")), *listed_names(kind)})


Name = Annotated[
    str | None,
    typer.Argument(metavar="NAME", help="One scorer or normaliser, in detail.", autocompletion=catalogue_names),
]


def scorers(name: Name = None) -> None:
    """Print the catalogue of scorers and normalisers, or one of them in detail."""
    from attncli.show.terminal.catalogue import catalogue, details  # loads torch

    packages = {entry.name: f"package {entry.package} ({entry.target})" for entry in listings()}
    if name is None:
        (models, problems), (others, others_problems) = (each.loadable() for each in CATALOGUES.values())
        titles = ("Scorers: queries and keys to scores", "Normalisers: scores to weights (normalizer: NAME)")
        Terminal().print(catalogue(dict(zip(titles, (models, others), strict=True)), packages))
        if problems or others_problems:
            raise InputError(dict.fromkeys([*problems, *others_problems]))
        return
    kinds = {word: kind for kind in CATALOGUES for word in names_in_catalogue(kind)}
    shorts = short_names()
    name = shorts[name]["scorer"] if name in shorts.keys() - kinds else name
    if name not in kinds:
        message = got(name, "unknown scorer or normaliser", did_you_mean(name, [*kinds, *shorts]))
        raise InputError.of(message, where="attncli scorers")
    Terminal().print(details(name, CATALOGUES[kinds[name]].lookup(name).implementation, packages.get(name)))
