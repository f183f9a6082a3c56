"""The HTML report of runs: what is kept of them, with the columns and charts of their studies, as one page."""

from collections.abc import Sequence
from pathlib import Path

from attncli.runs.loading import StoredRun, reading
from attncli.show.report.page import BUDGET, Shown, page, prepared
from attncli.studies import part_of
from attncli.studies.study import Comparison
from attncli.sweeps.views import charts_of, columns_of


def report(runs: Sequence[StoredRun], budget: int = BUDGET, comparisons: Sequence[Comparison] = ()) -> str:
    """The page of these runs, whose matrices take about `budget` bytes, and of what differs between them.

    Raises:
        InputError: files of a run are damaged, which is seen where its tensors are read.
    """
    found = []
    for run in runs:
        with reading(run.path):
            found.append(prepared(_shown(run), budget // len(runs)))
    return page(found, comparisons)


def _shown(run: StoredRun) -> Shown:
    stated = part_of(run.result.study, "columns")
    columns = columns_of(run.result)
    columns["heads"] = (*columns["heads"], *getattr(stated, "OF_CALLS", ()))
    here = Path.cwd()
    path = run.path.relative_to(here) if run.path.is_relative_to(here) else run.path
    source = None if run.config is None else str(path)  # a results.json alone has nothing to draw
    return Shown(run.result, columns, charts_of(run.result), run.content, run.config, source)
