"""Heatmaps: the matrices of a stage as panels that can be compared."""

import math
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis, XAxis
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Colormap, to_rgb
from matplotlib.image import AxesImage
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from attncli.common.study import Matrices
from attncli.config.looks import Annotate, HeatmapLook, Look, Scale
from attncli.errors import InputError, below, did_you_mean, got, printable
from attncli.show.figures import Note, Picture, drawing, ignore_note
from attncli.show.matrices import Panel, block_means, differences, part_shown, select, zoom
from attncli.show.panels import BOTH_COLUMNS, COLUMN, PlainFormatter, Size, columns_of, folded, grid, lay_out
from attncli.show.scales import ColourScale, Numbers, colour_scale
from attncli.show.themes import Settings, Sheet, sheet_of

Cells = np.ma.MaskedArray[Any, Any]
QUANTITIES = {
    "scores": "score",
    "capped": "score after softcap",
    "weights": "attention weight",
    "dropped": "attention weight after dropout",
}
WEIGHTS = ("weights", "dropped")
PLAIN = HeatmapLook()
FRAMED: Settings = {"axes.grid": False, "axes.spines.top": True, "axes.spines.right": True}
NAN_COLOURS = ("black", "#00b4d8", "#70e000", "#7b2cbf")
CELL, LINE = 0.33, 0.14  # inches of a cell with a number, and of a line with a token
LEAST, LEAST_MORE, LEAST_LONG = 1.3, 0.3, 3.4  # em; smallest readable side of one cell, of each more, and of many
ROOMIER = 1.4  # factor on the smallest readable side where the page has no given size
SIDE, LONGEST_SIDE, LONGEST_NAMED, LONGEST_NUMBERED = 3.0, 5.0, 7.5, 15.0  # inches of a panel
FEW_PANELS, SMALL_SIDE = 4, 2.0  # more panels than these are drawn smaller, down to this side in inches
AROUND = (0.3, 0.45)  # inches beside and above a panel for ticks and a title
ROOMY = 2.0  # inches around a panel that are enough for any labels
MOST_TICKS, TICK = 5, 0.35  # ticks of a colour bar, and inches from one to the next
LOWEST = 0.6  # inches; lower panels have their colour bar below them
BAR, LONGEST_BAR_PAGE = 0.12, 18.0  # inches; width of a colour bar, and of a page with `annotate: yes`
NUMBER_POINTS, DIGIT = 8.0, 0.64  # size of numbers in cells, and width of a digit relative to it
MOST_NUMBERS = {"auto": 400, "yes": 5000, "no": 0}  # in a picture; each takes a millisecond to draw
SLOT = 0.7  # estimated share of the page that is cells


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
    """Return a heatmap with a panel for each batch element, head and label.

    Args:
        matrices: tensors (n, m), (b, n, m) or (b, heads, n, m); further axes count as heads, too.
        look: colours, limits and numbers, the range of queries and keys, and the label to subtract.
        labels: the labels to draw, in order; all by default.
        batches: the batch elements to draw, counted from 0; all by default.
        heads: the heads to draw, counted from 0; all by default.
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
    about = ", ".join(filter(None, (matrices.layer, part_shown(matrices, panels))))
    return stage_figure(panels, matrices.stage, look, note, before_dropout=before, about=about)


def stage_figure(
    panels: Sequence[Panel],
    stage: str,
    look: HeatmapLook,
    note: Note,
    *,
    before_dropout: Set[str] = frozenset(),
    about: str = "",
) -> Picture:
    """Return a heatmap of panels of one stage.

    Args:
        panels: matrices with their names.
        stage: the stage of attention, or a name of the quantity.
        look: the user's options.
        note: is called with a sentence on anything that is left out.
        before_dropout: labels of panels that show weights before dropout, which titles then mention.
        about: the end of the title.
    """
    quantity = printable(QUANTITIES.get(stage, stage))
    panels = zoom(panels, look)
    if {panel.label for panel in panels} <= before_dropout:
        quantity, before_dropout = f"{quantity} before dropout", frozenset()
    if look.minus is not None:
        panels = differences(panels, look.minus, note)
        quantity = f"{quantity} − that of {printable(look.minus)}"
    panels = [replace(p, label=f"{p.label} before dropout") if p.label in before_dropout else p for p in panels]
    title, is_signed = ", ".join(filter(None, (quantity, about))), stage not in WEIGHTS
    return _draw(_Content(panels, look, quantity, title, stage, is_signed=is_signed), note)


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
    ours, theirs = (select(each, labels, None, None, places, of) for each, of in ((a, ignore_note), (b, note)))
    panels = [
        replace(q, valid=None if p.valid is None or q.valid is None else p.valid | q.valid, minus=p.values)
        for p, q in zip(ours, theirs, strict=True)
    ]
    first, second = map(printable, names)
    quantity = f"{QUANTITIES[b.stage]}, {second} − {first}"
    return _draw(_Content(panels, look.model_copy(update={"minus": first}), quantity, quantity, b.stage), note)


def panels_figure(
    panels: Sequence[Panel],
    quantity: str,
    note: Note = ignore_note,
    *,
    quantities: Sequence[str] = (),
    sides: tuple[str, str] = ("Batch", "Heads"),
    look: Look = PLAIN,
    is_signed: bool = False,
    name: str = "heads",
) -> Picture:
    """Return a heatmap of any matrices, with numbers in the cells if they have room.

    Args:
        panels: matrices with their names.
        quantity: the title of the picture.
        note: is called with a sentence on anything that is left out.
        quantities: the quantity of each panel, with a colour bar for each panel and the same colours for panels of the
            same quantity. By default all panels share a colour bar.
        sides: labels of the vertical and of the horizontal axes.
        look: theme, sizes and title; colours and ranges do not apply.
        is_signed: values may be negative, so colours need not begin at 0.
        name: the name of the file in notes.
    """
    scale: Scale = "panel" if quantities else "shared"
    known = sum(panel.values.numel() if panel.valid is None else int(panel.valid.sum()) for panel in panels)
    annotate: Annotate = "yes" if known <= MOST_NUMBERS["auto"] else "auto"
    plain = HeatmapLook(**{name: getattr(look, name) for name in Look.model_fields}, scale=scale, annotate=annotate)
    return _draw(_Content(panels, plain, quantity, quantity, "", quantities, sides, is_signed, name), note)


def check_look(look: Look) -> None:
    """Raise InputError, located at the key `figure`, for a size with too many dots, or an unknown colour map."""
    with below("figure"):
        sheet = sheet_of(look)
        if isinstance(look, HeatmapLook):
            colour_map(sheet, look)


def colour_map(sheet: Sheet, look: HeatmapLook) -> Colormap:
    """Return the colour map of a look, by default the theme's sequential map, or its diverging map for differences.

    Raises:
        InputError: matplotlib has no colour map of this name.
    """
    name = look.cmap or (sheet.settings["image.cmap"] if look.minus is None else sheet.diverging)
    if name not in matplotlib.colormaps:
        question = did_you_mean(name, matplotlib.colormaps)
        near = question if question.startswith("did") else "such as Reds, viridis or Greys"
        raise InputError.of(got(name, "expected a colour map of matplotlib", near), ["cmap"])
    return matplotlib.colormaps[name]


@dataclass(frozen=True)
class _Content:
    """The content of a picture, independent of its page."""

    panels: Sequence[Panel]
    look: HeatmapLook
    quantity: str
    title: str
    stage: str
    quantities: Sequence[str] = ()  # of each panel
    sides: tuple[str, str] = ("Queries", "Keys")
    is_signed: bool = False
    name: str = "heatmaps"

    @property
    def texts(self) -> list[str]:
        """All texts except numbers."""
        names = {name for panel in self.panels for name in (panel.label, *panel.queries, *panel.keys)}
        return [self.look.title or self.title, *map(str, names)]

    def scales(self, numbers: Sequence[Numbers]) -> list[ColourScale]:
        """Return the colour scale of each panel; `numbers` has the unmasked values of each panel."""
        look = self.look
        groups: Sequence[Any] = self.quantities or range(len(numbers)) if look.scale == "panel" else [0] * len(numbers)
        options: dict[str, Any] = {
            "kind": look.colours or ("linear" if look.scale == "unit" else None),
            "is_weight": look.scale is None and self.stage in WEIGHTS,
            "is_signed": self.is_signed,
            "is_difference": look.minus is not None,
            "high": look.vmax or (1.0 if look.scale == "unit" else None),
            "low": 0.0 if look.scale == "unit" else None,
        }
        found: dict[Any, ColourScale] = {}
        for group in dict.fromkeys(groups):
            shared = [each for each, own in zip(numbers, groups, strict=True) if own == group]
            found[group] = colour_scale(shared, **options)
        return [found[group] for group in groups]


def _draw(content: _Content, note: Note) -> Picture:
    """Return a picture of the panels in a grid, with ticks, numbers, colour bars and a legend."""
    panels, look = content.panels, content.look
    with drawing(content.texts, note, look) as sheet, matplotlib.rc_context(FRAMED):
        wanted = _panel_size(content, sheet)
        places = len({panel.place for panel in panels})
        step = len({panel.label for panel in panels}) if places > 1 else 1
        outer = wanted[0] + sheet.unit * AROUND[0], wanted[1] + sheet.unit * AROUND[1]
        columns = columns_of(len(panels), outer, sheet, step)
        figure, made = grid(sheet, len(panels), columns, content.title)
        figure.suppressComposite = True  # keep each panel a separate image in SVG and PDF
        rows = math.ceil(len(panels) / columns)
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
        scales, cmap = content.scales(numbers), colour_map(sheet, look)
        cmap = cmap.with_extremes(bad=_nan_colour(cmap), under=sheet.ground if _has_zero_colour(scales) else None)
        for axes, panel, *drawn in zip(made, panels, cells, blocks, scales, strict=True):
            _draw_cells(sheet, axes, panel, *drawn, cmap)  # type: ignore[arg-type, call-arg]
            axes.set_title(_title(panel, wanted[0] + AROUND[0] * sheet.unit, sheet))
        figure.supylabel(content.sides[0], fontsize=sheet.points)
        for axes in made[-columns:]:
            axes.set_xlabel(content.sides[1])
        footnote = _footnote(blocks)
        _draw_bars(figure, made, content, scales, wanted[1] * rows)
        _draw_legend(figure, cells, cmap, "\n".join(filter(None, (footnote, _words(content, scales)))))
        _label_ticks(made, columns, panels, [wanted] * len(made))
        n, m = max(len(panel.queries) for panel in panels), max(len(panel.keys) for panel in panels)
        lay_out(figure, wanted, note, content.name, widest=widest, least=(_least_side(m), _least_side(n)))
        sizes = [tuple(axes.get_position().size * figure.get_size_inches()) for axes in made]
        if thin := _label_ticks(made, columns, panels, sizes):
            note(f"too many tokens: {thin}")
        spec = None if footnote else _number_format(content, sizes, np.concatenate(numbers), sheet.unit)
        for axes, each_cells in zip(made, cells, strict=True):
            if spec:
                _write_numbers(axes, axes.images[0], each_cells, spec, NUMBER_POINTS * sheet.unit)
        if look.annotate == "yes" and content.stage and not spec:
            note("no numbers in the cells: too many cells, or too small ones")
    for line in _notes(content, cells, footnote):
        note(line)
    return figure


def _title(panel: Panel, inches: float, sheet: Sheet) -> str:
    """Return the title of a panel, with its label and its place on lines of their own if one line is too long."""
    parts = list(filter(None, (panel.label, panel.place)))
    for lines in ([", ".join(parts)], parts, list(filter(None, (panel.label, *panel.place.split(", "))))):
        whole = "\n".join(folded(each, inches, sheet) for each in lines)
        if whole.count("\n") < len(lines):
            break
    return whole


def _least_side(cells: int) -> float:
    """Return the smallest readable side, in em, of a panel with this number of cells along it."""
    return min(LEAST + LEAST_MORE * (cells - 1), LEAST_LONG)


def _panel_size(content: _Content, sheet: Sheet) -> Size:
    """Return the size of a panel on a page without a given size, with room for numbers in few cells."""
    panels, look = content.panels, content.look
    n, m = max(len(panel.queries) for panel in panels), max(len(panel.keys) for panel in panels)
    longest = max(n, m)
    side = min(CELL * longest, SIDE + 0.012 * longest, LONGEST_SIDE)
    side = max(side * min(1.0, (FEW_PANELS / len(panels)) ** 0.5), min(side, SMALL_SIDE))
    if any(isinstance(axis, tuple) for panel in panels for axis in (panel.queries, panel.keys)):
        side = max(side, min(LINE * longest, LONGEST_NAMED))
    if look.annotate == "yes":
        side = max(side, min(CELL * longest, LONGEST_NUMBERED))
    digits = 7 if not content.stage else 6 if look.minus is not None else 4 if content.stage in WEIGHTS else 5
    is_numbered = look.annotate == "yes" or n * m * len(panels) <= MOST_NUMBERS[look.annotate]
    wider = (
        max(1.0, 1.05 * DIGIT * digits * NUMBER_POINTS / 72 / CELL) if is_numbered and look.annotate != "no" else 1.0
    )
    least = [max(sheet.unit * CELL, ROOMIER * _least_side(cells) * sheet.em) for cells in (m, n)]
    return wider * max(sheet.unit * m * side / longest, least[0]), max(sheet.unit * n * side / longest, least[1])


def _block(panel: Panel, size: Size, sheet: Sheet) -> tuple[int, int]:
    """Return the rows and columns of cells per pixel on a panel of this size."""
    down, across = (max(1.0, side * sheet.dpi) for side in (size[1], size[0]))
    return math.ceil(len(panel.queries) / down), math.ceil(len(panel.keys) / across)


def _has_zero_colour(scales: Sequence[ColourScale]) -> bool:
    """Whether a scale is logarithmic and has no colour for zeros."""
    return any(each.kind == "log" and each.low > 0 for each in scales)


def _draw_cells(
    sheet: Sheet,
    axes: Axes,
    panel: Panel,
    cells: Cells,
    block: tuple[int, int],
    scale: ColourScale,
    cmap: Colormap,
) -> None:
    """Draw a matrix as colours, hatched where it is masked, with axes in indices of cells."""
    (down, across), (rows, columns) = block, cells.shape
    top, left = (names.start if isinstance(names, range) else 0 for names in (panel.queries, panel.keys))
    if cells.mask.any():
        axes.patch.set(linewidth=0.0, **_masked(sheet))
    axes.imshow(
        scale.clip(cells.data),  # matplotlib draws infinities, and zeros on a logarithmic scale, as NaN
        cmap=cmap,
        norm=scale.norm,
        alpha=(~cells.mask).astype(float),
        aspect="auto",
        interpolation="nearest",
        extent=(left - 0.5, left + columns * across - 0.5, top + rows * down - 0.5, top - 0.5),
    )
    axes.set(xlim=(left - 0.5, left + len(panel.keys) - 0.5), ylim=(top + len(panel.queries) - 0.5, top - 0.5))


def _masked(sheet: Sheet) -> dict[str, Any]:
    """Return the hatching of masked cells."""
    return {"facecolor": sheet.ink(0.1), "edgecolor": sheet.ink(0.38), "hatch": "/////"}


def _nan_colour(cmap: Colormap) -> str:
    """Return the colour of NaN: the candidate farthest from all colours of the map."""
    used = cmap(np.linspace(0, 1, 64))[:, :3]
    return max(NAN_COLOURS, key=lambda name: float(np.abs(used - to_rgb(name)).sum(axis=1).min()))


def _draw_bars(
    figure: Picture, made: Sequence[Axes], content: _Content, scales: Sequence[ColourScale], height: float
) -> None:
    """Draw a colour bar for all panels, or one for each: beside high panels, below low panels."""
    look: dict[str, Any] = {"format": PlainFormatter(), "pad": 0.02}
    rows = len({axes.get_subplotspec().rowspan.start for axes in made})  # type: ignore[union-attr]
    if content.look.scale == "panel":
        for axes, scale in zip(made, scales, strict=True):
            figure.colorbar(
                axes.images[0], ax=axes, extend=scale.extend, ticks=_ticks(scale, height / rows), aspect=15, **look
            )
        return
    mappable, unit = ScalarMappable(scales[0].norm, made[0].images[0].get_cmap()), figure.sheet.unit
    is_beside = height > LOWEST * unit
    where = {"location": "right", "aspect": max(8.0, height / BAR / unit)} if is_beside else {"location": "bottom"}
    bar = figure.colorbar(
        mappable, ax=list(made), extend=scales[0].extend, ticks=_ticks(scales[0], height), **look, **where
    )
    bar.ax.set_label("bar")


def _ticks(scale: ColourScale, inches: float) -> MaxNLocator | None:
    """Return the ticks of a colour bar of this length; None for matplotlib's default on a logarithmic scale."""
    return (
        None if scale.kind == "log" else MaxNLocator(max(2, min(MOST_TICKS, int(inches / TICK))), steps=[1, 2, 5, 10])
    )


def _words(content: _Content, scales: Sequence[ColourScale]) -> str:
    """Return words on colours that are not linear, after the quantity if the user's title takes its place."""
    named = zip(content.quantities or [""] * len(scales), scales, strict=True)
    found = dict.fromkeys(f"{scale.words}{name and f' ({name})'}" for name, scale in named if scale.words)
    return ", ".join([*([content.quantity] if content.look.title else []), *found])


def _draw_legend(figure: Picture, shown: Sequence[Cells], cmap: Colormap, footnote: str) -> None:
    """Draw a legend below the panels, with the hatching and the colour of NaN, if they occur, and the footnote."""
    handles, ink = [], figure.sheet.ink(0.85)
    if any(cells.mask.any() for cells in shown):
        handles.append(Patch(label="masked", linewidth=0.6, **_masked(figure.sheet)))
    if any(np.isnan(cells.compressed()).any() for cells in shown):
        handles.append(Patch(label="NaN", facecolor=_nan_colour(cmap), edgecolor=ink, linewidth=0.6))
    if handles or footnote:
        figure.legend(handles=handles, title=footnote or None, alignment="left", ncols=2, loc="outside lower left")


def _label_ticks(made: Sequence[Axes], columns: int, panels: Sequence[Panel], sizes: Sequence[Any]) -> str:
    """Label queries beside each row of panels and keys below each column, and where labels differ between panels.

    Return a phrase on omitted labels, empty if there are none. `sizes` are the sizes of the panels in inches.
    """
    steps = {"queries": 1, "keys": 1}
    for i, (axes, panel, (width, height)) in enumerate(zip(made, panels, sizes, strict=True)):
        is_first = i % columns == 0 or panels[i - 1].queries != panel.queries
        is_last = i + columns >= len(panels) or panels[i + columns].keys != panel.keys
        steps["queries"] = max(steps["queries"], _set_ticks(axes.yaxis, panel.queries if is_first else (), height))
        steps["keys"] = max(steps["keys"], _set_ticks(axes.xaxis, panel.keys if is_last else (), width))
    return ", ".join(f"one in {step} of the {side} is shown" for side, step in steps.items() if step > 1)


def _set_ticks(axis: Axis, names: tuple[str, ...] | range, length: float) -> int:
    """Label an axis of this length in inches with indices or tokens, and return the step from one token to the next.

    Tokens of keys stand upright if they are wider than their cells.
    """
    if isinstance(names, range):
        axis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10], integer=True, min_n_ticks=min(2, len(names))))
        return 1
    figure: Any = axis.get_figure()
    step: int = max(1, math.ceil(figure.sheet.unit * LINE * len(names) / length - 0.05))
    axis.set_ticks(range(0, len(names), step), labels=names[::step])
    for label in axis.get_ticklabels() if isinstance(axis, XAxis) else ():
        label.set_rotation(0)
        is_wide = label.get_window_extent().width / figure.dpi > step * length / len(names)
        label.set_rotation(90 if is_wide else 0)
    return step


def _number_format(content: _Content, sizes: Sequence[Any], values: Numbers, unit: float) -> str | None:
    """Return the format of the numbers in cells; None if they are turned off or do not fit."""
    look = content.look
    if look.annotate == "no" or not 0 < values.size <= MOST_NUMBERS[look.annotate]:
        return None
    largest = float(np.abs(values[np.isfinite(values)]).max(initial=0.0))
    if not content.stage:
        spec = "z.3g"
    elif 0 < largest < 0.005 or largest >= 1e4:
        spec = "z.0e"
    else:
        spec = "z.3f" if 0 < largest < 0.1 else "z.2f" if largest < 10 else "z.1f" if largest < 100 else "z.0f"
    spec = "+" * (look.minus is not None) + spec
    points = NUMBER_POINTS * unit
    width = DIGIT * points * max(len(_number_text(value, spec)) for value in values.tolist())
    fits = all(
        72 * across / len(panel.keys) > width and 72 * down / len(panel.queries) > 1.3 * points
        for panel, (across, down) in zip(content.panels, sizes, strict=True)
    )
    return spec if fits else None


def _number_text(value: float, spec: str) -> str:
    """Return a number formatted by `spec`, with the character `−` as minus sign and a short exponent."""
    text = f"{value:{spec}}".replace("inf", "∞").replace("e+0", "e").replace("e-0", "e-").replace("e+", "e")
    return text.replace("-", "−")


def _write_numbers(axes: Axes, image: AxesImage, cells: Cells, spec: str, points: float) -> None:
    """Write numbers into cells, in black or white for the higher contrast (WCAG 2.2)."""
    array: Any = image.get_array()
    rgb = np.asarray(image.to_rgba(array))[..., :3]
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


def _notes(content: _Content, shown: Sequence[Cells], footnote: str) -> Iterator[str]:
    """Yield notes on NaN, infinite values and cells that share a pixel."""
    lost = {i: int(np.isnan(cells.compressed()).sum()) for i, cells in enumerate(shown)}
    labels = dict.fromkeys(content.panels[i].label for i, count in lost.items() if count)
    if labels:
        yield f"NaN in {sum(lost.values())} {'pixels' if footnote else 'valid cells'} of {', '.join(labels)}"
    if infinite := sum(int(np.isinf(cells.compressed()).sum()) for cells in shown):
        yield f"{infinite} infinite values have the colours of the ends of the scale"
    if footnote:
        n, m = max((panel.values.shape for panel in content.panels), key=lambda shape: shape[0] * shape[1])
        yield f"{n} × {m} cells do not fit: {footnote}"
