"""Heatmaps: the matrices of a stage as panels that can be compared."""

import math
from collections.abc import Iterator, Sequence, Set
from dataclasses import replace
from functools import partial
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator, NullFormatter
from rich.cells import cell_len

from attncli.config.looks import Annotate, HeatmapLook, Look
from attncli.errors import InputError, did_you_mean, got, printable
from attncli.results import Matrices
from attncli.show.pictures.cells import (
    DIGIT,
    MOST_NUMBERS,
    NUMBER_POINTS,
    DrawnPanel,
    colour_map,
    draw_cells,
    masked_look,
    number_format,
    write_numbers,
)
from attncli.show.pictures.figures import Note, Picture, drawing, ignore_note
from attncli.show.pictures.matrices import (
    Heatmap,
    Panel,
    block_means,
    choice_in_words,
    differences,
    limited,
    select,
    single_queries_joined,
    subtracted,
    zoom,
)
from attncli.show.pictures.panels import (
    BOTH_COLUMNS,
    CHARACTER,
    PlainFormatter,
    Size,
    check_panel,
    column_width,
    folded,
    grid_columns,
    lay_out,
    page,
)
from attncli.show.pictures.scales import WEIGHTS, colour_scale, difference_name
from attncli.show.pictures.themes import POINTS, Settings, Sheet

PLAIN = HeatmapLook()
FRAMED: Settings = {"axes.grid": False, "axes.spines.top": True, "axes.spines.right": True}
CELL, LINE = 0.33, 0.12  # inches of a cell with a number, and of a line with a token
SIDE, LARGE = 3.3, 18.0  # largest side of a panel in inches, and of a page with `annotate: yes`
FEW_PANELS, SMALL_SIDE = 4, 2.0  # with more panels than these, they are smaller
LEAST_PANEL = (0.8, 0.3)  # inches of a panel
MOST_ROWS = 4  # of heads or batch elements below each other on a page without a given size; more stand side by side
LEFT, RIGHT, BELOW = 0.55, 0.85, 0.45  # inches around all panels, for labels and the colour bar
GAP, TITLE = 0.12, 0.3  # inches between panels, and above a panel for its title
BAR, SHORT_BAR = 0.12, 1.2  # inches; width of a colour bar, and length with few numbers beside it
BAR_BELOW = 0.55  # inches below the panels for a colour bar with its numbers and label


def heatmap_figure(
    matrices: Matrices,
    look: HeatmapLook = PLAIN,
    *,
    labels: Sequence[str] | None = None,
    batches: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    indices: Sequence[tuple[int, int]] | None = None,
    note: Note = ignore_note,
) -> Picture:
    """Return a heatmap with a column for each label, and a row for each batch element and head.

    Args:
        matrices: tensors (n, m), (b, n, m) or (b, heads, n, m); further axes count as heads, too.
        look: colours, limits and numbers, the range of queries and keys, and the label to subtract.
        labels: the labels to draw, in order; all by default.
        batches: the batch elements to draw, counted from 0, in order; all by default.
        heads: the heads to draw, counted from 0, in order; all by default.
        indices: pairs of batch element and head to draw, in order, instead of `batches` and `heads`.
        note: is called with a sentence on values that are left out, averaged, cut off or not a number.

    Raises:
        InputError: a label, batch element, head or range does not exist, or a tensor has no matrices.
    """
    if look.minus is not None:
        if look.minus not in matrices.tensors:
            raise InputError.of(got(look.minus, "unknown label", did_you_mean(look.minus, matrices.tensors)), ["minus"])
        labels = None if labels is None else list(dict.fromkeys([*labels, look.minus]))
    panels = limited(zoom(select(matrices, labels, batches, heads, indices), look), note)
    before = {printable(label) for label in matrices.with_dropout if matrices.stage == "weights"}
    names = [matrices.layer, choice_in_words(matrices, panels)]
    return stage_figure(panels, matrices.stage, look, note, before_dropout=before, names=names, about=matrices.about)


def stage_figure(
    panels: Sequence[Panel],
    stage: str,
    look: HeatmapLook,
    note: Note,
    *,
    before_dropout: Set[str] = frozenset(),
    names: Sequence[str] = (),
    about: str | None = None,
) -> Picture:
    """Return a heatmap of panels of one stage.

    Args:
        panels: matrices with their names.
        stage: the stage of attention, or a name of the quantity.
        look: the user's options.
        note: is called with a sentence on anything that is left out.
        before_dropout: labels of panels that show weights before dropout, which the picture then mentions.
        names: of the layer, and of the panels in words, for the title.
        about: the question of the experiment, if it has one, which is the title then.
    """
    if {panel.label for panel in panels} <= before_dropout:
        panels = [replace(panel, quantity=f"{panel.quantity} before dropout") for panel in panels]
        before_dropout = frozenset()
    title = _title(panels, stage)
    if look.minus is not None:
        panels = differences(panels, look.minus)
    panels = [replace(p, label=f"{p.label} before dropout") if p.label in before_dropout else p for p in panels]
    queries = {str(panel.queries[0]) for panel in panels if len(panel.queries) == 1}
    panels, side = single_queries_joined(panels)
    labels, rows = ([*{getattr(panel, name) for panel in panels}] for name in ("label", "row_name"))
    common = rows if len(rows) == 1 else labels if len(labels) == 1 else []
    if look.minus is not None:
        of = f", {labels[0]} − " if len(labels) == 1 else " − that of "
        title, common = f"{title}{of}{printable(look.minus)}", [name for name in common if name not in labels]
    common += [f"query {name}" for name in queries - {"0"} if len(queries) == 1]
    names_in_title = [*filter(None, (*names[:1], *common, *names[1:]))]
    is_named = names_in_title or not about or look.minus is not None  # else the bar has the title
    title = ", ".join([title, *names_in_title]) if is_named else ""
    return draw_heatmap(Heatmap(panels, title, stage, (side, "Keys"), about=about), look, note)


def _title(panels: Sequence[Panel], stage: str) -> str:
    return f"attention {panels[0].quantity}" if stage in WEIGHTS else panels[0].quantity


def runs_figure(
    a: Matrices,
    b: Matrices,
    labels: Sequence[str],
    indices: Sequence[tuple[int, int]],
    names: tuple[str, str],
    look: HeatmapLook = PLAIN,
    note: Note = ignore_note,
) -> Picture:
    """Return a heatmap of the differences `b` - `a` between the matrices of two runs, whose names are `names`.

    `labels` must have matrices of the same shape in both runs; `indices` are pairs of batch element and head.
    """
    ours, theirs = (zoom(select(matrices, labels, None, None, indices), look) for matrices in (a, b))
    title = f"{_title(theirs, b.stage)}, {printable(names[1])} − {printable(names[0])}"
    changes = limited([subtracted(q, p) for p, q in zip(ours, theirs, strict=True)], note)
    panels, side = single_queries_joined(changes)
    return draw_heatmap(Heatmap(panels, title, b.stage, (side, "Keys")), look, note)


def check_look(look: Look) -> None:
    """Raise InputError for a size with too many dots, a wrong font or colour map."""
    with drawing((), ignore_note, look) as sheet:
        if isinstance(look, HeatmapLook):
            colour_map(sheet, look)


def draw_heatmap(content: Heatmap, look: Look, note: Note) -> Picture:
    """Return a picture of panels in a grid, with ticks, numbers, colour bars and a legend.

    Figures other than a stage of attention have numbers in their cells if there are few, and ranges of queries and
    keys do not apply to them. `note` is called with a sentence on anything that is left out.
    """
    if look.panel is not None:
        check_panel(look.panel, len(content.panels), content.name)
        content = replace(content, panels=content.panels[look.panel - 1 : look.panel])
    panels = content.panels
    if not content.stage:
        count = sum(panel.values.numel() if panel.valid is None else int(panel.valid.sum()) for panel in panels)
        annotate: Annotate = "yes" if count <= MOST_NUMBERS["auto"] else "auto"
        look = HeatmapLook(**{name: getattr(look, name) for name in Look.model_fields}, annotate=annotate)
    assert isinstance(look, HeatmapLook)
    texts = {text for panel in panels for text in (panel.label, *panel.queries, *panel.keys)}
    with drawing([content.title, *map(str, texts)], note, look, content.about) as sheet, matplotlib.rc_context(FRAMED):
        figure, axes, size = _page(content, look, sheet)
        tiles = _tiles(content, look, axes, size, sheet)
        for tile in tiles:
            draw_cells(sheet, look, tile)
        _draw_colour_bars(figure, tiles, size)
        footnote = _footnote([tile.block for tile in tiles])
        _draw_legend(figure, tiles, footnote)
        _name(figure, content, tiles, size)
        m, n = (max(len(getattr(panel, side)) for panel in panels) for side in ("keys", "queries"))
        least = min(1.3 + 0.3 * (m - 1), 3.4), min(1.3 + 0.3 * (n - 1), 3.4)  # em
        lay_out(figure, note, content.name, least=least, adjust=partial(_fit_titles, tiles, sheet))
        _thin_out(tiles, sheet, note)
        spec = None if footnote else number_format(content, look, tiles, sheet.unit)
        for tile in tiles if spec is not None else ():
            write_numbers(tile, str(spec), NUMBER_POINTS * sheet.unit)
        if look.annotate == "yes" and content.stage and spec is None:
            note("no numbers in the cells: too many cells, or too small ones")
    for line in _notes(tiles, footnote):
        note(line)
    return figure


def _page(content: Heatmap, look: HeatmapLook, sheet: Sheet) -> tuple[Picture, list[Axes], Size]:
    """Return a picture with axes for the panels, and about the size of a panel in inches.

    Labels are columns, heads and batch elements are rows; with many rows, groups of columns stand side by side.
    """
    panels = content.panels
    labels, names = (list(dict.fromkeys(getattr(panel, name) for panel in panels)) for name in ("label", "row_name"))
    width, height = _panel_size(content, look)
    is_table = min(len(labels), len(names)) > 1
    groups = len({*content.groups(look)})
    beside = 0.0 if groups in (1, len(labels)) else RIGHT  # bars of labels stand below
    words = max(cell_len(word) for name in names for word in name.split(", "))  # each has a line
    left = CHARACTER * (_longest(panels, "queries") + words * is_table) * POINTS / 72 + LEFT
    if is_table:
        few = sheet.size is None and len(names) <= MOST_ROWS
        shape = len(labels) * width, height
        columns = len(labels) * (1 if few else grid_columns(len(names), shape, sheet, (left, 0.0)))
        slots = [names.index(panel.row_name) * len(labels) + labels.index(panel.label) for panel in panels]
    else:
        columns = grid_columns(len(panels), (width, height), sheet, (GAP + beside, TITLE))
        slots = [*range(len(panels))]
    rows = max(slots) // columns + 1
    below = CHARACTER * _longest(panels, "keys") * POINTS / 72 + BELOW
    below += BAR_BELOW if 1 < groups == len(labels) else 0.0
    title_height = GAP if is_table and sheet.size is None else TITLE
    beyond = left + columns * (GAP + beside) + RIGHT, below + rows * title_height  # of the panels
    share = min(1.0, ((LARGE if look.annotate == "yes" else BOTH_COLUMNS) - beyond[0]) / columns / width)
    rows_label = CHARACTER * cell_len(content.sides[0]) * POINTS / 72
    height = max(share * height, LEAST_PANEL[1] * (1 + is_table), rows_label / rows)
    figure = page(sheet, (beyond[0] + columns * share * width, beyond[1] + rows * height), content.title)
    inside = figure.get_size_inches() - sheet.unit * np.array(beyond)
    size = np.maximum(inside / (columns, rows), sheet.unit * np.array(LEAST_PANEL) / 2).tolist()
    figure.suppressComposite = True  # keep each panel a separate image in SVG and PDF
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for slot in {*range(len(axes))} - {*slots}:
        axes[slot].remove()
    return figure, [axes[slot] for slot in slots], (size[0], size[1])


def _longest(panels: Sequence[Panel], side: str) -> int:
    """Return the number of characters of the longest token of a side."""
    return max(cell_len(str(name)) for panel in panels for name in getattr(panel, side))


def _panel_size(content: Heatmap, look: HeatmapLook) -> Size:
    """Return the size of a panel in inches on a page without a given size, with room for numbers in few cells."""
    panels = content.panels
    n, m = (max(len(getattr(panel, side)) for panel in panels) for side in ("queries", "keys"))
    side = min(CELL * max(n, m), SIDE if len(panels) <= FEW_PANELS else SMALL_SIDE)
    wider = 1.0
    if look.annotate == "yes" or n * m * len(panels) <= MOST_NUMBERS[look.annotate]:
        digits = 7 if not content.stage else 6 if content.is_difference else 4 if content.stage in WEIGHTS else 5
        side = min(CELL * max(n, m), LARGE if look.annotate == "yes" else SIDE)
        wider = max(1.0, 1.05 * DIGIT * digits * NUMBER_POINTS / 72 / CELL)
    return max(wider * side * m / max(n, m), LEAST_PANEL[0]), max(side * n / max(n, m), LEAST_PANEL[1])


def _name(figure: Picture, content: Heatmap, tiles: Sequence[DrawnPanel], size: Size) -> None:
    """Write labels above their columns and heads beside their rows, or both above panels that are no table.

    Queries are labelled beside each row of panels and keys below each column, and where they differ between panels.
    Keys that would not fit flat stand upright.
    """
    sheet, by_place = figure.sheet, {tile.place: tile for tile in tiles}
    several = {name: len({getattr(tile.panel, name) for tile in tiles}) > 1 for name in ("label", "row_name")}
    is_table = all(several.values())
    figure.rows_label = figure.supylabel(content.sides[0], fontsize=sheet.points)
    for tile in tiles:
        axes, panel, (row, column) = tile.axes, tile.panel, tile.place
        above, below, left = (by_place.get((row + down, column + right)) for down, right in ((-1, 0), (1, 0), (0, -1)))
        title = panel.row_name if several["row_name"] and not is_table else panel.label
        if not (is_table and above):
            axes.set_title(folded(title, column_width(axes), sheet))
        if is_table and (left is None or left.panel.row_name != panel.row_name):
            name = panel.row_name.replace(", ", "\n")
            axes.set_ylabel(name, rotation=0, ha="right", va="center", labelpad=sheet.points)
        axes.set_xlabel("" if below else folded(content.sides[1], size[0] + GAP, sheet))
        queries = panel.queries if left is None or left.panel.queries != panel.queries else ()
        keys = panel.keys if below is None or below.panel.keys != panel.keys else ()
        for axis, names, inches in ((axes.yaxis, queries, size[1]), (axes.xaxis, keys, size[0])):
            if isinstance(names, range):
                least = min(2, len(names)) if _step(names, inches, sheet) == 1 else 1
                axis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10], integer=True, min_n_ticks=least))
                continue
            step = _step(names, max(figure.get_size_inches()), sheet)  # the rest takes time, and is thinned out later
            axis.set_ticks(range(0, len(names), step), labels=names[::step])
        if isinstance(keys, tuple) and keys:
            is_flat = CHARACTER * sheet.em * (max(map(cell_len, keys)) + 1) <= size[0] / len(panel.keys)
            axes.tick_params(axis="x", labelrotation=0 if is_flat else 90)


def _step(names: Any, inches: float, sheet: Sheet) -> int:
    """Return one in how many names has room along an axis of this length."""
    return max(1, math.ceil(LINE * sheet.unit * len(names) / inches - 0.05))


def _fit_titles(tiles: Sequence[DrawnPanel], sheet: Sheet) -> bool:
    """Fold titles that cover others, or turn those of a single row if that does not do; return whether any is wide."""
    starts = {tile.place[1]: tile.axes.get_window_extent().x0 for tile in tiles}
    room = np.diff(sorted(starts.values())).min(initial=math.inf)
    titles = {tile.axes.title: tile.place[0] for tile in tiles if tile.axes.get_title()}

    def is_wide() -> bool:
        return any(title.get_window_extent().width > room for title in titles)

    if not is_wide():
        return False
    texts = [title.get_text().replace("_\n", "_").replace("\n", " ") for title in titles]
    for title, text in zip(titles, texts, strict=True):
        title.set_text(folded(text, room / sheet.dpi, sheet))
    if is_wide() and len({*titles.values()}) == 1:
        for title, text in zip(titles, texts, strict=True):
            title.set(text=text, rotation=90)
    return True


def _thin_out(tiles: Sequence[DrawnPanel], sheet: Sheet, note: Note) -> None:
    """Leave out tokens that would cover others on the panels in their places, with a call of `note`."""
    steps = {"queries": 1, "keys": 1}
    for tile in tiles:
        for side, axis, inches in zip(steps, (tile.axes.yaxis, tile.axes.xaxis), tile.inches[::-1], strict=True):
            ticks, names = axis.get_majorticklocs(), getattr(tile.panel, side)
            if isinstance(names, tuple) and len(ticks):
                step = _step(ticks, inches, sheet)
                axis.set_ticks(ticks[::step], labels=[label.get_text() for label in axis.get_majorticklabels()[::step]])
                steps[side] = max(steps[side], step * math.ceil(len(names) / len(ticks)))
    thinned = " and ".join(f"one in {step} {side}" for side, step in steps.items() if step > 1)
    if thinned:
        note(f"not all tokens have room: {thinned} is labelled")


def _draw_colour_bars(figure: Picture, tiles: Sequence[DrawnPanel], size: Size) -> None:
    """Draw a colour bar beside the panels of each group, or below each column if columns are groups.

    Numbers side by side need more room than numbers below each other: a bar below has its ends alone, and 0.
    """
    by_group, by_column = dict[object, list[DrawnPanel]](), dict[object, list[DrawnPanel]]()
    for tile in tiles:
        by_group.setdefault(tile.group, []).append(tile)
        by_column.setdefault(tile.place[1], []).append(tile)
    is_below = len(by_group) > 1 and all(len({tile.group for tile in column}) == 1 for column in by_column.values())
    for group in (by_column if is_below else by_group).values():
        scale = group[0].scale
        length = size[0] if is_below else size[1] * len({tile.place[0] for tile in group})
        panel = group[0].panel
        quantity = panel.quantity if panel.minus is None else difference_name(panel.quantity)
        label = scale.label("" if panel.quantity == panel.label else quantity, figure.translation)
        bar = figure.colorbar(
            group[0].axes.images[0],
            ax=[tile.axes for tile in group],
            label=folded(label, max(length, figure.sheet.unit), figure.sheet),
            extend=scale.extend,
            ticks=scale.ticks(is_short=is_below or length < SHORT_BAR * figure.sheet.unit),
            format=PlainFormatter(),
            location="bottom" if is_below else "right",
            aspect=length / BAR / figure.sheet.unit,
            pad=0.02,
        )
        bar.ax.set_label("bar")
        figure.translated.append(bar.long_axis.label)
        bar.long_axis.set_minor_formatter(NullFormatter())


def _tiles(content: Heatmap, look: HeatmapLook, axes: Sequence[Axes], size: Size, sheet: Sheet) -> list[DrawnPanel]:
    """Return the panels with their axes, their averaged cells, and the colour scales of their groups."""
    groups, blocks = content.groups(look), [_block(panel, size, sheet) for panel in content.panels]
    cells = [block_means(p.values, p.valid, *block, p.minus) for p, block in zip(content.panels, blocks, strict=True)]
    by_group: dict[Any, list[Any]] = {group: [] for group in groups}
    for group, panel_cells in zip(groups, cells, strict=True):
        by_group[group].append(panel_cells.compressed())
    options: dict[str, Any] = {"is_difference": content.is_difference, "kind": look.colours, "high": look.vmax}
    limits = {group: panel.limit for group, panel in zip(groups, content.panels, strict=True)}
    scales = {
        group: colour_scale(values, content.stage, limit=limits[group], **options) for group, values in by_group.items()
    }
    return [
        DrawnPanel(*fields, scales[fields[-1]])
        for fields in zip(axes, content.panels, cells, blocks, groups, strict=True)
    ]


def _block(panel: Panel, size: Size, sheet: Sheet) -> tuple[int, int]:
    """Return the rows and columns of cells per pixel on a panel of this size."""
    down, across = (max(1.0, side * sheet.dpi) for side in (size[1], size[0]))
    return math.ceil(len(panel.queries) / down), math.ceil(len(panel.keys) / across)


def _draw_legend(figure: Picture, tiles: Sequence[DrawnPanel], footnote: str) -> None:
    """Draw a legend below the panels, with the hatching and the colour of NaN, if they occur, and the footnote."""
    handles, ink = [], figure.sheet.ink(0.85)
    if any(tile.cells.mask.any() for tile in tiles):
        handles.append(Patch(label="masked", linewidth=0.6, **masked_look(figure.sheet)))
    if any(np.isnan(tile.cells.compressed()).any() for tile in tiles):
        bad: Any = tiles[0].axes.images[0].get_cmap().get_bad()
        handles.append(Patch(label="NaN", facecolor=bad, edgecolor=ink, linewidth=0.6))
    if handles or footnote:
        figure.legend(handles=handles, title=footnote or None, alignment="left", loc="outside lower left")


def _footnote(blocks: Sequence[tuple[int, int]]) -> str:
    """Return a sentence on the cells per pixel; empty if each cell has at least a pixel."""
    down, across = (max(sides) for sides in zip(*blocks, strict=True))
    upto = "up to " if len(set(blocks)) > 1 else ""
    return f"each pixel is the mean of {upto}{down} × {across} cells" if down * across > 1 else ""


def _notes(tiles: Sequence[DrawnPanel], footnote: str) -> Iterator[str]:
    """Yield notes on NaN, infinite values and cells that share a pixel."""
    lost = [int(np.isnan(tile.cells.compressed()).sum()) for tile in tiles]
    labels = dict.fromkeys(tile.panel.label for tile, count in zip(tiles, lost, strict=True) if count)
    if labels:
        yield f"NaN in {sum(lost)} {'pixels' if footnote else 'cells'} of {', '.join(labels)}"
    if infinite := sum(int(np.isinf(tile.cells.compressed()).sum()) for tile in tiles):
        yield f"{infinite} infinite values have the colours of the ends of the scale"
    if footnote:
        n, m = max((tile.panel.values.shape for tile in tiles), key=lambda shape: shape[0] * shape[1])
        yield f"{n} × {m} cells do not fit: {footnote}"
