"""Two captures of a model: faults planted in a random layer of its copy, and what the comparison says of them."""

import copy
import json
import random
from collections import OrderedDict
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention as sdpa

import attncli
from attncli.core.rounding import LIMITS
from attncli.errors import InputError
from tests.cli import attncli as command
from tests.cli import good, refusal

H, KV, D, N = 4, 2, 8, 12


class Layer(nn.Module):
    """Attention with rotary positions, groups of heads, a softcap, a causal mask and sinks; `fault` breaks one."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = nn.Linear(H * D, H * D), nn.Linear(H * D, KV * D), nn.Linear(H * D, KV * D)
        self.o, self.sinks, self.fault = nn.Linear(H * D, H * D), nn.Parameter(torch.randn(H, 1, 1)), ""

    def turned(self, x: Tensor) -> Tensor:
        angles = torch.outer(torch.arange(x.shape[-2]).float(), 100 ** -(torch.arange(D // 2) * 2 / D))
        cos, sin = angles.cos(), angles.sin()
        if self.fault == "rotary":
            a, b = x[..., ::2], x[..., 1::2]
            return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)
        a, b = x.chunk(2, -1)
        return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)

    def forward(self, x: Tensor) -> Tensor:
        b, n, _ = x.shape
        seen = 1.01 * x if self.fault == "inputs" else x
        q, k, v = (of(seen).view(b, n, -1, D).transpose(1, 2) for of in (self.q, self.k, self.v))
        q, k = self.turned(q), self.turned(k)
        if self.fault == "heads":
            q, k, v = q[:, [2, 3, 0, 1]], k.flip(1), v.flip(1)
        k, v = (
            t.repeat(1, H // KV, 1, 1) if self.fault == "groups" else t.repeat_interleave(H // KV, 1) for t in (k, v)
        )
        dtype = torch.bfloat16 if self.fault == "dtype" else x.dtype
        q, k, v = q.to(dtype), k.to(dtype), v.to(dtype)
        scores = q @ k.mT * (D**-0.5 * (1.1 if self.fault == "scale" else 1.0))
        scores = scores if self.fault == "softcap" else 5 * torch.tanh(scores / 5)
        shift = -1 if self.fault == "mask" else 0
        mask = torch.ones(n, n, dtype=torch.bool).tril(shift)
        mask[0, 0] = True
        scores = scores.masked_fill(~mask, -torch.inf)
        if self.fault != "sinks":
            scores = torch.cat([scores, self.sinks.to(dtype).expand(b, -1, n, -1)], -1)
        out = scores.softmax(-1)[..., :n] @ v
        new: Tensor = x + self.o(out.to(x.dtype).transpose(1, 2).reshape(b, n, -1))
        return new


FAULTS = ("scale", "softcap", "mask", "heads", "sinks", "dtype", "rotary", "groups", "inputs")


def model_and_inputs(seed: int = 0) -> tuple[Any, Tensor]:
    torch.manual_seed(seed)
    model = nn.Sequential(OrderedDict(layers=nn.Sequential(*(Layer() for _ in range(6))))).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.3)
    return model, torch.randn(2, N, H * D)


def broken(model: Any, layer: int, fault: str) -> Any:
    model = copy.deepcopy(model)
    model.layers[layer].fault = fault
    return model


@pytest.mark.parametrize("seed", range(20))
def test_a_fault_in_a_random_layer_is_named_with_its_kind(seed: int) -> None:
    draw = random.Random(seed)
    layer, fault = draw.randrange(6), FAULTS[seed % len(FAULTS)]
    model, x = model_and_inputs(seed)
    found = attncli.compare(attncli.capture(model, x), attncli.capture(broken(model, layer, fault), x))
    assert found.first == {"layer": f"layers.{layer}", "kind": fault}
    assert found.verdict == "different"
    assert f"Layer {layer} (layers.{layer}) is the first" in repr(found)
    before, row, after = found.records[:layer], found.records[layer], found.records[layer + 1 :]
    assert not any(each["differs"] for each in before)
    assert max((max(each["inherited"], each["added"]) for each in before), default=0.0) < 1e-6
    assert row["right"] == "both"
    assert "output" in row["differs"], "of two dtypes the finer one's limit counts"
    limit = LIMITS[torch.bfloat16] if fault == "dtype" else LIMITS[torch.float32]
    assert (row["inherited"] <= limit) == (fault not in ("heads", "rotary", "groups", "inputs"))
    assert all(each["inherited"] > 1e-4 and each["kind"] is None for each in after)
    assert max((each["added"] for each in after), default=0.0) < 1e-4


@torch.no_grad()
def test_inherited_and_added_by_hand() -> None:
    model, x = model_and_inputs()
    other = broken(broken(model, 1, "scale"), 3, "sinks")
    a, b = attncli.capture(model, x), attncli.capture(other, x)
    row = attncli.compare(a, b).records[3]
    one, two = (seen.records[3] for seen in (a, b))
    out = torch.zeros_like(one.output, dtype=torch.float64)
    for text in range(2):
        for head in range(H):
            q, k, v = (
                t[text, h].double() for t, h in ((two.queries, head), (two.keys, head // 2), (two.values, head // 2))
            )
            for i in range(N):
                scores = 5 * torch.tanh(q[i] @ k[: i + 1].mT * D**-0.5 / 5)
                total = scores.exp().sum() + model.layers[3].sinks[head].double().exp().sum()
                out[text, head, i] = (scores.exp() / total) @ v[: i + 1]
    size = one.output.double().norm()
    assert row["inherited"] == pytest.approx(float((out - one.output).norm() / size), rel=1e-5)
    assert row["added"] == pytest.approx(float((two.output - out).norm() / size), rel=1e-5)
    assert row["kind"] == "sinks"


def test_the_side_that_is_right(here: Path) -> None:
    model, x = model_and_inputs()
    a, b = attncli.capture(model, x), attncli.capture(model, x)
    b.records[2] = replace(b.records[2], output=1.01 * b.records[2].output, problem="re-scored, its output differs")
    found = attncli.compare(a, b)
    assert found.first == {"layer": "layers.2", "kind": "output"}
    assert found.records[2]["right"] == "a"
    assert "Layer 2 (layers.2) is the first" in found._repr_mimebundle_()["text/plain"]
    assert attncli.compare(b, a).records[2]["right"] == "b"
    assert (attncli.compare(a, a).verdict, attncli.compare(a, a).first) == ("identical", None)
    attncli.save(b, here / "wrong.safetensors")
    assert attncli.compare(a, here / "wrong.safetensors").records[2]["right"] == "a"


def test_padding_and_rounding_differ_nowhere(here: Path) -> None:
    """Kernels treat queries at padding each in its way, and a model in two dtypes differs in dtype alone."""
    from tests.models.families import of_transformers

    (eager, inputs), (fused, _) = (of_transformers("gqa", how) for how in ("eager", "sdpa"))
    a, b = attncli.capture(eager, **inputs), attncli.capture(fused, **inputs)
    assert not torch.equal(a.records[1].output, b.records[1].output)
    for name, seen in {"a.safetensors": a, "b.safetensors": b}.items():
        attncli.save(seen, name)
    found = json.loads(good("compare", "a.safetensors", "b.safetensors", "--fail", "--json"))
    assert (found["verdict"], found["first"]) == ("rounding", None)
    half = attncli.capture(fused.to(torch.bfloat16), **inputs)
    assert attncli.compare(a, half).first == {"layer": a.records[0].name, "kind": "dtype"}


KEEP = torch.arange(N) < torch.tensor([[N], [N - 3]])  # b m, False at padding


@pytest.mark.parametrize("layer", [0, 3, 5])
@pytest.mark.parametrize("recorded", ["ab", "a", ""])
@pytest.mark.parametrize("keys", [~KEEP, KEEP & False, KEEP | True], ids=["inverted", "none", "all"])
def test_padding_is_what_is_recorded_or_what_both_masks_hide(
    here: Path, keys: Tensor, recorded: str, layer: int
) -> None:
    """In one layer, B's mask has other keys. A causal mask hides the padding at the end of a text by itself."""
    for name in "ab":
        seen = attncli.capture(*model_and_inputs())
        for number, call in enumerate(seen.records):
            mask = (keys if (name, number) == ("b", layer) else KEEP)[:, None, None].expand(-1, 1, N, N).tril()
            changed = replace(call, valid=mask, is_causal=False)
            seen.records[number] = replace(changed, output=changed.rescored())
        attncli.save(seen, f"{name}.safetensors", tokens={"attention_mask": KEEP} if name in recorded else None)
    is_right = recorded and bool(keys.all())
    found = attncli.compare("a.safetensors", "b.safetensors")
    assert found.first == (None if is_right else {"layer": f"layers.{layer}", "kind": "mask"})


@pytest.fixture
def files(here: Path) -> tuple[str, str]:
    model, x = model_and_inputs()
    attncli.save(attncli.capture(model, x), "a.safetensors")
    attncli.save(attncli.capture(broken(model, 4, "mask"), x), "b.safetensors")
    return "a.safetensors", "b.safetensors"


def test_the_command(files: tuple[str, str]) -> None:
    text = " ".join(good("compare", *files).split())
    assert "- Layer 4 (layers.4) is the first that differs, and adds 0." in text
    assert text.endswith("the cause is its mask; both sides agree with their own re-scoring in float64.")
    printed = json.loads(good("compare", *files, "--json"))
    assert (printed["verdict"], printed["first"]) == ("different", {"layer": "layers.4", "kind": "mask"})
    assert printed["records"][4]["differs"] == ["output", "mask"]
    assert command("compare", *files, "--fail").exit_code == 1
    assert command("compare", files[0], files[0], "--fail").exit_code == 0
    assert refusal("compare", *files, "--tolerance", "0.1", "--fail").startswith("--tolerance: two captures have")
    assert "expected two captured files, or runs alone" in refusal("compare", *files, files[0])
    assert refusal("compare", files[0], "c.safetensors") == 'got "c.safetensors"; no such file'
    with pytest.raises(InputError, match="got a capture and a run"):
        attncli.compare(files[0], attncli.run("d2l"))


def test_the_picture(files: tuple[str, str]) -> None:
    """It has the numbers of the records, and a line at the first layer that differs."""
    found = attncli.compare(*files)
    lines = {str(line.get_label()): line for line in found.figure(theme="dark").axes[0].lines}
    for curve in ("inherited", "added"):
        assert lines[curve].get_ydata().tolist() == [max(row[curve], 1e-9) for row in found.records]
    assert [*lines["first to differ: layer 4, mask"].get_xdata()] == [4, 4]
    good("compare", *files, "--out", "parts.png", "--size", "3.3x2.5")
    assert Path("parts.png").read_bytes()[:4] == b"\x89PNG"
    for options, message in (
        (["parts.png"], "which exists; expected a new file"),
        (["new.png", "--panel", "2"], "--panel: got 2; expected 1, the only panel of captures"),
        (["new.png", "--cmap", "Reds"], "--cmap Reds: the picture of two captures has curves; leave it out"),
    ):
        assert message in refusal("compare", *files, "--out", *options)
    nan = attncli.capture(*model_and_inputs())
    nan.records[2] = replace(nan.records[2], output=nan.records[2].output * torch.nan)
    assert attncli.compare(files[0], nan).figure().axes


@pytest.mark.parametrize("scale", [0.5, None])
def test_other_numbers_of_layers_have_facts_alone(files: tuple[str, str], scale: float | None) -> None:
    """The second file lacks the last layer, and may have another scale in layer 3."""
    with safe_open(files[0], framework="pt") as file:
        content = json.loads(file.metadata()["attncli"])
    del content["layers"]["layers.5"]
    content["layers"]["layers.3"]["scale"] = scale or content["layers"]["layers.3"]["scale"]
    save_file(load_file(files[0]), "changed.safetensors", {"attncli": json.dumps(content)})
    found = attncli.compare(files[0], "changed.safetensors")
    assert (found.verdict, found.first) == ("different", {"layer": "layers.3", "kind": "scale"} if scale else None)
    assert {(row["inherited"], row["added"]) for row in found.records} == {(None, None)}
    assert found.notes == ["1 call of a.safetensors without a partner", "facts alone are compared"]
    alike = "No fact of the common calls differs; their numbers were not compared."
    assert (found.findings[0].text == alike) == (scale is None)


def test_other_numbers_of_tokens_have_facts_alone() -> None:
    model, x = model_and_inputs()
    found = attncli.compare(attncli.capture(model, x), attncli.capture(broken(model, 2, "mask"), x[:, :9]))
    assert found.first == {"layer": "layers.2", "kind": "mask"}
    assert found.notes[0] == "other sizes, first in layers.0: 2x4x12x8x12x8 and 2x4x9x8x9x8"
    with pytest.raises(InputError, match="got captures of other sizes, whose numbers are not compared"):
        found.figure()


def test_a_scale_before_the_call_and_a_window_beyond_the_text_are_no_difference() -> None:
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 2, N, 8) for _ in range(3))
    mask = torch.ones(N, N, dtype=torch.bool).tril().triu(-3)

    def seen(n: int, before: float) -> attncli.Capture:
        inputs = q[..., :n, :], k[..., :n, :], v[..., :n, :]
        return attncli.capture(lambda: sdpa(inputs[0] * before, *inputs[1:], mask[:n, :n], scale=0.5 / before))

    assert attncli.compare(seen(N, 1.0), seen(N, 0.25)).first is None
    assert attncli.compare(seen(N, 1.0), seen(3, 1.0)).first is None


def test_other_names_are_matched_in_their_order(files: tuple[str, str]) -> None:
    model, x = model_and_inputs()
    renamed = nn.Sequential(*broken(model, 4, "scale").layers)
    found = attncli.compare(files[0], attncli.capture(renamed, x))
    assert found.first == {"layer": "layers.4", "kind": "scale"}
    assert [row["layer_b"] for row in found.records] == [str(i) for i in range(6)]
