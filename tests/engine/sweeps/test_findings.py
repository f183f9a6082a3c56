"""Sentences about sweeps, from results made by hand: how a metric changes along the axes; seeds and lacking options."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from attncli.config.looks import Look
from attncli.engine.sweeps.figure import figures
from attncli.engine.sweeps.findings import sweep_findings
from attncli.results import Row
from tests.engine.sweeps.test_summary import Over, rows_over, swept

WIGGLES = {0: 0.04, 1: -0.05, 2: 0.01}


def sentences(over: Over, entropy: Callable[[Row], float | None], *labels: str, **columns: Any) -> list[str]:
    """Return the findings of a sweep whose metric is a function of the swept values and the label."""
    rows = rows_over(over, entropy, *(labels or ("dot",)), **columns)
    return [finding.text for finding in sweep_findings(swept("attention", over, rows))]


def over_seeds(values: dict[Any, float], noise: float) -> tuple[Over, Callable[[Row], float]]:
    """Return axes of three seeds and of the keys of `values`, and a metric with these values and noise."""

    def metric(row: Row) -> float:
        return values[row["d"]] + noise * WIGGLES[(row["seed"] + [*values].index(row["d"])) % 3]

    return [{"seed": [0, 1, 2]}, {"d": [*values]}], metric


def along(values: dict[Any, float | None]) -> tuple[Over, Callable[[Row], float | None]]:
    """Return an axis of the keys of `values`, and a metric with these values."""
    return [{"d": [*values]}], lambda row: values[row["d"]]


LINES: list[tuple[tuple[Over, Callable[[Row], Any]], str]] = [
    (along({4: 0.11, 2: 1.6, 1: 2.30}), "falls from 2.30 (d = 1) to 0.110 (d = 4)"),
    (along({4: 1.0, 2: None, 1: 2.0}), "falls from 2.00 (d = 1) to 1.00 (d = 4)"),
    (along({"1/d": 3.0, 0.5: 2.0, 1: 1.0}), "ranges from 1.00 (d = 1) to 3.00 (d = 1/d)"),
    (along({None: 1.0, 20: 2.0}), "ranges from 1.00 (d = null) to 2.00 (d = 20)"),
    (along({True: 1.0, False: 2.0}), "ranges from 1.00 (d = true) to 2.00 (d = false)"),
    # Steps within the noise are no turning points, and names that noise may have exchanged are named together.
    (over_seeds({0: 3.0, 1: 2.99, 2: 3.01, 3: 1.0}, 1.0), "falls from 3.00 (d = 0) to 1.00 (d = 3)"),
    (over_seeds({0: 1.0, 1: 1.2, 2: 1.1}, 10.0), "lies between 1.00 and 1.20 (d = 0 to d = 2)"),
    (over_seeds({0: 5.0, 1: 5.02, 2: 5.01}, 1.0), "stays between 5.00 and 5.02 (d = 0 to d = 2)"),
    (over_seeds({"a": 1.0, "b": 1.01, "c": 3.0}, 1.0), "ranges from 1.00 (d = a) to 3.00 (d = c)"),
    (over_seeds({"a": 1.0, "b": 1.01, "c": 3.0}, 40.0), "lies between 1.00 and 3.00 (d = a to d = c)"),
    # Equal seeds are compared with each other: every seed falls by 0.5, although the seeds lie far apart.
    (
        ([{"seed": [0, 1, 2]}, {"d": [1, 2]}], lambda row: 10 * row["seed"] + (0.001 * row["seed"] - 0.5) * row["d"]),
        "falls from 9.50 (d = 1) to 9.00 (d = 2)",
    ),
    (
        ([{"scorers[0].scale": [1.0, 4.0], "scorers[1].scale": [3.0, 7.0]}], lambda row: row["scorers[1].scale"]),
        "rises from 3.00 (scorers[0].scale = 1, scorers[1].scale = 3) "
        "to 7.00 (scorers[0].scale = 4, scorers[1].scale = 7)",
    ),
]


@pytest.mark.parametrize(("sweep", "text"), LINES)
def test_a_metric_along_a_key(sweep: tuple[Over, Callable[[Row], Any]], text: str) -> None:
    """See also test_trends.py."""
    assert sentences(*sweep) == [f"dot: entropy {text}."]


def test_each_of_several_numbers_has_a_clause_where_it_matters_most() -> None:
    """A single key has entropy 0 at every scale: this corner of the grid is not the result."""
    over: Over = [{"scale": [0.01, 1.0, 2.0]}, {"keys": [1, 16, 256]}]
    (text, same) = sentences(
        over, lambda row: math.log(row["keys"]) / (1 + row["scale"] * (row["label"] == "dot")), "dot", "other"
    )
    assert text == (
        "dot: entropy falls from 5.49 (scale = 0.01) to 1.85 (scale = 2) where keys = 256; "
        "it rises from 0 (keys = 1) to 5.49 (keys = 256) where scale = 0.01."
    )
    assert same == (
        "other: entropy does not change with scale; it rises from 0 (keys = 1) to 5.55 (keys = 256) where scale = 0.01."
    )


def test_layers_have_their_numbers() -> None:
    over: Over = [{"scale": [1, 2]}]
    rows = [
        {**row, "layer": f"encoder.{layer}", "entropy": (layer + 1) * row["scale"]}
        for row in rows_over(over, lambda row: None, "dot")
        for layer in (0, 1)
    ]
    result = replace(swept("attention", over, rows), layers={"encoder.0": 3, "encoder.1": 5})
    (finding,) = sweep_findings(result)
    assert finding.text == "dot: entropy rises from 2.00 (scale = 1) to 4.00 (scale = 2) where layer = 5."
    assert [tick.get_text() for tick in figures(result, pytest.fail, Look())["sweep"]().axes[0].get_xticklabels()] == [
        "3",
        "5",
    ]
    assert finding.numbers == {"lowest": 1.0, "highest": 4.0}


def test_nothing_to_tell() -> None:
    assert sentences([{"scale": [1, 2]}], lambda row: 1.0 if row["scale"] == 1 else None) == []
