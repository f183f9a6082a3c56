"""The study `train`: what it learns, its rows, and on what they depend."""

import math
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from attncli.studies.expectations.judging import judge
from safetensors.torch import save_file

from attncli.config.expectations import Expectation
from attncli.errors import InputError
from attncli.runs.records import TrainResult
from attncli.studies.progress import Silent
from attncli.studies.study import Record
from attncli.studies.threads import on_threads
from attncli.studies.train import study as train
from attncli.studies.train.learning import Learnt, learn, points_of
from attncli.studies.train.model import Recall, losses
from attncli.studies.train.records import COLUMNS, SUMMARY, summary
from attncli.studies.train.result import warn_of_numbers
from tests.experiments import Notes
from tests.studies.train import batch_of, learnt_by, model_of, options_of, prepared, result_of


def by_label(result: TrainResult) -> dict[str, list[Record]]:
    found: dict[str, list[Record]] = {}
    for row in result.records:
        found.setdefault(row["label"], []).append(row)
    return found


@pytest.mark.parametrize("name", ["dot", "scaled_dot", "additive", "general", "cosine", "gaussian", "vector_sum"])
def test_a_seed_learns_the_same_alone_as_among_others(name: str) -> None:
    """Within rounding: for one matrix a library may take another way than for several."""
    options = options_of(scorers=[name], steps=20, dtype="float64", test_keys=6)
    together = learnt_by(model_of(options), options)
    for seed in range(3):
        alone = learnt_by(model_of(options, [seed]), options)
        for measure, curve in together.curves.items():
            torch.testing.assert_close(curve[[seed]], alone.curves[measure], rtol=1e-7, atol=1e-9)
        for keys, found in together.tested.items():
            for measure, figure in found.items():
                torch.testing.assert_close(figure[[seed]], alone.tested[keys][measure], rtol=1e-7, atol=1e-9)
    last = [tuple(together.curves["loss"][seed].tolist()) for seed in range(3)]
    assert len(set(last)) == 3, "every seed is another"


def test_more_seeds_change_nothing_of_the_first() -> None:
    few, many = (result_of(scorers=["additive"], seeds=seeds, dtype="float64") for seeds in (2, 4))
    assert [row["seed"] for row in many.records] == [0, 1, 2, 3]
    for a, b in zip(few.records, many.records, strict=False):
        for name in ("accuracy", "loss", "entropy", "gradient_norm", "start_entropy"):
            assert a[name] == pytest.approx(b[name], rel=1e-7), name


def test_same_seed_same_numbers_whatever_is_beside_it() -> None:
    alone = result_of(scorers=["additive"])
    beside = result_of(scorers=["dot", "additive", "general"], d=[2, 4])
    assert [row for row in by_label(beside)["additive"] if row["d"] == 4] == alone.records
    assert result_of(scorers=["additive"]).records == alone.records
    assert result_of(scorers=["additive"], seed=1).records != alone.records


def test_threads_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    keys: dict[str, Any] = {"scorers": ["dot", "additive", "general"], "d": [2, 3, 40]}
    usual = result_of(**keys).records
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    assert result_of(**keys).records == usual


def test_torch_has_one_thread_for_each_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sum depends on how it is shared out."""
    ready, seen = prepared(scorers=["dot"]), list[int]()

    def watched(*args: Any) -> Learnt:
        seen.append(torch.get_num_threads())
        return learn(*args)

    monkeypatch.setattr(train, "learn", watched)
    with on_threads(2):
        train.run(ready, Silent())
        assert torch.get_num_threads() == 2
    assert seen == [1]


def test_models_are_made_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Since their parameters come from one generator of torch."""
    making, most = list[int](), list[int]()

    class Slow(Recall):
        def __init__(self, *args: Any) -> None:
            making.append(1)
            time.sleep(0.05)
            super().__init__(*args)
            most.append(len(making))
            making.pop()

    monkeypatch.setattr(train, "Recall", Slow)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    result_of(scorers=["dot", "additive", "general", "cosine"])
    assert most == [1] * 4


def test_random_numbers_outside_are_left_as_they_are() -> None:
    before = torch.get_rng_state()
    result_of(scorers=["additive", "dot"])
    assert torch.equal(torch.get_rng_state(), before)


def test_rows() -> None:
    result = result_of(scorers=["dot", "scaled_dot:scale=1/d"], d=[2, 3], seeds=2, test_keys=[6, 2])
    assert [tuple(row) for row in result.records] == [COLUMNS] * len(result.records)
    places = [(row["label"], row["d"], row["keys"], row["seed"]) for row in result.records]
    labels = ("dot", "scaled_dot_1_over_d")
    assert places == [(label, d, m, s) for label in labels for d in (2, 3) for m in (4, 6, 2) for s in (0, 1)]
    assert [set(row) for row in result.comparisons] == [set(SUMMARY)] * 12
    assert result.records[0]["parameters"] == 2 * 2 * 5
    assert result.formulas["dot"].startswith("q . k")


def test_curves_and_what_rows_take_from_them() -> None:
    result = result_of(scorers=["scaled_dot"], steps=150, d=8, batch=20, lr=0.02)
    steps = result.steps.tolist()
    assert steps == points_of(150) == list(range(151))
    assert set(result.curves) == {f"scaled_dot/8/{name}" for name in ("accuracy", "loss", "entropy", "gradient_norm")}
    for row in result.records:
        curves = {name.rpartition("/")[2]: curve[row["seed"]].tolist() for name, curve in result.curves.items()}
        for name in ("accuracy", "loss", "entropy", "gradient_norm"):
            assert len(curves[name]) == 151
            assert row[name] == curves[name][-1]
        assert row["start_entropy"] == curves["entropy"][0]
        passed = [step for step, share in zip(steps, curves["accuracy"], strict=True) if share >= 0.9]
        assert row["steps_to_90"] == (passed[0] if passed else None)
    assert any(row["steps_to_90"] for row in result.records)


@pytest.mark.parametrize(
    ("steps", "points"), [(1, [0, 1]), (3, [0, 1, 2, 3]), (800, [*range(0, 801, 8)]), (250, [*range(0, 251, 2)])]
)
def test_points_of_the_curves(steps: int, points: list[int]) -> None:
    assert points_of(steps) == points


def test_the_end_is_a_point_of_its_own() -> None:
    assert points_of(305)[-3:] == [300, 303, 305]


def test_summary_by_hand() -> None:
    row = {"scorer": "dot", "label": "dot", "d": 2, "keys": 4}
    figures = dict.fromkeys(("loss", "entropy", "gradient_norm", "start_entropy"), 1.0)
    rows = [
        row | figures | {"seed": s, "accuracy": a, "steps_to_90": n}
        for s, a, n in ((0, 0.5, None), (1, 1.0, 30), (2, 0.9, 10))
    ]
    (found,) = summary(rows)
    assert {name: found[name] for name in row} == row
    assert (found["accuracy"], found["accuracy_min"], found["accuracy_max"]) == (pytest.approx(0.8), 0.5, 1.0)
    assert found["accuracy_std"] == pytest.approx(math.sqrt((0.3**2 + 0.2**2 + 0.1**2) / 2))
    assert found["loss_std"] == 0
    assert set(SUMMARY) == set(found)
    assert (found["seeds"], found["reached_90"], found["steps_to_90"]) == (3, 2, 30)
    (found,) = summary(
        [each | {"steps_to_90": None, "loss": loss} for each, loss in zip(rows, (1.0, math.nan, 0.0), strict=True)]
    )
    assert (found["reached_90"], found["steps_to_90"]) == (0, None)
    assert all(math.isnan(found[f"loss{end}"]) for end in ("", "_min", "_max", "_std"))
    (found,) = summary([row | figures | {"seed": 0, "accuracy": 0.5, "steps_to_90": None}])
    assert found["accuracy"] == 0.5
    assert all(found[f"{name}_std"] is None for name in ("accuracy", *figures))
    (found,) = summary([rows[0], rows[1] | {"loss": math.inf}])
    assert (found["loss_max"], math.isnan(found["loss_std"])) == (math.inf, True)


def test_the_claim_of_the_literature() -> None:
    """Bands around what was measured: without a scale much is lost at a large d, with it or additively nothing."""
    keys: dict[str, Any] = {"vocabulary": 16, "keys": 8, "classes": 8, "embedding": 64, "batch": 64, "steps": 120}
    result = result_of(scorers=["dot", "scaled_dot", "additive"], d=[16, 512], seeds=5, **keys)
    found = {(row["label"], row["d"]): row for row in result.comparisons}
    assert found["dot", 16]["accuracy"] > found["dot", 512]["accuracy"] + 0.1
    assert found["dot", 512]["accuracy_max"] < 0.95
    assert found["scaled_dot", 512]["accuracy_min"] > 0.99
    assert found["additive", 512]["accuracy_min"] > 0.9
    assert found["dot", 512]["start_entropy"] < 0.3 < 1.5 < found["scaled_dot", 512]["start_entropy"]


def test_bounded_scores_spread_over_more_keys() -> None:
    """The cosine's scores lie between -1 and 1, so that no weight of m is larger than e^2/m: others learn to choose."""
    keys: dict[str, Any] = {"vocabulary": 32, "keys": 4, "steps": 150, "batch": 30, "embedding": 32, "d": 16}
    result = result_of(scorers=["cosine", "scaled_dot"], test_keys=32, **keys)
    found = {(row["label"], row["keys"]): row for row in result.comparisons}
    assert found["cosine", 32]["entropy_min"] > math.log(32) - 2
    assert found["scaled_dot", 32]["accuracy_min"] > found["cosine", 32]["accuracy_max"] + 0.2


def test_optimizers_and_rates_differ() -> None:
    adam, sgd = (result_of(scorers=["dot"], optimizer=name) for name in ("adam", "sgd"))
    assert (adam.settings["lr"], sgd.settings["lr"]) == (1e-3, 1.0)
    faster = result_of(scorers=["dot"], optimizer="sgd", lr=2.0)
    losses = [result.records[0]["loss"] for result in (adam, sgd, faster)]
    assert len(set(losses)) == 3


def test_one_step_of_gradient_descent_by_hand() -> None:
    options = options_of(scorers=["general"], optimizer="sgd", lr=0.25, steps=1, dtype="float64")
    model, other = model_of(options), model_of(options)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    learnt_by(model, options)
    batch = batch_of(options)
    losses(other.pooled(other.weights(other(), batch), batch), batch.targets).sum().backward()  # type: ignore[no-untyped-call]
    for parameter, start, untrained in zip(model.parameters(), before, other.parameters(), strict=True):
        assert untrained.grad is not None
        torch.testing.assert_close(parameter.detach(), start - 0.25 * untrained.grad)


def test_losses_that_are_no_numbers_are_told() -> None:
    notes = Notes()
    result = result_of(notes, scorers=["dot", "scaled_dot:scale=1e38,label=much"], d=[2, 8])
    assert [math.isfinite(row["loss"]) for row in result.comparisons] == [True, True, False, False]
    cure = "look at its options and parameters, or use float64"
    assert notes.notes == [f"warning: much: NaN or infinite losses at d = 2, 8 before the first step; {cure}"]


def test_a_rate_that_is_too_high_is_told() -> None:
    notes = Notes()
    result = result_of(scorers=["general"])
    warn_of_numbers(replace(result, comparisons=[row | {"loss": math.nan} for row in result.comparisons]), notes)
    assert notes.notes == ["warning: general: NaN or infinite losses at d = 4; use a smaller lr, or float64"]


def test_without_a_loss_there_is_no_accuracy() -> None:
    """The largest of NaN is the first, so that all seem to be answered with class 0."""
    result = result_of(scorers=["scaled_dot:scale=3e38,label=much"], test_keys=6, d=40)
    figures = [row["accuracy"] for row in result.records] + [row["accuracy_min"] for row in result.comparisons]
    assert all(map(math.isnan, figures))
    assert bool(result.curves["much/40/accuracy"].isnan().all())
    (verdict,) = judge(result, [Expectation(where={"label": "much", "keys": 4}, metric="accuracy", between=[0, 1])])
    assert (verdict.holds, verdict.reason) == (False, "no figure")


def test_parameters_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    save_file({"W.weight": torch.full((4, 4), math.nan)}, tmp_path / "W.safetensors")
    entry = {"scorer": "general", "parameters": {"file": str(tmp_path / "W.safetensors")}}
    with pytest.raises(InputError) as caught:
        prepared(scorers=["dot", entry])
    message = "got NaN or infinite numbers in W.weight; expected finite ones to begin with"
    assert str(caught.value) == f"scorers[1].parameters.file: {message}"


def test_silent_progress_is_enough() -> None:
    assert train.run(prepared(scorers=["dot"]), Silent()).interrupted is False
