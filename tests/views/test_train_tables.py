"""The tables and sentences of `train`, read back from what a pipe gets."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from rich.cells import cell_len

from attncli.runs.records import TrainResult
from attncli.studies.study import Record
from attncli.views import load_view
from attncli.views.train_sentences import sentences
from tests.views.samples import printed
from tests.views.sweep_samples import many_scorers
from tests.views.train_samples import changed, train_result


def shown(result: TrainResult, width: int = 80, full: bool = False) -> str:
    return printed(load_view("train").tables(result, width=width, full=full, csv=None), width)


def rows(text: str, start: str) -> list[list[str]]:
    """Cells of the rows of one label, before the sentences."""
    return [line.split() for line in text.split("What holds")[0].splitlines() if line.startswith(f"{start} ")]


def test_what_was_learnt_and_how() -> None:
    head = " ".join(shown(train_result()).splitlines()[:2])
    assert head == (
        "associative recall: 8 keys of 16 symbols, 8 values, embeddings of size 64; Adam, learning rate 0.001, "
        "800 steps of 64 sequences, 5 seeds, float32"
    )
    one = train_result(seeds=1)
    settings = {"steps": 1, "batch": 1, "optimizer": "sgd", "lr": 0.5}
    assert "SGD, learning rate 0.5, 1 step of 1 sequence, 1 seed" in " ".join(
        shown(replace(one, settings=one.settings | settings)).split()
    )


def test_accuracy_has_mean_and_range_over_the_seeds() -> None:
    text = shown(train_result())
    heading, *table = text.split("accuracy with 8 keys (weights that are all equal have 0.31)\n")[1].splitlines()[:5]
    assert heading.split() == ["label", *(part for d in (16, 64, 256, 1024) for part in ("d", "=", str(d)))]
    assert table[1].split() == ["dot", "1.00", "0.91", "(0.87–0.95)", "0.86", "(0.82–0.90)", "0.81", "(0.77–0.85)"]
    assert table[2].split() == ["scaled_dot", "1.00", "1.00", "1.00", "1.00"]
    assert "mean over the seeds, and in brackets the range" in text


def test_a_share_that_is_not_whole_is_not_shown_as_1() -> None:
    text = shown(changed(train_result(), lambda row: {"accuracy_min": 0.998, "accuracy": 0.999}))
    assert "accuracy >0.99 at every d, and >0.99 with every seed" in " ".join(text.split())


def test_the_rest_has_one_row_for_each_label_and_d() -> None:
    found = rows(shown(train_result()), "dot")[1:]
    assert found[0] == ["dot", "16", "24", "5", "of", "5", "1.00", "0.0625", "0.250", "0.125"]
    assert found[3] == ["dot", "1024", "-", "0", "of", "5", "1.19", "0.0625", "0.250", "1.0e-06"]


@pytest.mark.parametrize(("classes", "least"), [(8, "1.27"), (2, "0.313")])
def test_the_least_loss_is_told(classes: int, least: str) -> None:
    result = train_result()
    text = " ".join(shown(replace(result, settings=result.settings | {"classes": classes})).split())
    assert f"so that it is at least ln(1 + (classes - 1)/e), here {least}" in text
    logits = torch.eye(classes)[0]
    assert f"{float(-logits.log_softmax(0)[0]):.3g}" == least


def test_tests_with_other_keys_have_a_table_of_their_own() -> None:
    text = shown(train_result([64], tested=[8, 16]))
    assert "accuracy with 8 keys (weights that are all equal have 0.31)\n" in text
    table = text.split("accuracy with 16 keys, trained with 8 (weights that are all equal have 0.16)\n")[1].splitlines()
    assert table[2].split() == ["dot", "0.81", "(0.77–0.85)"]
    assert len(rows(text, "dot")) == 3, "what was learnt is the same, and told once"


@pytest.mark.parametrize("width", [40, 80, 120])
@pytest.mark.parametrize(
    "result",
    [
        train_result(),
        train_result([2**power for power in range(13)], tested=[8, 16]),
        train_result([64], list(many_scorers(12)), seeds=1),
        train_result([64], ["a" * 60, "b"]),
    ],
    ids=["usual", "sizes", "scorers", "long"],
)
def test_nothing_is_wider_than_the_terminal_or_cut(result: TrainResult, width: int) -> None:
    text = shown(result, width)
    assert max(map(cell_len, text.splitlines())) <= width
    assert "…" not in text


def test_many_rows_are_shortened_but_with_full() -> None:
    result = train_result(list(range(1, 60)), ["dot"])
    assert "19 of 59 rows left out; see them with --full" in shown(result)
    assert "left out" not in shown(result, full=True)


def test_interrupted_says_how_to_go_on() -> None:
    result = train_result([16], ["dot"])
    assert "--resume" not in shown(result)
    assert "interrupted, so not all is there; --resume with this run's folder goes on" in shown(
        replace(result, interrupted=True)
    )


def test_formulas_and_own_scorers() -> None:
    result = train_result([16], ["dot"])
    text = shown(replace(result, records=[row | {"scorer": "mine:Mine"} for row in result.records]))
    assert "dot (mine:Mine): the formula of dot (somebody 2020)" in text


def of(result: TrainResult, word: str) -> list[str]:
    return [sentence for sentence in sentences(result) if word in sentence]


def test_courses() -> None:
    assert sentences(train_result())[:3] == [
        "dot: accuracy falls from 1.00 at d = 16 to 0.81 (0.77–0.85) at d = 1024.",
        "scaled_dot: accuracy 1.00 at every d, with every seed.",
        "additive: accuracy 1.00 at every d, with every seed.",
    ]
    assert sentences(train_result([64], ["dot"]))[0] == "dot: accuracy 0.91 (0.87–0.95) at d = 64."


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ((0.5, 0.6, 0.8), "accuracy rises from 0.50 at d = 16 to 0.80 at d = 256"),
        ((0.9, 0.6, 0.9), "accuracy 0.90 at d = 16 and 0.90 at d = 256, and lowest with 0.60 at d = 64"),
        ((0.97, 0.98, 0.97), "accuracy 0.97 or more at every d, and 0.97 or more with every seed"),
        ((0.97, math.nan, 0.97), "no accuracy at d = 64, where losses are not finite"),
        ((math.nan, 1.0, math.nan), "no accuracy at d = 16, 256, where losses are not finite"),
    ],
)
def test_other_courses(values: tuple[float, ...], said: str) -> None:
    by_size = dict(zip((16, 64, 256), values, strict=True))

    def change(row: Record) -> dict[str, Any]:
        return dict.fromkeys(("accuracy", "accuracy_min", "accuracy_max"), by_size[row["d"]])

    assert sentences(changed(train_result([256, 16, 64], ["dot"]), change))[0] == f"dot: {said}."


def test_who_is_above_whom() -> None:
    said = of(train_result(), "above")
    assert said == ["at d = 1024 every seed of scaled_dot and additive is above every seed of dot."]
    assert of(train_result([16]), "above") == []
    assert of(train_result([16, 1024], ["dot"]), "above") == []
    one = of(train_result([1024], seeds=1), "above")
    assert one == ["at d = 1024 the one seed of scaled_dot and additive is above that of dot."]
    touching = changed(train_result(), lambda row: {"accuracy_max": 1.0})
    assert of(touching, "above") == []


def lost(label: str) -> Callable[[Record], dict[str, Any]]:
    names = [f"{name}{end}" for name in ("accuracy", "loss", "gradient_norm") for end in ("", "_min", "_max")]
    return lambda row: dict.fromkeys(names, math.nan) if row["label"] == label else {}


def test_what_has_no_accuracy_is_neither_above_nor_below_nor_stuck() -> None:
    result = changed(train_result(tested=[8, 16]), lost("scaled_dot"))
    assert of(result, "above") == ["at d = 1024 every seed of additive is above every seed of dot."]
    said = " ".join(sentences(changed(result, lost("dot"))))
    assert not any(word in said for word in ("above", "stopped", "nan"))
    assert rows(shown(result), "scaled_dot")[0][1:] == ["nan"] * 4


def test_what_has_stopped_learning() -> None:
    assert of(train_result(), "stopped") == [
        "dot has stopped learning at d = 1024: it is wrong in 19% of the tests, and the norm of its gradient is "
        "1.0e-06; its weights began with an entropy of 0.0625 and end with 0.250 nats."
    ]
    assert of(changed(train_result(), lambda row: {"gradient_norm": 0.1}), "stopped") == []


def test_more_keys() -> None:
    assert of(train_result([16, 64], ["dot"], tested=[8, 16, 32]), "trained with") == [
        "dot, trained with 8 keys, at d = 64: accuracy 0.91 (0.87–0.95) with 8 keys, 0.81 (0.77–0.85) with 16, "
        "0.81 (0.77–0.85) with 32."
    ]
    assert of(train_result(), "trained with") == []
