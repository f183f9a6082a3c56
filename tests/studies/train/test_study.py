"""The study `train`: training, its rows, and their independence of other seeds and scorers."""

import math
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from attncli.errors import InputError
from attncli.scorers import SCORERS
from attncli.studies.train import model as train_model
from attncli.studies.train import study as train
from attncli.studies.train.model import Learnt, Recall, curve_steps, losses
from attncli.studies.train.rows import summary
from tests.experiments import Notes
from tests.studies.train.small import batch_of, entry_model, learnt_by, options_of, result_of

MEASURED = ("accuracy", "loss", "entropy", "gradient_norm", "largest_score")


@pytest.mark.parametrize("name", SCORERS)
def test_a_seed_learns_the_same_alone_as_among_others(name: str) -> None:
    """Results agree up to rounding, since libraries may multiply one matrix in another way than several."""
    options, *fewer = (options_of(scorers=[name], steps=20, dtype="float64", test_keys=6, seeds=n) for n in (3, 1, 2))
    together = learnt_by(entry_model(options), options)
    for few in fewer:
        alone = learnt_by(entry_model(few), few)
        for measure, curve in alone.curves.items():
            torch.testing.assert_close(curve, together.curves[measure][: few.seeds], rtol=1e-7, atol=1e-9)
        for keys, found in alone.tested.items():
            for measure, figure in found.items():
                torch.testing.assert_close(figure, together.tested[keys][measure][: few.seeds], rtol=1e-7, atol=1e-9)
    assert len({tuple(curve) for curve in together.curves["loss"].tolist()}) == 3, "every seed is another"


def test_same_seed_same_numbers_whatever_is_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of threads does not matter either, and global random states stay the same."""
    before, alone = torch.get_rng_state(), result_of(scorers=["additive"])
    assert torch.equal(torch.get_rng_state(), before)
    keys: dict[str, Any] = {"scorers": ["dot", "additive", "general"], "d": [2, 4, 40], "test_keys": [6, 2]}
    beside = result_of(**keys)
    same = [row for row in beside.records if (row["label"], row["d"], row["keys"]) == ("additive", 4, 4)]
    assert same == alone.records
    assert beside.formulas["dot"].startswith("q . k")
    assert result_of(scorers=["additive"], seed=1).records != alone.records

    def alone_made(*args: Any) -> Recall:
        assert train.BUILDING.locked(), "parameters come from the one generator of torch"
        return Recall(*args)

    monkeypatch.setattr(train, "Recall", alone_made)
    for threads in (1, 4):
        monkeypatch.setattr(torch, "get_num_threads", lambda: threads)  # noqa: B023 - used at once
        assert result_of(**keys).records == beside.records


def test_curves_and_what_rows_take_from_them() -> None:
    result = result_of(scorers=["scaled_dot"], steps=150, d=8, batch=20, lr=0.02)
    steps = result.tensors["steps"].tolist()
    assert steps == curve_steps(150) == list(range(151))
    assert set(result.tensors) == {"steps", *(f"scaled_dot/8/{name}" for name in MEASURED)}
    for row in result.records:
        curves = {name: result.tensors[f"scaled_dot/8/{name}"][row["seed"]].tolist() for name in MEASURED}
        for name, curve in curves.items():
            assert len(curve) == 151
            assert row[name] == curve[-1]
        assert row["start_entropy"] == curves["entropy"][0]
        passed = [step for step, share in zip(steps, curves["accuracy"], strict=True) if share >= 0.9]
        assert row["steps_to_90"] == (passed[0] if passed else None)
    assert any(row["steps_to_90"] for row in result.records)


def test_summary_by_hand() -> None:
    row = {"scorer": "dot", "label": "dot", "normalizer": "softmax", "d": 2, "keys": 4}
    figures = dict.fromkeys(("loss", "entropy", "gradient_norm", "start_entropy", "largest_score"), 1.0)
    rows = [
        row | figures | {"seed": s, "accuracy": a, "steps_to_90": n}
        for s, a, n in ((0, 0.5, None), (1, 1.0, 30), (2, 0.9, 10))
    ]
    (found,) = summary(rows)
    assert {name: found[name] for name in row} == row
    assert (found["accuracy"], found["accuracy_min"], found["accuracy_max"]) == (pytest.approx(0.8), 0.5, 1.0)
    assert found["accuracy_std"] == pytest.approx(math.sqrt((0.3**2 + 0.2**2 + 0.1**2) / 2))
    assert found["loss_std"] == 0
    assert (found["seeds"], found["reached_90"], found["steps_to_90"]) == (3, 2, 30)
    (found,) = summary([rows[0], rows[0] | {"loss": math.nan}])
    assert (found["reached_90"], found["steps_to_90"]) == (0, None)
    assert all(math.isnan(found[f"loss{end}"]) for end in ("", "_min", "_max", "_std"))
    (found,) = summary(rows[:1])
    assert all(found[f"{name}_std"] is None for name in ("accuracy", *figures))
    (found,) = summary([rows[0], rows[1] | {"loss": math.inf}])
    assert (found["loss_max"], math.isnan(found["loss_std"])) == (math.inf, True)


def test_one_step_of_gradient_descent_by_hand() -> None:
    options = options_of(scorers=["general"], optimizer="sgd", lr=0.25, steps=1, dtype="float64")
    model, other = entry_model(options), entry_model(options)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    learnt_by(model, options)
    batch = batch_of(options)
    losses(other.pooled(other.weights(other(), batch), batch), batch.targets).sum().backward()  # type: ignore[no-untyped-call]
    for parameter, start, untrained in zip(model.parameters(), before, other.parameters(), strict=True):
        assert untrained.grad is not None
        torch.testing.assert_close(parameter.detach(), start - 0.25 * untrained.grad)


def test_where_losses_are_no_numbers_there_is_no_accuracy_and_a_warning() -> None:
    """`argmax` of NaN is the first class, so all answers would seem to be class 0."""
    notes = Notes()
    result = result_of(notes, scorers=["dot", "scaled_dot:scale=1e38,label=much"], d=[2, 8], test_keys=6)
    lost = [row for row in result.comparisons if row["label"] == "much"]
    assert [row for row in result.comparisons if math.isnan(row["accuracy_min"])] == lost
    assert not any(math.isfinite(row["loss"]) for row in lost)
    assert bool(result.tensors["much/8/accuracy"].isnan().all())
    (note,) = notes.notes
    assert note.startswith("warning: much: NaN or infinite losses at d = 2, 8; use a smaller lr or float64")


def test_parameters_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    save_file({"W.weight": torch.full((4, 4), math.nan)}, tmp_path / "W.safetensors")
    entry = {"scorer": "general", "parameters": {"file": str(tmp_path / "W.safetensors")}}
    with pytest.raises(
        InputError, match=r"^scorers\[1\].parameters.file: got NaN or infinite numbers in W.weight; exp"
    ):
        result_of(scorers=["dot", entry])


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("error", [KeyboardInterrupt(), ValueError("wrong")])
def test_what_is_finished_is_kept_unless_it_is_a_mistake_that_ends_the_others(
    threads: int, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = train_model.learn

    def learn(model: Recall, options: Any, step_done: Any) -> Learnt:
        d = model.W_q.shape[1]
        if d == 3:
            raise error
        while d > 3:  # until it is stopped
            time.sleep(0.01)
            step_done()
        return right(model, options, lambda: None)

    monkeypatch.setattr(train, "learn", learn)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    keys: dict[str, Any] = {"scorers": ["dot"], "d": [2, 3, 4, 5, 6, 7]}
    if isinstance(error, ValueError):
        with pytest.raises(ValueError, match="wrong"):
            result_of(**keys)
    else:
        result = result_of(**keys)
        assert result.interrupted
        assert {row["d"] for row in result.records} == {2}
