"""The HTML report of runs: what is kept of them, with the columns and charts of their studies, as one page."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from attncli.common.study import Comparison
from attncli.runs.loading import StoredRun, reading
from attncli.show.report.page import BUDGET, Shown, page, prepared
from attncli.sweeps.views import charts_of, listings_of

TELLS_NOTHING = re.compile(r"latest|results\.json|\d{4}-\d\d-\d\dT[\d-]+")  # the end of a path, of many runs


def report(runs: Sequence[StoredRun], budget: int = BUDGET, comparisons: Sequence[Comparison] = ()) -> str:
    """The page of these runs, whose matrices take about `budget` bytes, and of what differs between them.

    Raises:
        InputError: files of a run are damaged, which is seen where its tensors are read.
    """
    names = names_of([run.path for run in runs]) if len(runs) > 1 else [run.result.name for run in runs]
    found = []
    for run, name in zip(runs, names, strict=True):
        with reading(run.path):
            found.append(prepared(_shown(run, name), budget // len(runs)))
    named = {str(run.path): name for run, name in zip(runs, names, strict=True)}
    return page(
        found, [replace(each, a=named.get(each.a, each.a), b=named.get(each.b, each.b)) for each in comparisons]
    )


def names_of(paths: Sequence[Path]) -> list[str]:
    """What tells runs apart: the name of the folder, with folders above it where that is not enough."""
    parts = [(path.resolve() if ".." in path.parts else path.absolute()).parts for path in paths]
    depths = [2 if TELLS_NOTHING.fullmatch(path.name) else 1 for path in paths]
    while True:
        names = ["/".join(each[-depth:]) for each, depth in zip(parts, depths, strict=True)]
        short = [
            names.count(name) > 1 and depth < len(each) for name, depth, each in zip(names, depths, parts, strict=True)
        ]
        if not any(short):
            return names
        depths = [depth + more for depth, more in zip(depths, short, strict=True)]


def _shown(run: StoredRun, name: str) -> Shown:
    here = Path.cwd()
    path = run.path.relative_to(here) if run.path.is_relative_to(here) else run.path
    source = None if run.config is None else str(path)  # a results.json alone has nothing to draw
    listings = listings_of(run.result)
    return Shown(name, run.result, listings, charts_of(run.result), run.content, run.config, source)
