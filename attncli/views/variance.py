"""How the `variance` study is shown: tables and plain sentences for the terminal, a picture for the run folder."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from rich.console import RenderableType

from attncli.runs.records import SweepResult
from attncli.views.sweep_tables import findings
from attncli.views.variance_agreement import agreement
from attncli.views.variance_real import scales_needed
from attncli.views.variance_reasons import reasons
from attncli.views.variance_tables import random_tables, real_tables
from attncli.views.variance_trends import trends

Pictures = dict[str, Callable[[Path], None]]


def tables(result: SweepResult, *, width: int, full: bool, csv: str | None) -> list[RenderableType]:
    """A table for each label (of real tensors one for all), and what they show."""
    made = real_tables if "from" in result.settings else random_tables
    return [*made(result, width, full), *findings(sentences(result))]


def sentences(result: SweepResult) -> list[str]:
    """What holds and what does not, and why."""
    records = result.records
    if "from" in result.settings:
        return scales_needed(records)
    return [*agreement(records), *trends(records), *reasons(records, result.settings)]


def pictures(result: SweepResult, note: Callable[[str], None]) -> Pictures:
    """variance.png; what it cannot show goes to `note`."""
    return {"variance.png": partial(_draw, result, note)}


def _draw(result: SweepResult, note: Callable[[str], None], path: Path) -> None:
    from attncli.show.figures import save_figure  # matplotlib, which --no-plots does without
    from attncli.views.variance_figure import variance_figure

    drawn = variance_figure(result)
    for line in drawn.notes:
        note(line)
    save_figure(drawn.figure, path)
