"""One query worked out, as a student would write it down: scores, weights, output."""

from collections.abc import Iterator, Sequence
from functools import partial
from math import fsum
from typing import Any

from rich.cells import cell_len, chop_cells
from rich.console import RenderableType
from rich.text import Text

from attncli.core.numbers import number, several
from attncli.errors import listed, number_ranges, printable, shortened
from attncli.results import Explanation, Row
from attncli.show.terminal.tables import FAINT, SCREEN, STRONG, Cells, blocks, fit, titled

STAGES = {"score": "score", "capped": "after\nsoftcap", "bias": "bias", "biased": "with\nbias"}  # with their headings
WEIGHTS = {"weight": "weight", "dropped": "after\ndropout"}
MOST_RANGES = 4  # of masked keys
LONGEST_TOKEN = 16
LEAST_NAME = 8  # cells of the terminal to which the name of a step is folded
SUM_OF = "sum of "  # begins the name of a normaliser's number that is the sum of a step
EMPTY_ROWS = {"zero": "all weights are 0", "uniform": "all weights are 1 / m", "nan": "all weights are NaN"}
Line = tuple[str, Any]  # a name, and a number or a vector


def lines(explained: Explanation, width: int, most: int | None = SCREEN) -> Sequence[RenderableType]:
    """Return the steps of an explained query, in at most `most` lines; if need be, with the steps of one key only."""
    return fit(partial(_parts, explained, width), (), width, most, (len(explained.keys), 1, 0))


def _parts(explained: Explanation, width: int, most: int | None) -> Iterator[RenderableType]:
    """Yield the steps; at most `most` keys have the steps of their score."""
    written = len(explained.keys) if most is None else most
    layer, number_of_layer = explained.place["layer"], explained.place["layer_number"]
    names = [] if layer is None else [f"layer {number_of_layer} ({printable(layer)})"]
    names += [f"{axis} {explained.place[axis]}" for axis in ("batch", "head") if explained.place[axis] is not None]
    names.append(f"query {_name(explained.place['query'], explained.place['token'])}")
    yield Text.assemble((f"{printable(explained.name)}: {printable(explained.label)}", STRONG), f", {', '.join(names)}")
    yield Text(printable(explained.formula))
    if explained.parameters:
        shapes = (f"{printable(name)} {' x '.join(map(str, shape))}" for name, shape in explained.parameters.items())
        yield Text(f"parameters: {', '.join(shapes)}", FAINT)
    if explained.others:
        yield Text(f"other labels: {printable(listed(explained.others))}", FAINT)
    yield from titled("1. Scores", _scores(explained, width, written))
    yield from titled(f"2. Weights: {explained.normalizer}", _weights(explained, width, written))
    yield from titled(f"3. Output: the {explained.formulas['output']}", _output(explained, width))


def _scores(explained: Explanation, width: int, written: int) -> Iterator[RenderableType]:
    """Yield the query, and the steps of the scores for the `written` keys with the largest weights."""
    if explained.formulas.get("score"):
        yield Text(f"score = {explained.formulas['score']}")
    by_weight = sorted(explained.keys, key=lambda row: -row["weight"] if row["weight"] >= 0 else 0.0)
    chosen = {row["key"] for row in by_weight[:written]}
    worked = list[Line](explained.of_query.items())
    for row in explained.keys:
        if row["key"] in chosen and row["valid"]:
            steps = {"k": row["k"], **row["steps"], "score": row["score"]}
            worked += [
                (f"key {_name(row['key'], row['token'])}", []),
                *((f"  {name}", value) for name, value in steps.items()),
            ]
    yield from _aligned(worked, width)
    if 0 < written < len(explained.keys) and explained.empty_row is None:
        others = len(explained.keys) - written + (explained.rest or {"keys": 0})["keys"]
        keys = "key takes" if others == 1 else f"{others} keys take"
        yield Text(f"the other {keys} the same steps", FAINT)


def _weights(explained: Explanation, width: int, written: int) -> Iterator[RenderableType]:
    """Yield a table of all listed keys from the score to the weight, with sums."""
    if explained.empty_row is not None:
        yield Text(f"no key is valid, so {EMPTY_ROWS[explained.empty_row]} (empty_row: {explained.empty_row})")
    for name, heading in {**STAGES, **WEIGHTS}.items():
        if name != "score" and explained.formulas.get(name):
            yield Text(f"{heading} = {explained.formulas[name]}".replace("\n", " "))
    steps = explained.keys[0]["weight_steps"] if explained.keys else ()
    sums = {name: value for name, value in explained.of_weights.items() if name.removeprefix(SUM_OF) in steps}
    numbers = [f"{name} = {_texts([value])[0]}" for name, value in explained.of_weights.items() if name not in sums]
    if numbers:
        yield Text(", ".join(numbers))
    masked = {"score": "masked", "weight": 0.0, "dropped": 0.0}
    rows: dict[str, Row] = {_name(row["key"], row["token"]): masked | row for row in explained.keys}
    if explained.rest:
        rows[several(explained.rest["keys"], "other")] = explained.rest
    if explained.sink:
        rows["sink"] = {**explained.sink, "score": None, _final(explained): explained.sink["score"]}
    if explained.masked and explained.empty_row in (None, "zero"):
        ranges = number_ranges(explained.masked)
        many = len(ranges) > MOST_RANGES
        rows[several(len(explained.masked), "masked key") if many else ", ".join(ranges)] = masked
    totals = {name: _total(explained, name) for name in WEIGHTS}
    rows["sum"] = totals | {name.removeprefix(SUM_OF): value for name, value in sums.items()}
    with_steps = [{**row.get("steps", {}), **row.get("weight_steps", {}), **row} for row in rows.values()]
    columns = [
        Cells(heading, _texts([row.get(name) for row in with_steps]))
        for name, heading in _headings(explained, written).items()
    ]
    yield from blocks([Cells("key", [*rows])], columns, width)


def _final(explained: Explanation) -> str:
    """Return the name of the last stage of the scores, the input of the normaliser."""
    return next((name for name in reversed(STAGES) if explained.keys and name in explained.keys[0]), "score")


def _headings(explained: Explanation, written: int) -> dict[str, str]:
    """Return the headings of the table of weights by the name of the column."""
    first = {"score": None, "weight": None, **(explained.keys[0] if explained.keys else {})}
    steps = [name for name, value in first.get("steps", {}).items() if not isinstance(value, list)]
    names = [*(steps if written < len(explained.keys) else ()), *(name for name in STAGES if name in first)]
    names += [*first.get("weight_steps", ()), *(name for name in WEIGHTS if name in first)]
    headings = {name: {**STAGES, **WEIGHTS}.get(name, name) for name in names}
    final = _final(explained)
    if final in headings:
        headings[final] += " s"
    return headings


def _output(explained: Explanation, width: int) -> Iterator[RenderableType]:
    """Yield a table of weights, values and their products; the sum of the products is the output."""
    used = "dropped" if explained.keys and "dropped" in explained.keys[0] else "weight"
    rows = {_name(row["key"], row["token"]): row for row in explained.keys}
    if explained.rest:
        rows[several(explained.rest["keys"], "other")] = explained.rest
    rows["sum = output"] = {used: _total(explained, used), "part": explained.output}
    names = Cells("key", [*rows])
    weights = Cells("weight", _texts([row[used] for row in rows.values()]))
    room = (width - names.width - weights.width - 8) // 2
    columns = {"v": [row.get("v") for row in rows.values()], "weight * v": [row["part"] for row in rows.values()]}
    yield from blocks([names], [weights, *(_column(name, vectors, room) for name, vectors in columns.items())], width)


def _column(heading: str, vectors: Sequence[Sequence[float] | None], room: int) -> Cells:
    """Return vectors as a column at most `room` cells wide; the end of long vectors is left out."""
    length = max(len(vector or []) for vector in vectors)
    begins = [(vector or [])[: max(room, 1)] for vector in vectors]
    flat = iter(_texts([value for begin in begins for value in begin], 3))
    texts = [[next(flat) for _ in begin] for begin in begins]
    size = max((len(text) for line in texts for text in line), default=0)
    count = length if length * (size + 1) <= room + 1 else max((room - 2) // (size + 1), 1)
    end = " …" if count < length else ""
    lines = [" ".join(text.rjust(size) for text in line[:count]) + (end if line else "") for line in texts]
    return Cells(
        f"{heading} ({length} numbers)" if end else heading, [line.rjust(max(map(len, lines))) for line in lines]
    )


def _total(explained: Explanation, name: str) -> float:
    """Return the sum of the weights (`name` is `weight` or `dropped`) of all keys, listed or not."""
    return fsum(row.get(name, 0.0) for row in (*explained.keys, explained.rest or {}))


def _name(position: int, token: object) -> str:
    """Return a position, with its token if it has one; tokens of captured models include the position."""
    word = "" if token is None else shortened(printable(str(token)), LONGEST_TOKEN)
    return word if word.startswith(f"{position} ") else f"{position} {word}".rstrip()


def _texts(values: Sequence[Any], decimals: int | None = None) -> list[str]:
    """Return numbers as text: without decimals if all are whole, and None as an empty string."""
    numbers = [value for value in values if isinstance(value, float | int)]
    whole = all(float(value).is_integer() for value in numbers)
    return ["" if value is None else number(value, decimals=0 if whole else decimals) for value in values]


def _aligned(lines_by_name: Sequence[Line], width: int) -> Iterator[Text]:
    """Yield a line for each name with its numbers, in columns; a long name is folded, the end of a long vector cut."""
    texts = [_texts(value[:width], 3) if isinstance(value, list) else _texts([value]) for _, value in lines_by_name]
    first = min(max((cell_len(name) for name, _ in lines_by_name), default=0), max(width // 2, LEAST_NAME))
    size = max((len(text) for line in texts for text in line if len(line) > 1), default=0)
    for (name, value), line in zip(lines_by_name, texts, strict=True):
        *above, last = chop_cells(name, first)
        yield from map(Text, above)
        end = ""
        if len(line) > 1 and first + len(line) * (size + 1) > width:
            end = f" … ({len(value)} numbers)"
            line = line[: max((width - first - len(end)) // (size + 1), 1)]
        cells = "".join(f" {text:>{size}}" for text in line)
        yield Text(f"{last}{' ' * (first - cell_len(last))}{cells}{end}".rstrip())
