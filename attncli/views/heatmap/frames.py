"""A panel with its size, title and ticks: all that decides how much room it takes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from attncli.views.fonts import Typeface
from attncli.views.heatmap.axes import Ticks, key_ticks, query_ticks
from attncli.views.heatmap.panels import Panel

DPI = 200
TITLE_POINTS = 9.0
TITLE_LINE = 1.3 * TITLE_POINTS / 72
NARROWEST_TITLE = 1.6  # inches, however narrow the panel
TICK_LENGTH, TICK_ROOM = 0.04, 0.08  # the mark, and the mark with the space before its label
AXIS_TITLE_GAP = 0.05

Size = tuple[float, float]  # width and height in inches
Grid = Sequence[Sequence[Panel | None]]


def snapped(length: float) -> float:
    """The length in whole pixels, so that a pixel of the matrix is a pixel of the picture."""
    return round(length * DPI) / DPI


@dataclass(frozen=True)
class Box:
    """A rectangle in inches from the top left corner."""

    left: float
    top: float
    width: float
    height: float

    @property
    def right(self) -> float:
        """The right edge."""
        return self.left + self.width

    @property
    def bottom(self) -> float:
        """The lower edge."""
        return self.top + self.height

    @property
    def pixels(self) -> tuple[int, int]:
        """Rows and columns of pixels."""
        return round(self.height * DPI), round(self.width * DPI)

    def moved(self, right: float, down: float) -> "Box":
        """The box elsewhere, its corner on a whole pixel."""
        return replace(self, left=snapped(self.left + right), top=snapped(self.top + down))


@dataclass(frozen=True)
class Frame:
    """A panel in its place. Ticks are None where the panel beside or below shows the same."""

    panel: Panel
    box: Box
    title: str
    queries: Ticks | None
    keys: Ticks | None
    leftmost: bool
    lowest: bool

    @property
    def left_room(self) -> float:
        """Room for ticks and axis title on the left."""
        ticks = TICK_ROOM + self.queries.depth if self.queries else 0.0
        return ticks + (AXIS_TITLE_GAP + TITLE_LINE if self.leftmost else 0.0)

    @property
    def room_below(self) -> float:
        """Room for ticks and axis title below."""
        ticks = TICK_ROOM + self.keys.depth if self.keys else 0.0
        return ticks + (AXIS_TITLE_GAP + TITLE_LINE if self.lowest else 0.0)

    def width(self, face: Typeface) -> float:
        """The width of the matrix or of its title, whichever is wider."""
        return max(self.box.width, *(face.width(line, TITLE_POINTS) for line in self.title.split("\n")))


def framed(grid: Grid, sizes: Mapping[int, Size], face: Typeface) -> list[list[Frame | None]]:
    """The panels of the grid with titles and ticks, all in the top left corner still; `sizes` by id of the panel."""
    frames = [[_frame(grid, r, c, sizes, face) for c in range(len(grid[0]))] for r in range(len(grid))]
    shown = [frame for row in frames for frame in row if frame]
    fits = all(face.width(_title(frame.panel.label, frame, ", "), TITLE_POINTS) <= frame.box.width for frame in shown)
    between = ", " if fits else "\n"
    return [[frame and _titled(frame, between, face) for frame in row] for row in frames]


def _frame(grid: Grid, r: int, c: int, sizes: Mapping[int, Size], face: Typeface) -> Frame | None:
    panel = grid[r][c]
    if panel is None:
        return None
    n, m = panel.values.shape
    width, height = sizes[id(panel)]
    beside = grid[r][c - 1] if c else None
    below = grid[r + 1][c] if r + 1 < len(grid) else None
    same_queries = beside and (beside.values.shape[0], beside.queries) == (n, panel.queries)
    same_keys = below and (below.values.shape[1], below.keys) == (m, panel.keys)
    queries = None if same_queries else query_ticks(panel.queries, n, height, face)
    keys = None if same_keys else key_ticks(panel.keys, m, width, face)
    return Frame(panel, Box(0.0, 0.0, width, height), "", queries, keys, leftmost=c == 0, lowest=below is None)


def _title(label: str, frame: Frame, between: str) -> str:
    return between.join(part for part in (label, frame.panel.place) if part)


def _titled(frame: Frame, between: str, face: Typeface) -> Frame:
    """With its title, the middle of the label left out where it is far wider than the panel."""
    label, room = frame.panel.label, max(frame.box.width, NARROWEST_TITLE)
    kept = len(label)
    while kept > 2 and face.width(label, TITLE_POINTS) > room:
        kept -= 1
        label = frame.panel.label[: kept - kept // 2] + "…" + frame.panel.label[-(kept // 2) :]
    return replace(frame, title=_title(label, frame, between))
