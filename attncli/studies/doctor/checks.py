"""The checks of the study `doctor`, each with its limit; docs/studies/doctor.md has their sources."""

from dataclasses import dataclass
from typing import Literal

from attncli.core.numbers import number
from attncli.results import Column

FEWEST_KEYS = 8  # layers with fewer keys are only checked for faults: chance alone would reach the limits
FEWEST_QUERIES = 6
FEWEST_IN_SIGHT = 3  # queries with fewer valid keys are left out
SATURATED = 0.99  # the largest weight of a saturated query
TIMES_SHARE = 3  # the weight on the first key is at least this multiple of an equal share
EVEN = 0.95  # share of the largest entropy above which heads are alike because they are nearly uniform
HALF = 65504.0  # largest number of float16


@dataclass(frozen=True)
class Check:
    """A check of each head.

    Each head has a number `key`. It has a finding if the number is above `limit`, or below `limit` if `is_below`.
    `letter` stands for the finding in grids, and `meaning` is a sentence on it. `heading`, `about` and `unit` describe
    the column with the number.
    """

    key: str
    letter: str
    kind: Literal["fault", "remark"]
    limit: float
    heading: str
    about: str
    meaning: str
    unit: str = ""
    is_below: bool = False

    @property
    def column(self) -> Column:
        """The column with the number of each head."""
        return Column(self.key, self.heading, self.about, self.unit, lambda value: number(value, 3))


PADDING = Check(
    "padding",
    "M",
    "fault",
    1e-6,
    "weight on\npadding",
    "Mean weight on keys that are padding.",
    "Weight is on padding; give the attention mask to the model.",
)
OVERFLOW = Check(
    "overflow",
    "O",
    "fault",
    HALF / 4,
    "largest\nproduct",
    "Largest absolute score, before or after the scale.",
    "Scores may overflow in float16, or are infinite already; scale the queries before the product.",
)
BATCH = Check(
    "batch",
    "B",
    "fault",
    1e-3,
    "alone and\nin batch",
    "Relative difference of the outputs of texts alone and in a batch, in the first layer and head that differ.",
    "A text must not depend on what is beside it; check masks, positions and windows for padding.",
)
CHECKS = (
    Check(
        "dead_query",
        "X",
        "fault",
        0,
        "dead\nqueries",
        "Number of queries without a valid key.",
        "Their output is 0, uniform or NaN, as the kernel likes; give them a valid key.",
    ),
    PADDING,
    OVERFLOW,
    BATCH,
    Check(
        "uniform",
        "U",
        "remark",
        0.98,
        "entropy\n/ ln m",
        "Entropy of a query's weights over ln of its number of valid keys, mean over queries.",
        "The weights are nearly equal, so the head hardly needs scores.",
    ),
    Check(
        "saturated",
        "S",
        "remark",
        0.9,
        "saturated\nqueries",
        f"Share of queries with a weight above {SATURATED}.",
        "Nearly all weight is on one key. A softmax then passes hardly any gradient (Zhai et al. 2023).",
    ),
    Check(
        "first_key",
        "F",
        "remark",
        0.3,
        "weight on\nfirst key",
        "Mean weight on the first key.",
        "An attention sink (Xiao et al. 2023).",
    ),
    Check(
        "previous_key",
        "P",
        "remark",
        0.9,
        "previous\nkey",
        "Share of queries with the largest weight on the key before them, of those that see this key.",
        "The largest weight is on the key before the query, a positional head (Voita et al. 2019).",
    ),
    Check(
        "next_key",
        "N",
        "remark",
        0.9,
        "next\nkey",
        "Share of queries with the largest weight on the key after them, of those that see this key.",
        "The largest weight is on the key after the query, a positional head (Voita et al. 2019).",
    ),
    Check(
        "duplicate",
        "D",
        "remark",
        0.02,
        "nearest\nhead",
        "Mean JS divergence from the head of the layer with the largest overlap of weights.",
        "Another head of the layer has nearly the same weights; one may be enough (Michel et al. 2019).",
        "bits",
        is_below=True,
    ),
    Check(
        "silent",
        "Z",
        "remark",
        0.02,
        "length of\noutput",
        "Mean length of the output over the median of the layer's heads.",
        "The output is near 0 beside the other heads of the layer.",
        is_below=True,
    ),
)
