"""The interface of a study: the record `Study`, which the module `study` of each study's folder builds."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from attncli.results import Column, Explanation, Facts, Result, Row, RowKind
from attncli.runtime import Progress

if TYPE_CHECKING:
    import torch
    from rich.console import RenderableType

    from attncli.config.models import Experiment
    from attncli.show.pictures.figures import Picture

TITLES: Mapping[RowKind, str] = {  # of the tables on a page, in its order
    "records": "Summary",
    "comparisons": "Comparisons",
    "heads": "By batch element and head",
    "head_comparisons": "Comparisons by batch element and head",
}


class PreparedStudy(Protocol):
    """The checked input of a study's `run`, made by its `prepare`."""

    @property
    def device(self) -> "torch.device":
        """Return the device that the study computes on."""


Figures = Callable[[Result, Callable[[str], None], Any], Mapping[str, Callable[[], "Picture"]]]
Options = TypeVar("Options", bound="Experiment")
Prepared = TypeVar("Prepared", bound=PreparedStudy)


@dataclass(frozen=True)
class Study(Generic[Options, Prepared]):
    """The computation, the tables and the columns of a study. It prints nothing and writes no files.

    - `prepare` checks the options completely, and returns the input of `run`. It raises an InputError if the options
      make no sense together, or the run does not fit into memory.
    - `run` does the work. It raises an InputError if a user's own scorer fails, and KeyboardInterrupt if the user
      stopped the work before any row was finished.
    - `tables(result, width=..., most=...)` yields the output for a terminal of `width` cells, with at most `most` rows
      in a table. If `most` is None, tables of all rows and columns follow by themselves.
    - `facts` is the class of the facts that only results of this study have.
    - `columns` has the columns of each kind of rows that the study makes; `call_columns` are further columns of `heads`
      for a captured model. `metric` is the column that a sweep draws by default; a sweep collects the rows `swept`.
    - `explain`, if any, works out one query, and `between` returns rows with the distances between the tensors of two
      results.
    - `titles` are the titles of the tables on a page, in its order.
    - `references` are the labels of entries that always run.
    """

    prepare: Callable[[Options, Progress], Prepared]
    run: Callable[[Prepared, Progress], Result]
    tables: "Callable[..., Iterator[RenderableType]]"
    facts: type[Facts]
    columns: Mapping[RowKind, Sequence[Column]]
    metric: str
    call_columns: Sequence[Column] = ()
    explain: Callable[..., Explanation] | None = None
    between: Callable[[Result, Result], Sequence[Row]] | None = None
    swept: RowKind = "records"
    titles: Mapping[RowKind, str] = field(default_factory=lambda: TITLES)
    references: Sequence[str] = ()

    @property
    def all_columns(self) -> list[Column]:
        """Return the columns of all kinds of rows."""
        return [*itertools.chain(*self.columns.values()), *self.call_columns]
