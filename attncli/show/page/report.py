"""The HTML report of stored runs: their pictures, matrices and tables on one page."""

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from attncli.common.study import Comparison, Result
from attncli.runs.loading import StoredRun, reading
from attncli.show.page.page import BUDGET, Shown, page, prepared
from attncli.show.page.svg import pictures
from attncli.sweeps.figure import runs_figures
from attncli.sweeps.views import is_sweep, listings_of, view_of

GENERIC_NAMES = re.compile(r"latest|results\.json|\d{4}-\d\d-\d\dT[\d-]+")  # too common as names of runs


def report(
    runs: Sequence[StoredRun],
    budget: int = BUDGET,
    comparisons: Sequence[Comparison] = (),
    *,
    title: str | None = None,
    note: str | None = None,
) -> str:
    """Return the page of runs, with matrices of about `budget` bytes, and of comparisons with the first run.

    `title` and `note`, in Markdown, are the user's.

    Raises:
        InputError: files of a run are damaged.
    """
    names = names_of([run.path for run in runs]) if len(runs) > 1 else [run.result.name for run in runs]
    found = []
    for number, (run, name) in enumerate(zip(runs, names, strict=True)):
        with reading(run.path):
            found.append(prepared(_shown(run, name, number), budget // len(runs)))
    named = {str(run.path): name for run, name in zip(runs, names, strict=True)}
    compared = [replace(each, a=named.get(each.a, each.a), b=named.get(each.b, each.b)) for each in comparisons]
    curves = pictures(partial(runs_figures, _alike(runs, names)), "all runs", "all") if compared else []
    return page(found, compared, curves, title=title, note=note)


def _alike(runs: Sequence[StoredRun], names: Sequence[str]) -> dict[str, Result]:
    """Return by name the results of the first run's study; only sweeps if it is a sweep, else none of them."""
    kinds = [(run.result.study, is_sweep(run.result)) for run in runs]
    return {name: run.result for run, name, kind in zip(runs, names, kinds, strict=True) if kind == kinds[0]}


def names_of(paths: Sequence[Path]) -> list[str]:
    """Return unique names of runs: the names of their folders, with parent folders if needed."""
    parts = [(path.resolve() if ".." in path.parts else path.absolute()).parts for path in paths]
    depths = [2 if GENERIC_NAMES.fullmatch(path.name) else 1 for path in paths]
    while True:
        names = ["/".join(each[-depth:]) for each, depth in zip(parts, depths, strict=True)]
        short = [
            names.count(name) > 1 and depth < len(each) for name, depth, each in zip(names, depths, parts, strict=True)
        ]
        if not any(short):
            return names
        depths = [depth + more for depth, more in zip(depths, short, strict=True)]


def _shown(run: StoredRun, name: str, number: int) -> Shown:
    here = Path.cwd()
    path = run.path.relative_to(here) if run.path.is_relative_to(here) else run.path
    source = None if run.config is None else str(path)  # no command can draw a results.json alone
    has_numbers = run.config is not None or run.result.tensors or is_sweep(run.result)
    figures = partial(view_of(run.result, "figure").figures, run.result)
    drawn = pictures(lambda look, note: figures(note, look), name, number) if has_numbers else []
    return Shown(name, run.result, listings_of(run.result), drawn, run.content, run.config, source)
