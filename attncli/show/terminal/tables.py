"""Rich tables of records and of weights, split into blocks to fit the width of the console."""

import io
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from rich import box
from rich.cells import cell_len, chop_cells
from rich.console import Console, ConsoleOptions, Group, JustifyMethod, RenderableType
from rich.segment import Segment
from rich.style import Style
from rich.table import Table
from rich.text import Text

from attncli.core.numbers import MISSING, TIE, finite, number
from attncli.errors import printable
from attncli.results import Column, Finding, Result, Row, by_label
from attncli.show.terminal.console import SafeConsole

STRONG, FAINT = Style(bold=True), Style(dim=True)
# Of numbers from 0 to 1, from each limit on: readable on dark and light backgrounds, and without colours.
INKS = ((0.5, Style(bold=True, color="magenta")), (0.25, Style(color="green")), (0.05, Style.null()), (0.0, FAINT))
SCREEN = 60  # lines that a command prints, unless --full
MANY_ROWS, MOST_ROWS = 40, 20  # of a table: all of at most 40 if the screen has room, else the most important 20
MOST_FINDINGS = 12
LONGEST_LABEL = 14  # cells of a line of a label above a column, or beside columns that find no room otherwise
Item = TypeVar("Item")


@dataclass(frozen=True)
class Cells:
    """A column of a table. If there are `styles`, one for each cell, spaces in heading and cells align them."""

    heading: str
    cells: Sequence[str]
    styles: Sequence[Style] | None = None

    @property
    def width(self) -> int:
        """The width of the widest line, in cells of the terminal."""
        return max(cell_len(line) for text in (self.heading, *self.cells) for line in text.split("\n"))

    def folded(self) -> "Cells":
        """Return the column with long texts on several lines."""
        return replace(self, heading=folded(self.heading), cells=[folded(text) for text in self.cells])


def cells(columns: Iterable[Column], records: Sequence[Row]) -> list[Cells]:
    """Return the columns of these rows, with `-` for missing values."""
    return [Cells(column.heading, [_cell(column, record.get(column.key)) for record in records]) for column in columns]


def ink(share: float | None) -> Style:
    """Return the style of a number: dim near 0, bold from 0.5 on, and plain outside of 0 to 1."""
    if share is None or not 0.0 <= share <= 1.0 + TIE:
        return Style.null()
    return next(style for limit, style in INKS if share >= limit)


def inked(heading: str, texts: Sequence[str], styles: Sequence[Style]) -> Cells:
    """Return a column of texts in these styles, aligned on the right."""
    width = max(map(cell_len, [heading, *texts]))
    return Cells(heading.rjust(width), [text.rjust(width) for text in texts], styles)


def _cell(column: Column, value: object) -> str:
    return MISSING if value is None else printable(column.format(value))


def pick(columns: Sequence[Column], keys: Sequence[str]) -> list[Column]:
    """Return the columns with these keys, in the order of the keys."""
    by_key = {column.key: column for column in columns}
    return [by_key[key] for key in keys]


def tables(
    names: Sequence[Column],
    figures: Sequence[Column],
    records: Sequence[Row],
    width: int,
    most: int | None = None,
) -> Iterator[RenderableType]:
    """Yield tables of the rows, with the columns that name a row on the left, split to fit `width`.

    Of more than `most` rows the first and the last are shown, and a line below says how many are left out.
    """
    rows = ends(records, most)
    yield from blocks(cells(names, rows), cells(figures, rows), width)
    yield from left_out(len(records) - len(rows), len(records))


def whole_tables(columns: Sequence[Column], records: Sequence[Row], width: int) -> Iterator[Table]:
    """Yield tables of all rows, with the columns that have a value; columns of words only where they differ."""
    columns = [column for column in columns if any(row.get(column.key) is not None for row in records)]
    places = [column for column in columns if column.kind == "place"]
    figures = list[Cells]()
    for column in columns:
        if column.kind != "place" and (not column.text or len({row.get(column.key) for row in records}) > 1):
            (figure,) = cells([column], records)
            figures.append(figure.folded() if column.text else figure)
    yield from blocks(cells(places, records), figures, width)


def ends(rows: Sequence[Item], most: int | None, few: int = MOST_ROWS) -> Sequence[Item]:
    """Return the rows; if there are more than `most`, return `few` of them from the start and the end."""
    if most is None or len(rows) <= most:
        return rows
    return [*rows[: few - few // 2], *rows[len(rows) - few // 2 :]]


def left_out(count: int, of: int, rows: str = "rows") -> Iterator[Text]:
    """Yield a line such as `3 of 10 rows left out; see them with --full`, unless the count is 0."""
    yield from remark(f"{count:,} of {of:,} {rows} left out; see them with --full" if count else "")


class Extra(Group):
    """Parts of a screen; if there is no room, the first of `fewer` that has, or a line that names what is left out."""

    def __init__(self, *parts: RenderableType, name: str, fewer: Iterable[RenderableType] = ()) -> None:
        super().__init__(*parts)
        self.least = Text(f"{name} left out; see them with --full", style=FAINT)
        self.fewer = fewer


class _Beginning:
    """The first lines of a screen."""

    def __init__(self, parts: RenderableType, lines: int) -> None:
        self._parts, self._lines = parts, lines

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        for line in console.render_lines(self._parts, options, pad=False)[: max(self._lines, 0)]:
            yield from [*line, Segment.line()]


def fit(
    content: Callable[[int | None], Iterable[RenderableType]],
    end: Sequence[RenderableType],
    width: int,
    lines: int | None = SCREEN,
    sizes: Iterable[int] = (MANY_ROWS, MOST_ROWS),
) -> Sequence[RenderableType]:
    """Return `parts(most)` and `end` for the first of `sizes`, such as rows of a table, that fits into these lines.

    If none fits, extra parts give way, the last ones first, then the last lines. With `lines` None everything is shown.
    """
    if lines is None:
        return [*content(None), *end]
    room, chosen = lines - line_count(end, width), list[RenderableType]()
    for most in sizes:
        chosen = [*content(most)]
        if line_count(chosen, width) <= room:
            return [*chosen, *end]
    extras = {index: part for index, part in enumerate(chosen) if isinstance(part, Extra)}
    chosen = [part.least if isinstance(part, Extra) else part for part in chosen]
    whole = [(index, [extra]) for index, extra in extras.items()]
    for index, versions in (*whole, *((index, extra.fewer) for index, extra in extras.items())):
        if chosen[index] is extras[index].least:
            beside = room - line_count([*chosen[:index], *chosen[index + 1 :]], width)
            fitting = (version for version in versions if line_count([version], width) <= beside)
            chosen[index] = next(fitting, extras[index].least)
    if line_count(chosen, width) > room:
        chosen = [_Beginning(Group(*chosen), room - 1), *remark("The rest is left out; see it with --full")]
    return [*chosen, *end]


def line_count(renderables: Iterable[RenderableType], width: int) -> int:
    """Return the number of lines that the parts take on a console of this width."""
    return recorded(renderables, width).export_text().count("\n")


def pivot(
    names: Sequence[Column],
    metric: Column,
    records: Sequence[Row],
    width: int,
    most: int | None = None,
    spread: str = "",
    few: int | None = None,
) -> Iterator[RenderableType]:
    """Yield tables of a metric with a column for each label, and a row for each combination of values in `names`.

    `spread` is the key of a standard deviation to show beside the metric.

    A label with one value in all rows has a line below instead. If there are more than `most` rows, the table has the
    layers and heads where the labels differ most, or those `few` where the sum over the labels is smallest or largest;
    without layers and heads it has the first and the last rows.
    """
    groups = dict[tuple[Any, ...], dict[str, Row]]()
    for record in records:
        groups.setdefault(tuple(record.get(name.key) for name in names), {})[record["label"]] = record

    def cell_text(row: Row) -> str:
        """Return the metric of a row, with its spread."""
        value = _cell(metric, row.get(metric.key))
        return f"{value} ± {number(row[spread], 2)}" if row.get(spread) else value

    texts_by_label = {label: {cell_text(row) for row in rows} for label, rows in by_label(records).items()}
    level = {label: texts.pop() for label, texts in texts_by_label.items() if len(texts) == 1 and len(groups) > 1}
    labels = [label for label in texts_by_label if label not in level]
    has_order = len(names) == 1 and not names[0].text
    rows = ends([*groups], most) if has_order else _most_different(groups, metric.key, most, few)
    first = [next(iter(groups[group].values())) for group in rows]
    columns = [
        Cells(
            folded(printable(label)),
            [cell_text(groups[group].get(label, {})) for group in rows],
        )
        for label in labels
    ]
    if columns:
        yield from blocks(cells(names, first), columns, width)
        yield from left_out(len(groups) - len(rows), len(groups))
    for label, text in level.items():
        yield Text(f"{printable(label)}: {text} in all rows")


def folded(text: str, room: int = LONGEST_LABEL) -> str:
    """Return a text, such as a label, in lines of at most LONGEST_LABEL and `room` cells.

    Lines end after spaces and underscores where possible.
    """
    most = min(room, LONGEST_LABEL)
    lines = [""]
    for word in re.findall(r"[^_ \n]*[_ \n]*", text):
        if lines[-1] and (lines[-1].endswith("\n") or cell_len(lines[-1] + word.rstrip()) > most):
            lines.append("")
        lines[-1] += word
    return "\n".join(piece for line in lines for piece in chop_cells(line.rstrip(), most))


def _most_different(
    groups: Mapping[tuple[Any, ...], Mapping[str, Row]], key: str, most: int | None, few: int | None
) -> list[tuple[Any, ...]]:
    """Return all places, or of more than `most` those where the labels differ most, or the `few` extremes of sums."""

    def spread(group: tuple[Any, ...]) -> float:
        values = finite(record.get(key) for record in groups[group].values())
        if few is not None:
            return sum(values)
        return max(values, default=0.0) - min(values, default=0.0)

    if most is None or len(groups) <= most:
        return [*groups]
    ranked = sorted(groups, key=spread, reverse=True)
    chosen = {*(ranked[:MOST_ROWS] if few is None else ends(ranked, most, few))}
    return [group for group in groups if group in chosen]


def blocks(names: Sequence[Cells], columns: Sequence[Cells], width: int) -> Iterator[Table]:
    """Yield one table if all columns fit into `width`, else several with equal shares of the columns.

    Each table has the names on the left. Names and headings are folded if they must be, numbers never.
    """
    gap = 2 if _width([*names, *columns], 2) <= width else 1
    if _width([*names, *columns], gap) > width:
        names = [name.folded() for name in names]
        width = max(width - sum(name.width + gap for name in names), 1)  # beside the names
        columns = [c if c.styles else replace(c, heading=folded(c.heading, width)) for c in columns]
    shares = [columns]
    for count in range(1, len(columns) + 1):
        size = math.ceil(len(columns) / count)
        shares = [columns[start : start + size] for start in range(0, len(columns), size)]
        if all(_width(share, gap) <= width for share in shares):
            break
    for share in shares:
        yield _table(names, share, gap)


def _width(columns: Sequence[Cells], gap: int) -> int:
    return sum(column.width + gap for column in columns) - gap


def _table(names: Sequence[Cells], columns: Sequence[Cells], gap: int) -> Table:
    """Return a table with names on the left; where there is no room, rich folds the names first."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 0, 0, gap - 1))
    for name in names:
        table.add_column(Text(name.heading), overflow="fold")
    for column in columns:
        justify: JustifyMethod = "left" if column.styles else "right"
        table.add_column(Text(column.heading), width=column.width, justify=justify, overflow="fold")
    texts = list[list[Text]]()
    for column in (*names, *columns):
        styles = column.styles or [Style.null()] * len(column.cells)
        texts.append([Text(cell, style) for cell, style in zip(column.cells, styles, strict=True)])
    for row in zip(*texts, strict=True):
        table.add_row(*row)
    return table


def heading(record: Row, formula: str, facts: Sequence[str] = ()) -> Iterator[Text]:
    """Yield a line with the label of a record, its scorer and some facts, and a line with the formula."""
    scorer = "" if record["scorer"] == record["label"] else f" ({printable(record['scorer'])})"
    details = f": {', '.join(facts)}" if facts else ""
    yield Text.assemble((printable(record["label"]), STRONG), f"{scorer}{details}")
    yield Text(printable(formula))


def formulas(result: Result) -> Iterator[RenderableType]:
    """Yield the formula of every label, after an empty line, or without room a line that says so."""
    lines = [Text()]
    for record in {record["label"]: record for record in result.heads or result.records}.values():
        name, formula = heading(record, result.formulas[record["label"]])
        lines.append(Text.assemble(name, ": ", formula))
    yield Extra(*lines, name="formulas")


def numbered_layers(records: Sequence[Row], layers: Mapping[str, int], most: int | None) -> tuple[list[Row], str]:
    """Return the rows with numbers in place of layers, and a line with the first and last layer (all if no `most`)."""
    if not layers:
        return [*records], ""
    rows = [row if row["layer"] is None else {**row, "layer": str(layers[row["layer"]])} for row in records]
    names = [f"{number} {printable(name)}" for name, number in layers.items()]
    ends = [names[0], names[-1]] if most is not None and len(names) > 2 else []
    return rows, f"layers: {' to '.join(ends) or ', '.join(names)}"


def titled(title: str, renderables: Iterable[RenderableType]) -> Iterator[RenderableType]:
    """Yield the parts below a title, after an empty line."""
    yield Text()
    yield Text(title, style=STRONG)
    yield from renderables


def remark(line: str) -> Iterator[Text]:
    """Yield a faint line, unless it is empty."""
    if line:
        yield Text(line, style=FAINT)


def findings(sentences: Sequence[Finding], most: int | None = MOST_FINDINGS) -> Iterator[RenderableType]:
    """Yield the findings of a study as a list of sentences, at most `most`."""
    if sentences:
        yield Text()
        yield Text("Findings", style=STRONG)
    for sentence in sentences[:most]:
        item = Table.grid(padding=(0, 1, 0, 0))
        item.add_column(width=1)
        item.add_column(overflow="fold")
        item.add_row(Text("-"), Text(printable(sentence.text)))
        yield item
    yield from left_out(len(sentences[most:]) if most is not None else 0, len(sentences), "findings")


def recorded(renderables: Iterable[RenderableType], width: int) -> Console:
    """Return a console of this width that has recorded the parts without printing them, to export text or HTML."""
    console = SafeConsole(record=True, width=width, file=io.StringIO())
    for renderable in renderables:
        console.print(renderable)
    return console
