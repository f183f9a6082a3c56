"""Heatmaps: the matrices of a stage as panels that can be compared. A single query is drawn as bars."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import Colormap, to_rgb
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator, NullFormatter
from matplotlib.transforms import Bbox, BboxBase

from attncli.config.looks import Annotate, HeatmapLook, Look
from attncli.errors import InputError, below, did_you_mean, got, printable
from attncli.numbers import cell_decimals, number
from attncli.results import Column, Matrices, Row
from attncli.show.pictures.figures import Hint, Note, Picture, drawing, ignore_note
from attncli.show.pictures.matrices import Panel, block_means, differences, part_shown, select, subtracted, zoom
from attncli.show.pictures.panels import (
    BOTH_COLUMNS,
    COLUMN,
    PlainFormatter,
    Size,
    columns_of,
    folded,
    grid,
    lay_out,
    thin_ticks,
)
from attncli.show.pictures.scales import SCORES, WEIGHTS, ColourScale, Numbers, colour_scale
from attncli.show.pictures.themes import Settings, Sheet
from attncli.show.pictures.words import check_words, texts_in

Cells = np.ma.MaskedArray[Any, Any]
PLAIN = HeatmapLook()
FRAMED: Settings = {"axes.grid": False, "axes.spines.top": True, "axes.spines.right": True}
NAN_COLOURS = ("black", "#00b4d8", "#70e000", "#7b2cbf")
CELL, LINE = 0.33, 0.14  # inches of a cell with a number, and of a line with a token
LEAST, LEAST_MORE, LEAST_LONG = 1.3, 0.3, 3.4  # em; smallest readable side of one cell, of each more, and of many
ROOMIER = 1.4  # factor on the smallest readable side where the page has no given size
SIDE, LONGEST_SIDE, LONGEST_NAMED, LONGEST_NUMBERED = 3.0, 5.0, 7.5, 15.0  # inches of a panel
FEW_PANELS, SMALL_SIDE = 4, 2.0  # more panels than these are drawn smaller, down to this side in inches
FLAT = 0.4  # height to width of a panel with bars
MOST_ROWS = 4  # of heads or batch elements below each other on a page without a given size; more may stand side by side
BESIDE = 6.0  # em of the name of a row and of its tokens
AROUND = (0.3, 0.45)  # inches beside and above a panel for ticks and a title
ROOMY = 2.0  # inches around a panel that are enough for any labels
WIDEST, SHRINK = 4.0, 0.85  # width to height of panels with their colour bar beside them; length of one of several bars
BAR, LONGEST_BAR_PAGE = 0.12, 18.0  # inches; width of a colour bar, and of a page with `annotate: yes`
GAP = 0.4  # em between two texts beside each other
HEADROOM = 0.25  # share of the height of bars that is free above them
NUMBER_POINTS, DIGIT = 8.0, 0.64  # size of numbers in cells, and width of a digit relative to it
MOST_NUMBERS = {"auto": 400, "yes": 5000, "no": 0}  # in a picture; each takes a millisecond to draw
SLOT = 0.7  # estimated share of the page that is cells


@dataclass(frozen=True)
class Heatmap:
    """The content of a picture of matrices, independent of its page.

    `stage` is the stage of attention, if the matrices are of one. `sides` are the labels of the vertical and of the
    horizontal axes, and `name` is the name of the file in notes.
    """

    panels: Sequence[Panel]
    title: str
    stage: str = ""
    sides: tuple[str, str] = ("Queries", "Keys")
    name: str = "heatmaps"

    @property
    def has_bars(self) -> bool:
        """Whether panels are drawn as bars, because each has a single query."""
        return bool(self.stage) and all(len(panel.queries) == 1 for panel in self.panels)

    @property
    def is_difference(self) -> bool:
        """Whether panels show differences."""
        return any(panel.minus is not None for panel in self.panels)

    def groups(self, look: HeatmapLook) -> list[tuple[str, str | int]]:
        """Return a name for each panel; panels with the same name share a colour scale."""
        by = look.scale or ("label" if self.stage in SCORES and not self.is_difference else "shared")
        names: list[str | int] = [
            panel.label if by == "label" else index if by == "panel" else "" for index, panel in enumerate(self.panels)
        ]
        return [(panel.quantity, name) for panel, name in zip(self.panels, names, strict=True)]


def heatmap_figure(
    matrices: Matrices,
    look: HeatmapLook = PLAIN,
    *,
    labels: Sequence[str] | None = None,
    batches: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    places: Sequence[tuple[int, int]] | None = None,
    note: Note = ignore_note,
) -> Picture:
    """Return a heatmap with a column for each label, and a row for each batch element and head.

    Args:
        matrices: tensors (n, m), (b, n, m) or (b, heads, n, m); further axes count as heads, too.
        look: colours, limits and numbers, the range of queries and keys, and the label to subtract.
        labels: the labels to draw, in order; all by default.
        batches: the batch elements to draw, counted from 0, in order; all by default.
        heads: the heads to draw, counted from 0, in order; all by default.
        places: pairs of batch element and head to draw, in order, in place of `batches` and `heads`.
        note: is called with a sentence on values that are left out, averaged, cut off or not a number.

    Raises:
        InputError: a label, batch element, head or range does not exist, or a tensor has no matrices.
    """
    if look.minus is not None:
        if look.minus not in matrices.tensors:
            raise InputError.of(got(look.minus, "unknown label", did_you_mean(look.minus, matrices.tensors)), ["minus"])
        labels = None if labels is None else list(dict.fromkeys([*labels, look.minus]))
    panels = select(matrices, labels, batches, heads, places, note)
    before = {printable(label) for label in matrices.with_dropout if matrices.stage == "weights"}
    about = [matrices.layer, part_shown(matrices, panels)]
    return stage_figure(panels, matrices.stage, look, note, before_dropout=before, about=about)


def stage_figure(
    panels: Sequence[Panel],
    stage: str,
    look: HeatmapLook,
    note: Note,
    *,
    before_dropout: Set[str] = frozenset(),
    about: Sequence[str] = (),
) -> Picture:
    """Return a heatmap of panels of one stage.

    Args:
        panels: matrices with their names.
        stage: the stage of attention, or a name of the quantity.
        look: the user's options.
        note: is called with a sentence on anything that is left out.
        before_dropout: labels of panels that show weights before dropout, which the picture then mentions.
        about: the end of the title.
    """
    panels = zoom(panels, look)
    if {panel.label for panel in panels} <= before_dropout:
        panels = [replace(panel, quantity=f"{panel.quantity} before dropout") for panel in panels]
        before_dropout = frozenset()
    title = _title(panels, stage)
    if look.minus is not None:
        panels = differences(panels, look.minus)
    panels = [replace(p, label=f"{p.label} before dropout") if p.label in before_dropout else p for p in panels]
    labels, places = ([*{getattr(panel, name) for panel in panels}] for name in ("label", "place"))
    names = places if len(places) == 1 else labels if len(labels) == 1 else []
    if look.minus is not None:
        of = f", {labels[0]} − " if len(labels) == 1 else " − that of "
        title, names = f"{title}{of}{printable(look.minus)}", [each for each in names if each not in labels]
    queries = {str(panel.queries[0]) for panel in panels if len(panel.queries) == 1}
    names += [f"query {name}" for name in queries - {"0"} if len(queries) == 1]
    title = ", ".join(filter(None, (title, *about[:1], *names, *about[1:])))
    return draw_heatmap(Heatmap(panels, title, stage), look, note)


def _title(panels: Sequence[Panel], stage: str) -> str:
    return f"attention {panels[0].quantity}" if stage in WEIGHTS else panels[0].quantity


def runs_figure(
    a: Matrices,
    b: Matrices,
    labels: Sequence[str],
    places: Sequence[tuple[int, int]],
    names: tuple[str, str],
    look: HeatmapLook = PLAIN,
    note: Note = ignore_note,
) -> Picture:
    """Return a heatmap of the differences `b` - `a` between the matrices of two runs, whose names are `names`.

    `labels` must have matrices of the same shape in both runs; `places` are pairs of batch element and head.
    """
    sides = ((a, ignore_note), (b, note))
    ours, theirs = (zoom(select(each, labels, None, None, places, of), look) for each, of in sides)
    title = f"{_title(theirs, b.stage)}, {printable(names[1])} − {printable(names[0])}"
    panels = [subtracted(q, p) for p, q in zip(ours, theirs, strict=True)]
    return draw_heatmap(Heatmap(panels, title, b.stage), look, note)


def check_look(look: Look, config: Row, columns: Iterable[Column]) -> None:
    """Raise InputError, located at the key `figure`, for a size with too many dots, a wrong font, colour map or word.

    Words may be texts of pictures in general, of a study's config and of its columns. The tokens of a captured model
    are not known yet.
    """
    with below("figure"), drawing((), ignore_note, look) as sheet:
        if not config.get("data", {}).get("capture"):
            check_words(look, {*texts_in({**config, "figure": ()}), *(column.name_with_unit for column in columns)})
        if isinstance(look, HeatmapLook):
            colour_map(sheet, look)


def colour_map(sheet: Sheet, look: HeatmapLook, *, is_diverging: bool = False) -> Colormap:
    """Return the colour map of a look, by default the theme's sequential map or its diverging map.

    Raises:
        InputError: matplotlib has no colour map of this name.
    """
    name = look.cmap or (sheet.diverging if is_diverging else sheet.settings["image.cmap"])
    if name not in matplotlib.colormaps:
        question = did_you_mean(name, matplotlib.colormaps)
        near = question if question.startswith("did") else "such as Reds, viridis or Greys"
        raise InputError.of(got(name, "expected a colour map of matplotlib", near), ["cmap"])
    return matplotlib.colormaps[name]


def draw_heatmap(content: Heatmap, look: Look, note: Note) -> Picture:
    """Return a picture of panels in a grid, with ticks, numbers, colour bars and a legend.

    Figures other than a stage of attention have numbers in their cells if there are few, and ranges of queries and
    keys do not apply to them. `note` is called with a sentence on anything that is left out.
    """
    panels = content.panels
    if not content.stage:
        known = sum(panel.values.numel() if panel.valid is None else int(panel.valid.sum()) for panel in panels)
        annotate: Annotate = "yes" if known <= MOST_NUMBERS["auto"] else "auto"
        look = HeatmapLook(**{name: getattr(look, name) for name in Look.model_fields}, annotate=annotate)
    assert isinstance(look, HeatmapLook)
    texts = {text for panel in panels for text in (panel.label, *panel.queries, *panel.keys)}
    with drawing([look.title or content.title, *map(str, texts)], note, look) as sheet, matplotlib.rc_context(FRAMED):
        wanted = _panel_size(content, look, sheet)
        outer = wanted[0] + sheet.unit * AROUND[0], wanted[1] + sheet.unit * AROUND[1]
        columns, slots = _arranged(panels, outer, sheet)
        figure, every = grid(sheet, max(slots) + 1, columns, content.title)
        figure.suppressComposite = True  # keep each panel a separate image in SVG and PDF
        for slot in {*range(len(every))} - {*slots}:
            every[slot].remove()
        rows = math.ceil(len(every) / columns)
        widest = COLUMN if columns * outer[0] <= COLUMN * sheet.unit else BOTH_COLUMNS
        widest = sheet.unit * (LONGEST_BAR_PAGE if look.annotate == "yes" else widest)
        if sheet.size is None:
            share = min(1.0, 0.9 * widest / columns / outer[0])
            wanted = share * wanted[0], share * wanted[1]
            figure.set_size_inches(columns * (wanted[0] + sheet.unit * ROOMY), rows * (wanted[1] + sheet.unit * ROOMY))
        else:
            wanted = SLOT * sheet.size[0] / columns, SLOT * sheet.size[1] / rows
        blocks = [_block(panel, wanted, sheet) for panel in panels]
        cells = [block_means(p.values, p.valid, *block, p.minus) for p, block in zip(panels, blocks, strict=True)]
        numbers = [np.extract(~np.isnan(each), each) for each in (some.compressed() for some in cells)]
        groups = content.groups(look)
        found = {group: [each for each, of in zip(numbers, groups, strict=True) if of == group] for group in groups}
        options: dict[str, Any] = {"is_difference": content.is_difference, "kind": look.colours, "high": look.vmax}
        scales = {group: colour_scale(own, content.stage, **options) for group, own in found.items()}
        tiles = [
            _Tile(every[slot], *divmod(slot, columns), panel, each, block, group, scales[group])
            for slot, panel, each, block, group in zip(slots, panels, cells, blocks, groups, strict=True)
        ]
        side_text = panels[0].shown_quantity if content.has_bars else content.sides[0]
        side = figure.supylabel(folded(side_text, rows * wanted[1], sheet), fontsize=sheet.points)
        below_panels = list[tuple[Axes, list[Axes]]]()
        if content.has_bars:
            _draw_bars(sheet, tiles)
        else:
            for tile in tiles:
                _draw_cells(sheet, look, tile)
                figure.hints += [] if content.stage else _hints(content, tile)
            below_panels = _draw_colour_bars(figure, tiles, wanted)
        footnote = _footnote(blocks)
        _draw_legend(figure, tiles, footnote)
        thinned = _lay_out(figure, content, tiles, wanted, widest, note)
        panels_box = _box([tile.axes for tile in tiles])
        side.set_y((panels_box.y0 + panels_box.y1) / 2)
        for bar, above in below_panels:
            _align(bar, _box(above))
            thin_ticks(bar.xaxis)
        if thinned:
            note(f"too many tokens: {thinned}")
        spec = None if footnote else _number_format(content, look, tiles, np.concatenate(numbers), sheet.unit)
        for tile in tiles if spec is not None else ():
            _write_numbers(tile, str(spec), NUMBER_POINTS * sheet.unit)
        if look.annotate == "yes" and content.stage and spec is None:
            note("no numbers in the cells: too many cells, or too small ones")
    for line in _notes(tiles, footnote):
        note(line)
    return figure


@dataclass(frozen=True)
class _Tile:
    """A panel in the grid, with its averaged cells, the rows and columns of a block, and the scale of its group."""

    axes: Axes
    row: int
    column: int
    panel: Panel
    cells: Cells
    block: tuple[int, int]
    group: tuple[str, str | int]
    scale: ColourScale

    @property
    def inches(self) -> Size:
        """The width and height of the axes."""
        box, figure = self.axes.get_window_extent(), self.axes.get_figure(root=True)
        assert figure is not None
        return box.width / figure.dpi, box.height / figure.dpi


def _is_table(panels: Sequence[Panel]) -> bool:
    """Whether panels have several labels, which are columns, and several places, which are rows."""
    return min(len({panel.label for panel in panels}), len({panel.place for panel in panels})) > 1


def _arranged(panels: Sequence[Panel], shape: Size, sheet: Sheet) -> tuple[int, list[int]]:
    """Return the number of columns, and the index of each panel in the grid, counted row by row.

    Labels are columns and places are rows; with many places, groups of columns stand side by side.
    """
    if not _is_table(panels):
        return columns_of(len(panels), shape, sheet), [*range(len(panels))]
    labels, places = (list(dict.fromkeys(getattr(panel, name) for panel in panels)) for name in ("label", "place"))
    many = len(labels)
    is_few = sheet.size is None and len(places) <= MOST_ROWS
    groups = 1 if is_few else columns_of(len(places), (many * shape[0], shape[1]), sheet, beside=BESIDE)
    return groups * many, [places.index(panel.place) * many + labels.index(panel.label) for panel in panels]


def _least_side(cells: int) -> float:
    """Return the smallest readable side, in em, of a panel with this number of cells along it."""
    return min(LEAST + LEAST_MORE * (cells - 1), LEAST_LONG)


def _panel_size(content: Heatmap, look: HeatmapLook, sheet: Sheet) -> Size:
    """Return the size of a panel on a page without a given size, with room for numbers in few cells."""
    panels = content.panels
    n, m = _sides(panels)
    longest = max(n, m)
    side = min(CELL * longest, SIDE + 0.012 * longest, LONGEST_SIDE)
    side = max(side * min(1.0, (FEW_PANELS / len(panels)) ** 0.5), min(side, SMALL_SIDE))
    if any(isinstance(axis, tuple) for panel in panels for axis in (panel.queries, panel.keys)):
        side = max(side, min(LINE * longest, LONGEST_NAMED))
    if look.annotate == "yes":
        side = max(side, min(CELL * longest, LONGEST_NUMBERED))
    digits = 7 if not content.stage else 6 if content.is_difference else 4 if content.stage in WEIGHTS else 5
    is_numbered = look.annotate == "yes" or n * m * len(panels) <= MOST_NUMBERS[look.annotate]
    wider = max(1.0, 1.05 * DIGIT * digits * NUMBER_POINTS / 72 / CELL) if is_numbered else 1.0
    least = [max(sheet.unit * CELL, ROOMIER * _least_side(cells) * sheet.em) for cells in (m, n)]
    width = wider * max(sheet.unit * m * side / longest, least[0])
    if content.has_bars:
        width = max(width, sheet.unit * SIDE / 2)
        return width, FLAT * width
    return width, max(sheet.unit * n * side / longest, least[1])


def _sides(panels: Sequence[Panel]) -> tuple[int, int]:
    """Return the largest numbers of queries and of keys."""
    return max(len(panel.queries) for panel in panels), max(len(panel.keys) for panel in panels)


def _block(panel: Panel, size: Size, sheet: Sheet) -> tuple[int, int]:
    """Return the rows and columns of cells per pixel on a panel of this size."""
    down, across = (max(1.0, side * sheet.dpi) for side in (size[1], size[0]))
    return math.ceil(len(panel.queries) / down), math.ceil(len(panel.keys) / across)


def _draw_cells(sheet: Sheet, look: HeatmapLook, tile: _Tile) -> None:
    """Draw a matrix as colours, hatched where it is masked, with axes in indices of cells."""
    axes, panel, cells, scale = tile.axes, tile.panel, tile.cells, tile.scale
    (down, across), (rows, columns) = tile.block, cells.shape
    top, left = (names.start if isinstance(names, range) else 0 for names in (panel.queries, panel.keys))
    if cells.mask.any():
        axes.patch.set(linewidth=0.0, **_masked(sheet))
    cmap = colour_map(sheet, look, is_diverging=scale.is_diverging)
    has_no_zero = scale.kind == "log" and not scale.is_diverging
    axes.imshow(
        scale.clip(cells.data),  # matplotlib draws infinities, and zeros on a logarithmic scale, as NaN
        cmap=cmap.with_extremes(bad=_nan_colour(cmap), under=sheet.ground if has_no_zero else None),
        norm=scale.norm,
        alpha=(~cells.mask).astype(float),
        aspect="auto",
        interpolation="nearest",
        extent=(left - 0.5, left + columns * across - 0.5, top + rows * down - 0.5, top - 0.5),
    )
    axes.set(xlim=(left - 0.5, left + len(panel.keys) - 0.5), ylim=(top + len(panel.queries) - 0.5, top - 0.5))


def _hints(content: Heatmap, tile: _Tile) -> Iterator[Hint]:
    """Yield the number of each cell of a panel, with the names of its row and column."""
    panel, (vertical, horizontal) = tile.panel, content.sides
    for i, j in np.argwhere(~np.ma.getmaskarray(tile.cells)).tolist() if tile.block == (1, 1) else ():
        names = f"{panel.label}, {vertical} {panel.queries[i]}, {horizontal} {panel.keys[j]}"
        yield Hint(tile.axes, f"{names}: {panel.quantity} {number(float(tile.cells[i, j]))}", (j, i), (1.0, 1.0))


def _draw_bars(sheet: Sheet, tiles: Sequence[_Tile]) -> None:
    """Draw single queries as bars, hatched where keys are masked; panels of a group share their axis."""
    lines, first = sheet.lines(tile.panel.label for tile in tiles), dict[Any, Axes]()
    for tile in tiles:
        axes, keys, across, (values,) = tile.axes, tile.panel.keys, tile.block[1], tile.cells
        if first.setdefault(tile.group, axes) is not axes:
            axes.sharey(first[tile.group])
        left = keys.start if isinstance(keys, range) else 0
        middles = left - 0.5 + across * (np.arange(len(values)) + 0.5)
        shown = np.clip(values.filled(np.nan), tile.scale.low, tile.scale.high)
        axes.bar(middles, shown, 0.8 * across, color=lines[tile.panel.label]["color"])
        hidden = middles[np.ma.getmaskarray(values)]
        axes.bar(hidden, 1.0, across, transform=axes.get_xaxis_transform(), linewidth=0.0, **_masked(sheet))
        axes.axhline(0.0, color=sheet.ink(), linewidth=sheet.settings["axes.linewidth"])
        axes.margins(y=HEADROOM)
        if not np.any(shown[np.isfinite(shown)]):
            axes.set_ylim(-1.0, 1.0)  # of zeros alone, limits would be rounding errors
        axes.yaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10]))
        axes.yaxis.set_major_formatter(PlainFormatter())
        axes.set_xlim(left - 0.5, left + len(keys) - 0.5)


def _masked(sheet: Sheet) -> dict[str, Any]:
    """Return the hatching of masked cells."""
    return {"facecolor": sheet.ink(0.1), "edgecolor": sheet.ink(0.38), "hatch": "/////"}


def _nan_colour(cmap: Colormap) -> str:
    """Return the colour of NaN: the candidate farthest from all colours of the map."""
    used = cmap(np.linspace(0, 1, 64))[:, :3]
    return max(NAN_COLOURS, key=lambda name: float(np.abs(used - to_rgb(name)).sum(axis=1).min()))


def _box(axes: Sequence[Axes]) -> BboxBase:
    """Return the box around panels, relative to the figure."""
    return Bbox.union([each.get_position() for each in axes])


def _align(bar: Axes, above: BboxBase) -> None:
    """Make a colour bar nearly as wide as the panels above it."""
    bar.apply_aspect()
    box = bar.get_position()
    bar.set_box_aspect(None)
    bar.set_position((above.x0 + (1 - SHRINK) / 2 * above.width, box.y0, SHRINK * above.width, box.height))


def _draw_colour_bars(figure: Picture, tiles: Sequence[_Tile], panel: Size) -> list[tuple[Axes, list[Axes]]]:
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
        label = figure.translation(scale.label(group[0].panel.shown_quantity))
        bar = figure.colorbar(
            group[0].axes.images[0],
            ax=[tile.axes for tile in group],
            label=folded(label, length + sheet.unit * AROUND[0], sheet),
            extend=scale.extend,
            ticks=None if scale.kind == "log" else MaxNLocator("auto", steps=[1, 2, 5, 10]),
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


def _draw_legend(figure: Picture, tiles: Sequence[_Tile], footnote: str) -> None:
    """Draw a legend below the panels, with the hatching and the colour of NaN, if they occur, and the footnote."""
    handles, ink = [], figure.sheet.ink(0.85)
    if any(tile.cells.mask.any() for tile in tiles):
        handles.append(Patch(label="masked", linewidth=0.6, **_masked(figure.sheet)))
    if any(np.isnan(tile.cells.compressed()).any() for tile in tiles) and tiles[0].axes.images:
        bad: Any = tiles[0].axes.images[0].get_cmap().get_bad()
        handles.append(Patch(label="NaN", facecolor=bad, edgecolor=ink, linewidth=0.6))
    if handles or footnote:
        figure.legend(handles=handles, title=footnote or None, alignment="left", loc="outside lower left")


def _lay_out(figure: Picture, content: Heatmap, tiles: Sequence[_Tile], wanted: Size, widest: float, note: Note) -> str:
    """Name the panels and their axes, and lay them out; return a phrase on omitted labels, empty if there are none.

    Names of keys, and labels above columns, stand upright in all panels if any two of them would overlap.
    """
    n, m = _sides(content.panels)
    least = _least_side(m), LEAST_LONG if content.has_bars else _least_side(n)
    sizes = [wanted if figure.sheet.size is None else (wanted[0] / SLOT, wanted[1] / SLOT)] * len(tiles)
    upright, steps, notes, page = set[str](), _steps(figure, tiles, sizes), list[str](), figure.get_size_inches()
    is_one_row = _is_table(content.panels) or not any(tile.row for tile in tiles)
    for may_turn in (
        {"keys"},
        *[{"keys", "titles"} if is_one_row else {"keys"}] * 3,
    ):  # titles are folded anew at first
        _name(content, tiles, figure.sheet, upright, steps, sizes)
        figure.set_size_inches(*page)
        figure.set_layout_engine("constrained")
        notes.clear()
        lay_out(figure, wanted, notes.append, content.name, widest=widest, least=least)
        sizes, crowded = [tile.inches for tile in tiles], _crowded(figure, tiles) - upright
        before, turned = steps, crowded & may_turn
        if not turned:
            steps = {side: max(step, steps[side]) for side, step in _steps(figure, tiles, sizes).items()}
        if not crowded and steps == before:
            break
        upright |= turned
    for each in notes:
        note(each)
    return ", ".join(f"one in {step} of the {side} is shown" for side, step in before.items() if step > 1)


def _steps(figure: Picture, tiles: Sequence[_Tile], sizes: Sequence[Size]) -> dict[str, int]:
    """Return the steps from one token of the queries and of the keys to the next on panels of these sizes in inches."""
    found = {"queries": 1, "keys": 1}
    for tile, (width, height) in zip(tiles, sizes, strict=True):
        for side, length in (("queries", height), ("keys", width)):
            names = getattr(tile.panel, side)
            if isinstance(names, tuple):
                step = math.ceil(LINE * figure.sheet.unit * len(names) / length - 0.05)
                found[side] = max(found[side], step)
    return found


def _name(
    content: Heatmap,
    tiles: Sequence[_Tile],
    sheet: Sheet,
    upright: Set[str],
    steps: Mapping[str, int],
    sizes: Sequence[Size],
) -> None:
    """Write labels above their columns and places beside their rows, or both above panels that are no table.

    Queries are labelled beside each row of panels and keys below each column, and where they differ between panels;
    one token in `steps`. `sizes` are the sizes of the panels in inches.
    """
    there = {(tile.row, tile.column): tile for tile in tiles}
    is_table = _is_table(content.panels)
    several = {name: len({getattr(tile.panel, name) for tile in tiles}) > 1 for name in ("label", "place")}
    for tile, (width, _) in zip(tiles, sizes, strict=True):
        axes, panel = tile.axes, tile.panel
        above, below_, left = (
            there.get((tile.row + down, tile.column + right)) for down, right in ((-1, 0), (1, 0), (0, -1))
        )
        title = panel.place if several["place"] and not several["label"] else panel.label
        inches = sheet.unit * (SMALL_SIDE if "titles" in upright else AROUND[0]) + width
        title = "" if is_table and above else folded(title, inches, sheet)
        axes.set_title(title, rotation=90 if "titles" in upright else 0)
        if is_table and (left is None or left.panel.place != panel.place):
            axes.set_ylabel(panel.place.replace(", ", "\n"), rotation=0, ha="right", va="center")
        axes.set_xlabel("" if below_ else folded(content.sides[1], width, sheet))
        if content.has_bars:
            axes.tick_params(labelleft=left is None or left.group != tile.group)
        else:
            is_labelled = left is None or left.panel.queries != panel.queries
            _set_ticks(axes.yaxis, panel.queries if is_labelled else (), steps["queries"])
        is_labelled = below_ is None or below_.panel.keys != panel.keys
        _set_ticks(axes.xaxis, panel.keys if is_labelled else (), steps["keys"])
        axes.tick_params(axis="x", labelrotation=90 if "keys" in upright else 0)


def _set_ticks(axis: Axis, names: tuple[str, ...] | range, step: int) -> None:
    """Label an axis with indices, or with one token in `step`."""
    if isinstance(names, range):
        axis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10], integer=True, min_n_ticks=min(2, len(names))))
    else:
        axis.set_ticks(range(0, len(names), step), labels=names[::step])


def _crowded(figure: Picture, tiles: Sequence[_Tile]) -> set[str]:
    """Return which of `titles`, `labels` of axes and `keys` overlap in a row of panels."""
    boxes = dict[tuple[str, int], list[Any]]()
    for tile in tiles:
        low, high = tile.axes.get_xlim()
        labels = zip(tile.axes.get_xticks(), tile.axes.get_xticklabels(), strict=True)
        keys = [label for place, label in labels if low <= place <= high]
        for kind, texts in (("titles", [tile.axes.title]), ("labels", [tile.axes.xaxis.label]), ("keys", keys)):
            boxes.setdefault((kind, tile.row), []).extend(text.get_window_extent() for text in texts if text.get_text())
    gap = GAP * figure.sheet.em * figure.dpi
    return {kind for (kind, _), row in boxes.items() if any(a.x1 + gap > b.x0 for a, b in pairwise(row))}


def _number_format(
    content: Heatmap, look: HeatmapLook, tiles: Sequence[_Tile], values: Numbers, unit: float
) -> str | None:
    """Return the format of the numbers in cells; None if they are turned off or do not fit."""
    if look.annotate == "no" or not 0 < values.size <= MOST_NUMBERS[look.annotate]:
        return None
    largest = float(np.abs(values[np.isfinite(values)]).max(initial=0.0))
    decimals = cell_decimals(largest)
    spec = "" if not content.stage else "z.0e" if decimals is None else f"z.{decimals}f"
    spec = "+" * content.is_difference + spec
    points = NUMBER_POINTS * unit
    width = DIGIT * points * max(len(_number_text(value, spec)) for value in values.tolist())
    fits = all(
        72 * tile.inches[0] / len(tile.panel.keys) > width
        and 72 * tile.inches[1] / len(tile.panel.queries) > 1.3 * points
        for tile in tiles
    )
    return spec if fits else None


def _number_text(value: float, spec: str) -> str:
    """Return a number formatted by `spec`, by default as in tables, with the sign `−` and a short exponent."""
    text = f"{value:{spec}}" if spec else number(value, 3)
    text = text.replace("inf", "∞").replace("e+0", "e").replace("e-0", "e-").replace("e+", "e")
    return text.replace("-", "−")


def _write_numbers(tile: _Tile, spec: str, points: float) -> None:
    """Write numbers above bars, or into cells in black or white for the higher contrast (WCAG 2.2)."""
    axes, cells = tile.axes, tile.cells
    if not axes.images:
        texts = ["" if math.isnan(value) else _number_text(value, spec) for value in cells[0].filled(np.nan).tolist()]
        drawn: Any = axes.containers[0]
        axes.bar_label(drawn, texts, fontsize=points, padding=1.0)
        return
    image: Any = axes.images[0]
    rgb = np.asarray(image.to_rgba(image.get_array()))[..., :3]
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    colours = np.where(linear @ (0.2126, 0.7152, 0.0722) > 0.179, "black", "white")
    look: dict[str, Any] = {"ha": "center", "va": "center_baseline", "fontsize": points}
    for i, j in np.argwhere(~cells.mask & ~np.isnan(cells.data)).tolist():
        axes.text(j, i, _number_text(float(cells.data[i, j]), spec), color=str(colours[i, j]), **look)


def _footnote(blocks: Sequence[tuple[int, int]]) -> str:
    """Return a sentence on the cells per pixel; empty if each cell has at least a pixel."""
    down, across = (max(sides) for sides in zip(*blocks, strict=True))
    upto = "up to " if len(set(blocks)) > 1 else ""
    return f"each pixel is the mean of {upto}{down} × {across} cells" if down * across > 1 else ""


def _notes(tiles: Sequence[_Tile], footnote: str) -> Iterator[str]:
    """Yield notes on NaN, infinite values and cells that share a pixel."""
    lost = [int(np.isnan(tile.cells.compressed()).sum()) for tile in tiles]
    labels = dict.fromkeys(tile.panel.label for tile, count in zip(tiles, lost, strict=True) if count)
    if labels:
        yield f"NaN in {sum(lost)} {'pixels' if footnote else 'valid cells'} of {', '.join(labels)}"
    if infinite := sum(int(np.isinf(tile.cells.compressed()).sum()) for tile in tiles):
        yield f"{infinite} infinite values have the colours of the ends of the scale"
    if footnote:
        n, m = max((tile.panel.values.shape for tile in tiles), key=lambda shape: shape[0] * shape[1])
        yield f"{n} × {m} cells do not fit: {footnote}"
