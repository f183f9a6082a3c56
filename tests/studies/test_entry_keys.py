"""Keys of an entry beside its scorer's options: the norms of queries and keys, a window, a scale of m keys."""

from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from attncli.attention import at_least_float32
from attncli.catalogue.building import build_scorer
from attncli.catalogue.scorer_entries import ScorerEntry
from attncli.models.inputs import Inputs
from attncli.scorers import SCORERS
from attncli.studies.train.model import Recall
from attncli.studies.train.options import TrainOptions
from tests import reference
from tests.experiments import call_inputs, entry_of, result_of
from tests.scorers.catalogue import normal
from tests.studies.pairs.samples import swept

DATA: dict[str, Any] = {
    "queries": {"shape": [2, 3, 6, 8], "mean": 1.0, "std": 3.0},
    "keys": {"shape": [2, 3, 7, 8], "mean": -2.0},
    "valid_lens": [7, 4],
}


def oracle(entry: ScorerEntry, inputs: Inputs, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Return scores and weights, by loops in float64."""
    queries, keys = at_least_float32(inputs.queries.double(), inputs.keys)
    scorer = build_scorer(entry, queries.shape[-1], keys.shape[-1], seed, torch.float32)
    if entry.qk_norm is not None:
        queries, keys = (reference.normed(entry.qk_norm, each) for each in (queries, keys))
    n, m = queries.shape[-2], keys.shape[-2]
    first = m - n if "bottom_right" in (inputs.valid.causal, inputs.align) else 0
    if entry.rope is not None:
        how = entry.rope.theta, entry.rope.pairs, entry.rope.share
        queries, keys = reference.rotated(queries, first, *how), reference.rotated(keys, 0, *how)

    def score(queries: Tensor, keys: Tensor) -> Tensor:
        return reference.ORACLES[entry.scorer](scorer, queries, keys, **entry.options)

    scores, valid = reference.for_each_matrix(score, queries, keys), inputs.valid.whole.clone()
    for i in range(n):
        for j in range(m):
            is_far = entry.window is not None and abs(first + i - j) >= entry.window and j >= (entry.first_keys or 0)
            valid[..., i, j] &= not is_far
    return scores, reference.for_each_matrix(reference.masked_softmax, scores, valid)


MASKS: dict[str, dict[str, Any]] = {
    "top left": {"align": "top_left"},
    "end": {"align": "bottom_right"},
    "causal": {"causal": "top_left"},
    "causal end": {"causal": "bottom_right"},
}
WINDOWS: list[dict[str, Any]] = [{"window": 1}, {"window": 3}, {"window": 2, "first_keys": 2}, {"window": 100}]
WINDOWS += [
    {"qk_norm": "rms", "rope": {"pairs": pairs, "theta": 50.0, "share": 0.75}, "window": 4}
    for pairs in ("halves", "interleaved")
]
CHANGES: list[dict[str, Any]] = [{"qk_norm": "layer"}, {"qk_norm": "rms"}, {"rope": True}]
RUNS = [*product(SCORERS, [{}, *CHANGES], ["end"]), *product(["dot"], WINDOWS, MASKS)]


@pytest.mark.parametrize("weights", [True, False])
@pytest.mark.parametrize(("scorer", "key", "mask"), RUNS, ids=str)
def test_runs_against_loops(scorer: str, key: dict[str, Any], mask: str, weights: bool) -> None:
    """Turned after the norm and before the score, at the positions that masks and `align` say."""
    keys = {"scorer": scorer, **key}
    entry, inputs = entry_of(**keys), call_inputs(data=DATA, mask=MASKS[mask])
    tensors = result_of(data=DATA, mask=MASKS[mask], scorers=[keys], weights=weights).tensors
    scores, attended = oracle(entry, inputs)
    output = reference.for_each_matrix(reference.weighted_sum, attended, inputs.values.double())
    wanted = {"scores": scores, "weights": attended, "output": output} if weights else {"output": output}
    for stage, tensor in wanted.items():
        torch.testing.assert_close(tensors[f"{entry.label}/{stage}"].double(), tensor, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("key", CHANGES, ids=str)
def test_norms_and_rope_in_studies_of_pairs(key: dict[str, Any], tmp_path: Path) -> None:
    """Metrics equal a run on such vectors, except the query's gradient, which also passes through the norm."""
    raw = {"queries": 3 * normal(2, 2, 6, 4) + 1, "keys": normal(2, 2, 6, 4, seed=1)}
    change = reference.rotated if "rope" in key else lambda vectors, _: reference.normed(key["qk_norm"], vectors)
    torch.save(raw, tmp_path / "raw.pt")
    torch.save({side: change(vectors, 0).float() for side, vectors in raw.items()}, tmp_path / "changed.pt")
    columns_of_studies = {"variance": ["mean", "variance"], "saturation": ["entropy", "max_weight", "jacobian_mean"]}
    for study, columns in columns_of_studies.items():
        found = swept(study, source=tmp_path / "raw.pt", scorers=[{"scorer": "scaled_dot", **key}]).records
        wanted = swept(study, source=tmp_path / "changed.pt", scorers=[{"scorer": "scaled_dot"}]).records
        for one, other in zip(found, wanted, strict=True):
            assert [one[key] for key in columns] == pytest.approx([other[key] for key in columns], rel=1e-4)


@pytest.mark.parametrize("norm", ["layer", "rms"])
@pytest.mark.parametrize("scorer", ["dot", "additive", "cosine", "gaussian"])
def test_norms_in_training(scorer: str, norm: str) -> None:
    sizes = {"name": "x", "d": [4], "seeds": 2, "vocabulary": 5, "keys": 3}
    options = TrainOptions.model_validate({**sizes, "scorers": [{"scorer": scorer, "qk_norm": norm}]})
    model = Recall(options.scorers[0], 4, options)
    for seed, scores in enumerate(model().detach()):
        queries, keys = (model.embeddings[seed] @ each.detach()[seed].mT for each in (model.W_q, model.W_k))
        state = {name.removeprefix("scorer."): each for name, each in model.seed_state(seed).items() if "." in name}
        own = build_scorer(entry_of(scorer=scorer), 4, 4, 0, torch.float32)
        own.load_state_dict(state)
        normed = [reference.normed(norm, each.double()) for each in (queries, keys)]
        torch.testing.assert_close(scores.double(), reference.ORACLES[scorer](own, *normed), rtol=1e-4, atol=1e-5)
