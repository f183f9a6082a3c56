"""The tables of the study `variance`: measured moments beside their theory, or the scales that real scores need."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from attncli.core.numbers import exact, number
from attncli.results import LABEL, Result, by_label
from attncli.show.terminal.tables import formulas, formulas_if, heading, numbered_layers, pick, pivot, remark, titled
from attncli.show.terminal.tables import tables as blocks
from attncli.studies.pairs.entries import PairsFacts
from attncli.studies.pairs.study import PLACE
from attncli.studies.variance.columns import COLUMNS

LEGEND = (
    "±: half the 95 % interval of the mean; interval: 95 % for the variance; z: (variance - theory) / standard error"
)
LEGEND_OF_Z = "z: (variance - theory) / standard error; intervals and means with --full"
LIMIT = "limit: the theory holds for large sizes, so there is no z"
UNKNOWN = "-: no closed form is known"
REAL = (
    "Every unmasked pair is used; nothing is sampled, so there is no interval. Within rows is the variance over the "
    "keys of a query, averaged over the queries: the rest does not change the softmax. Needed scale gives variance 1."
)
D, VARIANCE, Z, UNIT_SCALE, THEORY = pick(COLUMNS, ["d", "variance", "z", "unit_scale", "theory"])
FEW = pick(COLUMNS, ["mean", "variance", "variance_ci", "theory_variance", "z"])
RANDOM = pick(COLUMNS, ["samples", "mean", "mean_ci", "theory_mean", "variance", "variance_ci", "theory_variance", "z"])
MEASURED = pick(COLUMNS, ["samples", "mean", "variance", "row_variance", "scale", "unit_scale"])  # of real tensors


def tables(result: Result, *, width: int, most: int | None, csv: str | None) -> Iterator[RenderableType]:
    """Yield the variance by d and label, or a table for each label; for real tensors a row for each label and head."""
    yield from (_random if PairsFacts.of(result).source is None else _real)(result, width, most)


def _random(result: Result, width: int, most: int | None) -> Iterator[RenderableType]:
    records, sizes = result.records, {record["d"] for record in result.records}
    if most is not None and len(sizes) > 1:
        yield Text(f"{PairsFacts.of(result).words}; {LEGEND_OF_Z}")
        for column in (VARIANCE, Z):
            yield from titled(column.name, pivot([D], column, records, width, most))
        yield from formulas_if(most, result)
        return
    yield Text(f"{PairsFacts.of(result).words}; {LEGEND}")
    if len(sizes) == 1:
        yield Text(f"d = {number(records[0]['d'])}, {number(records[0]['samples'])} samples")
        yield Text()
        yield from blocks([LABEL], RANDOM[1:] if most is None else FEW, records, width, most)
        yield Text()
        yield from formulas(result)
        return
    for label, records in by_label(result.records).items():
        yield Text()
        scales = dict.fromkeys(exact(records[end]["scale"]) for end in (0, -1))
        yield from heading(records[0], result.formulas[label], [f"scale {' to '.join(scales)}"])
        kinds = {record["theory"] for record in records}
        yield from blocks([D], [*RANDOM, *[THEORY] * ("limit" in kinds)], records, width, most)
        yield from remark(LIMIT if "limit" in kinds else UNKNOWN if None in kinds else "")


def _real(result: Result, width: int, most: int | None) -> Iterator[RenderableType]:
    records, layers = numbered_layers(result.records, result.layers, most)
    root = exact(PairsFacts.of(result).one_over_sqrt_d)
    one_d = f"; d = {records[0]['d']}, so 1/sqrt(d) = {root}" if len({row["d"] for row in records}) == 1 else ""
    yield Text(f"{PairsFacts.of(result).words}{one_d}. {REAL}")
    yield from remark(layers)
    identifiers = [column for column in PLACE[:2] if records[0].get(column.key) is not None]
    if most is not None and identifiers:
        for column in (VARIANCE, UNIT_SCALE):
            yield from titled(column.name, pivot(identifiers, column, records, width, most))
        yield from formulas_if(most, result)
        return
    yield Text()
    yield from blocks([LABEL, *identifiers], MEASURED, records, width, most)
    yield Text()
    yield from formulas(result)
