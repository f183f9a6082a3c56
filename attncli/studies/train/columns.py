"""The columns of the study `train`: a row for each seed and number of keys in the test, and one over the seeds."""

from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter

from attncli.common.study import LABEL, NORMALIZER, SCORER, Chart, Column, Record, Result
from attncli.numbers import number

short = partial(number, digits=3)
PLACE = (SCORER, LABEL, NORMALIZER, Column("d", "d", "Size of queries and keys.", kind="place"))
GROUP = (*(column.key for column in PLACE), "keys")
KEYS = Column("keys", "keys", "Keys per test sequence.", kind="place")
ACCURACY = Column("accuracy", "accuracy", "Share of test sequences with the right answer.", format=short, most=1)
LOSS = Column("loss", "loss", "Cross-entropy on the test sequences.", "nats", short)
ENTROPY = Column(
    "entropy", "entropy\nat end", "Mean entropy of the weights / their sum on the test sequences.", "nats", short
)
GRADIENT = Column("gradient_norm", "gradient", "Norm of the gradient of all parameters after training.", "", short)
START = Column(
    "start_entropy",
    "entropy\nat start",
    "Mean entropy of the weights / their sum before the first step.",
    "nats",
    short,
)
SUMMARISED = (ACCURACY, LOSS, ENTROPY, GRADIENT, START)
SPREAD = (("", "Mean"), ("_min", "Minimum"), ("_max", "Maximum"), ("_std", "Standard deviation"))

COLUMNS = (
    *PLACE,
    Column("seed", "seed", "Number of the model, counted from 0.", kind="place"),
    ACCURACY,
    LOSS,
    Column("steps_to_90", "steps to\n90 %", "Steps to the first test with an accuracy of at least 0.9.", "steps"),
    ENTROPY,
    GRADIENT,
    KEYS,
    START,
    Column("parameters", "parameters", "Trainable parameters of a model."),
)
COMPARISONS = (
    *PLACE,
    KEYS,
    Column("seeds", "seeds", "Models that were trained."),
    *(
        Column(f"{each.key}{end}", each.heading, f"{kind} over the seeds: {each.about}", each.unit, each.format)
        for each in SUMMARISED
        for end, kind in SPREAD
    ),
    Column("steps_to_90", "steps to\n90 %", "Median over the seeds of the steps to 0.9.", "steps"),
    Column("reached_90", "seeds\nat 90 %", "Number of seeds that reached an accuracy of 0.9."),
)

TITLES = {"comparisons": "Summary", "records": "Records"}  # the summary is over the seeds


def _learning(result: Result) -> list[Record]:
    """One row for each label, d and test while it learnt: mean and range over the seeds; none where none were kept."""
    if "steps" not in result.tensors:
        return []
    rows, steps = [], result.tensors["steps"].tolist()
    for label, d in dict.fromkeys((row["label"], row["d"]) for row in result.records):
        curves = {key: result.tensors[f"{label}/{d}/{key}"] for key in DRAWN}  # seeds steps
        for index, step in enumerate(steps):
            seeds = {key: curve[:, index] for key, curve in curves.items()}
            means = {key: float(each.mean()) for key, each in seeds.items()}
            least = {f"{key}_min": float(each.min()) for key, each in seeds.items()}
            most = {f"{key}_max": float(each.max()) for key, each in seeds.items()}
            rows.append({"label": label, "d": d, "step": step, **means, **least, **most})
    return rows


def _charts(when: str, x: str, facet: str, rows: Callable[[Result], Sequence[Record]]) -> list[Chart]:
    title, log = f"{{}}{when}, mean and range over the seeds", "gradient_norm"
    return [
        Chart(title.format(name), key, [x], (f"{key}_min", f"{key}_max"), facets=[facet], log=key == log, rows=rows)
        for key, name in DRAWN.items()
    ]


DRAWN = {
    "accuracy": "accuracy",
    "loss": "loss",
    "entropy": "entropy of the weights",
    "gradient_norm": "norm of the gradient",
}
CHARTS = (*_charts("", "d", "keys", attrgetter("comparisons")), *_charts(" while learning", "step", "d", _learning))
