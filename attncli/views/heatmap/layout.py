"""Where every panel stands, in inches from the top left corner, computed from what it has to hold.

Matplotlib's constrained layout finds the same by drawing everything two or three times.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from attncli.views.fonts import Typeface
from attncli.views.heatmap.axes import LINE
from attncli.views.heatmap.frames import TITLE_LINE, Frame, Grid, Size, framed, snapped

LARGEST = 18.5  # inches a side for the panels with their labels; legend and colour bar come to that
CELL, LONG_SIDE, LONGEST_SIDE = 0.34, 3.0, 5.0  # of a cell, and of a panel with few and with many cells
LONGEST_NAMED, LONGEST_NUMBERED = 7.5, 15.0  # of a panel whose tokens or numbers should all be readable
SHORTEST_SIDE = 0.3  # of a panel: a single row or column stays visible, if not square
FEW_PANELS, SMALL_SIDE = 4, 1.7  # more panels than these are drawn smaller, down to this side
GAP, TITLE_GAP = 0.16, 0.06  # between panels, and between a panel and its title
BAR_ROOM = 0.85  # right of a panel with a colour bar of its own


@dataclass(frozen=True)
class Sheet:
    """All panels in their places, and the room they take with their labels and a gap to the right."""

    frames: tuple[Frame, ...]
    width: float
    height: float


def panel_size(n: int, m: int, panels: int, named: bool, numbers: bool) -> Size:
    """Width and height of one of so many panels, in inches. Cells are square unless a side would be too short."""
    longest = max(n, m)
    side = min(CELL * longest, LONG_SIDE + 0.012 * longest, LONGEST_SIDE)
    side = max(side * min(1.0, (FEW_PANELS / panels) ** 0.5), min(side, SMALL_SIDE))
    if named:
        side = max(side, min(LINE * longest, LONGEST_NAMED))
    if numbers:
        side = max(side, min(CELL * longest, LONGEST_NUMBERED))
    return snapped(max(m * side / longest, SHORTEST_SIDE)), snapped(max(n * side / longest, SHORTEST_SIDE))


def lay_out(grid: Grid, face: Typeface, own_bars: bool, numbers: bool) -> Sheet:
    """The panels as large as their content asks for, smaller where the picture would grow too large."""
    panels = [panel for row in grid for panel in row if panel]
    named = any(panel.queries or panel.keys for panel in panels)
    sizes: dict[int, Size] = {}
    for panel in panels:
        n, m = panel.values.shape
        sizes[id(panel)] = panel_size(n, m, len(panels), named, numbers)
    sheet = _placed(framed(grid, sizes, face), face, own_bars)
    for _ in range(8):
        if max(sheet.width, sheet.height) <= LARGEST:
            break
        share = 0.97 * LARGEST / max(sheet.width, sheet.height)
        sizes = {key: _smaller(size, share) for key, size in sizes.items()}
        sheet = _placed(framed(grid, sizes, face), face, own_bars)
    return sheet


def _smaller(size: Size, share: float) -> Size:
    width, height = (snapped(max(side * share, min(side, SHORTEST_SIDE))) for side in size)
    return width, height


def _placed(rows: Sequence[Sequence[Frame | None]], face: Typeface, own_bars: bool) -> Sheet:
    lines = max(frame.title.count("\n") + 1 for row in rows for frame in row if frame)
    head, beside = lines * TITLE_LINE + TITLE_GAP, BAR_ROOM if own_bars else GAP
    columns = list(zip(*rows, strict=True))
    lefts, widths, width = _tracks(columns, lambda f: f.left_room, lambda f: f.width(face), lambda f: beside)
    tops, heights, height = _tracks(rows, lambda f: head, lambda f: f.box.height, lambda f: f.room_below + GAP)
    frames = [
        replace(frame, box=frame.box.moved(left + (wide - frame.box.width) / 2, top + (high - frame.box.height) / 2))
        for row, top, high in zip(rows, tops, heights, strict=True)
        for frame, left, wide in zip(row, lefts, widths, strict=True)
        if frame
    ]
    return Sheet(tuple(frames), width, height - GAP)


Measure = Callable[[Frame], float]


def _tracks(
    tracks: Iterable[Sequence[Frame | None]], before: Measure, size: Measure, after: Measure
) -> tuple[list[float], list[float], float]:
    """Where the panels of every column (or row) begin, how much room they have there, and where the last one ends."""
    starts, sizes, position = [], [], 0.0
    for track in tracks:
        frames = [frame for frame in track if frame]
        position += max(map(before, frames), default=0.0)
        starts.append(position)
        sizes.append(max(map(size, frames), default=0.0))
        position += sizes[-1] + max(map(after, frames), default=0.0)
    return starts, sizes, position
