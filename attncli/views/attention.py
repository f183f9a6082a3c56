"""How the `attention` study is shown: tables for the terminal, pictures for the run folder."""

from collections.abc import Callable
from pathlib import Path

from rich.console import RenderableType

from attncli.results.records import AttentionResult

# from attncli.views.heatmaps import HeatmapStyle, heatmap_figure, save_figure
from attncli.views.tables import attention_tables

Pictures = dict[str, Callable[[Path], None]]


def tables(result: AttentionResult, *, width: int, full: bool, csv: str | None) -> list[RenderableType]:
    """All tables, in the order they are printed in."""
    return attention_tables(result, width=width, full=full, csv=csv)


def pictures(result: AttentionResult) -> Pictures:
    """heatmaps.png with all scorers side by side, and heatmap_<label>.png for each."""
    matrices = result.matrices("weights")
    names = {"heatmaps.png": None} | {f"heatmap_{run.label}.png": [run.label] for run in result.runs}
    return {}
