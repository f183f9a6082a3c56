"""The tables, pictures and columns of a result, from the modules of its study or of sweeps."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attncli import studies
from attncli.config.looks import Look
from attncli.engine.sweeps.columns import is_repeated, swept_columns
from attncli.engine.sweeps.summary import summary, summary_columns
from attncli.engine.sweeps.tables import tables
from attncli.errors import InputError
from attncli.results import Column, Listing, Result, Row, RowKind, SweepResult
from attncli.show.terminal.tables import titled, whole_tables
from attncli.studies import load_study
from attncli.studies.study import TITLES

if TYPE_CHECKING:
    from attncli.show.pictures.figures import Note, Picture


def result_tables(result: Result, width: int, most: int | None, stage: str | None = None) -> Iterator[Any]:
    """Yield the tables of a result for a terminal of `width` cells; if `most` is None, then the tables of all rows.

    `stage` is the stage of attention to show in place of the weights.
    """
    if isinstance(result, SweepResult):
        yield from tables(result, width=width, most=most)
    else:
        options = {} if stage is None else {"stage": stage}
        yield from load_study(result.study).tables(result, width=width, most=most, **options)
    for listing in result_listings(result) if most is None else ():
        if listing.rows:
            yield from titled(listing.title, whole_tables(listing.columns, listing.rows, width))


def result_figures(result: Result, note: "Note", look: Look) -> "Mapping[str, Callable[[], Picture]]":
    """Return the functions that draw the pictures of a result, by name, the main picture first."""
    if isinstance(result, SweepResult):
        from attncli.engine.sweeps.figure import figures  # loads matplotlib

        return figures(result, note, look)
    return studies.study_figures(result.study)(result, note, look)


def result_columns(result: Result) -> dict[RowKind, Sequence[Column]]:
    """Return the columns of each kind of rows that a result may have, such as `records`."""
    if isinstance(result, SweepResult):
        return {"records": [*swept_columns(result).values()], "heads": [*swept_columns(result, "heads").values()]}
    return {**load_study(result.study).columns}


def result_frames(result: Result) -> dict[str, Callable[[], Sequence[Row]]]:
    """Return the kinds of rows that a result has, with functions that return the rows."""
    frames: dict[str, Callable[[], Sequence[Row]]] = {
        kind: partial(result.rows.__getitem__, kind)
        for kind in result_columns(result)
        if kind != "heads" or result.heads
    }
    return {**frames, "summary": partial(summary, result)} if isinstance(result, SweepResult) else frames


def result_listings(result: Result) -> list[Listing]:
    """Return the tables of all rows of a result, one for each kind; for a sweep over seeds, the summary and records."""
    columns = result_columns(result)
    if isinstance(result, SweepResult) and is_repeated(result):
        means = Listing(TITLES["records"], summary_columns(result), summary(result))
        return [means, Listing("Records", columns["records"], result.records)]
    study = load_study(result.study)
    columns["heads"] = (*columns.get("heads", ()), *study.call_columns)
    titles = TITLES if isinstance(result, SweepResult) else study.titles
    return [Listing(title, columns.get(kind, ()), result.rows[kind]) for kind, title in titles.items()]


def result_drawers(result: Result, look: Look, note: "Note") -> dict[str, Callable[[Path], None]]:
    """Return functions that draw a result's pictures, by file name, to be called in their order.

    A picture without the panel that the look names is drawn whole, with a note: a run is finished by then.
    """
    figures, drawn = result_figures(result, note, look), list["Picture"]()

    def draw(name: str, path: Path) -> None:
        """Draw a picture to a path; after the last one note the words that none of them has."""
        from attncli.show.pictures.figures import save_figure, unknown_words  # load matplotlib

        try:
            picture = figures[name]()
        except InputError as error:
            if error.problems[0].path != ("panel",):
                raise
            note(f"{path.name}: drawn whole: {error.problems[0].message}")
            picture = result_figures(result, note, look.model_copy(update={"panel": None}))[name]()
        save_figure(picture, path)
        drawn.append(picture)
        if name == [*figures][-1]:
            for sentence in unknown_words(look, drawn):
                note(sentence)

    return {f"{name}.{look.format}": partial(draw, name) for name in figures}
