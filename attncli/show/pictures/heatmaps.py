"""Heatmaps: the matrices of a stage as panels that can be compared."""

import math
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import replace
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from attncli.config.looks import Annotate, HeatmapLook, Look
from attncli.errors import Collector, InputError, did_you_mean, got, printable
from attncli.results import Column, Matrices, Row
from attncli.show.pictures.arranging import AROUND, ROOMY, SLOT, arranged, name_and_lay_out, panel_size
from attncli.show.pictures.cells import (
    MOST_NUMBERS,
    NUMBER_POINTS,
    DrawnPanel,
    colour_map,
    draw_cells,
    masked_look,
    number_format,
    write_numbers,
)
from attncli.show.pictures.colour_bars import LONGEST_BAR_PAGE, align_bar, box_around, draw_colour_bars
from attncli.show.pictures.figures import Note, Picture, drawing, ignore_note
from attncli.show.pictures.matrices import (
    Heatmap,
    Panel,
    block_means,
    differences,
    limited,
    part_shown,
    select,
    single_queries_joined,
    subtracted,
    zoom,
)
from attncli.show.pictures.panels import BOTH_COLUMNS, COLUMN, Size, folded, grid, thin_ticks
from attncli.show.pictures.scales import WEIGHTS, colour_scale
from attncli.show.pictures.themes import Settings, Sheet
from attncli.show.pictures.words import check_words, texts_in

PLAIN = HeatmapLook()
FRAMED: Settings = {"axes.grid": False, "axes.spines.top": True, "axes.spines.right": True}


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
    names = [matrices.layer, part_shown(matrices, panels)]
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
    parts = [part for part in (*names[:1], *common, *names[1:]) if part]
    title = ", ".join([title, *parts]) if parts or not about or look.minus is not None else ""  # the bar has it
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


def check_look(look: Look, config: Row | None = None, columns: Iterable[Column] = ()) -> None:
    """Raise InputError for a size with too many dots, a wrong font or colour map, or words unknown in the config.

    Words may be texts of pictures in general, of the config and of its study's columns. The tokens of a captured model
    are not known yet.
    """
    collector = Collector()
    with drawing((), ignore_note, look) as sheet:
        with collector.under():
            if config is not None and not config.get("data", {}).get("capture"):
                check_words(look, {*texts_in({**config, "figure": ()}), *(column.name_with_unit for column in columns)})
        with collector.under():
            if isinstance(look, HeatmapLook):
                colour_map(sheet, look)
        collector.check()


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
    with drawing([content.title, *map(str, texts)], note, look, content.about) as sheet, matplotlib.rc_context(FRAMED):
        figure, axes, wanted, widest = _page(content, look, sheet)
        tiles = _tiles(content, look, axes, wanted, sheet)
        rows = 1 + max(tile.row for tile in tiles)
        side = figure.supylabel(folded(content.sides[0], rows * wanted[1], sheet), fontsize=sheet.points)
        for tile in tiles:
            draw_cells(sheet, look, tile)
        below_panels = draw_colour_bars(figure, tiles, wanted)
        footnote = _footnote([tile.block for tile in tiles])
        _draw_legend(figure, tiles, footnote)
        thinned = name_and_lay_out(figure, content, tiles, wanted, widest, note)
        panels_box = box_around([tile.axes for tile in tiles])
        side.set_y((panels_box.y0 + panels_box.y1) / 2)
        for bar, above in below_panels:
            align_bar(bar, box_around(above))
            thin_ticks(bar.xaxis)
        if thinned:
            note(f"too many tokens: {thinned}")
        spec = None if footnote else number_format(content, look, tiles, sheet.unit)
        for tile in tiles if spec is not None else ():
            write_numbers(tile, str(spec), NUMBER_POINTS * sheet.unit)
        if look.annotate == "yes" and content.stage and spec is None:
            note("no numbers in the cells: too many cells, or too small ones")
    for line in _notes(tiles, footnote):
        note(line)
    return figure


def _page(content: Heatmap, look: HeatmapLook, sheet: Sheet) -> tuple[Picture, list[Axes], Size, float]:
    """Return a picture with axes for the panels, the size of a panel, and the widest page, both in inches."""
    wanted = panel_size(content, look, sheet)
    outer = wanted[0] + sheet.unit * AROUND[0], wanted[1] + sheet.unit * AROUND[1]
    columns, slots = arranged(content.panels, outer, sheet)
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
    return figure, [every[slot] for slot in slots], wanted, widest


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
        DrawnPanel(*parts, scales[parts[-1]]) for parts in zip(axes, content.panels, cells, blocks, groups, strict=True)
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
        yield f"NaN in {sum(lost)} {'pixels' if footnote else 'valid cells'} of {', '.join(labels)}"
    if infinite := sum(int(np.isinf(tile.cells.compressed()).sum()) for tile in tiles):
        yield f"{infinite} infinite values have the colours of the ends of the scale"
    if footnote:
        n, m = max((tile.panel.values.shape for tile in tiles), key=lambda shape: shape[0] * shape[1])
        yield f"{n} × {m} cells do not fit: {footnote}"
