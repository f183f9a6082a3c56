"""The colour bars of a heatmap: one for all panels, for each column or for each panel."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, NullFormatter
from matplotlib.transforms import Bbox, BboxBase

from attncli.show.pictures.arranging import AROUND
from attncli.show.pictures.cells import DrawnPanel
from attncli.show.pictures.figures import Picture
from attncli.show.pictures.panels import PlainFormatter, Size, folded

WIDEST, SHRINK = 4.0, 0.85  # width to height of panels with their colour bar beside them; length of one of several bars
BAR, LONGEST_BAR_PAGE = 0.12, 18.0  # inches; width of a colour bar, and of a page with `annotate: yes`


def box_around(axes: Sequence[Axes]) -> BboxBase:
    """Return the box around panels, relative to the figure."""
    return Bbox.union([panel.get_position() for panel in axes])


def align_bar(bar: Axes, above: BboxBase) -> None:
    """Make a colour bar nearly as wide as the panels above it."""
    bar.apply_aspect()
    box = bar.get_position()
    bar.set_box_aspect(None)
    bar.set_position((above.x0 + (1 - SHRINK) / 2 * above.width, box.y0, SHRINK * above.width, box.height))


def draw_colour_bars(figure: Picture, tiles: Sequence[DrawnPanel], panel: Size) -> list[tuple[Axes, list[Axes]]]:
    """Draw the colour bars: one for all panels if they are one group, else one below each column or for each panel.

    `panel` is the size of a panel in inches; bars stand beside panels, and below wide ones. The bars below panels are
    returned with their panels.
    """
    sheet = figure.sheet
    columns = [[tile for tile in tiles if tile.column == column] for column in sorted({tile.column for tile in tiles})]
    is_one = len({tile.group for tile in tiles}) == 1
    by_column = len(columns) > 1 and all(len({tile.group for tile in column}) == 1 for column in columns)
    groups = [tiles] if is_one else columns if by_column else [[tile] for tile in tiles]
    high, wide = (panel[1] * len({tile.row for tile in groups[0]}), panel[0] * len({tile.column for tile in groups[0]}))
    is_beside = WIDEST * high > wide and (is_one or not by_column)
    length, across = (high, wide) if is_beside else (wide, high)
    width, below_panels = min(BAR * sheet.unit, length / 8), list[tuple[Axes, list[Axes]]]()
    for group in groups:
        scale = group[0].scale
        label = scale.label(group[0].panel.shown_quantity, figure.translation)
        bar = figure.colorbar(
            group[0].axes.images[0],
            ax=[tile.axes for tile in group],
            label=folded(label, length + sheet.unit * AROUND[0], sheet),
            extend=scale.extend,
            ticks=scale.ticks if is_beside else None if scale.kind == "log" else MaxNLocator(steps=[1, 2, 5, 10]),
            format=PlainFormatter(),
            pad=width / across / 2,
            location="right" if is_beside else "bottom",
            shrink=1.0 if is_one else SHRINK,
            fraction=width / across,
            aspect=length / width,
        )
        bar.ax.set_label("bar")
        figure.translated.append(bar.long_axis.label)
        bar.long_axis.set_minor_formatter(NullFormatter())
        if not is_beside:
            below_panels.append((bar.ax, [tile.axes for tile in group]))
            for tile in group:
                tile.axes.xaxis.set_in_layout(True)  # above the bar, and so not in the free place below a column
    return below_panels
