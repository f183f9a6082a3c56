"""The report: one self-contained HTML page of runs, safe to open, mail or publish, whatever stands in their tensors."""

import base64
import hashlib
import json
import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from matplotlib import colormaps

from attncli.common.study import Chart, Column, Comparison, Listing, Record, Result, nan_to_null
from attncli.errors import plain, printable
from attncli.numbers import MISSING, number
from attncli.show import colours
from attncli.show.comparison import Section, sections
from attncli.show.report.charts import charts, looks, on_one_line
from attncli.show.report.matrices import views
from attncli.show.themes import THEMES

BUDGET = 5_500_000  # bytes of all matrices of a page
MOST_ROWS = 2000  # of a table
LONGEST_CONFIG = 100_000  # characters
MANY_ROWS = 100  # of a table that is closed at first
DIGITS = 6  # of what an expectation is about
MOST_NAMES = 3  # of runs, in the title
FACTS = ("study", "seed", "attncli")  # of results.json
HERE = Path(__file__).parent
SCRIPT = (  # a module of several files; a constant must stand before what uses it while the last one starts
    *("elements", "decode", "scaling", "colours", "address"),
    *("chart", "curves", "panels", "row", "heads", "matrices", "tables", "start"),
)
RULE = (
    *("PALE", "HIDDEN", "BEYOND", "WEIGHTS", "STEEPEST", "DECADES", "DECADES_EACH", "ROUNDING", "TICKS", "ROOTS"),
)  # constants of the colours of heatmaps
POLICY = "default-src 'none'; script-src '{script}'; style-src '{style}'; base-uri 'none'; form-action 'none'"
EXPECTATIONS = [
    Column("claim", "claim", "What is claimed.", text=True),
    Column("where", "of", "The row that is looked at.", format=lambda value: _words(value), text=True),
    Column("metric", "metric", "The column that is looked at.", text=True),
    Column("expected", "expected", "What is expected of it.", format=lambda value: _words(value), text=True),
    Column("got", "measured", "What it is.", format=lambda value: _measured(value)),
    Column("holds", "holds", "Whether it is as expected.", format=lambda value: "yes" if value else "no", text=True),
    Column("reason", "reason", "Why it is not.", text=True),
    Column("source", "source", "Who claims it.", text=True),
]
INPUTS = [
    Column("name", "tensor", "Name of the tensor.", text=True),
    Column("shape", "shape", "Its shape.", format=lambda shape: " x ".join(map(str, shape)), text=True),
    Column("dtype", "dtype", "Its dtype.", text=True),
    Column("sha256", "SHA-256", "Digest of its numbers in row order.", text=True),
]


@dataclass(frozen=True)
class Shown:
    """A run as the page shows it.

    `name` tells it from others, `listings` are its rows, `charts` what its study draws. `content` is what results.json
    has, as far as it is known; `config` the text of config.yaml. `source` is what commands call the run, if they can
    read it.
    """

    name: str
    result: Result
    listings: Sequence[Listing]
    charts: Sequence[Chart] = ()
    content: Record = field(default_factory=dict)
    config: str | None = None
    source: str | None = None


@dataclass(frozen=True)
class Cell:
    """What a table shows, and the number that it is sorted by, if it is one."""

    text: str
    number: float | None = None


@dataclass(frozen=True)
class Heading:
    """The heading of a column, and what it means, if that is known."""

    text: str
    about: str
    is_of_numbers: bool


@dataclass(frozen=True)
class Table:
    """A table of the page; `note` says what is left out."""

    title: str
    columns: Sequence[Heading]
    rows: Sequence[Sequence[Cell]]
    note: str = ""

    @property
    def is_open(self) -> bool:
        """Whether it is short enough to be seen at first."""
        return len(self.rows) <= MANY_ROWS


def page(runs: Sequence[Record], comparisons: Sequence[Comparison] = ()) -> str:
    """The page of runs that are `prepared`, and of what differs between some of them."""
    css = (HERE / "report.css").read_text(encoding="utf-8")
    javascript = "\n".join((HERE / "script" / f"{name}.js").read_text(encoding="utf-8") for name in SCRIPT)
    environment = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["embedded"] = embedded
    names = [run["name"] for run in runs]
    return environment.get_template("report.html.j2").render(
        title=", ".join(names) if len(names) <= MOST_NAMES else f"{names[0]} and {len(names) - 1} more runs",
        runs=runs,
        comparisons=list(map(_compared, comparisons)),
        css=css,
        javascript=javascript,
        policy=POLICY.format(script=sha256(javascript), style=sha256(css)),
        colours=_colours(),
    )


def sha256(text: str) -> str:
    """What a Content-Security-Policy calls an inline script or style."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def embedded(value: Any) -> str:
    """JSON in a script element that nothing can end: it has no `<`, `>` and `&`. NaN and infinity are null."""
    text = json.dumps(nan_to_null(value), separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def prepared(run: Shown, budget: int = BUDGET) -> Record:
    """What the template shows of a run, whose matrices take about `budget` bytes."""
    result, content = run.result, run.content
    tables = [_table(each.title, each.columns, each.rows) for each in run.listings]
    tables.append(_table("Expectations", EXPECTATIONS, content.get("expectations", ())))
    formulas = result.settings.get("formulas", {})
    own = [] if run.name == result.name else [printable(result.name)]
    swept = {key for axis in result.settings.get("sweep", {}).get("over", ()) for key in axis}
    facts = [key for key in FACTS if key in content and key not in swept]
    inputs = [{"name": name, **about} for name, about in content.get("inputs", {}).items()]
    return {
        "name": printable(run.name),
        "created": _text(content.get("created", "")[:19].replace("T", " ")),
        "facts": [*own, *(f"{key} {printable(str(content[key]))}" for key in facts)],
        "is_interrupted": result.interrupted,
        "views": list(_views(run, budget)),
        "findings": [printable(finding.text) for finding in result.findings],
        "tables": [table for table in tables if table.rows],
        "command": _text(content.get("command", "")),
        "formulas": {printable(label): printable(text) for label, text in formulas.items()},
        "config": "\n".join(map(_text, (run.config or "")[:LONGEST_CONFIG].splitlines())),
        "is_cut": len(run.config or "") > LONGEST_CONFIG,
        "inputs": _table("Inputs", INPUTS, inputs),
        "environment": {printable(key): printable(str(value)) for key, value in content.get("environment", {}).items()},
    }


def _compared(found: Comparison) -> Record:
    """What the template shows of a comparison."""
    return {
        "names": [printable(found.a), printable(found.b)],
        "sentence": printable(found.sentence),
        "notes": list(map(printable, found.notes)),
        "tables": list(map(_table_of, sections(found))),
    }


def _table_of(section: Section) -> Table:
    """Numbers are sorted as such, where they are written so."""
    parts = {False: section.words, True: section.numbers}
    headings = [Heading(each.heading.replace("\n", " "), "", is_of) for is_of, of in parts.items() for each in of]
    columns = [[Cell(text) for text in each.cells] for each in section.words]
    columns += [[Cell(text, _number(text)) for text in each.cells] for each in section.numbers]
    return Table(section.title, headings, list(zip(*columns, strict=True)), section.left_out)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _text(text: str) -> str:
    """Printable, and empty where it is."""
    return printable(text) if text.strip() else text


def _views(run: Shown, budget: int) -> Iterator[Record]:
    """What is interactive: matrices, or charts."""
    result, source = run.result, run.source and shlex.quote(run.source)
    stated = {column.key: column for each in run.listings for column in each.columns}
    if drawn := charts(result, run.charts, stated):
        yield {"title": "", "charts": drawn, "command": source and f"attncli figure {source}"}
    shared = {printable(label): look for label, look in looks(result.labels).items()}
    for view in views(result, budget, source and f"attncli heatmap {source}"):
        yield {"looks": shared, **view}


def _table(title: str, columns: Sequence[Column], records: Sequence[Record]) -> Table:
    """The rows with the columns that any of them has a value in."""
    stated = {column.key: column for column in columns}
    keys = dict.fromkeys(key for record in records for key, value in record.items() if value is not None)
    shown = [stated.get(key) or Column(key, key, "") for key in dict.fromkeys(key for row in records for key in row)]
    shown = [column for column in shown if column.key in keys]
    rows = [[_cell(column, record.get(column.key)) for column in shown] for record in records[:MOST_ROWS]]
    more = f"The first {len(rows):,} of {len(records):,} rows; results.json has all." if rows[MOST_ROWS - 1 :] else ""
    of_numbers = [any(cell.number is not None for cell in cells) for cells in zip(*rows, strict=True)]
    texts = list(map(on_one_line, shown))
    headings = [
        Heading(
            printable(text if texts.count(text) == 1 else column.key.replace("_", " ")),
            f"{column.about} ({column.unit})" if column.unit else column.about,
            is_of_numbers,
        )
        for column, text, is_of_numbers in zip(shown, texts, of_numbers, strict=False)  # none where there are no rows
    ]
    return Table(title, headings, rows, more)


def _cell(column: Column, value: Any) -> Cell:
    if value is None:
        return Cell(MISSING)
    ends = value if isinstance(value, list) else [value]
    is_number = not column.text and ends and isinstance(ends[0], int | float) and math.isfinite(ends[0])
    return Cell(printable(column.format(value)), ends[0] if is_number else None)


def _words(value: Mapping[str, Any]) -> str:
    """Such as `label dot, d 64` or `between 0.9 to 1.1`."""
    return ", ".join(f"{key} {_plain(part)}" for key, part in value.items())


def _plain(value: Any) -> str:
    is_pair = isinstance(value, list) and len(value) == 2 and not isinstance(value[0], list)
    return " to ".join(map(plain, value)) if is_pair else _words(value) if isinstance(value, dict) else plain(value)


def _measured(value: Any) -> str:
    return number(value, DIGITS) if isinstance(value, float) else plain(value)


def _colours() -> Record:
    """256 colours of values and of differences by theme, as red, green and blue bytes; and how values get them."""

    def bytes_of(name: str) -> str:
        return base64.b64encode(colormaps[name](np.arange(256), bytes=True)[:, :3].tobytes()).decode()

    themes = {name: THEMES[name] for name in ("light", "dark")}
    maps = {name: [bytes_of(theme.colour_map), bytes_of(theme.diverging)] for name, theme in themes.items()}
    return {"maps": maps, "rule": {name.lower(): getattr(colours, name) for name in RULE}}
