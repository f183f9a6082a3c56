"""Trained parameters are saved by label, d and seed, and an attention experiment reads them."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import attncli
from attncli.studies.train.task import held_out, normal
from tests.studies.train.small import CPU, SMALL, loss_by_hand, options_of

OWN = """
import torch
from torch import nn

class Warm(nn.Module):
    '''t q . k'''

    def __init__(self, query_size, key_size):
        super().__init__()
        self.temperature = nn.Parameter(torch.tensor(0.5))
        self.register_buffer("count", torch.tensor([3, 4]))

    def forward(self, queries, keys):
        return self.temperature * queries @ keys.mT
"""
SCORERS = ["dot", "additive", "general", "warm:Warm"]
SHAPES: dict[str, dict[str, list[int]]] = {
    "dot": {},
    "additive": {"W_q.weight": [8, 4], "W_k.weight": [8, 4], "w_v.weight": [1, 8]},
    "general": {"W.weight": [4, 4]},
    "Warm": {"temperature": [], "count": [2]},
}
KEYS: dict[str, Any] = {**SMALL, "study": "train", "scorers": SCORERS, "steps": 30, "lr": 0.05, "seeds": 3}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, sketches: Any) -> Iterator[attncli.Result]:
    """Train into the folder `run` of the working directory."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "warm.py").write_text(OWN)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.syspath_prepend(folder)
        yield attncli.run(KEYS, out="run")


def test_every_seed_of_every_scorer_has_its_own(trained: attncli.Result) -> None:
    stored = load_file("run/parameters.safetensors")
    shapes = {
        f"{label}/4/{seed}/{name}": shape
        for label, own in SHAPES.items()
        for seed in range(3)
        for name, shape in {"W_q": [4, 5], "W_k": [4, 5], **{f"scorer.{n}": s for n, s in own.items()}}.items()
    }
    assert {name: list(tensor.shape) for name, tensor in stored.items()} == shapes
    for name, tensor in stored.items():
        assert torch.equal(trained.parameters[name], tensor)
        label, d, _, rest = name.split("/", 3)
        others = [stored[f"{label}/{d}/{seed}/{rest}"] for seed in range(3)]
        assert "count" in name or len({tuple(each.flatten().tolist()) for each in others}) == 3, name
    assert stored["Warm/4/0/scorer.temperature"] != 0.5
    assert stored["Warm/4/0/scorer.count"].tolist() == [3, 4]


@pytest.mark.parametrize("label", SHAPES)
def test_an_attention_experiment_with_them_scores_as_the_model_did(label: str, trained: attncli.Result) -> None:
    """Scores with the saved parameters reproduce the rows of the run, sequence by sequence."""
    options = options_of(**{key: value for key, value in KEYS.items() if key not in ("study", "scorers")})
    test, embeddings = held_out(options, options.keys, CPU), normal(options, "embeddings", 6, 5)
    stored = load_file("run/parameters.safetensors")
    for seed in range(3):
        queries, keys = (embeddings[seed] @ stored[f"{label}/4/{seed}/{name}"].mT for name in ("W_q", "W_k"))
        names = {name: f"{label}/4/{seed}/scorer.{name}" for name in SHAPES[label]}
        entry: dict[str, Any] = {"scorer": {"Warm": "warm:Warm"}.get(label, label)}
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
