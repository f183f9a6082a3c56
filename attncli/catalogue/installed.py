"""Read which scorers and normalisers installed packages offer, from their entry points, without importing them.

A package lists `quarter = "its.module:Quarter"` under the group `attncli.scorers` or `attncli.normalizers`.
"""

import functools
import itertools
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from attncli.errors import InputError

GROUPS = {"attncli.scorers": "scorer", "attncli.normalizers": "normaliser"}  # kinds by entry point group


@dataclass(frozen=True, order=True)
class ListedClass:
    """A scorer or normaliser that an installed package lists: its name, and its class as `module:Class`."""

    name: str
    kind: str
    package: str
    target: str

    def __str__(self) -> str:
        return f'"{self.name}", {self.target} of the package {self.package}'


def listings() -> Sequence[ListedClass]:
    """Return the listings of all packages on `sys.path`, sorted by name."""
    return _scan(tuple(sys.path))


def listed_names(kind: str) -> list[str]:
    """Return the names that packages list as a `scorer` or a `normaliser`."""
    return list(dict.fromkeys(entry.name for entry in listings() if entry.kind == kind))


def installed_listing(name: str, kind: str, *, is_built_in: bool) -> ListedClass | None:
    """Return the listing of a name; None if no package lists it as this kind.

    Raises:
        InputError: several packages list the name, or it is built in, too.
    """
    same = [entry for entry in listings() if entry.name == name]
    if len(same) + is_built_in > 1:
        packages = [*(["attncli"] if is_built_in else []), *(entry.package for entry in same)]
        cure = f"uninstall one of them, or name the class: {' or '.join(entry.target for entry in same)}"
        raise InputError.of(f'got "{name}", which the packages {" and ".join(packages)} both have; {cure}')
    return next((entry for entry in same if entry.kind == kind), None)


@functools.lru_cache(maxsize=1)
def _scan(path: tuple[str, ...]) -> Sequence[ListedClass]:
    from importlib.metadata import distributions

    by_package = dict[str, list[ListedClass]]()  # the first copy of a package on the path counts
    for package in distributions():
        with suppress(Exception):  # damaged metadata of a package must not end a run, nor hide other packages
            if points := [point for point in package.entry_points if point.group in GROUPS]:
                classes = [ListedClass(p.name, GROUPS[p.group], package.name, f"{p.module}:{p.attr}") for p in points]
                by_package.setdefault(package.name, classes)
    return sorted(itertools.chain(*by_package.values()))
