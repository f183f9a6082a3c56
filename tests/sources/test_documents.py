"""Texts packed one after another: each attends to its own keys only, and is treated as it is alone."""

from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import attncli
from attncli.models.inputs import rules_of_inputs
from tests.cli import experiment, good
from tests.experiments import call_inputs, entry_of
from tests.scorers.catalogue import normal

SIZES = [4, 1, 3]
DATA: dict[str, Any] = {"queries": {"shape": [2, 3, 8, 4]}, "keys": {"shape": [2, 3, 8, 4]}}
WINDOWS: list[dict[str, Any]] = [{}, {"window": 2}, {"window": 1, "first_keys": 2}]
ENTRIES = [*WINDOWS, {"bias": "alibi"}, {"rope": {"pairs": "interleaved"}}]
ENTRIES += [{"normalizer": "ssmax"}, {"normalizer": "stick_breaking"}]


@pytest.mark.parametrize("lengths", [None, [6, 8], [[8, 5, 3, 8, 2, 8, 6, 8], [0, 1, 2, 3, 4, 5, 6, 7]]])
@pytest.mark.parametrize("causal", [False, "top_left", "bottom_right"])
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("documents", [SIZES, [[3, 5], [8]]])
def test_against_loops(documents: Any, window: dict[str, int], causal: Any, lengths: Any) -> None:
    """Whole and in tiles; the first keys are those of a document that any of its queries sees."""
    lists = documents if isinstance(documents[0], list) else [documents] * 2
    data = DATA if lengths is None else {**DATA, "valid_lens": lengths}
    inputs = call_inputs(data=data, mask={"documents": documents, "causal": causal})
    valid = rules_of_inputs(entry_of(scorer="dot", **window), inputs, "zero").valid
    wanted = torch.zeros(2, 3, 8, 8, dtype=torch.bool)
    firsts = torch.zeros(2, 3, 8, 1, dtype=torch.int64)
    for b, sizes in enumerate(lists):
        number = [at for at, size in enumerate(sizes) for _ in range(size)]

        def seen(i: int, j: int, b: int = b, number: list[int] = number) -> bool:
            length = 8 if lengths is None else lengths[b][i] if isinstance(lengths[b], list) else lengths[b]
            return number[i] == number[j] and j < length and (not causal or j <= i)

        for i in range(8):
            own = [k for k in range(8) if number[k] == number[i]]
            visible = [j for j in own if any(seen(k, j) for k in own if any(seen(each, k) for each in own))]
            visible = visible or [j for j in own if any(seen(k, j) for k in own)]
            firsts[b, :, i] = visible[0] if visible else 0
            for j in own:
                is_near = abs(i - j) < window.get("window", 8) or j in visible[: window.get("first_keys", 0)]
                wanted[b, :, i, j] = seen(i, j) and is_near
    assert torch.equal(valid.whole, wanted)
    assert torch.equal(valid.empty_rows, ~wanted.any(-1))
    for rows, keys in ((slice(2, 5), slice(0, 6)), (slice(5, 8), slice(3, 8))):
        tile = valid.tile(slice(1, 2), rows, keys)
        assert tile is not None
        assert torch.equal(tile.expand(1, 3, -1, -1), wanted[1:, :, rows, keys])
        assert not wanted[1:, :, rows, valid.reach(slice(1, 2), rows)[1] :].any()
    if not window and not isinstance(lengths, list):
        assert torch.equal(valid.first_key().expand(2, 3, 8, 1), firsts)


def parts(tensor: Tensor) -> list[Tensor]:
    return [tensor[..., end - size : end, :] for size, end in zip(SIZES, accumulate(SIZES), strict=True)]


@pytest.mark.parametrize("weights", [True, False])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("entry", ENTRIES, ids=str)
def test_packed_and_alone(entry: dict[str, Any], causal: bool, weights: bool) -> None:
    given = {name: normal(2, 3, 8, 4, seed=seed) for seed, name in enumerate(("queries", "keys", "values"))}
    config = {"scorers": [{"scorer": "dot", "label": "it", **entry}], "weights": weights}
    mask = {"documents": SIZES, "causal": causal}
    packed = attncli.run({**config, "data": given, "mask": mask}).tensors["it/output"]
    for number, own in enumerate(parts(packed)):
        data = {name: parts(tensor)[number] for name, tensor in given.items()}
        alone = attncli.run({**config, "data": data, "mask": {"causal": causal}}).tensors["it/output"]
        torch.testing.assert_close(own, alone, rtol=1e-5, atol=1e-6)


@pytest.mark.usefixtures("here")
def test_shown_and_checked() -> None:
    """Each document has a first key: a head that looks at it is found, and the first line names the documents."""
    documents, keys = [10, 10], torch.zeros(1, 1, 20, 2)
    keys[..., [0, 10], 0] = 9.0
    queries = torch.tensor([1.0, 0.0]).expand(1, 1, 20, 2)
    config = {"data": {"queries": queries, "keys": keys}, "mask": {"documents": documents, "causal": True}}
    (head,) = attncli.run({"study": "doctor", **config, "scorers": ["dot"]}).heads
    assert head["first_key"] > 0.99
    shapes = {"queries": {"shape": [1, 20, 2]}, "keys": {"shape": [1, 20, 2]}}
    for causal, words in ((True, "causal, documents of 10, 10 tokens"), (False, "; documents of 10, 10 tokens")):
        path = experiment(Path("x.yaml"), data=shapes, mask={"documents": documents, "causal": causal})
        assert words in good("run", path, "--no-plots", "--out", "out", "--overwrite")
