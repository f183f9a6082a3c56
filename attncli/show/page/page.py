"""The report: one HTML page of runs that needs no other file and lets no text of a run act as code."""

import base64
import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from matplotlib import colormaps

from attncli.core.numbers import MISSING
from attncli.errors import plain, printable_lines
from attncli.results import Column, Comparison, Row, nan_to_null
from attncli.show.page.matrices import COLOURS
from attncli.show.page.note import as_html
from attncli.show.page.pictures import PAGE_THEMES
from attncli.show.pictures.themes import THEMES
from attncli.show.terminal.comparison import Section, sections

MOST_ROWS = 2000  # of a table
DIGITS = 6  # of a number in the table of expectations
MOST_NAMES = 3  # of runs, in the title
NAN = (0, 180, 216, 255)  # red, green, blue and opacity
HERE = Path(__file__).parent
POLICY = (
    "default-src 'none'; script-src '{script}'; style-src '{style}'; img-src data:; base-uri 'none'; form-action 'none'"
)


class Cell(NamedTuple):
    """A cell of a table, sorted by `number` if it has one, else by its text."""

    text: str
    number: float | None = None


class Heading(NamedTuple):
    """The heading of a column, and a description of the column."""

    text: str
    about: str
    is_of_numbers: bool


class Table(NamedTuple):
    """A table of the page; `note` is the line below it."""

    title: str
    columns: Sequence[Heading]
    rows: Sequence[Sequence[Cell]]
    note: str = ""


def page(
    runs: Sequence[Row],
    comparisons: Sequence[Comparison] = (),
    both: Row | None = None,
    scales: Mapping[str, Row] | None = None,
    *,
    title: str | None = None,
    note: str | None = None,
) -> str:
    """Return the page of runs, as `section_of` returns them, and of comparisons between them.

    `both` has the `views` of the differences of two runs, with a `title`, and the `pictures` of all runs together.
    `scales` are the colour scales of all matrices. `title` and `note`, a text in Markdown, are given by the user.
    """
    css = (HERE / "page.css").read_text(encoding="utf-8")
    javascript = (HERE / "page.js").read_text(encoding="utf-8")
    environment = Environment(
        loader=FileSystemLoader(HERE),
        autoescape=True,
        finalize=_printable,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["embedded"] = embedded
    names = [run["name"] for run in runs]
    return environment.get_template("page.html.j2").render(
        title=title or (", ".join(names) if len(names) <= MOST_NAMES else f"{names[0]} and {len(names) - 1} more runs"),
        note=as_html(note or ""),
        runs=runs,
        both=both or {},
        comparisons=list(map(_compared, comparisons)),
        css=css,
        javascript=javascript,
        policy=POLICY.format(script=sha256(javascript), style=sha256(css)),
        colours={"maps": _colour_maps(), "scales": scales or {}},
    )


def _printable(value: object) -> object:
    """Return text without control characters but the ends of lines, and other values unchanged."""
    return printable_lines(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def sha256(text: str) -> str:
    """Return the hash of an inline script or style, as written in a Content-Security-Policy."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def embedded(value: object) -> str:
    """Return JSON that is safe in a script element, without `<`, `>` and `&`. NaN and infinity are null."""
    text = json.dumps(nan_to_null(value), separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _compared(comparison: Comparison) -> Row:
    """Return the variables of the template for a comparison; runs have their names in place of A and B."""
    names = {"A": comparison.a, "B": comparison.b}
    sentence, *notes = (
        re.sub(r"\b[AB]\b(?=:| (is|was|alone) )", lambda run: names[run[0]], text)
        for text in (comparison.sentence, *comparison.notes)
    )
    return {
        "names": list(names.values()),
        "sentence": sentence,
        "notes": notes,
        "tables": [_comparison_table(section, names) for section in sections(comparison)],
    }


def _comparison_table(section: Section, names: Mapping[str, str]) -> Table:
    columns = [(column, False) for column in section.words] + [(column, True) for column in section.numbers]
    headings = [
        Heading(names.get(column.heading, column.heading.replace("\n", " ")), "", is_of_numbers)
        for column, is_of_numbers in columns
    ]
    cells = [
        [Cell(text, _number(text) if is_of_numbers else None) for text in column.cells]
        for column, is_of_numbers in columns
    ]
    return Table(section.title.removesuffix(" of A and B"), headings, list(zip(*cells, strict=True)), section.left_out)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def records_table(title: str, columns: Sequence[Column], records: Sequence[Row]) -> Table:
    """Return a table of records, without empty columns."""
    stated = {column.key: column for column in columns}
    keys = dict.fromkeys(key for record in records for key in record)
    filled = [key for key in keys if any(record.get(key) is not None for record in records)]
    columns = [stated.get(key) or Column(key, key, "") for key in filled]
    rows = [[_cell(column, record.get(column.key)) for column in columns] for record in records[:MOST_ROWS]]
    remark = f"The first {len(rows):,} of {len(records):,} rows; results.json has all." if rows[MOST_ROWS - 1 :] else ""
    of_numbers = [any(cell.number is not None for cell in cells) for cells in zip(*rows, strict=True)]
    texts = [column.name for column in columns]
    headings = [
        Heading(
            text if texts.count(text) == 1 else column.key.replace("_", " "),
            f"{column.about} ({column.unit})" if column.unit else column.about,
            is_of_numbers,
        )
        for column, text, is_of_numbers in zip(columns, texts, of_numbers, strict=False)  # none where there are no rows
    ]
    return Table(title, headings, rows, remark)


def _cell(column: Column, value: Any) -> Cell:
    if value is None:
        return Cell(MISSING)
    ends = value if isinstance(value, list) else [value]
    is_number = not column.text and ends and isinstance(ends[0], int | float) and math.isfinite(ends[0])
    return Cell(column.format(value), ends[0] if is_number else None)


def in_words(value: Mapping[str, Any]) -> str:
    """Return words such as `label dot, d 64` or `between 0.9 and 1.1`."""
    return ", ".join(f"{key} {plain_words(item)}" for key, item in value.items())


def plain_words(value: Any) -> str:
    """Return a value in words: a pair as `0.9 and 1.1`, a mapping as its keys and values."""
    is_pair = isinstance(value, list) and len(value) == 2 and not isinstance(value[0], list)
    return " and ".join(map(plain, value)) if is_pair else in_words(value) if isinstance(value, dict) else plain(value)


def _colour_maps() -> dict[str, list[str]]:
    """Return the colours of values, of differences and of NaN, by theme as pixels (RGBA) in base64."""

    def encoded(name: str) -> str:
        pixels = np.vstack([colormaps[name](np.arange(COLOURS), bytes=True), NAN])
        return base64.b64encode(pixels.astype(np.uint8).tobytes()).decode()

    return {name: [encoded(THEMES[name].colour_map), encoded(THEMES[name].diverging)] for name in PAGE_THEMES}
