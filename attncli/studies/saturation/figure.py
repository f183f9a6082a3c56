"""saturation.png: entropy, largest weight and the Jacobian's norm against d, medians with quartiles."""

from attncli.catalogue.building import all_softmax
from attncli.core.numbers import sizes
from attncli.results import Result
from attncli.show.pictures.figures import Note, Picture
from attncli.show.pictures.panels import legend, one_figure, panels, reference
from attncli.show.pictures.themes import Sheet
from attncli.studies.pairs.figure import Points
from attncli.studies.saturation.columns import SaturationFacts

TITLES = {"entropy": "entropy / ln m", "max_weight": "largest weight", "jacobian": "norm of the {}Jacobian"}


def saturation_figure(result: Result, note: Note, sheet: Sheet) -> Picture:
    """Draw three panels against d, or against heads of real tensors, with dotted lines for uniform weights."""
    lines, uniform = sheet.lines(result.labels), reference(sheet)
    points, bench_facts = Points(result, note, lines), SaturationFacts.of(result)
    spread = "bars" if points.real else "lines and bands"
    facts = [
        ", ".join([bench_facts.words, *sizes(result.records)]),
        f"{spread}: median and quartiles over the rows",
    ]
    figure, axes = panels(sheet, len(TITLES), "Saturation of the weights", facts)
    softmax = "softmax " if all_softmax(result.records) else ""
    even = f"{'' if softmax else 'softmax: '}uniform weights over {result.records[0]['keys']} keys"
    for panel, (column, title) in zip(axes, TITLES.items(), strict=True):
        panel.axhline(bench_facts.uniform[column], zorder=1, label=f"_{even}", **uniform)
        quartiles = (f"{column}_median", f"{column}_q25", f"{column}_q75")
        points.draw(panel, title.format(softmax), quartiles, decades=column == "jacobian", bands=True)
    line = {"linestyle": "none"} if points.real else {}
    looks = {label: {**lines[label], **line} for label in points.curves}
    legend(figure, looks | {even: uniform})
    return figure


figures = one_figure(saturation_figure)
