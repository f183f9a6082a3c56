"""The columns of the study `saturation`: a row for each label and d, or label and head of real tensors; its facts."""

import math
from functools import partial

from attncli.core.numbers import number, short
from attncli.results import LABEL, NORMALIZER, SCORER, Column
from attncli.studies.pairs.entries import PairsFacts
from attncli.studies.pairs.study import PLACE


def _quartiles(
    key: str, heading: str, what: str, least: float = 1e-3, most: float = math.inf, digits: int = 3
) -> tuple[Column, ...]:
    column = partial(Column, format=partial(number, digits=digits), least=least, most=most)
    return (
        column(f"{key}_median", heading, f"Median over the rows of {what}."),
        column(f"{key}_q25", "\n25 %", f"Lower quartile of {what}."),
        column(f"{key}_q75", "\n75 %", f"Upper quartile of {what}."),
    )


COLUMNS = (
    SCORER,
    LABEL,
    NORMALIZER,
    *PLACE,
    Column("keys", "keys", "Keys of each row."),
    Column("rows", "rows", "Rows measured: queries with at least two valid keys."),
    Column(
        "entropy",
        "mean\nentropy",
        "Mean entropy of weights / their sum, relative to that of uniform weights, ln m.",
        most=1,
    ),
    Column("max_weight", "mean largest\nweight", "Mean of the largest weight.", format=short, most=1),
    Column("weight_sum", "sum of\nweights", "Mean of the sum of a row's weights.", format=short, bounded=True),
    Column(
        "effective_keys",
        "effective\nkeys",
        "Mean of exp(entropy): how many keys share the weight.",
        format=short,
        bounded=True,
    ),
    *_quartiles("jacobian", "Jacobian\nmedian", "the Frobenius norm of the Jacobian of weights by scores", 0.1),
    *_quartiles(
        "query_gradient", "query\ngradient", "the norm of the output's gradient with respect to the query", 0.1
    ),
    *_quartiles("entropy", "entropy\n/ ln m", "entropy / ln m, relative to uniform weights", most=1, digits=4),
    *_quartiles("max_weight", "largest\nweight", "the largest weight", most=1),
    Column("jacobian_mean", "Jacobian\nmean", "Mean of the norm of the Jacobian.", format=short, least=0.1),
)


class SaturationFacts(PairsFacts):
    """Where queries and keys are from, and the metrics of `uniform` weights over as many keys."""

    uniform: dict[str, float]
