"""The tables of the study `saturation`: sharpness of the weights, and their gradients."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from attncli.catalogue.building import all_softmax
from attncli.core.numbers import sizes
from attncli.results import LABEL, Result, by_label
from attncli.show.terminal.tables import MOST_ROWS, formulas, numbered_layers, pick, pivot, remark, titled
from attncli.show.terminal.tables import tables as blocks
from attncli.studies.pairs.entries import PairsFacts
from attncli.studies.pairs.study import PLACE
from attncli.studies.saturation.columns import COLUMNS

PIVOTS = pick(COLUMNS, ["jacobian_median", "max_weight_median"])
ROWS, WEIGHT_SUM = pick(COLUMNS, ["rows", "weight_sum"])
LEGEND = "medians over the rows, as in the picture; Jacobian: Frobenius norm of the {}"
ALL = (
    ", with its quartiles and its mean; "
    "query gradient: norm of the output's gradient with respect to the query, with one standard normal value per key"
)
OF_SOFTMAX = "softmax's Jacobian diag(p) - p p^T"
OF_ANY = "Jacobian of the weights with respect to the scores"
SHARES = "entropy is that of weights / their sum; rows whose weights are all 0 have none"
ROUNDING = 1e-6  # of a sum of weights, at most
CORRELATED = "rho correlates all keys of a row with the query, not one matching key only"
FIGURES = pick(COLUMNS, [
    "entropy_median", "max_weight_median",
    "jacobian_median", "jacobian_q25", "jacobian_q75", "jacobian_mean", "query_gradient_median",
])  # fmt: skip


def tables(result: Result, *, width: int, most: int | None) -> Iterator[RenderableType]:
    """Yield the medians by d or head and label; if each label has one row, a table of all metrics."""
    facts, records, shared = PairsFacts.of(result), result.records, sizes(result.records)
    is_single = len(by_label(records)) == len(records)
    sums = [record.get("weight_sum") for record in records]
    sums_vary = any(abs(total - 1.0) > ROUNDING for total in sums if total is not None)
    figures = [*[ROWS] * (len(shared) != 2), *FIGURES[:2], *[WEIGHT_SUM] * sums_vary, *FIGURES[2:]]
    if len({record["d"] for record in records}) == 1:
        shared = [f"d = {records[0]['d']}", *shared]
    legend = LEGEND.format(OF_SOFTMAX if all_softmax(records) else OF_ANY)
    yield Text(f"{facts.words}; {', '.join(shared)}; {legend}{ALL if is_single else '; --full: quartiles, means'}")
    yield from remark(SHARES if sums_vary else "")
    yield from remark(CORRELATED if facts.rho else "")
    if is_single:
        yield Text()
        yield from blocks([LABEL], figures, records, width, most)
    else:
        numbered, layers = numbered_layers(records, result.layers, most)
        yield from remark(layers)
        layer, head, d = PLACE
        places = [*[layer] * ("layer" in records[0]), d if records[0]["head"] is None else head]
        for metric in PIVOTS:
            yield from titled(metric.name, pivot(places, metric, numbered, width, most, few=MOST_ROWS // 2))
    yield from formulas(result)
