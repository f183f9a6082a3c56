"""The figures of heads by slow loops, from the saved parameters, the weights of the model, and the texts."""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean, median
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors import safe_open
from torch import Tensor, nn

import attncli
from attncli.catalogue.building import build_scorer
from attncli.catalogue.scorer_entries import ScorerEntry
from attncli.core.numbers import number
from attncli.core.seeding import generator
from attncli.models.swap import swap_entry
from attncli.scorers import SCORERS
from tests.reference import ORACLES, normed, rotated, weighted_sum, weights_of

HEADS, SIZE, WIDTH, MOST = 2, 4, 8, 7
STEPS = 15
LENGTHS = ([5, 3, 1, 4], [7, 2], [6, 4, 5, 6])  # of the texts in each batch; with a single key nothing can differ
ENTRIES: dict[str, dict[str, Any]] = {
    "scaled_dot": {"scorer": "scaled_dot"},
    "cosine": {"scorer": "cosine"},
    "gaussian": {"scorer": "gaussian"},
    "general": {"scorer": "general"},
    "additive": {"scorer": "additive", "num_hiddens": 5, "bias": True},
    "t2r": {"scorer": "kernel", "phi": "t2r", "normalizer": "sum"},
    "hedgehog": {"scorer": "kernel", "phi": "hedgehog", "normalizer": "sum"},
    "sigmoid": {"scorer": "scaled_dot", "normalizer": "sigmoid"},
    "entmax": {"scorer": "scaled_dot", "normalizer": "entmax"},
    "ssmax": {"scorer": "cosine", "normalizer": "ssmax"},
    "sparsemax": {"scorer": "scaled_dot", "normalizer": "sparsemax"},
    "softpick": {"scorer": "scaled_dot", "normalizer": "softpick"},
    "stick_breaking": {"scorer": "scaled_dot", "normalizer": "stick_breaking"},
    "projected": {"scorer": "cosine", "project": True},
    "normed": {"scorer": "scaled_dot", "qk_norm": "rms"},
    "rope": {"scorer": "scaled_dot", "rope": {"theta": 100.0, "pairs": "interleaved"}},
    "window": {"scorer": "cosine", "window": 3, "first_keys": 1},
}
SHARED = [ENTRIES["cosine"], ENTRIES["sigmoid"], {**ENTRIES["general"], "project": True}]
pytestmark = [pytest.mark.usefixtures("sketches"), pytest.mark.filterwarnings("ignore")]
SPARSE = ("entmax", "sparsemax", "softpick")  # their weights can be 0, and the divergence infinite


class Layer(nn.Module):
    """Attention over the positions of a text that are not padding, with a bias of positions or without."""

    def __init__(self, has_bias: bool) -> None:
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.bias = nn.Parameter(torch.zeros(HEADS, MOST, MOST)) if has_bias else None

    def heads(self, x: Tensor) -> Tensor:
        """Return queries, keys and values (3, b, heads, n, size)."""
        result: Tensor = self.qkv(x).unflatten(-1, (3, HEADS, SIZE)).permute(2, 0, 3, 1, 4)
        return result

    def forward(self, x: Tensor, real: Tensor) -> Tensor:
        mask = real[:, None, None]
        if self.bias is not None:
            mask = self.bias[:, : x.shape[1], : x.shape[1]].masked_fill(~mask, -math.inf)
        queries, keys, values = self.heads(x)
        output = nn.functional.scaled_dot_product_attention(queries, keys, values, mask)
        result: Tensor = x + output.transpose(1, 2).flatten(2)
        return result


class Padded(nn.Module):
    """Two such layers. Texts (b, windows, n, width) attend inside of their windows only."""

    def __init__(self, has_bias: bool) -> None:
        super().__init__()
        self.first, self.second = Layer(has_bias), Layer(has_bias)

    def forward(self, x: Tensor, real: Tensor) -> Tensor:
        if x.ndim == 4:
            outputs = self(x.flatten(0, 1), real.flatten(0, 1)).unflatten(0, x.shape[:2])
            return outputs.flatten(1, 2)  # type: ignore[no-any-return]
        result: Tensor = self.second(self.first(x, real), real)
        return result


def model_and_texts(has_bias: bool) -> tuple[Padded, list[dict[str, Tensor]], list[Tensor]]:
    """Return a model, batches of padded texts, and the texts without padding."""
    seed, model = torch.Generator().manual_seed(3), Padded(has_bias)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=seed) * 0.45)
    batches, texts = [], []
    for lengths in LENGTHS:
        x = torch.randn(len(lengths), max(lengths), WIDTH, generator=seed)
        real = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
        batches.append({"x": x.where(real[..., None], 50.0), "real": real})
        texts += [each[:length] for each, length in zip(x, lengths, strict=True)]
    return model, batches, texts


def calls(model: Padded, texts: Sequence[Tensor]) -> Iterator[tuple[str, Tensor, list[Tensor]]]:
    """Yield each layer's name and biases, with queries, keys and values (3, heads, n, size) of each text in float64."""
    exact, seen = model.double(), [text.double() for text in texts]
    with torch.no_grad():
        for name in ("first", "second"):
            layer = getattr(exact, name)
            assert isinstance(layer, Layer)
            bias = torch.zeros(HEADS, MOST, MOST) if layer.bias is None else layer.bias
            yield name, bias, [layer.heads(x[None])[:, 0] for x in seen]
            seen = [layer(x[None], torch.ones(1, len(x), dtype=torch.bool))[0] for x in seen]


def scores_of(entry: ScorerEntry, state: Mapping[str, Tensor], queries: Tensor, keys: Tensor) -> Tensor:
    """Return the scores (n, m) of one head with these parameters and options."""
    if entry.qk_norm is not None:
        queries, keys = normed(entry.qk_norm, queries), normed(entry.qk_norm, keys)
    if entry.rope is not None:
        queries, keys = (rotated(each, 0, entry.rope.theta, entry.rope.pairs) for each in (queries, keys))
    if "P_q" in state:
        queries, keys = queries @ state["P_q"].double().mT, keys @ state["P_k"].double().mT
    options = entry.options | {name: float(state[name]) for name in entry.options if name in state}
    return ORACLES[entry.scorer](SimpleNamespace(state_dict=lambda: state), queries, keys, **options)


def figures(
    entry: ScorerEntry, bias: Tensor, states: Sequence[Mapping[str, Tensor]], texts: Sequence[Tensor]
) -> list[list[float | None]]:
    """Return the divergence, change of the output, agreement and weight outside of each head for these texts."""
    columns = []
    for head, state in enumerate(states):
        kls, agree, changes, sizes, outside = (list[float]() for _ in range(5))
        options = entry.normalizer.options
        options |= {name: float(state[name]) for name in options if name in state}
        for queries, keys, values in (text[:, head] for text in texts if text.shape[2] > 1):
            far = (torch.arange(len(queries))[:, None] - torch.arange(len(keys))).abs()
            valid = far < (entry.window or len(keys))
            valid |= torch.arange(len(keys)) < (entry.first_keys or 0)
            added = bias[head, : len(queries), : len(keys)]
            scores = scores_of(entry, state, queries, keys) + added
            new = weights_of(entry.normalizer.normalizer, scores, valid, **options)
            own = weights_of("softmax", ORACLES["scaled_dot"](nn.Identity(), queries, keys) + added)
            for p, w, sees in zip(own.tolist(), new.tolist(), valid.tolist(), strict=True):
                total = math.fsum(a for a, is_seen in zip(p, sees, strict=True) if is_seen)
                pairs = [(a / total, b) for a, b, is_seen in zip(p, w, sees, strict=True) if is_seen]
                kls.append(math.fsum(a * math.log(a / max(b, 1e-20)) - a + b for a, b in pairs))
                outside.append(1 - total)
                first = {j for j, x in enumerate(w) if sees[j] and math.isclose(x, max(w), rel_tol=1e-5)}
                if len(first) < 2 or 2 * len(first) <= sum(sees):
                    agree.append(p.index(max(p)) in first)
            old_output, new_output = weighted_sum(own, values), weighted_sum(new, values)
            changes.append(float((new_output - old_output).square().sum()))
            sizes.append(float(old_output.square().sum()))
        error = math.sqrt(math.fsum(changes) / math.fsum(sizes))
        columns.append([fmean(kls), error, fmean(agree) if agree else None, fmean(outside)])
    return columns


def judged(
    folder: Path, entries: Sequence[Mapping[str, Any]], has_bias: bool = False, windows: int = 1, **keys: Any
) -> dict[str, Tensor]:
    """Fit the entries, compare all figures of heads with those of this file, and return the saved parameters."""
    model, batches, texts = model_and_texts(has_bias)
    if windows > 1:
        batches = [{name: each.view(-1, windows, *each.shape[1:]) for name, each in batch.items()} for batch in batches]
    result = attncli.fit(model, batches, scorers=entries, held_out=0.3, seed=2, steps=STEPS, out=folder, **keys)
    with safe_open(folder / "fitted.safetensors", framework="pt") as file:
        saved = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    rows = {(row["label"], row["layer"], row["head"]): row for row in result.records if row["by"] == "head"}
    count = len(texts) // windows
    order = torch.randperm(count, generator=generator(2, "fit.held_out"))
    of_texts = (windows * order[:, None] + torch.arange(windows)).tolist()
    held_out, training = (
        [index for indices in some for index in indices]
        for some in (of_texts[: round(0.3 * count)], of_texts[round(0.3 * count) :])
    )
    for layer, bias, tensors in calls(model, texts):
        for written in entries:
            entry = swap_entry(written)
            names = [name for name in saved if name.startswith(f"{entry.label}/{layer}/")]
            fitted = [{name.split("/")[2]: saved[name][head] for name in names} for head in range(HEADS)]
            start = [build_scorer(entry, SIZE, SIZE, 2, torch.float32).state_dict()] * HEADS
            seen, learnt_from = ([tensors[index] for index in some] for some in (held_out, training))
            after, before, trained = (
                figures(entry, bias, *each) for each in ((fitted, seen), (start, seen), (fitted, learnt_from))
            )
            for head in range(HEADS):
                row, new, old = rows[entry.label, layer, head], after[head], before[head]
                wanted = {"output_l2": new[1], "output_l2_before": old[1], "top1_agreement": new[2], "outside": new[3]}
                if entry.label not in SPARSE:
                    wanted |= {"kl": new[0], "kl_before": old[0], "kl_train": trained[head][0]}
                assert {name: row[name] for name in wanted} == pytest.approx(wanted, rel=1e-3, abs=1e-6)
                assert names
                assert row["parameters"] == sum(saved[name][head].numel() for name in names)
    return saved


def test_every_head(tmp_path: Path) -> None:
    judged(tmp_path / "run", [{**entry, "label": label} for label, entry in ENTRIES.items()])


@pytest.mark.parametrize("per", ["layer", "all"])
def test_shared_parameters(per: str, tmp_path: Path) -> None:
    saved = judged(tmp_path / "run", SHARED, per=per)
    for name, tensor in saved.items():
        assert torch.equal(tensor[0], tensor[1]), name
        assert torch.equal(tensor, saved[name.replace("/first/", "/second/")]) is (per == "all" or "/second/" in name)


def test_biases_of_the_model_and_windows_of_a_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows are held out together. Scorers may compute one head at a time."""
    for name in ("cosine", "general"):
        monkeypatch.setattr(SCORERS[name], "stacks_over_heads", False)
    judged(tmp_path / "run", SHARED, has_bias=True, windows=2)


def test_a_window_of_the_models_own_scorer_is_learnt_exactly(tmp_path: Path) -> None:
    """The model's weights inside of a window, divided by their sum, are those of its own scale in the window."""
    model, batches, _ = model_and_texts(False)
    result = attncli.fit(model, batches, scorers=["scaled_dot:window=2", "cosine"], held_out=0.3, seed=2, steps=1)
    windowed, whole, *_ = result.findings
    scales = [tensor for name, tensor in result.parameters.items() if name.startswith(f"{windowed.label}/")]
    assert torch.cat(scales).tolist() == pytest.approx([SIZE**-0.5] * 2 * HEADS, rel=1e-4)
    rows = [row for row in result.records if row["label"] == windowed.label and row["by"] == "head"]
    assert max(row["kl"] for row in rows) < 1e-6
    outside = number(100 * median(row["outside"] for row in rows), 2)
    assert f"of the model's weight, {outside} % is on keys that it cannot see (median)" in windowed.text
    assert "cannot see" not in whole.text


def test_nothing_is_learnt_from_texts_that_are_held_out() -> None:
    model, batches, texts = model_and_texts(has_bias=False)
    held_out = torch.randperm(len(texts), generator=generator(2, "fit.held_out"))[:3]
    are_held_out = torch.split(torch.isin(torch.arange(len(texts)), held_out), [len(batch["x"]) for batch in batches])
    others = [
        {**batch, "x": batch["x"].where(~some[:, None, None], -batch["x"])}
        for batch, some in zip(batches, are_held_out, strict=True)
    ]
    first, second = (
        attncli.fit(model, each, scorers=SHARED, held_out=0.3, seed=2, steps=5) for each in (batches, others)
    )
    assert {*first.parameters} == {*second.parameters}
    for name, parameter in first.parameters.items():
        torch.testing.assert_close(parameter, second.parameters[name], rtol=1e-6, atol=1e-7)
    assert first.records != second.records


@pytest.mark.parametrize("per", ["head", "layer", "all"])
def test_no_head_ends_worse_in_training_than_it_began(per: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The projections are right at the start, and steps that are far too large lead away from it."""
    monkeypatch.setattr("attncli.studies.fit.fitting.PROJECTION_RATE", 5.0)
    model, batches, _ = model_and_texts(False)
    entry = {"scorer": "scaled_dot", "project": True, "label": "own"}
    result = attncli.fit(model, batches, scorers=[entry], held_out=0.3, seed=2, steps=4, per=per)
    rows = [row for row in result.records if row["by"] == "head" and row["label"] == "own"]
    assert max(max(row["kl_train"], row["kl"]) for row in rows) < 1e-6
