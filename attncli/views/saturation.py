"""How the `saturation` study is shown: tables and plain sentences for the terminal, a picture for the run folder."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from rich.console import RenderableType

from attncli.runs.records import SweepResult
from attncli.views.saturation_tables import saturation_tables
from attncli.views.saturation_trends import trends
from attncli.views.saturation_weights import correlated, extremes, hidden
from attncli.views.sweep_tables import findings

Pictures = dict[str, Callable[[Path], None]]


def tables(result: SweepResult, *, width: int, full: bool, csv: str | None) -> list[RenderableType]:
    """A table for each label (one for all where each has one row), and what they show."""
    return [*saturation_tables(result, width, full), *findings(sentences(result))]


def sentences(result: SweepResult) -> list[str]:
    """What saturates, what does not, and what the weights end as."""
    records = result.records
    courses = trends(records if "from" in result.settings else result.curve)  # that of a single d has smaller ones, too
    return [*courses, *extremes(records), *hidden(records), *correlated(result.settings)]


def pictures(result: SweepResult, note: Callable[[str], None]) -> Pictures:
    """saturation.png; what it cannot show goes to `note`."""
    return {"saturation.png": partial(_draw, result, note)}


def _draw(result: SweepResult, note: Callable[[str], None], path: Path) -> None:
    from attncli.show.figures import save_figure  # matplotlib, which --no-plots does without
    from attncli.views.saturation_figure import saturation_figure

    drawn = saturation_figure(result)
    for line in drawn.notes:
        note(line)
    save_figure(drawn.figure, path)
