"""Dropout of the attention study, and options that must not change its numbers."""

import torch

from attncli.scorers import SCORERS
from tests.experiments import result_of, runs_of
from tests.studies.slow import DATA

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
    torch.testing.assert_close(runs_of(result)[0].stages["output"], dropped @ result.inputs["values"])
    assert not torch.equal(dropped, runs_of(result)[1].stages["dropped"]), "every label draws its own"
    zeros = [tensors["same/dropped"] == 0 for tensors in (result.tensors, other.tensors)]
    assert not torch.equal(*zeros), "and every seed"
    assert result.records == plain.records


def test_other_scorers_change_no_number() -> None:
    entries = [{"scorer": name, "dropout": 0.3} for name in SCORERS]
    alone = {entry["scorer"]: runs_of(result_of(data=DATA, scorers=[entry], train=True))[0] for entry in entries}
    for order in (entries, entries[::-1], entries[2:5]):
        together = result_of(data=DATA, scorers=order, train=True)
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
