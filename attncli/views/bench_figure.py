"""bench.png: time and memory against n, a pair of panels for each measure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from attncli.runs.records import BenchResult
from attncli.show.figures import default_settings
from attncli.studies.study import Record
from attncli.views.bench_lines import Line, lines_of
from attncli.views.bench_looks import Looks, looks
from attncli.views.bench_panels import PANELS, Curves, draw_panel, positive, several
from attncli.views.bench_sizes import changing, constants, measures_of, of_measure, picture_axis, pictured, timed
from attncli.views.bench_slopes import slope
from attncli.views.bench_tables import conditions
from attncli.views.fonts import Typeface, typeface_for
from attncli.views.heatmap.page import Page
from attncli.views.sweep_axes import TITLE_POINTS
from attncli.views.sweep_legend import Entry, Legend, fold, legend
from attncli.views.sweep_page import ABOVE_PANEL, BELOW_PANEL, LEFT_OF_PANEL, MARGIN, TITLE_LINE, Drawn, Row

ROW = Row((3.3, 3.3), 2.5)
AFTER_LEGEND = 0.12


@dataclass(frozen=True)
class Block:
    """The panels of one measure, and the legend below them."""

    measure: str
    lines: Mapping[Line, Sequence[Record]]
    legend: Legend

    @property
    def height(self) -> float:
        """In inches, with what is above and below."""
        return ABOVE_PANEL + ROW.height + BELOW_PANEL + self.legend.height + AFTER_LEGEND


def bench_figure(result: BenchResult) -> Drawn:
    """Of sizes beside the one that is drawn along, the largest combination; a note says so."""
    axis = picture_axis(result.records)
    shown = pictured(result.records, axis)
    groups = lines_of(result.records)
    styles = looks(groups)
    drawable = [record for record in shown if timed(record)]
    title = _title(result, shown, axis)
    with default_settings():
        face = typeface_for([title, *(line.title for line in groups)])
        blocks = [_block(measure, of_measure(drawable, measure), axis, styles, face) for measure in measures_of(shown)]
        page, top = _open(title, blocks, face)
        for block in blocks:
            _draw_block(page, block, top, axis, Curves(block.measure, block.lines, styles, drawable, result.times))
            top += block.height
        return Drawn(page.finish(), _notes(result.records, shown, axis, face))


def _title(result: BenchResult, shown: Sequence[Record], axis: str) -> str:
    only = [] if axis == "n" else [f"n = {shown[0]['n']}"]
    facts = ", ".join([*conditions(result), *only, *constants(shown)])
    bars = "bars reach from the lower to the upper quartile"
    slopes = f"in brackets by which powers of {axis} time and memory grow, over the larger half of the sizes"
    return "; ".join([facts, bars, *([slopes] if several(shown, axis) else [])])


def _block(measure: str, records: Sequence[Record], axis: str, styles: Looks, face: Typeface) -> Block:
    lines = {line: sorted(rows, key=lambda record: record[axis]) for line, rows in _in_order(records, styles).items()}
    plain = {"linestyle": "none"} if not several(records, axis) else {}
    entries = [Entry(f"{_text(line)}{_slopes(rows, axis)}", styles[line] | plain) for line, rows in lines.items()]
    return Block(measure, lines, legend(entries, ROW.width - LEFT_OF_PANEL - 0.3, face))


def _in_order(records: Sequence[Record], styles: Looks) -> dict[Line, list[Record]]:
    """The lines as the whole result has them, whatever this measure lacks."""
    return {line: found for line in styles if (found := [record for record in records if _is_of(record, line)])}


def _is_of(record: Record, line: Line) -> bool:
    hidden = line.num_hiddens is None or line.num_hiddens == record["num_hiddens"]
    return bool(hidden and (record["label"], record["implementation"]) == (line.label, line.implementation))


def _text(line: Line) -> str:
    return f"{line.title}, {line.implementation}"


def _slopes(records: Sequence[Record], axis: str) -> str:
    """As ` (1.98, 2.00)`; nothing for a single size."""
    found = [slope([(record[axis], record[key]) for record in records if positive(record[key])]) for key in PANELS]
    if found == [None, None]:
        return ""
    return f" ({', '.join('-' if power is None else f'{power:.2f}' for power in found)})"


def _open(title: str, blocks: Sequence[Block], face: Typeface) -> tuple[Page, float]:
    """The page with its title, and where the blocks begin."""
    lines = fold(title, ROW.width - 2 * MARGIN, TITLE_POINTS, face)
    top = MARGIN + TITLE_LINE * len(lines)
    page = Page(ROW.width, top + sum(block.height for block in blocks) + MARGIN - AFTER_LEGEND, face)
    for index, line in enumerate(lines):
        page.words(MARGIN, MARGIN + TITLE_LINE * (index + 0.5), line, TITLE_POINTS, va="center_baseline", gid="title")
    return page, top


def _draw_block(page: Page, block: Block, top: float, axis: str, curves: Curves) -> None:
    boxes = ROW.boxes(top)
    for key, box in zip(PANELS, boxes, strict=True):
        draw_panel(page, box, key, axis, curves)
    block.legend.draw(page, boxes[0].left - 0.1, top + ABOVE_PANEL + ROW.height + BELOW_PANEL)


def _notes(records: Sequence[Record], shown: Sequence[Record], axis: str, face: Typeface) -> list[str]:
    notes = []
    if len(shown) < len(records):
        keys = [key for key in changing(records) if key != axis]
        sizes = ", ".join(f"{key} = {shown[0][key]}" for key in keys)
        notes.append(f"bench.png shows {sizes} only; the tables and records.csv have the other sizes, too")
    lost = sum(1 for record in shown if timed(record) and not positive(record["peak_bytes"]))
    if lost:
        notes.append(f"bench.png: memory of {lost} rows is not drawn, as it is 0 or not known")
    return [*notes, *([face.note] if face.note else [])]
