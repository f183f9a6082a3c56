"""Options of the study `train`: the task, the model's sizes, and the optimisation."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from attncli.catalogue.entries import Scorers
from attncli.config.models import STUDY, About, Experiment
from attncli.config.strict import Flag, problem
from attncli.config.values import Sizes, powers

TASK, LEARNING = Flag(panel="The task"), Flag(panel="Learning")
RATES = {"adam": 1e-3, "sgd": 1.0}  # default learning rates
Count = Annotated[int, Field(ge=1, le=10**9)]
Several = Annotated[int, Field(ge=2, le=2**14)]
DEFAULT_SCORERS: list[Any] = [{"scorer": name} for name in ("dot", "scaled_dot", "additive")]


class TrainOptions(Experiment):
    """Associative recall, learnt with each scorer at each size d."""

    refused: ClassVar = {
        "dropout": "trains without dropout",
        "bias": "has keys in no order, and so without positions",
        "window": "has keys in no order, and so without positions",
        "rope": "has keys in no order, and so without positions",
        "dtype": "trains in float32 or float64",
        "fitted": "trains scorers from their start",
    }

    study: Annotated[Literal["train"], STUDY] = "train"
    about: About = "How well does a model learn to recall with each scorer?"
    scorers: Scorers = DEFAULT_SCORERS

    d: Annotated[Sizes, Field(description="size of queries and keys")] = Field(
        default_factory=lambda: powers(16, 1024, 4)
    )
    seeds: Annotated[int, Field(ge=1, le=1000, description="models per scorer and d")] = 5
    steps: Annotated[Count, Field(description="training steps"), LEARNING] = 800
    batch: Annotated[Count, Field(description="sequences per step"), LEARNING] = 64
    keys: Annotated[Several, Field(description="keys per sequence, all different"), TASK] = 8
    vocabulary: Annotated[Several, Field(description="number of symbols for keys and queries"), TASK] = 16
    classes: Annotated[Several, Field(description="number of different values"), TASK] = 8
    embedding: Annotated[Count, Field(description="size of a symbol's fixed random vector"), TASK] = 64
    test_keys: Annotated[Sizes | None, Field(description="test with this many keys per sequence, too"), TASK] = None
    optimizer: Annotated[Literal["adam", "sgd"], Field(description="method of optimisation"), LEARNING] = "adam"
    lr: Annotated[
        float | None, Field(gt=0, le=1e6, description="learning rate; default: 0.001 for adam, 1 for sgd"), LEARNING
    ] = None
    dtype: Annotated[Literal["float32", "float64"], Field(description="dtype of queries, keys and values")] = "float32"

    @classmethod
    def normalised(cls, data: Mapping[str, Any]) -> dict[str, Any]:
        """Return the data with short forms expanded, and with the optimiser's default learning rate."""
        written = super().normalised(data)
        optimizer = written.get("optimizer", "adam")
        if written.get("lr") is None and isinstance(optimizer, str) and optimizer in RATES:
            written["lr"] = RATES[optimizer]
        return written

    @model_validator(mode="after")
    def _enough_symbols(self) -> "TrainOptions":
        for key, count in [("keys", self.keys), *(("test_keys", count) for count in self.test_keys or [])]:
            if count < 2:
                raise problem(f"got {count}; expected an integer of at least 2", under=[key])
            if count > self.vocabulary:
                message = f"got {count} different keys of {self.vocabulary} symbols; expected at most as many"
                raise problem(f"{message}; use a larger vocabulary", under=[key])
        return self

    @property
    def tested(self) -> list[int]:
        """Return the numbers of keys per sequence in the tests; the first is the number in training."""
        return list(dict.fromkeys([self.keys, *(self.test_keys or [])]))


OPTIONS = TrainOptions
