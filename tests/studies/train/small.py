"""The study `train` as Python data: small sizes, few steps."""

from typing import Any

import torch
from torch import Tensor

from attncli.results import Result
from attncli.runtime import Progress
from attncli.studies.train import study as train
from attncli.studies.train.model import Learnt, Recall, learn
from attncli.studies.train.options import TrainOptions
from attncli.studies.train.study import PreparedTraining
from attncli.studies.train.task import Batch, batches

CPU = torch.device("cpu")
SMALL = {"device": "cpu", "d": 4, "steps": 6, "batch": 3, "keys": 4, "vocabulary": 6, "classes": 3, "embedding": 5}


def options_of(**keys: Any) -> TrainOptions:
    """Return the options of a small experiment."""
    return TrainOptions.model_validate(TrainOptions.normalised({"name": "test", "seeds": 3, **SMALL, **keys}))


def prepared(**keys: Any) -> PreparedTraining:
    """Return the prepared input of a run."""
    return train.prepare(options_of(**keys), Progress())


def result_of(progress: Progress | None = None, **keys: Any) -> Result:
    """Return the result of an experiment."""
    return train.run(prepared(**keys), progress or Progress())


def entry_model(options: TrainOptions) -> Recall:
    """Return the model of the first configuration."""
    return Recall(options.scorers[0], options.d[0], options)


def learnt_by(model: Recall, options: TrainOptions) -> Learnt:
    """Train a model and return the result."""
    return learn(model, options, lambda: None)


def batch_of(options: TrainOptions) -> Batch:
    """Return the first batch."""
    return next(batches(options, CPU))


def loss_by_hand(scores: Tensor, values: Tensor, target: int, classes: int) -> Tensor:
    """Return the loss of one sequence with scores (m,): the cross-entropy of the weighted sum of one-hot values."""
    weights = torch.exp(scores - scores.max())
    weights = weights / weights.sum()
    pooled = sum(
        weight * torch.eye(classes, dtype=weights.dtype)[value] for weight, value in zip(weights, values, strict=True)
    )
    assert isinstance(pooled, Tensor)
    return pooled.exp().sum().log() - pooled[target]
