"""The columns of the study `attention`, for scorers and pairs, also by batch element and head; its facts."""

from collections.abc import Sequence

from attncli.results import LABEL, NORMALIZER, PAIR, SCORER, Column, Facts, Row, RowKind

BATCH = Column("batch", "batch", "Index of the batch element: along the first axis.", kind="place")
HEAD = Column(
    "head",
    "head",
    "Number of the head: in the model for a captured model, else the index along the second axis of (b, heads, n, m), "
    "null where there is no such axis. More axes between the batch and the queries are counted through, the last one "
    "fastest.",
    kind="place",
)
PARAMETERS = Column("parameters", "params", "Number of parameters of the scorer.")

FIGURES = (
    Column("score_mean", "score\nmean", "Mean of the scores at valid keys.", least=0.1, signed=True),
    Column("score_std", "score\nstd", "Standard deviation of the scores at valid keys."),
    Column(
        "entropy",
        "entropy\n(nats)",
        "Entropy of a query's weights, divided by their sum, mean over queries.",
        "nats",
        bounded=True,
    ),
    Column("effective_keys", "effective\nkeys", "Exp of a query's entropy, mean over queries.", "keys", bounded=True),
    Column("max_weight", "max\nweight", "Largest weight of a query, mean over queries.", most=1),
    Column("weight_sum", "weight\nsum", "Sum of a query's weights, mean over queries.", bounded=True),
    Column("empty_rows", "empty\nrows", "Queries with no valid key.", "queries"),
    Column(
        "entropy_bound",
        "entropy\nbound",
        "Least entropy of softmax for scores of this spread, mean over queries (Zhai et al. 2023); empty if anything "
        "stands between scores and softmax.",
        "nats",
        bounded=True,
    ),
)
JS_DIVERGENCE = Column(
    "js_divergence",
    "JS divergence\n(bits)",
    "Jensen-Shannon divergence of the weights, divided by their sums, mean over queries (Lin 1991).",
    "bits",
    most=1,
)
AGREEMENT = Column(
    "top1_agreement",
    "top-1\nagreement",
    "Share of queries with the largest weight at the same key; without those where most keys share it.",
    most=1,
)
OUTPUT_DIFFERENCE = Column(
    "output_difference", "output\ndifference", "L2 norm of output_a - output_b, relative to that of output_a."
)
DIFFERENCES = (
    JS_DIVERGENCE,
    AGREEMENT,
    Column("max_abs_difference", "max abs\ndifference", "Largest difference between their weights."),
    OUTPUT_DIFFERENCE,
    Column("output_change", "output\nchange", "L2 norm of output_a - output_b: of heads it shows which matter most."),
)
OF_CALLS = (
    Column(
        "entropy_share",
        "entropy\n/ ln m",
        "Entropy over ln m for m valid keys, each a mean over queries: 1 where all weights are equal.",
        most=1,
    ),
    Column(
        "first_key",
        "first\nkey",
        "Share of the weight on the first key that any query sees, mean over queries.",
        most=1,
    ),
    Column("variance_over_d", "variance\n/ d", "Variance of q . k at valid keys, over d."),
    Column("unit_scale", "needed\nscale", "Scale that would give q . k the variance 1."),
)

COLUMNS = (SCORER, LABEL, NORMALIZER, PARAMETERS, *FIGURES)
COMPARISONS = (*PAIR, *DIFFERENCES)
HEADS = (SCORER, LABEL, NORMALIZER, BATCH, HEAD, *FIGURES)
HEAD_COMPARISONS = (*PAIR, BATCH, HEAD, *DIFFERENCES)
ROWS: dict[RowKind, Sequence[Column]] = {
    "records": COLUMNS,
    "comparisons": COMPARISONS,
    "heads": HEADS,
    "head_comparisons": HEAD_COMPARISONS,
}


class AttentionFacts(Facts):
    """The batch elements and heads that the config lists, and means over the heads of all layers of a model.

    `key_heads` is the number of heads of keys that several heads of queries share, if they do.
    """

    heads: list[int] | None = None
    batch: list[int] | None = None
    summary: list[Row] | None = None
    key_heads: int | None = None
