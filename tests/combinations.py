"""Parametrise tests over several axes without all combinations."""

import random
from collections.abc import Sequence
from typing import Any

import pytest


def others_slow(values: Sequence[Any], count: int = 1) -> list[Any]:
    """Return the values for a parametrised test; after the first `count` they run only with --everything."""
    return [*values[:count], *(pytest.param(value, marks=pytest.mark.slow) for value in values[count:])]


def varied(mixes: int = 6, **axes: Sequence[Any]) -> pytest.MarkDecorator:
    """Parametrise a test by the first value of each axis, every other value of one axis at a time, and random mixes."""
    base = {name: values[0] for name, values in axes.items()}
    cases = [base, *({**base, name: value} for name, values in axes.items() for value in values[1:])]
    draw = random.Random(0)
    cases += [{name: draw.choice(values) for name, values in axes.items()} for _ in range(mixes)]
    different = {"-".join(str(value) for value in case.values()): case for case in cases}
    rows = [pytest.param(*case.values(), id=key) for key, case in different.items()]
    return pytest.mark.parametrize(list(axes), rows)
