"""Positions of queries among the keys, where their numbers differ: for ALiBi, windows and rotary positions."""

import math
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as sdpa

import attncli
from tests.cli import experiment, refusal
from tests.models.written import Computed
from tests.reference import rotated
from tests.scorers.catalogue import normal

pytestmark = pytest.mark.usefixtures("here")

POSITIONAL: list[dict[str, Any]] = [{"window": 3}, {"bias": "alibi"}]
KEYS = ["window", "bias"]
WITH_ROPE = pytest.mark.parametrize("entry", [*POSITIONAL, {"rope": True}], ids=[*KEYS, "rope"])


def weights(n: int, m: int, entry: dict[str, Any], **mask: Any) -> Tensor:
    """Return the weights of equal scores, so that positions alone make a difference."""
    data = {"queries": {"shape": [1, n, 2], "fill": "zeros"}, "keys": {"shape": [1, m, 2]}}
    result = attncli.run({"data": data, "mask": mask, "scorers": [{"scorer": "dot", "label": "it", **entry}]})
    tensor: Tensor = result.tensors["it/weights"][0]
    return tensor


def by_hand(n: int, m: int, first: int, entry: dict[str, Any]) -> Tensor:
    rows = []
    for position in range(first, first + n):
        near = [abs(position - key) for key in range(m)]
        row = [float(far < 3) if "window" in entry else math.exp(-far / 256) for far in near]
        rows.append([weight / (sum(row) or 1.0) for weight in row])
    return torch.tensor(rows)


@pytest.mark.parametrize("entry", POSITIONAL, ids=KEYS)
@pytest.mark.parametrize(("n", "m"), [(1, 8), (3, 5), (5, 3), (4, 4)])
@pytest.mark.parametrize("align", ["top_left", "bottom_right"])
def test_positions_are_those_of_the_end_that_agrees(n: int, m: int, align: str, entry: dict[str, Any]) -> None:
    expected = by_hand(n, m, m - n if align == "bottom_right" else 0, entry)
    torch.testing.assert_close(weights(n, m, entry, align=align), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("command", "study"), [("check", "attention"), ("explain", "attention"), ("run", "doctor")])
@WITH_ROPE
def test_unknown_positions_are_refused_with_the_cure(entry: dict[str, Any], command: str, study: str) -> None:
    data = {"queries": {"shape": [2, 1, 4]}, "keys": {"shape": [2, 8, 4]}}
    scorers = [{"scorer": "dot"}, {"scorer": "dot", "label": "it", **entry}]
    message = refusal(command, experiment(Path("step.yaml"), study=study, data=data, scorers=scorers))
    assert f": scorers[1].{next(iter(entry))}: got " in message
    assert "for 1 query and 8 keys, whose positions are unknown" in message
    assert "mask: {align: bottom_right}" in message


def test_positions_that_are_known_need_no_alignment() -> None:
    assert torch.equal(weights(4, 4, POSITIONAL[0]), weights(4, 4, POSITIONAL[0], align="bottom_right"))
    with pytest.raises(attncli.InputError, match=r"mask\.align: got top_left together with `causal`"):
        weights(4, 4, {}, causal="top_left", align="top_left")


def of_model(
    tmp_path: Path, n: int, m: int, attend: Callable[..., Tensor], entry: dict[str, Any]
) -> tuple[Tensor, ...]:
    """Return the outputs of an entry for a call of a model: live, swapped, and read from a captured file."""
    inputs = normal(1, 2, n, 4), normal(1, 2, m, 4, seed=1), normal(1, 2, m, 3, seed=2)
    model, scorer = Computed(lambda _, *inputs: attend(*inputs)), {"scorer": "dot", **entry}
    with attncli.Capture() as seen:
        model(*inputs)
    attncli.save(seen, tmp_path / "seen.safetensors", overwrite=True)
    with attncli.Swap(scorer):
        swapped = model(*inputs)
    read = attncli.run({"data": {"capture": str(tmp_path / "seen.safetensors"), "layer": 0}, "scorers": [scorer]})
    return swapped, read.tensors["dot/output"]


def slow(n: int, m: int, valid: Tensor, entry: dict[str, Any]) -> Tensor:
    """Return the output where query i is at position i + m - n, by loops."""
    queries, keys, values = normal(1, 2, n, 4).double(), normal(1, 2, m, 4, seed=1).double(), normal(1, 2, m, 3, seed=2)
    output = torch.zeros(1, 2, n, 3, dtype=torch.float64)
    if "rope" in entry:
        queries, keys = rotated(queries, m - n), rotated(keys, 0)
    for head, i in product(range(2), range(n)):
        weights = {}
        for j in valid[i].nonzero().flatten().tolist():
            distance = abs(i + m - n - j)
            slope = 2.0 ** (-4 * (head + 1)) if "bias" in entry else 0.0
            if distance < entry.get("window", m + n):
                weights[j] = math.exp(float(queries[0, head, i] @ keys[0, head, j]) - slope * distance)
        for j, weight in weights.items():
            output[0, head, i] += weight / sum(weights.values()) * values[0, head, j].double()
    return output


@WITH_ROPE
@pytest.mark.parametrize(("n", "m"), [(1, 8), (3, 8), (5, 5)])
def test_in_a_model_the_queries_are_the_last_of_the_keys(n: int, m: int, entry: dict[str, Any], tmp_path: Path) -> None:
    """With a causal mask of a cache, with padding in it, and for a single query without any mask."""
    valid = torch.ones(n, m, dtype=torch.bool).tril(m - n)
    valid[:, 0] = n == m  # padding at the left, if there is a cache
    masks = [valid, torch.ones(n, m, dtype=torch.bool)] if n == 1 else [valid]
    for mask in masks:
        expected = slow(n, m, mask, entry)
        for output in of_model(tmp_path, n, m, partial(sdpa, attn_mask=mask), entry):
            torch.testing.assert_close(output.double(), expected, rtol=1e-5, atol=1e-6)


WITHOUT_POSITIONS = {
    "cross-attention": (3, 8, torch.ones(3, 8, dtype=torch.bool)),
    "padded keys": (3, 8, torch.ones(3, 8, dtype=torch.bool).tril(0)[-1:].expand(3, 8)),
    "more queries": (6, 4, torch.ones(6, 4, dtype=torch.bool)),
    "a cache with room for later keys": (3, 8, torch.ones(3, 8, dtype=torch.bool).tril(2)),
}


@WITH_ROPE
@pytest.mark.parametrize("case", WITHOUT_POSITIONS)
def test_calls_without_common_positions_are_refused(case: str, entry: dict[str, Any], tmp_path: Path) -> None:
    n, m, mask = WITHOUT_POSITIONS[case]
    attend = partial(sdpa, attn_mask=mask.clone())
    of_model(tmp_path, n, m, attend, {})  # without positions it is as any other call
    with pytest.raises(attncli.InputError, match="layers"):
        of_model(tmp_path, n, m, attend, entry)
    with pytest.raises(attncli.InputError, match=rf"got .+ for {n} queries and {m} keys.*`layers`"):
        attncli.run({"data": {"capture": str(tmp_path / "seen.safetensors")}, "scorers": [{"scorer": "dot", **entry}]})


def test_previous_keys_of_cross_attention_are_not_judged() -> None:
    """Which key is the previous one is unknown, so that no head looks at it."""
    data = {"queries": {"shape": [1, 2, 8, 4]}, "keys": {"shape": [1, 2, 12, 4]}}
    for mask, is_known in (({}, False), ({"align": "bottom_right"}, True)):
        heads = attncli.run({"study": "doctor", "data": data, "mask": mask, "scorers": ["dot"]}).heads
        assert all((row["previous_key"] is not None) is is_known for row in heads)
        assert all(row["uniform"] is not None for row in heads)
