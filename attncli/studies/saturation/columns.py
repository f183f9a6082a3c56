"""The columns of the study `saturation`."""

from attncli.show.numbers import counted, figure, short
from attncli.studies.pairs.result import PLACE
from attncli.studies.study import Column


def _quartiles(key: str, heading: str, what: str) -> tuple[Column, ...]:
    return (
        Column(f"{key}_median", heading, f"Median over the rows of {what}.", format=short),
        Column(f"{key}_q25", "\n25 %", f"Lower quartile of {what}.", format=short),
        Column(f"{key}_q75", "\n75 %", f"Upper quartile of {what}.", format=short),
    )


COLUMNS = (
    *PLACE,
    Column("keys", "keys", "Keys of each row.", format=counted),
    Column("rows", "rows", "Rows of weights that were measured: queries with two valid keys at least.", format=counted),
    Column("entropy", "entropy\n/ ln m", "Mean entropy over that of uniform weights.", format=figure),
    Column("max_weight", "largest\nweight", "Mean of the largest weight.", format=short),
    Column("effective_keys", "effective\nkeys", "Mean of exp(entropy): how many keys share the weight.", format=short),
    *_quartiles("jacobian", "Jacobian\nmedian", "the Frobenius norm of the softmax's Jacobian diag(p) - p p^T"),
    *_quartiles(
        "query_gradient", "query\ngradient", "the norm of the gradient that reaches the query from a pooled value"
    ),
    *_quartiles("entropy", "entropy\nmedian", "entropy over that of uniform weights"),
    *_quartiles("max_weight", "largest\nmedian", "the largest weight"),
    Column("jacobian_mean", "\nmean", "Mean of the norm of the softmax's Jacobian.", format=short),
)
