"""The columns of the study `bench`: a row for each label, implementation, measure and size; its facts."""

from collections.abc import Sequence
from functools import partial

from attncli.core.numbers import duration, short
from attncli.errors import in_bytes
from attncli.results import LABEL, NORMALIZER, SCORER, Column, Facts, Kind, Result, Row

AXES = ("n", "m", "d", "batch", "heads")  # equal for all implementations in a comparison
SIZES = (*AXES, "num_hiddens")

identifier = partial(Column, kind="place")
measured = partial(Column, kind="measured")


def _word(key: str, about: str, kind: Kind = "figure") -> Column:
    return Column(key, key, about, text=True, kind=kind)


COLUMNS = (
    SCORER,
    identifier(
        "implementation",
        "imple-\nmentation",
        "Whose code: attncli, compiled, textbook or fused (torch's kernel).",
        text=True,
    ),
    identifier("n", "n", "Number of queries."),
    identifier("m", "m", "Number of keys and values."),
    identifier("d", "d", "Size of queries, keys and values."),
    identifier("num_hiddens", "num_hiddens", "Hidden units of the scorer."),
    identifier("batch", "batch", "Batch size."),
    identifier("heads", "heads", "Heads per batch element."),
    _word("dtype", "Dtype of the inputs."),
    _word("device", "Device that it was measured on."),
    measured("seconds", "time", "Median time per call.", "s", duration),
    measured("seconds_iqr", "IQR", "Interquartile range of the time.", "s", duration),
    _word("noisy", "Whether it took longer than a larger size, by more than both interquartile ranges.", "measured"),
    measured("peak_bytes", "memory", "Peak memory without the inputs, results included.", "bytes", in_bytes),
    measured(
        "gflops",
        "GFLOP\nper s",
        "Operations of the formula per second; any normaliser counts as softmax.",
        "10^9/s",
        short,
    ),
    measured("gbytes_per_second", "GB\nper s", "Bytes of inputs and results per second.", "10^9 bytes/s", short),
    measured("ratio", "ratio", "Time / the baseline's time in the same round, geometric mean.", "", short),
    measured("ratio_ci", "95 %\ninterval", "95 % interval of the ratio.", "", short),
    LABEL,
    NORMALIZER,
    _word("measure", "What a call computes: scores, weights and output, or output only.", "place"),
    Column("backward", "backward", "Whether gradients were computed.", text=True),
    _word("status", "Outcome: timed, disagrees, too large, not available or failed."),
    _word("reason", "Why it was not timed.", "measured"),
    measured("rounds", "rounds", "Number of rounds that were timed."),
    _word("baseline", "Baseline of the ratio, as label/implementation."),
)
BY_KEY = {column.key: column for column in COLUMNS}
COMPARISONS = (
    SCORER,
    LABEL,
    NORMALIZER,
    BY_KEY["implementation"],
    _word("against", "Other side of the comparison: the textbook's code of the same entry.", "place"),
    *(BY_KEY[key] for key in ("measure", *SIZES)),
    measured("times_as_fast", "times\nas fast", "Time of the textbook's code / own time in the same round.", "", short),
    measured("times_as_fast_ci", "95 %\ninterval", "95 % interval of times_as_fast.", "", short),
)


def raw_name(record: Row) -> str:
    """Return the name of the tensor with the raw times of a row: `label/implementation/measure/sizes`."""
    sizes = "x".join(str(record[size] or "-") for size in ("n", "m", "d", "num_hiddens", "batch", "heads"))
    return f"{record['label']}/{record['implementation']}/{record['measure']}/{sizes}"


def quartiles(result: Result, record: Row) -> list[float]:
    """Return the lower and the upper quartile of the raw times of a row, in seconds."""
    times = result.tensors[raw_name(record)]
    limits: list[float] = times.quantile(times.new_tensor([0.25, 0.75])).tolist()
    return limits


class BenchFacts(Facts):
    """The machine and the method of measurement; `baseline` is the label and implementation that ratios are to."""

    baseline: str
    backward: bool
    compile: bool = False
    measure: Sequence[str] = ()
    dtype: str
    device: str
    device_name: str
    threads: int
    copies_bytes: int = 0
    block_seconds: float = 0.0
    budget_seconds: float = 0.0
    ratio_ci: str = ""
