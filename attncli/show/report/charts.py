"""The charts of a study as JSON: what the script shows of studies against sizes, heads or steps.

A chart is a mapping with `title`; `facet`, in words, which tells it from others of this title; `x` and `y`, each with
`name` and `log`; and `series`: mappings with `name`, `look`, and as lists of one length `x`, `y`, `low`, `high` and
`theory`, null where there is none. A `look` is that of the label: `light` and `dark` (colours by theme), `marker` as
matplotlib calls it, and `dash` as SVG does.
"""

from collections.abc import Iterator, Mapping, Sequence

from attncli.common.study import Chart, Column, Record, Result, single_numbers
from attncli.errors import plain, printable
from attncli.show.looks import LabelLook, looks_of

Looks = Mapping[str, Record]
DASHES = ("none", "8 3", "2 2", "8 3 2 3", "14 4")  # of series that share a label


def looks(labels: Sequence[str]) -> Looks:
    """The look of each label."""
    return {label: _look(look) for label, look in looks_of(labels).items()}


def _look(look: LabelLook) -> Record:
    dash = "none" if isinstance(look.dash, str) else " ".join(f"{2 * length:g}" for length in look.dash[1])
    return {"light": look.light, "dark": look.dark, "marker": look.marker, "dash": dash}


def charts(result: Result, stated: Sequence[Chart], columns: Mapping[str, Column]) -> list[Record]:
    """Every chart of the study that has something to show, facet by facet."""
    return [each for chart in stated for each in _facets(chart, result, columns)]


def _facets(chart: Chart, result: Result, columns: Mapping[str, Column]) -> Iterator[Record]:
    rows = [row for row in map(single_numbers, chart.rows(result)) if row.get(chart.y) is not None]
    known = [key for key in chart.x if any(row.get(key) is not None for row in rows)]
    if not known:
        return
    x = next((key for key in known if len({row[key] for row in rows}) > 1), known[0])
    beside = [key for key in chart.x if key != x and _changes_within(rows, key, x)]
    facets = [key for key in (*chart.facets, *beside) if len({row.get(key) for row in rows} - {None}) > 1]
    by = [chart.series[0], *(key for key in chart.series[1:] if len({row.get(key) for row in rows} - {None}) > 1)]
    of_facet: dict[str, dict[tuple[str, ...], list[Record]]] = {}
    for row in rows:
        if row.get(x) is not None:
            facet = ", ".join(f"{key} {plain(row[key])}" for key in facets if row.get(key) is not None)
            line = tuple(plain(row[key]) for key in by if row.get(key) is not None)
            of_facet.setdefault(printable(facet) if facet else "", {}).setdefault(line, []).append(row)
    shared = looks(result.labels)
    kinds = list(dict.fromkeys(line[1:] for lines in of_facet.values() for line in lines))
    is_log = all(row[x] > 0 for row in rows if row.get(x) is not None)
    for facet, lines in of_facet.items():
        yield {
            "title": chart.title,
            "facet": facet,
            "x": {"name": headed(x, columns), "log": is_log},
            "y": {"name": headed(chart.y, columns), "log": chart.log},
            "series": [
                {
                    "name": printable(", ".join(line)),
                    "look": shared[line[0]]
                    | ({"dash": DASHES[kinds.index(line[1:]) % len(DASHES)]} if line[1:] else {}),
                    **_points(chart, x, of_line),
                }
                for line, of_line in lines.items()
            ],
        }


def _changes_within(rows: Sequence[Record], key: str, x: str) -> bool:
    """Whether a size changes on its own, and not only with the one that is drawn along."""
    return len({(row.get(x), row.get(key)) for row in rows}) > len({row.get(x) for row in rows})


def on_one_line(column: Column) -> str:
    """The heading of a column, which may break."""
    return column.heading.replace("-\n", "").strip().replace("\n", " ")


def headed(key: str, columns: Mapping[str, Column]) -> str:
    """The heading of a column with its unit, on one line."""
    if key not in columns:
        return key
    heading, unit = on_one_line(columns[key]), columns[key].unit
    return f"{heading} ({unit})" if unit and f"({unit})" not in heading else heading


def _points(chart: Chart, x: str, rows: Sequence[Record]) -> Record:
    low, high = chart.ends or (None, None)
    ordered = sorted(rows, key=lambda row: row[x])
    keys = {"x": x, "y": chart.y, "low": low, "high": high, "theory": chart.theory}
    return {name: [row.get(key) if key else None for row in ordered] for name, key in keys.items()}
