"""How the `attention` study is shown: tables for the terminal, pictures for the run folder."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from rich.console import RenderableType

from attncli.runs.records import AttentionResult
from attncli.views.tables import attention_tables

Pictures = dict[str, Callable[[Path], None]]


def tables(result: AttentionResult, *, width: int, full: bool, csv: str | None) -> list[RenderableType]:
    """All tables, in the order they are printed in."""
    return attention_tables(result, width=width, full=full, csv=csv)


def pictures(result: AttentionResult, note: Callable[[str], None]) -> Pictures:
    """heatmaps.png with all scorers side by side, and heatmap_<label>.png for each.

    What the first does not show as it is goes to `note`; the others only say the same again.
    """
    if not all("weights" in run.stages for run in result.runs):
        return {}
    each = {f"heatmap_{run.label}.png": partial(_draw, result, [run.label], _silently) for run in result.runs}
    return {"heatmaps.png": partial(_draw, result, None, note), **each}


def _draw(result: AttentionResult, labels: Sequence[str] | None, note: Callable[[str], None], path: Path) -> None:
    from attncli.views.heatmaps import heatmap_figure, save_figure  # matplotlib, which --no-plots does without

    heatmap = heatmap_figure(result.matrices("weights"), labels=labels)
    for line in heatmap.notes:
        note(line)
    save_figure(heatmap.figure, path)


def _silently(line: str) -> None:
    """Takes a note and keeps it to itself."""
