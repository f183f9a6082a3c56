"""How the `bench` study is shown: tables and plain sentences for the terminal, a picture for the run folder."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from rich.console import RenderableType

from attncli.runs.records import BenchResult
from attncli.views.bench_left_out import left_out
from attncli.views.bench_memory import memory
from attncli.views.bench_sizes import timed
from attncli.views.bench_tables import bench_tables
from attncli.views.bench_textbook import beside_textbook
from attncli.views.bench_verdicts import verdicts
from attncli.views.sweep_tables import findings

Pictures = dict[str, Callable[[Path], None]]


def tables(result: BenchResult, *, width: int, full: bool, csv: str | None) -> list[RenderableType]:
    """Times, memory and ratios, and what they show."""
    return [*bench_tables(result, width, full), *findings(sentences(result))]


def sentences(result: BenchResult) -> list[str]:
    """What is faster than its textbook code, or than the baseline; what it takes of memory, and what was not timed."""
    records = result.records
    return [*beside_textbook(result), *verdicts(records), *memory(records), *left_out(records)]


def pictures(result: BenchResult, note: Callable[[str], None]) -> Pictures:
    """bench.png, where anything was timed; what it cannot show goes to `note`."""
    return {"bench.png": partial(_draw, result, note)} if any(map(timed, result.records)) else {}


def _draw(result: BenchResult, note: Callable[[str], None], path: Path) -> None:
    from attncli.show.figures import save_figure
    from attncli.views.bench_figure import bench_figure  # matplotlib, which --no-plots does without

    drawn = bench_figure(result)
    for line in drawn.notes:
        note(line)
    save_figure(drawn.figure, path)
