"""The check `batch`: faults of padding in small models of our own, and none in healthy ones of transformers."""

import re
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

import attncli
from attncli.results import Row
from tests.models.families import of_transformers

pytestmark = pytest.mark.filterwarnings("ignore")
HERE, H, D, W, EOS = "tests.studies.doctor.test_batch", 2, 8, 10, 1
PADS = (3, 0, 6, 2)


class Own(nn.Module):
    """A language model of two layers with learnt positions that skip padding; `fault` breaks one thing."""

    def __init__(self, fault: str, takes_positions: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.tokens, self.positions = nn.Embedding(100, H * D), nn.Embedding(32, H * D)
        self.layers, self.fault = nn.ModuleList(nn.Linear(H * D, 3 * H * D) for _ in range(2)), fault
        self.config = SimpleNamespace(pad_token_id=0, eos_token_id=EOS)
        if not takes_positions:
            whole = self.forward
            vars(self)["forward"] = lambda input_ids, attention_mask=None: whole(input_ids, attention_mask)

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, position_ids: Any = None) -> Tensor:
        b, n = input_ids.shape
        key = torch.arange(n)
        mask = torch.ones(b, n, dtype=torch.long) if attention_mask is None else attention_mask
        if position_ids is None and self.fault == "positions":
            position_ids = key.expand(b, n)
        elif position_ids is None:
            position_ids = (mask.cumsum(-1) - 1).clamp(min=0)
        x: Tensor = self.tokens(input_ids) + self.positions(position_ids)
        seen = torch.ones_like(mask) if self.fault == "forgotten" else mask
        seen = mask[:1].expand(b, n) if self.fault == "of another text" else seen
        causal, own_key = key <= key[:, None], torch.eye(n, dtype=torch.bool)
        masks = [seen[:, None, None, :].bool() & causal | own_key] * 2
        if self.fault == "window":  # its first two keys are those of the batch, padding among them
            masks[1] = masks[1] & ((key > key[:, None] - 4) | (key < 2)) | own_key
        if self.fault == "late":  # the second layer forgets the mask, the first that of the later texts
            masks = [masks[0] | causal & (torch.arange(b) >= b / 2)[:, None, None, None], causal.expand(b, 1, n, n)]
        for number, layer in enumerate(self.layers):
            q, k, v = layer(x).view(b, n, 3, H, D).permute(2, 0, 3, 1, 4)
            if self.fault == "number of texts":
                v = v * (1 + b / 100)
            x += scaled_dot_product_attention(q, k, v, masks[number]).transpose(1, 2).reshape(b, n, -1)
        return x


def batch(side: str, pad: int = 0) -> dict[str, Tensor]:
    torch.manual_seed(1)
    tokens, mask = torch.randint(5, 90, (len(PADS), W)), torch.ones(len(PADS), W, dtype=torch.long)
    for text, pads in enumerate(PADS):
        where = slice(pads) if side == "left" else slice(W - pads, W)
        tokens[text, where], mask[text, where] = pad, 0
    return {"input_ids": tokens, "attention_mask": mask}


def checked(*source: Any) -> attncli.Result:
    """Return the doctor's result for a model, its inputs and their tokens."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(f"{HERE}.made", lambda: source, raising=False)
        return attncli.run({"study": "doctor", "model": f"{HERE}:made"})


def rows(fault: str, side: str, takes_positions: bool | str = False) -> list[Row]:
    """Return the rows of the check; tokens are named by their positions in the text without padding."""
    inputs = batch(side, EOS if fault.startswith("end of text") else 0)
    if takes_positions == "given":
        inputs["position_ids"] = torch.arange(W).expand(len(PADS), W)
    if fault.startswith("end of text"):
        del inputs["attention_mask"]
    if fault == "end of text, a mask of 1":
        inputs["attention_mask"] = torch.ones(len(PADS), W, dtype=torch.long)
    starts = PADS if side == "left" else [0] * len(PADS)
    tokens = [[str(i - start) for i in range(W)] for start in starts]
    result = checked(Own(fault, bool(takes_positions)), inputs, tokens)
    (found,) = [[row for row in result.records if row["check"] == "batch"]]
    sentences = [finding.text for finding in result.findings if "batch: layer" in finding.text]
    assert len(sentences) == len(found)
    assert "fault" in {row["kind"] for row in found} or sentences == [result.findings[-1].text][: len(found)]
    assert all(re.search(r"first at token (\d+) \(\1\)\. ", row["about"]) for row in found)
    return found


@pytest.mark.parametrize(
    ("fault", "side", "layer"),
    [
        ("forgotten", "left", "Own"),
        ("positions", "left", "Own"),
        ("of another text", "left", "Own"),
        ("of another text", "right", "Own"),
        ("end of text", "left", "Own"),
        ("end of text, a mask of 1", "left", "Own"),
        ("window", "left", "Own#1"),
        ("late", "left", "Own"),
    ],
)
def test_each_planted_fault_is_found(fault: str, side: str, layer: str) -> None:
    first = rows(fault, side)[0]
    assert (first["kind"], first["layer"], first["head"]) == ("fault", layer, 0)
    assert f"padded {side}, has other outputs than alone, first at token " in first["about"]
    assert first["value"] > 0.01 > first["limit"] >= 1e-3


@pytest.mark.parametrize("fault", ["", "number of texts"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_a_healthy_model_of_our_own_has_nothing(fault: str, side: str) -> None:
    """Also if outputs depend a little on the number of texts, as kernels do."""
    assert rows(fault, side, takes_positions=True) == []


def test_position_ids_that_count_padding_are_a_fault() -> None:
    (row,) = rows("", "left", "given")
    assert (row["kind"], row["layer"], row["about"].endswith("windows for padding.")) == ("fault", "Own", True)
    assert rows("", "right", "given") == []


def test_positions_on_the_other_side_are_a_remark() -> None:
    (row,) = rows("positions", "right")
    assert (row["kind"], row["about"].endswith("This model must be padded on the right.")) == ("remark", True)
    for side in ("left", "right"):
        (row,) = rows("positions", side, takes_positions=True)
        assert (row["kind"], row["about"].endswith("Padded left, this model needs position_ids.")) == ("remark", True)


def test_the_value_by_hand() -> None:
    row = rows("forgotten", "left")[0]
    model, inputs = Own("forgotten"), batch("left")
    text = next(text for text in range(4) if f"Text {text}," in row["about"])
    left = PADS[text]
    outputs = [
        attncli.capture(model, **each).records[0].output.double()
        for each in (inputs, {"input_ids": inputs["input_ids"][text, None, left:]})
    ]
    x, y = outputs[0][text, row["head"], left:], outputs[1][0, row["head"]]
    assert row["value"] == pytest.approx(float((x - y).norm() / y.norm()), rel=1e-9)


HEALTHY = (
    *("gemma2", "gemma3", "gpt_oss", "mistral", "llama4", "falcon", "qwen3_next", "diffllama", "bert", "gpt2"),
    *("t5", "bloom", "swinv2"),
)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name", HEALTHY)
def test_healthy_architectures_have_no_fault(name: str, side: str) -> None:
    """Also if queries of padding have no valid key."""
    model, inputs = of_transformers(name)
    if side == "right":
        inputs |= {key: inputs[key].flip(-1) for key in ("input_ids", "attention_mask") if key in inputs}
    records = checked(model, inputs).records
    assert [row for row in records if row["kind"] == "fault"] == []
    found = [row["about"].rpartition(". ")[2] for row in records if row["check"] == "batch"]
    assert found == (["Padded left, this model needs position_ids."] if name in ("bert", "gpt2") else [])
