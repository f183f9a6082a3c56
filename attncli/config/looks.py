"""Options for the look of pictures: the keys under `figure` in an experiment, and the flags with the same names."""

import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from attncli.config.files import FONT, StoredAs
from attncli.config.strict import Flag, Model, problem
from attncli.config.values import FileName
from attncli.errors import InputError, got

NUMBER = r"\s*(\d+\.?\d*|\.\d+)\s*"
SIZE = re.compile(f"{NUMBER}[x×]{NUMBER}")
SLICE = re.compile(r"\s*(\d*)\s*:\s*(\d*)\s*")
SMALLEST, LARGEST = 0.5, 100.0  # inches of a side
FEWEST_DPI, MOST_DPI = 10, 2000
Format = Literal["png", "svg", "pdf"]
Theme = Literal["light", "dark", "print"]
Colours = Literal["linear", "root", "log"]
Scale = Literal["shared", "label", "panel"]
Annotate = Literal["auto", "yes", "no"]


def _inches(value: object) -> Any:
    """Return a size such as `6x4` as a list [width, height]; raise a `problem` if the value has another form."""
    if isinstance(value, str) and (match := SIZE.fullmatch(value)):
        return [float(side) for side in match.groups()]
    if not isinstance(value, list) or len(value) != 2:
        raise problem("expected a width and a height in inches, such as 6x4 or [6, 4]")
    return value


def _plain_slice(value: Any) -> Any:
    """Return `value` if it is a range such as `0:32`, a Python slice without a step; else raise a `problem`.

    Empty ranges are refused, too.
    """
    start, stop = range_ends(value) if isinstance(value, str) and SLICE.fullmatch(value) else (0, 0)
    if stop is not None and stop <= start:
        raise problem("expected a range such as 0:32, the end left out, which begins before it ends")
    return value


def range_ends(text: str) -> tuple[int, int | None]:
    """Return the start and the end of a range such as `0:32`: 0 for a missing start, None for a missing end."""
    start, _, stop = text.partition(":")
    return int(start.strip() or 0), int(stop) if stop.strip() else None


Side = Annotated[float, Field(ge=SMALLEST, le=LARGEST)]
Inches = Annotated[
    list[Side], Field(min_length=2, max_length=2), BeforeValidator(_inches, json_schema_input_type=str | list[Side])
]
Range = Annotated[str, BeforeValidator(_plain_slice), Field(json_schema_extra={"pattern": r"^\d*:\d*$"})]


class Look(Model):
    """Options for the look of pictures, common to all studies."""

    format: Annotated[Format, Field(description="format of the file"), Flag("NAME")] = "png"
    title: Annotated[str | None, Field(description="title of the picture, in place of its own"), Flag("TEXT")] = None
    subtitle: Annotated[
        str | None,
        Field(description='text below the title, in place of the picture\'s facts; "" for none'),
        Flag("TEXT"),
    ] = None
    words: Annotated[
        dict[str, str],
        Field(description="translations of the picture's texts, such as Queries: Anfragen"),
        Flag("MAPPING"),
    ] = Field(default_factory=dict)
    font: Annotated[
        FileName | None,
        Field(description="font file of all texts (.ttf, .otf or .ttc), installed or not"),
        Flag("FILE", is_path=True),
        StoredAs(FONT),
    ] = None
    size: Annotated[Inches | None, Field(description="width and height in inches"), Flag("WxH", is_text=True)] = None
    font_size: Annotated[
        float | None,
        Field(
            ge=2,
            le=100,
            description="size of all text in points; default: 9, on pages wider than 7 inches in proportion",
        ),
        Flag("POINTS"),
    ] = None
    dpi: Annotated[int | None, Field(ge=FEWEST_DPI, le=MOST_DPI, description="pixels per inch of a PNG"), Flag("N")] = (
        None
    )
    theme: Annotated[Theme, Field(description="colours for paper, for dark slides, or for print in grey")] = "light"
    panel: Annotated[int | None, Field(ge=1, description="draw this panel alone, counted from 1"), Flag("N")] = None


PLAIN = Look()


class HeatmapLook(Look):
    """Options for the look of heatmaps."""

    cmap: Annotated[str | None, Field(description="colour map of matplotlib")] = None
    scale: Annotated[
        Scale | None, Field(description="one colour scale for all panels, for each label, or for each panel")
    ] = None
    annotate: Annotated[Annotate, Field(description="write numbers into the cells"), Flag("WHEN")] = "auto"
    colours: Annotated[Colours | None, Field(description="colours by the value, its square root or its logarithm")] = (
        None
    )
    vmax: Annotated[
        float | None, Field(gt=0, description="value at the end of the colours; larger ones have the same"), Flag("X")
    ] = None
    minus: Annotated[
        str | None, Field(description="draw the difference from the scorer with this label"), Flag("LABEL")
    ] = None
    queries: Annotated[Range | None, Field(description="queries that are drawn, such as 0:32"), Flag("A:B")] = None
    keys: Annotated[Range | None, Field(description="keys that are drawn, such as 0:32"), Flag("A:B")] = None


def check_ranges(look: HeatmapLook, n: int, m: int) -> None:
    """Raise an InputError if a range of the look begins after the last of `n` queries or `m` keys.

    A range may end after the last query or key, as slices in Python may.
    """
    for side, text, count in (("queries", look.queries, n), ("keys", look.keys, m)):
        if text is not None and range_ends(text)[0] >= count:
            sizes = f"there are n = {n} queries and m = {m} keys"
            raise InputError.of(got(text, sizes, f"expected a range that begins below {count}"), [side])


def is_default(look: Look) -> bool:
    """Whether a look has only default values."""
    return look == type(look)()
