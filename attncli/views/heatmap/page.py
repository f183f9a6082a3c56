"""A sheet of paper: images, lines and words placed in inches from the top left corner.

Everything is put on the figure itself. An Axes for each panel would take about ten milliseconds to make and draw, five
times what is drawn here for it, and offers nothing that a fixed layout needs.
"""

from typing import Any

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.colors import Colormap, Normalize, to_rgba
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.image import BboxImage
from matplotlib.patches import Polygon, Rectangle
from matplotlib.text import Text
from matplotlib.transforms import Bbox, TransformedBbox

from attncli.views.fonts import Typeface
from attncli.views.heatmap.colours import Cells, Limits
from attncli.views.heatmap.frames import DPI, Box, snapped

INK, FAINT = "0.15", "0.35"
LINE_WIDTH = 0.6
GROUND, HATCH = "0.9", "0.62"
Point = tuple[float, float]


class Page:
    """A figure under construction; `finish` gives it. The `gid` of an artist becomes its id in SVG."""

    def __init__(self, width: float, height: float, face: Typeface) -> None:
        self.face = face
        self.figure = Figure(figsize=(snapped(width), snapped(height)), dpi=DPI, facecolor="white")
        self.figure.suppressComposite = True  # every panel stays an image of its own in SVG and PDF
        self._height = snapped(height)
        self._inches = self.figure.dpi_scale_trans
        self._lines: list[tuple[Point, Point]] = []

    def words(self, x: float, y: float, text: str, points: float, colour: str = INK, **look: Any) -> None:
        """Text as it stands, never read as mathematics; `look` is matplotlib's ha, va, rotation and gid."""
        font = FontProperties(family=list(self.face.families), size=points)
        text = self.face.drawable(text)
        artist = Text(x, self._height - y, text, color=colour, fontproperties=font, parse_math=False)
        artist.set(transform=self._inches, **look)
        self.figure.add_artist(artist)

    def image(self, box: Box, cells: Cells, cmap: Colormap, ends: Limits, gid: str) -> None:
        """A matrix in colours; nothing is drawn where it is masked."""
        norm = Normalize(ends.low, ends.high)
        image = BboxImage(self._bbox(box), cmap=cmap, norm=norm, interpolation="nearest", gid=gid)
        image.set_data(cells)
        self.figure.add_artist(image)

    def stain(self, box: Box, where: np.ndarray[Any, Any], colour: str, gid: str) -> None:
        """One colour over the cells of a boolean matrix."""
        rgba = np.zeros((*where.shape, 4))
        rgba[where] = to_rgba(colour)
        image = BboxImage(self._bbox(box), interpolation="nearest", gid=gid, zorder=0.5)
        image.set_data(rgba)
        self.figure.add_artist(image)

    def hatch(self, box: Box, gid: str) -> None:
        """The ground on which masked cells show."""
        ground = Rectangle((box.left, self._height - box.bottom), box.width, box.height, zorder=-1)
        ground.set(facecolor=GROUND, edgecolor=HATCH, linewidth=0.0, hatch="/////", hatch_linewidth=0.5)
        ground.set(transform=self._inches, gid=gid)
        self.figure.add_artist(ground)

    def polygon(self, corners: list[Point], colour: Any, gid: str) -> None:
        """A filled polygon with an outline."""
        shape = Polygon([self._up(*corner) for corner in corners], facecolor=colour, edgecolor=INK, gid=gid)
        shape.set(linewidth=LINE_WIDTH, transform=self._inches)
        self.figure.add_artist(shape)

    def line(self, x0: float, y0: float, x1: float, y1: float) -> None:
        """A thin line."""
        self._lines.append((self._up(x0, y0), self._up(x1, y1)))

    def outline(self, box: Box) -> None:
        """The four edges of a box."""
        for y in (box.top, box.bottom):
            self.line(box.left, y, box.right, y)
        for x in (box.left, box.right):
            self.line(x, box.top, x, box.bottom)

    def finish(self) -> Figure:
        """The figure; all thin lines are one artist."""
        lines = LineCollection(self._lines, colors=INK, linewidths=LINE_WIDTH, capstyle="projecting")
        lines.set_transform(self._inches)
        self.figure.add_artist(lines)
        return self.figure

    def _up(self, x: float, y: float) -> Point:
        return x, self._height - y

    def _bbox(self, box: Box) -> TransformedBbox:
        corners = Bbox.from_bounds(box.left, self._height - box.bottom, box.width, box.height)
        return TransformedBbox(corners, self._inches)
