"""The columns of the study `train`: one row a seed and number of keys in the test, and one over the seeds."""

from attncli.show.numbers import count, share, short, significant
from attncli.studies.study import Column, Record

PLACE = (
    Column("scorer", "scorer", "The scoring function.", text=True),
    Column("label", "label", "Name of the scorer's entry.", text=True),
    Column("d", "d", "Size of queries and keys."),
)
KEYS = Column("keys", "keys", "Keys of a sequence in the test.", format=count)
ACCURACY = Column("accuracy", "accuracy", "Share of the test sequences whose value is right.", format=share)
LOSS = Column("loss", "loss", "Cross-entropy of the pooled values in the test.", "nats", short)
ENTROPY = Column("entropy", "entropy\nat last", "Mean entropy of the weights in the test.", "nats", short)
GRADIENT = Column("gradient_norm", "gradient", "Norm of the gradient of all parameters after the training.", "", short)
START = Column(
    "start_entropy", "entropy\nat first", "Mean entropy of the weights before the first step.", "nats", short
)
SUMMARISED = (ACCURACY, LOSS, ENTROPY, GRADIENT, START)
SPREAD = (("", "Mean"), ("_min", "Least"), ("_max", "Most"), ("_std", "Standard deviation"))

COLUMNS = (
    *PLACE,
    Column("seed", "seed", "Which of the models of its configuration."),
    ACCURACY,
    LOSS,
    Column(
        "steps_to_90", "steps to\n90 %", "Steps to the first test with an accuracy of at least 0.9.", "steps", count
    ),
    ENTROPY,
    GRADIENT,
    KEYS,
    START,
    Column("parameters", "parameters", "Learnable numbers of a model.", format=count),
)
COMPARISONS = (
    *PLACE,
    KEYS,
    Column("seeds", "seeds", "Models of the configuration.", format=count),
    *(
        Column(f"{each.key}{end}", each.heading, f"{kind} over the seeds: {each.about}", each.unit, each.format)
        for each in SUMMARISED
        for end, kind in SPREAD
    ),
    Column("steps_to_90", "steps to\n90 %", "Median over the seeds of the steps to 0.9.", "steps", significant),
    Column("reached_90", "seeds\nat 90 %", "Seeds that reached an accuracy of 0.9.", format=count),
)


def mean_and_range(row: Record) -> str:
    """The accuracy over the seeds, `0.84 (0.78–0.94)`: mean, least and most; `1.00` alone where all read the same."""
    middle, low, high = (share(row[f"accuracy{end}"]) for end in ("", "_min", "_max"))
    return middle if middle == low == high else f"{middle} ({low}–{high})"
