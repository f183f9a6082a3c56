"""Sentences about sweeps, from results made by hand: how a metric changes along the axes; seeds and lacking options."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import attncli
from attncli.engine.sweeps.findings import ONE_NUMBER, sweep_findings
from attncli.results import Result, Row
from tests.engine.sweeps.test_summary import rows_over, swept

Over = list[dict[str, list[Any]]]
WIGGLES = {0: 0.04, 1: -0.05, 2: 0.01}


def sentences(over: Over, entropy: Callable[[Row], float | None], *labels: str, **more: Any) -> list[str]:
    """Return the findings of a sweep whose metric is a function of the swept values and the label."""
    rows = rows_over(over, entropy, *(labels or ("dot",)), **more)
    return [finding.text for finding in sweep_findings(swept("attention", over, rows))]


def line(values: list[float | None]) -> str:
    """Return the finding about values at d = 1, 2, 4, ..., in another order."""
    places = [2**index for index in range(len(values))]
    (text,) = sentences([{"d": places[::-1]}], lambda row: values[places.index(row["d"])])
    return text


def test_seeds_that_change_nothing() -> None:
    """Also beside another axis; not if one other number differs, not for one seed, and not if a seed lacks a row."""
    said = [ONE_NUMBER]
    assert sentences([{"seed": [0, 1]}], lambda row: 1.0, "dot", "cosine") == said
    assert sentences([{"d": [1, 2]}, {"seed": [0, 1]}], lambda row: row["d"], score_mean=3.0)[1:] == said
    assert sentences([{"seed": [0, 1]}], lambda row: 1.0 + row["seed"]) == []
    assert sentences([{"seed": [0, 1]}], lambda row: row["label"] == "dot" and row["seed"], "cosine", "dot") == []
    assert sentences([{"seed": [0]}], lambda row: 1.0) == []
    assert len(sentences([{"d": [1, 2], "seed": [0, 1]}], lambda row: 1.0)) == 1
    over: Over = [{"seed": [0, 1]}]
    rows = rows_over(over, lambda row: 1.0, "dot", "cosine")
    assert ONE_NUMBER not in [finding.text for finding in sweep_findings(swept("attention", over, rows[:-1]))]


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([2.30, 1.6, 0.11], "falls from 2.30 (d = 1) to 0.110 (d = 4)"),
        ([3.0, 1.0, 1.0, 2.0], "falls from 3.00 (d = 1) to 1.00 (d = 2), then rises to 2.00 (d = 8)"),
        ([1.0, 3.0, 0.5, 2.0], "ranges from 0.500 (d = 4) to 3.00 (d = 2)"),
        ([2.0, None, 1.0], "falls from 2.00 (d = 1) to 1.00 (d = 4)"),
    ],
)
def test_a_number(values: list[float | None], text: str) -> None:
    """See test_trends.py."""
    assert line(values) == f"dot: entropy {text}."


def test_scorers_without_the_swept_option_are_named_once() -> None:
    def entropy(row: Row) -> float:
        return row["scale"] if row["label"] == "cosine" else 1.5

    over: Over = [{"scale": [0.5, 4.0]}]
    texts = sentences(over, entropy, "additive", "cosine", "dot")
    assert texts == [
        "cosine: entropy rises from 0.500 (scale = 0.5) to 4.00 (scale = 4).",
        "additive, dot have no `scale`.",
    ]
    assert sentences([{"d": [1, 2]}], lambda row: 1.0, "dot", "additive")[1:] == [
        "additive: entropy stays at 1.00 (d = 1 to d = 2)."
    ]
    of_one: Over = [{"scorers[1].scale": [0.5, 4.0]}]
    assert sentences(of_one, lambda row: 1.5, "dot", "scaled_dot", "cosine") == [
        "scaled_dot: entropy stays at 1.50 (scorers[1].scale = 0.5 to scorers[1].scale = 4).",
        "dot, cosine have no `scorers[1].scale`.",
    ]
    with_d = sentences([{"d": [1, 2]}, *over], lambda row: entropy(row) * row["d"], "dot", "cosine")
    assert with_d[0].startswith("dot: entropy rises from 1.50 (d = 1) to 3.00 (d = 2)")
    assert [text.count("(scale = 0.5)") for text in with_d] == [0, 1, 0]
    assert with_d[2] == "dot has no `scale`."


def test_an_option_beside_a_shape_leaves_the_shape_to_all_scorers() -> None:
    over: Over = [{"keys": [1, 2], "scorers[1].scale": [3.0, 4.0]}]
    assert len(texts := sentences(over, lambda row: float(row["keys"]), "dot", "cosine")) == 2
    assert all("entropy rises from 1.00 (keys = 1" in text for text in texts)


def test_keys_that_change_together() -> None:
    over: Over = [{"scorers[0].scale": [1.0, 4.0], "scorers[1].scale": [3.0, 7.0]}]
    (text,) = sentences(over, lambda row: row["scorers[1].scale"])
    first, last = "scorers[0].scale = 1, scorers[1].scale = 3", "scorers[0].scale = 4, scorers[1].scale = 7"
    assert text == f"dot: entropy rises from 3.00 ({first}) to 7.00 ({last})."


@pytest.mark.parametrize(
    ("values", "wiggle", "text"),
    [
        ([3.0, 2.99, 3.01, 1.0], 1.0, "falls from 3.00 (scale = 0) to 1.00 (scale = 3)"),
        ([1.0, 1.2, 1.1], 10.0, "lies between 1.00 and 1.20 (scale = 0 to scale = 2)"),
        ([1.0, 2.0, 1.0], 1.0, "rises from 1.00 (scale = 0) to 2.00 (scale = 1), then falls to 1.00 (scale = 2)"),
        ([5.00, 5.02, 5.01], 1.0, "stays between 5.00 and 5.02 (scale = 0 to scale = 2)"),
    ],
)  # fmt: skip
def test_a_number_over_seeds(values: list[float], wiggle: float, text: str) -> None:
    """Steps within the noise are no turning points; sentences have the means."""
    over: Over = [{"seed": [0, 1, 2]}, {"scale": [*range(len(values))]}]

    def entropy(row: Row) -> float:
        return values[row["scale"]] + wiggle * WIGGLES[(row["seed"] + row["scale"]) % 3]

    assert sentences(over, entropy) == [f"dot: entropy {text}."]


def test_equal_seeds_are_compared_with_each_other() -> None:
    """Every seed falls by 0.5, although the seeds lie far apart."""
    over: Over = [{"seed": [0, 1, 2]}, {"scale": [1, 2]}]
    (text,) = sentences(over, lambda row: 10.0 * row["seed"] + 0.001 * row["seed"] * row["scale"] - 0.5 * row["scale"])
    assert text == "dot: entropy falls from 9.50 (scale = 1) to 9.00 (scale = 2)."


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


def test_a_direction_that_is_not_the_same_everywhere() -> None:
    over: Over = [{"scale": [1, 2, 3]}, {"dtype": ["float32", "float16"]}]
    (text,) = sentences(over, lambda row: row["scale"] * (1.0 if row["dtype"] == "float32" else -0.5) + 2)
    assert text == (
        "dot: entropy rises from 3.00 (scale = 1) to 5.00 (scale = 3) where dtype = float32; "
        "it ranges from 0.500 (dtype = float16) to 5.00 (dtype = float32) where scale = 3."
    )


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"a": 1.0, "b": 1.0, "c": 3.0}, "ranges from 1.00 (fill = a) to 3.00 (fill = c)"),
        ({"a": 1.0, "b": 1.001}, "stays at 1.00 (fill = a to fill = b)"),
        ({"1/d": 3.0, 0.5: 2.0, 1: 1.0}, "ranges from 1.00 (fill = 1) to 3.00 (fill = 1/d)"),
        ({True: 1.0, False: 2.0}, "ranges from 1.00 (fill = true) to 2.00 (fill = false)"),
    ],
)  # fmt: skip
def test_names(values: dict[Any, float], text: str) -> None:
    assert sentences([{"fill": [*values]}], lambda row: values[row["fill"]]) == [f"dot: entropy {text}."]


def test_names_over_seeds() -> None:
    """Names that noise may have exchanged are named together."""
    over: Over = [{"seed": [0, 1, 2]}, {"fill": ["a", "b", "c"]}]
    values = {"a": 1.0, "b": 1.01, "c": 3.0}

    def noisy(size: float) -> Callable[[Row], float]:
        return lambda row: values[row["fill"]] + size * WIGGLES[(row["seed"] + ord(row["fill"])) % 3]

    (text,) = sentences(over, noisy(1.0))
    assert text == "dot: entropy ranges from 1.00 (fill = a) to 3.00 (fill = c)."
    (text,) = sentences(over, noisy(40.0))
    assert text == "dot: entropy lies between 1.00 and 3.00 (fill = a to fill = c)."


def test_layers_have_their_numbers() -> None:
    over: Over = [{"scale": [1, 2]}]
    rows = [
        {**row, "layer": f"encoder.{layer}", "entropy": (layer + 1) * row["scale"]}
        for row in rows_over(over, lambda row: None, "dot")
        for layer in (0, 1)
    ]
    (finding,) = sweep_findings(swept("attention", over, rows))
    assert finding.text == "dot: entropy rises from 2.00 (scale = 1) to 4.00 (scale = 2) where layer = 1."
    assert finding.numbers == {"lowest": 1.0, "highest": 4.0}


def test_nothing_to_tell() -> None:
    assert sentences([{"seed": [0, 1]}], lambda row: row["seed"]) == []
    assert sentences([{"scale": [1, 2]}], lambda row: 1.0 if row["scale"] == 1 else None) == []
    assert sentences([{"scale": [1, 2]}], lambda row: None) == []


def entropy_by_hand(queries: np.ndarray, keys: np.ndarray, scale: float) -> float:
    """Return the mean entropy of softmax(scale * q . k) in nats, by loops."""
    found = []
    for query in queries:
        scores = [scale * float(query @ key) for key in keys]
        powers = [math.exp(score - max(scores)) for score in scores]
        shares = [power / sum(powers) for power in powers]
        found.append(-math.fsum(share * math.log(share) for share in shares if share))
    return math.fsum(found) / len(found)


def test_a_real_sweep_over_the_scale() -> None:
    """Bare names have the option, too; the numbers of the sentences are those of loops in float64."""
    draw = np.random.default_rng(0)
    queries, keys = draw.standard_normal((5, 4)), draw.standard_normal((10, 4))
    data = {"queries": queries[None], "keys": keys[None]}
    experiment = {"data": data, "scorers": ["scaled_dot", "cosine", "dot"], "dtype": "float64"}
    result: Result = attncli.sweep(experiment, over={"scale": [0.01, 1, 10]}, jobs=1)
    unit_queries, unit_keys = (each / np.linalg.norm(each, axis=1, keepdims=True) for each in (queries, keys))
    ends = {
        "scaled_dot": [entropy_by_hand(queries, keys, scale) for scale in (0.01, 10)],
        "cosine": [entropy_by_hand(unit_queries, unit_keys, scale) for scale in (0.01, 10)],
    }
    expected = [
        f"{label}: entropy falls from {high:.2f} (scale = 0.01) to {low:.3g} (scale = 10)."
        for label, (high, low) in ends.items()
    ]
    expected.append("dot has no `scale`.")
    assert [finding.text for finding in result.findings] == expected
