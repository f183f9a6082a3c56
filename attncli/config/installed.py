"""Read which scorers and normalisers installed packages offer, from their entry points, without importing them.

A package lists `quarter = "its.module:Quarter"` under the group `attncli.scorers` or `attncli.normalizers`.
"""

import functools
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

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


@functools.lru_cache(maxsize=1)
def _scan(path: tuple[str, ...]) -> Sequence[ListedClass]:
    from importlib.metadata import entry_points

    with suppress(Exception):  # damaged metadata of any package must not end a run
        points = entry_points()
        kinds = [(point, kind) for group, kind in GROUPS.items() for point in points.select(group=group)]
        return sorted(ListedClass(p.name, kind, p.dist.name, _target(p.value)) for p, kind in kinds if p.dist)
    return []


def _target(value: str) -> str:
    """Return the `module:Class` of an entry point, without the names of extras that may follow in brackets."""
    return value.partition("[")[0].strip()
