"""What studies gave before they had one result; each goes when its study gives a `Result`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from attncli.studies.study import Record

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Histogram:
    """Counts of scores in bins of equal width between `edges`, and the moments that they are standardised by.

    `edges` (bins + 1,) and `counts` (bins,) are float64; what lies outside of the bins is in `samples` only.
    """

    d: int
    samples: int
    mean: float
    std: float
    edges: "Tensor"
    counts: "Tensor"


@dataclass(frozen=True)
class SweepResult:
    """A study of scores against the size d: `variance` or `saturation`.

    `records` is what was asked for, one row per scorer and d (and head, of real tensors); `curve` has the same columns
    and is what the picture shows, which for a single d are the powers of two up to it as well. `settings` says how
    queries and keys were drawn (`distribution`, `df`, `query_mean`, `query_std`, `key_mean`, `key_std`, `rho`), or has
    `from` where they were read; `formulas` has each label's. `inputs` are the tensors that were read, `states` the
    parameters that came from files.
    """

    study: str
    records: Sequence[Record]
    curve: Sequence[Record]
    settings: Record
    formulas: Mapping[str, str]
    inputs: "Mapping[str, Tensor]" = field(default_factory=dict)
    states: "Mapping[str, Mapping[str, Tensor]]" = field(default_factory=dict)
    histograms: Mapping[str, Histogram] = field(default_factory=dict)
    comparisons: Sequence[Record] = ()
    interrupted: bool = False
