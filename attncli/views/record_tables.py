"""The summary of all scorers and the pairwise comparisons, as one table each or, where they are too wide, several."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rich.table import Table

from attncli.show import numbers
from attncli.show.numbers import printable
from attncli.show.tables import Cells, stacked

if TYPE_CHECKING:
    from attncli.studies.study import Record

Format = Callable[[Any], str]
SUMMARY: Sequence[tuple[str, str, Format]] = (
    ("parameters", "params", numbers.count),
    ("score_mean", "score\nmean", numbers.statistic),
    ("score_std", "score\nstd", numbers.statistic),
    ("entropy", "entropy\n(nats)", numbers.statistic),
    ("effective_keys", "effective\nkeys", numbers.statistic),
    ("max_weight", "max\nweight", numbers.statistic),
    ("empty_rows", "empty\nrows", numbers.count),
    ("seconds", "time", numbers.duration),
)
COMPARISON: Sequence[tuple[str, str, Format]] = (
    ("js_divergence", "JS divergence\n(bits)", numbers.statistic),
    ("top1_agreement", "top-1\nagreement", numbers.statistic),
    ("max_abs_difference", "max abs\ndifference", numbers.statistic),
    ("output_difference", "output\ndifference", numbers.statistic),
)


def summary_tables(records: Sequence["Record"], width: int) -> list[Table]:
    """One row per scorer; the scorer's name only where a label does not say it."""
    names = [_names("label", "label", records)]
    if any(record["scorer"] != record["label"] for record in records):
        names.append(_names("scorer", "scorer", records))
    return stacked(names, _numbers(SUMMARY, records), width)


def comparison_tables(comparisons: Sequence["Record"], width: int) -> list[Table]:
    """One row per pair of scorers."""
    return stacked(
        [_names("a", "a", comparisons), _names("b", "b", comparisons)], _numbers(COMPARISON, comparisons), width
    )


def _names(key: str, heading: str, records: Sequence["Record"]) -> Cells:
    return Cells(heading, [printable(str(record[key])) for record in records])


def _numbers(formats: Sequence[tuple[str, str, Format]], records: Sequence["Record"]) -> list[Cells]:
    return [Cells(heading, [form(record.get(key)) for record in records]) for key, heading, form in formats]
