"""The columns of the study `doctor` for findings and for the numbers of each head, and its facts."""

from collections.abc import Sequence

from attncli.core.numbers import short
from attncli.results import LABEL, LAYER, SCORER, Column, Facts, Result
from attncli.studies.doctor.checks import CHECKS

HEAD = Column("head", "head", "Number of the head, from 0; empty without an axis of heads.", kind="place")
PLACE = (SCORER, LABEL, LAYER, HEAD)
COLUMNS = (
    *PLACE,
    Column("check", "check", "Name of the check.", text=True, kind="place"),
    Column("kind", "kind", "Whether it is a fault or a remark.", text=True),
    Column("value", "value", "The number that the check is about.", format=short),
    Column("limit", "limit", "The limit of this number.", format=short),
    Column("about", "about", "What this means.", text=True),
)
HEADS = (*PLACE, *(check.column for check in CHECKS))


class DoctorFacts(Facts):
    """The model that was run, with the number of its texts, if one was; and the number of heads `checked`.

    `unjudged` has the layers that are too small for all checks except for faults; None without layers.
    """

    model: str | None = None
    texts: int | None = None
    checked: int = 0
    unjudged: Sequence[str | None] = ()


def source_name(result: Result) -> str:
    """Return the name of the model or file that was checked, or of the run."""
    file = None if result.capture is None else result.capture.file
    return DoctorFacts.of(result).model or file or result.name
