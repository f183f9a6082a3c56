"""Read which scorers and normalisers installed packages offer, from their entry points, without importing them.

A package lists `quarter = "its.module:Quarter"` under the group `attncli.scorers` or `attncli.normalizers`.
"""

import functools
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from attncli.errors import InputError

if TYPE_CHECKING:
    from importlib.metadata import Distribution

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
    return _scan(tuple((folder, _changed(folder)) for folder in sys.path))


def listed_names(kind: str) -> list[str]:
    """Return the names that packages list as a `scorer` or a `normaliser`."""
    return list(dict.fromkeys(entry.name for entry in listings() if entry.kind == kind))


def listing_of(name: str, kind: str, *, is_built_in: bool) -> ListedClass | None:
    """Return the listing of a name; None if no package lists it as this kind.

    Raises:
        InputError: several packages list the name, or it is built in, too.
    """
    same = [entry for entry in listings() if entry.name == name]
    if len(same) + is_built_in > 1:
        packages = ["attncli"] * is_built_in + [entry.package for entry in same]
        surplus = " and ".join(packages[1:]) if is_built_in else "one of them"
        cure = f"uninstall {surplus}, or name the class: {' or '.join(entry.target for entry in same)}"
        raise InputError.of(f'got "{name}", which the packages {" and ".join(packages)} both have; {cure}')
    return next((entry for entry in same if entry.kind == kind), None)


def _changed(folder: str) -> float:
    """Return when the content of a folder changed, so that a package installed meanwhile is seen."""
    try:
        return Path(folder).stat().st_mtime
    except (OSError, ValueError):  # a folder that does not exist, or a name that none can have
        return 0.0


@functools.lru_cache(maxsize=1)
def _scan(path: tuple[tuple[str, float], ...]) -> Sequence[ListedClass]:
    from importlib.metadata import distributions

    by_package = dict[str, list[ListedClass]]()  # the first copy of a package on the path counts
    for distribution in distributions():
        with suppress(Exception):  # damaged metadata of any package must not end a run
            points = [point for point in distribution.entry_points if point.group in GROUPS]
            if not points:
                continue
            package = _name(distribution) or points[0].value.partition(":")[0]
            by_package.setdefault(
                package, [ListedClass(p.name, GROUPS[p.group], package, _target(p.value)) for p in points]
            )
    return sorted(listing for entries in by_package.values() for listing in entries)


def _name(distribution: "Distribution") -> str | None:
    """Return the name of a package, or None without metadata, for which some versions raise an error."""
    with suppress(Exception):
        return distribution.metadata["Name"]
    return None


def _target(value: str) -> str:
    """Return the `module:Class` of an entry point, without the names of extras that may follow in brackets."""
    return value.partition("[")[0].strip()
