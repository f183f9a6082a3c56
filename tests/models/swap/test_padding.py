"""A text gives the same outputs alone and behind padding, whichever entry is inside the model."""

from typing import Any

import pytest
import torch
from torch.testing import assert_close

import attncli
from tests.models.families import of_transformers

WINDOWS = [{"window": 2, "first_keys": 1}, {"window": 3, "first_keys": 4}, {"window": 64, "first_keys": 2}]
BOUND = 1e-5  # logits are below 10: two layers of sums of 64 products in float32


@pytest.mark.parametrize("entry", [*WINDOWS, {"window": 3}, {}], ids=str)
@pytest.mark.parametrize(("family", "way"), [("llama", "sdpa"), ("gqa", "eager")])
@pytest.mark.filterwarnings("ignore")  # of transformers
def test_padding_at_the_left_is_no_first_key(family: str, way: str, entry: dict[str, Any]) -> None:
    model, _ = of_transformers(family, way)
    text = torch.randint(5, 90, (1, 9), generator=torch.Generator().manual_seed(3))
    outputs = []
    for pads in (0, 3, 6):
        tokens = torch.cat([torch.zeros(1, pads, dtype=torch.long), text], -1)
        mask, positions = (tokens > 0).long(), (torch.arange(9 + pads) - pads).clamp(min=0)[None]
        with attncli.Swap({"scorer": "scaled_dot", "scale": "model", **entry}), torch.no_grad():
            logits = model(tokens, attention_mask=mask, position_ids=positions).logits
        outputs.append(logits[:, pads:])
    for behind in outputs[1:]:
        assert_close(behind, outputs[0], rtol=0, atol=BOUND * float(outputs[0].abs().max()))
