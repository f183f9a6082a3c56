"""How the `train` study is shown: tables and plain sentences for the terminal, a picture for the run folder."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from rich.console import RenderableType

from attncli.runs.records import TrainResult
from attncli.views.sweep_tables import findings
from attncli.views.train_sentences import sentences
from attncli.views.train_tables import train_tables

Pictures = dict[str, Callable[[Path], None]]


def tables(result: TrainResult, *, width: int, full: bool, csv: str | None) -> list[RenderableType]:
    """Accuracy against d, the rest of what was measured, and what they show."""
    return [*train_tables(result, width, full), *findings(sentences(result))]


def pictures(result: TrainResult, note: Callable[[str], None]) -> Pictures:
    """train.png."""
    return {"train.png": partial(_draw, result, note)}


def _draw(result: TrainResult, note: Callable[[str], None], path: Path) -> None:
    from attncli.show.figures import save_figure  # matplotlib, which --no-plots does without
    from attncli.views.train_figure import train_figure

    drawn = train_figure(result)
    for line in drawn.notes:
        note(line)
    save_figure(drawn.figure, path)
