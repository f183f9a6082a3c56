"""What a study promises: the record `Study`, which the module `study` of each study's folder builds."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from attncli.common.progress import Progress
from attncli.common.study import Column, Explanation, Record, Result, RowKind, Rows

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


class Tables(Protocol):
    """A function that yields what a terminal and a notebook show of a result, from top to bottom.

    Tables are fitted to `width` cells and have at most `most` rows; None means all rows. `csv` is the file that has
    what is left out, if any.
    """

    def __call__(
        self, result: Result, *, width: int, most: int | None, csv: str | None
    ) -> "Iterator[RenderableType]": ...


Figures = Callable[[Result, Callable[[str], None], Any], Mapping[str, Callable[[], "Picture"]]]
Options = TypeVar("Options", bound="Experiment")
Prepared = TypeVar("Prepared", bound=PreparedStudy)


@dataclass(frozen=True)
class Study(Generic[Options, Prepared]):
    """The columns, the computation and the tables of a study. It prints nothing and writes no files.

    `columns` has the columns of each kind of rows that the study makes. `call_columns` are further columns of the rows
    by head if they are of a captured model. `metric` is the key of the column that a sweep draws by default; a sweep
    collects the rows `swept`. `titles` are the titles of the tables on a page.

    - `prepare` checks the options completely, and returns the input of `run`. It raises an InputError if the options
      make no sense together, or the run does not fit into memory.
    - `expected_rows` returns the rows that the result will have, so that expectations can be checked before the work.
    - `run` does the work. It raises an InputError if a user's own scorer fails, and KeyboardInterrupt if the user
      stopped the work before any row was finished.
    - `explain`, if any, works out one query.
    - `between`, if any, returns rows with the distances between the tensors of two results, for `attncli compare`.
    """

    columns: Mapping[RowKind, Sequence[Column]]
    metric: str
    prepare: Callable[[Options, Progress], Prepared]
    expected_rows: Callable[[Prepared], Rows]
    run: Callable[[Prepared, Progress], Result]
    tables: Tables
    explain: Callable[..., Explanation] | None = None
    between: Callable[[Result, Result], Sequence[Record]] | None = None
    call_columns: Sequence[Column] = ()
    swept: RowKind = "records"
    titles: Mapping[RowKind, str] = field(default_factory=lambda: TITLES)
