"""Trained parameters are saved by label, d and seed, and an attention experiment reads them."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

import attncli
from attncli.studies.train.task import held_out, normal
from tests.studies.train.small import CPU, SMALL, loss_by_hand, options_of


class Warm(nn.Module):
    """t q . k"""

    def __init__(self, query_size: int, key_size: int) -> None:
        super().__init__()
        self.temperature = nn.Parameter(torch.tensor(0.5))
        self.register_buffer("count", torch.tensor([3, 4]))

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        return self.temperature * queries @ keys.mT


SCORERS = ["dot", "additive", "general", f"{__name__}:Warm"]
PARAMETERS: dict[str, list[str]] = {
    "dot": [],
    "additive": ["W_q.weight", "W_k.weight", "w_v.weight"],
    "general": ["W.weight"],
    "Warm": ["temperature", "count"],
}
KEYS: dict[str, Any] = {**SMALL, "study": "train", "scorers": SCORERS, "steps": 30, "lr": 0.05, "seeds": 3}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, sketches: Any) -> Iterator[attncli.Result]:
    """Train into the folder `run` of the working directory."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("trained"))
        yield attncli.run(KEYS, out="run")


@pytest.mark.parametrize("label", PARAMETERS)
def test_an_attention_experiment_with_them_scores_as_the_model_did(label: str, trained: attncli.Result) -> None:
    """Scores with the saved parameters reproduce the rows of the run, sequence by sequence."""
    options = options_of(**{key: value for key, value in KEYS.items() if key not in ("study", "scorers")})
    test, embeddings = held_out(options, options.keys, CPU), normal(options, "embeddings", 6, 5)
    stored = load_file("run/parameters.safetensors")
    for name in {"W_q", "W_k", *(f"scorer.{name}" for name in PARAMETERS[label])}:
        seeds = [stored[f"{label}/4/{seed}/{name}"] for seed in range(3)]
        assert name == "scorer.count" or not torch.equal(seeds[0], seeds[1]), name
    assert label != "Warm" or stored["Warm/4/0/scorer.count"].tolist() == [3, 4]
    for seed in range(3):
        queries, keys = (embeddings[seed] @ stored[f"{label}/4/{seed}/{name}"].mT for name in ("W_q", "W_k"))
        names = {name: f"{label}/4/{seed}/scorer.{name}" for name in PARAMETERS[label]}
        entry: dict[str, Any] = {"scorer": {"Warm": SCORERS[-1]}.get(label, label)}
        entry |= {"parameters": {"file": "run/parameters.safetensors", "names": names}} if names else {}
        result = attncli.run({"data": {"queries": queries[None], "keys": keys[None]}, "scorers": [entry]})
        scores = result.tensors[f"{label}/scores"][0]
        losses = [
            loss_by_hand(scores[query, symbols], values, int(target), 3)
            for query, symbols, values, target in zip(
                test.queries[seed], test.keys[seed], test.values[seed], test.targets[seed], strict=True
            )
        ]
        (row,) = (row for row in trained.records if (row["label"], row["seed"]) == (label, seed))
        assert row["loss"] == pytest.approx(float(torch.stack(losses).mean()), rel=1e-5)
        assert row["largest_score"] == pytest.approx(float(scores.abs().max()), rel=1e-5)


def test_the_config_of_the_run_gives_it_again(trained: attncli.Result) -> None:
    assert attncli.run("run/config.yaml").records == trained.records
