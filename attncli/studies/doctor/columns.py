"""The columns of the study `doctor`, for the rows of the findings and the rows with the numbers of each head."""

from functools import partial

from attncli.common.study import LABEL, LAYER, SCORER, Column
from attncli.numbers import number
from attncli.studies.doctor.checks import CHECKS

short = partial(number, digits=3)
HEAD = Column("head", "head", "Number of the head, from 0; empty for all heads.", kind="place")
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
