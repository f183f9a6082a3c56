"""The columns of the study `train`, in rows for each seed and number of keys and in summary rows; its facts."""

from dataclasses import replace

from attncli.core.numbers import number, several, short
from attncli.results import LABEL, NORMALIZER, SCORER, Column, Facts

D = Column("d", "d", "Size of queries and keys.", kind="place")
PLACE = (SCORER, LABEL, NORMALIZER, D)
GROUP = (*(column.key for column in PLACE), "keys")
KEYS = Column("keys", "keys", "Keys per test sequence.", kind="place")
ACCURACY = Column("accuracy", "accuracy", "Share of test sequences with the right answer.", format=short, most=1)
LOSS = Column("loss", "loss", "Cross-entropy on the test sequences.", "nats", short)
ENTROPY = Column(
    "entropy",
    "entropy\nat end",
    "Mean entropy of the weights / their sum on the test sequences.",
    "nats",
    short,
    bounded=True,
)
GRADIENT = Column("gradient_norm", "gradient", "Norm of the gradient of all parameters after training.", "", short)
START = Column(
    "start_entropy",
    "entropy\nat start",
    "Mean entropy of the weights / their sum before the first step.",
    "nats",
    short,
    bounded=True,
)
LARGEST = Column(
    "largest_score", "largest\nscore", "Largest absolute score of all symbols after training.", format=short
)
SUMMARISED = (ACCURACY, LOSS, ENTROPY, GRADIENT, START, LARGEST)
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
    LARGEST,
    Column("parameters", "parameters", "Trainable parameters of a model."),
)
COMPARISONS = (
    *PLACE,
    KEYS,
    Column("seeds", "seeds", "Models that were trained."),
    *(
        replace(column, key=f"{column.key}{end}", about=f"{kind} over the seeds: {column.about}")
        for column in SUMMARISED
        for end, kind in SPREAD
    ),
    Column("steps_to_90", "steps to\n90 %", "Median over the seeds of the steps to 0.9.", "steps"),
    Column("reached_90", "seeds\nat 90 %", "Number of seeds that reached an accuracy of 0.9."),
)


OPTIMIZERS = {"adam": "Adam", "sgd": "SGD"}


class TrainFacts(Facts):
    """The options of the task and of the training.

    `equal_weights` has the accuracy of equal weights by number of keys, and `least_loss` the loss of perfect weights
    that sum to 1.
    """

    keys: int
    vocabulary: int
    classes: int
    embedding: int
    seeds: int
    steps: int
    batch: int
    optimizer: str
    lr: float
    dtype: str
    device: str
    equal_weights: dict[str, float]
    least_loss: float

    @property
    def words(self) -> str:
        """The task and the training in one line."""
        return (
            f"associative recall: {number(self.keys)} keys of {number(self.vocabulary)} symbols, "
            f"{number(self.classes)} values, embeddings of size {number(self.embedding)}; "
            f"{OPTIMIZERS[self.optimizer]}, learning rate {self.lr:g}, {several(self.steps, 'step')} "
            f"of {several(self.batch, 'sequence')}, {several(self.seeds, 'seed')}, {self.dtype}"
        )
