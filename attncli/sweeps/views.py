"""The tables, pictures and columns of a result, from the modules of its study or of sweeps."""

import importlib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from attncli import studies
from attncli.common.study import Column, Listing, Record, Result
from attncli.config.looks import Look
from attncli.sweeps.columns import columns_of as swept_columns_of
from attncli.sweeps.columns import is_repeated
from attncli.sweeps.summary import summary, summary_columns

if TYPE_CHECKING:
    from attncli.show.pictures.figures import Note, Picture


def view_of(result: Result, part: str) -> ModuleType:
    """Return the module `part` (`tables` or `figure`) for a result: of sweeps, or of the result's study."""
    if is_sweep(result):
        return importlib.import_module(f"attncli.sweeps.{part}")
    return studies.part_of(result.study, part)


def columns_of(result: Result) -> dict[str, Sequence[Column]]:
    """Return the columns of each kind of rows, such as `records`."""
    if not is_sweep(result):
        return studies.columns_of(result.study)
    kept = {rows: [*swept_columns_of(result, rows).values()] for rows in ("records", "heads")}
    return {**dict.fromkeys(studies.ROWS, ()), **kept}


def frames_of(result: Result) -> dict[str, Callable[[], Sequence[Record]]]:
    """Return the kinds of rows that a result has, with functions that return the rows."""
    kinds = [kind for kind, columns in studies.columns_of(result.study).items() if columns]
    if is_sweep(result):
        kinds = ["records", "heads"]
    frames = {kind: partial(getattr, result, kind) for kind in kinds if kind != "heads" or result.heads}
    return {**frames, "summary": partial(summary, result)} if is_sweep(result) else {**frames}


def listings_of(result: Result) -> list[Listing]:
    """Return the tables of all rows of a result, one for each kind; for a sweep over seeds, the summary and records."""
    columns = columns_of(result)
    if is_sweep(result) and is_repeated(result):
        means = Listing(studies.TITLES["records"], summary_columns(result), summary(result))
        return [means, Listing("Records", columns["records"], result.records)]
    columns["heads"] = (*columns["heads"], *getattr(studies.part_of(result.study, "columns"), "OF_CALLS", ()))
    titles = studies.TITLES if is_sweep(result) else studies.titles_of(result.study)
    return [Listing(title, columns[kind], getattr(result, kind)) for kind, title in titles.items()]


class Drawers(dict[str, Callable[[Path], None]]):
    """Functions that draw the pictures of a result at a path, by file name; `note` receives remarks on omissions."""

    def __init__(self, result: Result, look: Look, note: "Note") -> None:
        figures = view_of(result, "figure").figures(result, note, look)
        super().__init__({f"{name}.{look.format}": partial(self._draw, make) for name, make in figures.items()})
        self.look, self.texts = look, set[str]()

    def _draw(self, make: "Callable[[], Picture]", path: Path) -> None:
        from attncli.show.pictures.figures import save_figure

        picture = make()
        self.texts |= picture.untranslated
        save_figure(picture, path)

    def check(self, folder: Path) -> None:
        """Raise an InputError for words of the look that no drawn picture of the run in `folder` has."""
        from attncli.show.pictures.figures import check_words

        if self.texts:
            check_words(self.look, self.texts, f"; the run is in {folder}, and `attncli figure` draws it again")


def is_sweep(result: Result) -> bool:
    """Whether a result is of a sweep."""
    return "sweep" in result.settings
