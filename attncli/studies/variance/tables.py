"""The tables of the study `variance`: measured moments beside their theory, or the scales that real scores need."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from attncli.core.numbers import exact, number
from attncli.results import LABEL, Result
from attncli.show.terminal.tables import MOST_ROWS, formulas, numbered_layers, pick, pivot, remark, titled
from attncli.show.terminal.tables import tables as blocks
from attncli.studies.pairs.entries import PairsFacts
from attncli.studies.pairs.study import PLACE
from attncli.studies.variance.columns import COLUMNS

LEGEND = "interval: 95 % for the variance; z: (variance - theory) / standard error"
LEGEND_OF_Z = "z: (variance - theory) / standard error; intervals and means with --full"
REAL = (
    "Every unmasked pair is used; nothing is sampled, so there is no interval. Within rows is the variance over the "
    "keys of a query, averaged over the queries: the rest does not change the softmax. Needed scale gives variance 1."
)
D, VARIANCE, Z, UNIT_SCALE = pick(COLUMNS, ["d", "variance", "z", "unit_scale"])
RANDOM = pick(COLUMNS, ["mean", "variance", "variance_ci", "theory_variance", "z"])
MEASURED = pick(COLUMNS, ["samples", "mean", "variance", "row_variance", "scale", "unit_scale"])  # of real tensors


def tables(result: Result, *, width: int, most: int | None) -> Iterator[RenderableType]:
    """Yield the variance by d, or by layer and head, and label; where there is only one, a row for each label."""
    facts = PairsFacts.of(result)
    records, layers = numbered_layers(result.records, result.layers, most)
    sizes = {record["d"] for record in records}
    if facts.source is None:
        places = [D] if len(sizes) > 1 else []
        metrics, figures = (VARIANCE, Z), RANDOM
        yield Text(f"{facts.words}; {LEGEND_OF_Z if places else LEGEND}")
        if not places:
            yield Text(f"d = {number(records[0]['d'])}, {number(records[0]['samples'])} samples")
    else:
        places = [column for column in PLACE[:2] if records[0].get(column.key) is not None]
        metrics, figures = (VARIANCE, UNIT_SCALE), MEASURED
        root = f"; d = {records[0]['d']}, so 1/sqrt(d) = {exact(facts.one_over_sqrt_d)}" if len(sizes) == 1 else ""
        yield Text(f"{facts.words}{root}. {REAL}")
        yield from remark(layers)
    for metric in metrics if places else ():
        yield from titled(metric.name, pivot(places, metric, records, width, most, few=MOST_ROWS // 2))
    if not places:
        yield Text()
        yield from blocks([LABEL], figures, records, width, most)
    yield from formulas(result)
