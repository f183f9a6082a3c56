"""The stages of the attention study against slow oracles, and options that must not change them."""

import pytest
import torch

from attncli.results import Result
from tests import reference
from tests.experiments import result_of, runs_of
from tests.studies.slow import DATA, ENTRIES, pooled


@pytest.fixture(scope="module")
def exact() -> Result:
    return result_of(data=DATA, scorers=ENTRIES, dtype="float64")


DROPOUT = [{"scorer": "dot", "dropout": 0.5}, {"scorer": "dot", "label": "same", "dropout": 0.5}, {"scorer": "general"}]


def test_dropout() -> None:
    result, plain, other = (
        result_of(data=DATA, scorers=DROPOUT, dtype="float64", train=train, seed=seed)
        for train, seed in ((True, 0), (False, 0), (True, 1))
    )
    stages = [["scores", "weights", "dropped", "output"]] * 2 + [["scores", "weights", "output"]]
    assert [list(run.stages) for run in runs_of(result)] == stages
    dropped, weights = runs_of(result)[0].stages["dropped"], runs_of(plain)[0].stages["weights"]
    assert torch.equal(runs_of(result)[0].stages["weights"], weights), "weights are before dropout"
    remaining = dropped != 0
    assert 0.2 < float(remaining[weights > 0].double().mean()) < 0.8
    torch.testing.assert_close(dropped[remaining], 2 * weights[remaining])
    torch.testing.assert_close(runs_of(result)[0].stages["output"], pooled(dropped, result.inputs["values"]))
    assert not torch.equal(dropped, runs_of(result)[1].stages["dropped"]), "every label draws its own"
    zeros = [tensors["same/dropped"] == 0 for tensors in (result.tensors, other.tensors)]
    assert not torch.equal(*zeros), "and every seed"
    assert result.records == plain.records


@pytest.mark.parametrize(("dtype", "rtol"), [("float16", 2e-3), ("bfloat16", 2e-2), ("float32", 2e-5)])
def test_storage_dtypes(dtype: str, rtol: float, exact: Result) -> None:
    result = result_of(data=DATA, scorers=ENTRIES, dtype=dtype)
    assert {str(result.inputs[name].dtype) for name in ("queries", "keys", "values")} == {f"torch.{dtype}"}
    for run, wanted in zip(runs_of(result), runs_of(exact), strict=True):
        assert {stage.dtype for stage in run.stages.values()} == {torch.float32}
        assert all(tensor.dtype == getattr(torch, dtype) for tensor in run.state.values())
        scores, exact_scores = run.stages["scores"].double(), wanted.stages["scores"]
        assert float((scores - exact_scores).norm() / exact_scores.norm()) < rtol
        weights = reference.for_each_matrix(reference.masked_softmax, scores, result.inputs["valid"])
        torch.testing.assert_close(run.stages["weights"].double(), weights, rtol=2e-5, atol=1e-7)


def test_other_scorers_change_no_number() -> None:
    alone = {
        entry["scorer"]: runs_of(result_of(data=DATA, scorers=[{**entry, "dropout": 0.3}], train=True))[0]
        for entry in ENTRIES
    }
    for order in (ENTRIES, ENTRIES[::-1], ENTRIES[2:5]):
        together = result_of(data=DATA, scorers=[{**entry, "dropout": 0.3} for entry in order], train=True)
        for run in runs_of(together):
            assert run.record == alone[run.label].record
            for name, stage in run.stages.items():
                assert torch.equal(stage, alone[run.label].stages[name])


def test_parameters_belong_to_the_label() -> None:
    entries = [{"scorer": "additive"}, {"scorer": "additive", "label": "other"}]
    one, other = runs_of(result_of(data=DATA, scorers=entries))
    assert not torch.equal(one.state["W_q.weight"], other.state["W_q.weight"])
    again = runs_of(result_of(data=DATA, scorers=[{"scorer": "additive", "label": "other"}]))[0]
    assert torch.equal(other.state["W_q.weight"], again.state["W_q.weight"])
    half = runs_of(result_of(data=DATA, scorers=[{"scorer": "additive"}], dtype="bfloat16"))[0]
    assert torch.equal(half.state["W_q.weight"], one.state["W_q.weight"].bfloat16())
