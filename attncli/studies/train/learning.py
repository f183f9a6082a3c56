"""One configuration, a scorer at one size d, trained with all seeds at once."""

import math
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from attncli.errors import InputError
from attncli.scorers._custom import raised
from attncli.studies.memory import ran_out
from attncli.studies.train.model import Recall, losses
from attncli.studies.train.options import TrainOptions
from attncli.studies.train.task import Batch, batches, held_out

POINTS = 100  # of a learning curve, beside its beginning


class StoppedError(Exception):
    """Nobody wants the rest of a training."""


@dataclass(frozen=True)
class Learnt:
    """What became of one configuration.

    `steps` (points,) are the steps before which was tested, `curves` accuracy, loss, entropy and norm of the gradient
    there, (s, points) each; `tested` has accuracy, loss and entropy (s,) in the end by number of keys.
    """

    steps: Tensor
    curves: Mapping[str, Tensor]
    tested: Mapping[int, Mapping[str, Tensor]]


def points_of(steps: int) -> list[int]:
    """The steps before which a model is tested: the first, then one in a hundred, and the end."""
    return sorted({*range(0, steps, max(steps // POINTS, 1)), steps})


def learn(
    model: Recall, options: TrainOptions, device: torch.device, stop: threading.Event, step_done: Callable[[], None]
) -> Learnt:
    """Train a model, which is changed.

    Raises:
        StoppedError: `stop` was set.
        InputError: a scorer of the user's own that fails.
    """
    learnable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    # One for all seeds: it treats every number by itself, so that they do not meet.
    optimizer = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}[options.optimizer](
        learnable, lr=options.lr, fused=True
    )
    test = held_out(options, options.keys, model.indices, device)
    points, curve = points_of(options.steps), list[dict[str, Tensor]]()
    steps = zip(range(options.steps + 1), batches(options, model.indices, device), strict=False)
    for step, batch in steps:  # the last only for the gradient
        if stop.is_set():
            raise StoppedError
        optimizer.zero_grad()
        scores = model()
        loss = losses(model.pooled(model.weights(scores, batch), batch), batch.targets).sum()
        try:
            loss.backward()  # type: ignore[no-untyped-call]
        except Exception as error:  # as a user's own scorer raises where it writes over its numbers
            if ran_out(error):
                raise
            raise InputError.of(f"the gradient of the scorer gave {raised(error)}") from error
        if step == points[len(curve)]:
            curve.append(measured(model, scores, test) | {"gradient_norm": model.gradient_norms().cpu()})
        if step < options.steps:
            optimizer.step()
            step_done()
    curves = {name: torch.stack([point[name] for point in curve], -1) for name in curve[0]}
    tested = {keys: measured(model, scores, held_out(options, keys, model.indices, device)) for keys in options.tested}
    return Learnt(torch.tensor(points), curves, tested)


@torch.no_grad()
def measured(model: Recall, scores: Tensor, batch: Batch) -> dict[str, Tensor]:
    """Accuracy, loss, and entropy of the weights in nats: means over the sequences, one number a seed (s,).

    Where a loss is NaN, which it is where anything pooled is, there is no accuracy either: `argmax` would find class 0.
    """
    weights = model.weights(scores, batch)
    pooled = model.pooled(weights, batch)
    right = (pooled.argmax(-1) == batch.targets).sum(-1).cpu()
    loss, entropy = losses(pooled, batch.targets).cpu(), torch.special.entr(weights).sum(-1).mean(-1)
    accuracy = right.double() / batch.targets.shape[-1]  # the share itself, not float32's next to it
    found = {"accuracy": accuracy.where(loss.isfinite(), math.nan), "loss": loss, "entropy": entropy}
    return {name: each.cpu() for name, each in found.items()}
