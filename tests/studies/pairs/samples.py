"""Studies against d as Python data, and the distributions they draw from."""

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attncli.results import Result, Row
from attncli.runtime import Progress
from attncli.studies import load_study, options_model
from attncli.studies.pairs.study import PreparedPairs

Array = NDArray[np.float64]
DISTRIBUTIONS = ("normal", "uniform", "rademacher", "laplace", "student_t")


def prepared(study: str, folder: Path | None = None, /, **keys: Any) -> PreparedPairs:
    """Return the prepared input of a study; the key `from` is the argument `source`."""
    if "source" in keys:
        keys["from"] = str(keys.pop("source"))
    data = {"name": "test", "device": "cpu", **keys}
    options = options_model(study).model_validate(data, context={"folder": folder})
    ready: PreparedPairs = load_study(study).prepare(options, Progress())
    return ready


def swept(study: str, folder: Path | None = None, /, **keys: Any) -> Result:
    """Return the result of a study."""
    return load_study(study).run(prepared(study, folder, **keys), Progress())


def by_place(result: Result) -> dict[tuple[str, int, int | None], Row]:
    """Return the records by label, d and head."""
    return {(row["label"], row["d"], row["head"]): row for row in result.records}


def standard(name: str, shape: tuple[int, ...], randomness: np.random.Generator, df: float = 10.0) -> Array:
    """Draw numbers of mean 0 and variance 1 with NumPy."""
    draws: dict[str, Any] = {
        "normal": lambda: randomness.standard_normal(shape),
        "uniform": lambda: randomness.uniform(-1, 1, shape) * math.sqrt(3),
        "rademacher": lambda: randomness.choice([-1.0, 1.0], shape),
        "laplace": lambda: randomness.laplace(0, 1 / math.sqrt(2), shape),
        "student_t": lambda: randomness.standard_t(df, shape) * math.sqrt((df - 2) / df),
    }
    drawn: Array = draws[name]()
    return drawn
