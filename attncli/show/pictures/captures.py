"""The picture of two captures of a model: the difference that each layer inherits, and the one that it adds."""

from collections.abc import Sequence

from matplotlib.ticker import MaxNLocator

from attncli.config.looks import Look
from attncli.errors import InputError
from attncli.results import Row
from attncli.show.pictures.figures import Note, Picture, drawing
from attncli.show.pictures.panels import check_panel, decades_axis, lay_out, legend, name, panels, reference

CURVES, ORDER = ("inherited", "added"), ("scaled_dot", "additive")  # and whose colours they have
SMALLEST = 1e-9  # differences below, which are rounding of float64, are drawn here: a logarithm has no 0
LARGE = 1e-3  # a difference at least as large as this is on the axis


def captures_figure(records: Sequence[Row], look: Look, note: Note) -> Picture:
    """Return a picture of the inherited and added differences by layer, with a line at the first layer that differs.

    `records` are the rows of a comparison of two captures; infinite differences are left out.

    Raises:
        InputError: the numbers of the captures were not compared, or it has no panel of this number.
    """
    if all(row["added"] is None for row in records):
        raise InputError.of("got captures of other sizes, whose numbers are not compared; there is nothing to draw")
    if look.panel is not None:
        check_panel(look.panel, 1, "captures")
    with drawing(CURVES, note, look) as sheet:
        title, facts = "Where two captures part", ["differences of outputs, relative to A"]
        figure, (axes,) = panels(sheet, 1, title, facts)
        looks = {
            curve: {**look, "label": curve} for curve, look in zip(CURVES, sheet.lines(ORDER).values(), strict=True)
        }
        for curve, options in looks.items():
            axes.plot([max(row[curve], SMALLEST) for row in records], zorder=3, **options)
        first = next((index for index, row in enumerate(records) if row["differs"]), None)
        if first is not None:
            text = f"first to differ: layer {first}, {records[first]['kind']}"
            looks[text] = {**reference(sheet), "label": text}
            axes.axvline(first, **looks[text])
        name(axes, "", "layer", "relative L2")
        axes.set_yscale("log")
        axes.set_ylim(top=max(axes.get_ylim()[1], LARGE))  # rounding alone looks small and flat
        decades_axis(axes)
        axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True, min_n_ticks=1))
        legend(figure, looks)
        lay_out(figure, note, "captures")
        return figure
