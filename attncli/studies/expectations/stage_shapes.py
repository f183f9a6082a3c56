"""The stages of attention as an expectation may name them, and the shapes of numbers that they are compared with."""

from collections.abc import Mapping, Sequence
from typing import Any

from attncli.config.expectations import Expectation
from attncli.errors import InputError, did_you_mean

STAGES = ("scores", "capped", "weights", "dropped", "output")
Shapes = Mapping[str, Mapping[str, Sequence[int]]]  # of every label's stages


def check_stage(expectation: Expectation, shapes_of: Shapes, label: str) -> None:
    """Refuse to compare a stage with numbers of another shape.

    Raises:
        InputError: see above, or a stage that the label does not have.
    """
    metric, shapes = expectation.metric, shapes_of[label]
    if metric not in shapes:
        known = did_you_mean(metric, [stage for stage in STAGES if stage in shapes])
        raise InputError.of(f'got "{metric}", a stage that {label} does not have; {known}', ["metric"])
    given, there = sizes(expectation.equal), shapes[metric]
    if without_ones(given) != without_ones(there):
        message = f"got numbers of shape {given}; expected {list(there)}, as the {metric} of {label} have"
        raise InputError.of(f"{message}; leading sizes of 1 may be left out", ["equal"])


def sizes(numbers: Any) -> list[int]:
    """The shape of nested lists that are known to be regular."""
    return [len(numbers), *sizes(numbers[0])] if isinstance(numbers, list) else []


def without_ones(shape: Sequence[int]) -> list[int]:
    """The shape without leading axes of size 1."""
    kept = list(shape)
    while kept and kept[0] == 1:
        kept.pop(0)
    return kept
