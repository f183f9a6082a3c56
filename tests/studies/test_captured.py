"""Captured attention, re-scored: the model's own output is reproduced, and other scorers agree with slow oracles."""

import math
import warnings
from collections import OrderedDict
from dataclasses import replace
from itertools import chain, product
from pathlib import Path
from statistics import fmean, pvariance
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional as F
from torch.testing import assert_close

import attncli
from attncli.results import CaptureFacts, Result
from attncli.studies.attention.layers import most_changed
from tests import reference
from tests.cli import good, kept, names_in, refusal
from tests.models.families import BOTH, EAGER_ONLY, of_transformers
from tests.models.rounding import output_rounding
from tests.models.written import BIAS, CASES, KEYS, MASK, QUERIES, SCALE, VALUES, Computed, D, N, Written, normal, slow
from tests.show.page.reading import Read

pytestmark = pytest.mark.usefixtures("sketches")

GROUPS, CAP = 2, 1.5
SINKS = normal(4)


def capped(queries: Tensor, keys: Tensor, values: Tensor, cap: float | None = CAP) -> Tensor:
    """Compute attention with softcap, grouped heads, sinks, a mask and a bias, as models write it."""
    keys, values = (each[:, ::GROUPS].repeat_interleave(GROUPS, 1) for each in (keys, values))
    scores = queries @ keys.mT * SCALE
    scores = (scores if cap is None else cap * torch.tanh(scores / cap)) + BIAS
    scores = scores.masked_fill(~MASK, -torch.inf)
    sinks = SINKS.reshape(1, -1, 1, 1).expand(*scores.shape[:-1], 1)
    weights: Tensor = torch.cat([scores, sinks], -1).softmax(-1)
    return weights[..., :-1] @ values


def short(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Compute cross-attention with fewer keys and another number of heads."""
    return F.scaled_dot_product_attention(queries[:, :2], keys[:, :2, :3], values[:, :2, :3], scale=0.5)


def relu(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Compute attention that cannot be followed."""
    return torch.relu(queries @ keys.mT) @ values


def saved(path: Path, *attentions: Written, **about: Any) -> str:
    """Capture layers with these attentions, each of which gets the same queries, and return the file."""

    def forward(module: Any, queries: Tensor) -> Tensor:
        module.attention(queries, KEYS, VALUES)
        return queries

    layers = (nn.Sequential(OrderedDict(layer=Computed(forward, attention=each))) for each in attentions)
    file = path / "seen.safetensors"
    attncli.save(attncli.capture(nn.Sequential(*layers), QUERIES), file, **about)
    return str(file)


def run(file: str, *, scorers: object = None, **keys: Any) -> attncli.Result:
    data = {"capture": file} | {key: keys.pop(key) for key in ("layer", "layers", "heads") if key in keys}
    return attncli.run({"data": data, **({} if scorers is None else {"scorers": scorers})}, **keys)


@pytest.mark.parametrize("name", CASES)
def test_the_models_own_output_and_what_if(name: str, tmp_path: Path) -> None:
    written, valid, bias = CASES[name]
    file = saved(tmp_path, written)
    result = run(file, layer=0)
    assert result.labels == ["model", "one_over_d", "cosine", "dot"]
    units = (each / each.norm(dim=-1, keepdim=True) for each in (QUERIES, KEYS))
    sides = {"model": (QUERIES, KEYS, SCALE), "one_over_d": (QUERIES, KEYS, 1 / D), "cosine": (*units, 1.0)}
    for label, (queries, keys, scale) in sides.items():
        wanted = slow(queries, keys, VALUES, scale, valid, bias)
        assert_close(result.tensors[f"{label}/output"].double(), wanted, rtol=0, atol=1e-5)
    (call,) = capture_of(result).calls.values()
    assert call.rescored is not None
    assert call.rescored < 1e-5
    exact = run(file, layer=0, dtype="float64")
    assert {tensor.dtype for tensor in exact.tensors.values()} == {torch.float64}


def capture_of(result: Result) -> CaptureFacts:
    """Return the facts about the captured model of a run."""
    assert result.capture is not None
    return result.capture


@pytest.mark.parametrize("family", [*BOTH, *EAGER_ONLY])
def test_weights_of_all_layers_are_those_that_models_report(family: str, tmp_path: Path) -> None:
    """Masks, biases, softcap, sinks and scale of real architectures; the weights that they report are the oracle."""
    model, inputs = of_transformers(family, "eager")
    seen = attncli.capture(model, **inputs)
    attncli.save(seen, tmp_path / "seen.safetensors")
    result = run(str(tmp_path / "seen.safetensors"))
    with torch.no_grad():
        output = model(**inputs, output_attentions=True)
    if "attentions" in output:
        reported = output["attentions"]
    else:  # self- and cross-attention alternate
        pairs = zip(output["decoder_attentions"], output["cross_attentions"], strict=True)
        reported = [*output["encoder_attentions"], *chain(*pairs)]
    for layer, weights in zip(result.layers, reported, strict=True):
        assert_close(result.tensors[f"{layer}/model/weights"], weights, rtol=0, atol=1e-5)
    calls = capture_of(result).calls.values()
    for call, record in zip(calls, seen.records, strict=True):
        assert max(call.data["rescored"], call.data["error"]) <= output_rounding(record)
    assert seen.missed == []


@pytest.mark.parametrize("weights", [True, False])
@pytest.mark.parametrize("cap", [None, 30.0])
def test_another_softcap_than_the_models_and_none(cap: float | None, weights: bool, tmp_path: Path) -> None:
    """`softcap: null` turns the softcap off; without the key the model's own is used. The run folder keeps this."""
    own: dict[str, Any] = {"scorer": "scaled_dot", "scale": SCALE}
    file, scorers = saved(tmp_path, capped), [own | {"label": "own"}, own | {"label": "other", "softcap": cap}]
    data = {"capture": file, "layer": 0}
    result = kept({"data": data, "scorers": scorers, "weights": weights}, tmp_path / "run")
    for label, bound in (("own", CAP), ("other", cap)):
        assert_close(result.tensors[f"{label}/output"], capped(QUERIES, KEYS, VALUES, bound), rtol=0, atol=1e-5)
    assert ("other/capped" in result.tensors) == (weights and cap is not None)
    again = attncli.run(tmp_path / "run" / "config.yaml")
    assert_close(again.tensors, dict(result.tensors), rtol=0, atol=0)


@pytest.mark.parametrize("study", ["variance", "saturation"])
def test_studies_of_scores_have_the_scale_and_softcap_of_each_layer(study: str, tmp_path: Path) -> None:
    """The model's softcap applies unless an entry has another or null; the oracle scales and caps scores by hand."""

    def scaled(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(queries, keys, values, scale=0.5)

    file = saved(tmp_path, capped, scaled)
    layers = {"0.layer": (SCALE, CAP, GROUPS, MASK[:, 0]), "1.layer": (0.5, None, 1, torch.ones_like(MASK[:, 0]))}
    entries = ["scaled_dot:scale=model", "dot", "dot:softcap=null", "dot:softcap=30"]
    rows = attncli.run({"study": study, "from": file, "scorers": entries}).records
    assert len(rows) == 4 * (4 + 4)
    for row in rows:
        scale, cap, groups, valid = layers[row["layer"]]
        cap = {"dot_null": None, "dot_30": 30.0}.get(row["label"], cap)
        scores = QUERIES[:, row["head"]].double() @ KEYS[:, row["head"] // groups * groups].double().mT
        scores = scores * scale if row["label"] == "model" else scores
        scores = scores if cap is None else cap * torch.tanh(scores / cap)
        if study == "variance":
            assert row["scale"] == (pytest.approx(scale) if row["label"] == "model" else 1.0)
            assert row["variance"] == pytest.approx(float(scores[valid].var(correction=0)), rel=1e-5)
        else:
            weights = scores.masked_fill(~valid, -torch.inf).softmax(-1)[valid.sum(-1) > 1]  # other rows are skipped
            assert row["max_weight"] == pytest.approx(float(weights.amax(-1).mean()), rel=1e-5)


MODELS_OWN = [  # entries, their labels, and whether they repeat the model's computation
    ({"scorer": "scaled_dot", "scale": "model"}, "model", True),
    ("scaled_dot:scale=model,label=mine", "mine", True),
    ({"scorer": "scaled_dot", "scale": "model", "softcap": CAP, "label": "one_over_d"}, "one_over_d", True),
    ("scaled_dot:scale=model,softcap=null", "model_null", False),
    ("scaled_dot:scale=model,normalizer=sparsemax", "model_sparsemax", False),
    ({"scorer": "scaled_dot", "scale": "model", "qk_norm": "rms"}, "model", False),
    ({"scorer": "scaled_dot", "label": "model", "scale": 0.4}, "model", False),
]


@pytest.mark.parametrize(("entry", "label", "is_own"), MODELS_OWN, ids=str)
def test_the_models_scale_is_asked_for_and_no_label_means_it(
    entry: Any, label: str, is_own: bool, tmp_path: Path
) -> None:
    def scaled(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        return capped(queries * 0.7, keys, values)  # before the product; the whole scale is then 0.7 / sqrt(d)

    result = run(saved(tmp_path, scaled), layer=0, scorers=["dot", entry])
    assert (result.labels, result.scales["dot"]) == (["dot", label], 1.0)
    assert_close(result.inputs["queries"], QUERIES)
    assert_close(result.tensors["dot/output"], capped(QUERIES / SCALE, KEYS, VALUES), rtol=0, atol=1e-5)
    (call,) = capture_of(result).calls.values()
    assert (call.rescored is not None) == is_own
    outputs = result.tensors[f"{label}/output"], scaled(QUERIES, KEYS, VALUES)
    assert torch.allclose(*outputs, rtol=0, atol=1e-5) == is_own


def test_empty_rows_are_the_models(tmp_path: Path) -> None:
    mask = MASK.clone()
    mask[0, 0, 0] = False

    def uniform(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        weights: Tensor = (queries @ keys.mT * SCALE).masked_fill(~mask, -1e9).softmax(-1)
        return weights @ values

    result = run(saved(tmp_path, uniform), layer=0)
    assert_close(result.tensors["cosine/output"][0, :, 0], VALUES[0].mean(-2))
    assert_close(result.tensors["model/output"], uniform(QUERIES, KEYS, VALUES), rtol=0, atol=1e-5)


def test_figures_of_heads_against_loops(tmp_path: Path) -> None:
    result = run(saved(tmp_path, CASES["added bias and mask"][0]), layer=0, scorers=["scaled_dot:scale=model"])
    weights = result.tensors["model/weights"].double()
    for row in result.heads:
        batch, head = row["batch"], row["head"]
        seen = [[key for key in range(7) if bool(MASK[batch, 0, query, key])] for query in range(N)]
        pairs = [(query, key) for query in range(N) for key in seen[query]]
        variance = pvariance(float(QUERIES[batch, head, i].double() @ KEYS[batch, head, j].double()) for i, j in pairs)
        entropy = map(reference.entropy, weights[batch, head].tolist())
        assert row["variance_over_d"] == pytest.approx(variance / D, rel=1e-6)
        assert row["unit_scale"] == pytest.approx(variance**-0.5, rel=1e-6)
        assert row["first_key"] == pytest.approx(float(weights[batch, head, :, 0].mean()), rel=1e-6)
        share = math.fsum(entropy) / math.fsum(math.log(len(keys)) for keys in seen)
        assert row["entropy_share"] == pytest.approx(share, rel=1e-6)


def test_layers_of_different_shapes(tmp_path: Path) -> None:
    file = saved(tmp_path, capped, short, relu, model="mine")
    result, names = run(file), ["0.layer", "1.layer"]
    assert list(result.layers) == names
    rescored = {name: call.data["rescored"] for name, call in capture_of(result).calls.items()}
    assert rescored == pytest.approx(dict.fromkeys(names, 0.0), abs=1e-5)
    assert list(capture_of(result).left_out) == ["2.layer"]
    labels = ["model", "one_over_d", "cosine", "dot"]
    assert [(row["layer"], row["label"]) for row in result.records] == [*product(names, labels)]
    assert [result.scales[f"{name}/model"] for name in names] == [pytest.approx(SCALE), 0.5]
    assert len(result.heads) == 4 * 2 * (4 + 2)
    assert len(result.head_comparisons) == 6 * 2 * (4 + 2)
    assert list(result.records[0])[:4] == ["scorer", "label", "normalizer", "layer"]
    for name in names:  # as each layer alone
        alone = run(file, layer=name)
        for key, tensor in alone.tensors.items():
            assert torch.equal(result.tensors[f"{name}/{key}"], tensor)
        for rows in ("records", "comparisons", "heads", "head_comparisons"):
            own = [row for row in getattr(result, rows) if row["layer"] == name]
            assert own == [row | {"layer": name} for row in getattr(alone, rows)]


@pytest.mark.filterwarnings("ignore:.*NaN")
def test_a_run_over_layers_names_the_first_number_that_is_not_finite(tmp_path: Path) -> None:
    file = saved(tmp_path, capped, capped, capped)
    same = run(file, scorers=["scaled_dot:scale=model", "scaled_dot:scale=model,label=mine"]).findings[-1]
    assert (same.text, same.numbers["most"]) == ("mine gives the same outputs as model, in 12 heads.", 0)
    tensors = load_file(file)
    with safe_open(file, "pt") as opened:
        metadata = opened.metadata()
    tensors["1.layer.keys"][1, 0, 3] = math.nan
    tensors["2.layer.values"][0, 1, 0] = math.inf
    save_file(tensors, file, metadata)
    texts = [finding.text for finding in run(file, scorers=["dot"]).findings]
    start = "layer 1, the first of 2 layers with such numbers: keys[1, 0, 3]: NaN, the first of 2 rows; queries whose"
    assert any(text.startswith(start) for text in texts)
    (one,) = [text for text in (each.text for each in run(file, layers=[0, 2]).findings) if "values[" in text]
    assert one.startswith("layer 2: values[0, 2, 0]: inf, the first of 2 rows; queries whose outputs")


@pytest.mark.slow
def test_a_run_over_layers_is_shown_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = saved(tmp_path, capped, short, relu, model="mine", text="a b")
    monkeypatch.chdir(tmp_path)
    printed = good("run", file, "--out", "first")
    assert printed.splitlines()[3] == 'seen.safetensors: mine, "a b"'
    assert "Not re-scored: 2.layer: relu" in " ".join(printed.split())
    printed = good("run", file, "--full", "--no-plots")
    assert "Change of the output: dot in place of model, by layer and head" in printed
    assert {"layers.png", "heatmaps.png", "capture.safetensors", "heads.csv"} <= {*names_in(Path("first"))}
    Path(file).rename("away.safetensors")
    good("run", "first/config.yaml", "--out", "second", "--no-plots")
    first, second = attncli.load("first"), attncli.load("second")
    assert first.heads == second.heads
    assert first.pictures == ["layers", "heatmaps"]
    assert "with 2 layers of a model; choose one, such as --layer 0" in refusal("heatmap", "first")
    for layer in ("1.layer", "1"):
        good("heatmap", "first", "--layer", layer, "--head", 0, "--out", f"{layer}.png")
    assert Path("1.layer.png").read_bytes() == Path("1.png").read_bytes()
    good("report", "first", "--out", "page.html")
    head, *means = Read(Path("page.html").read_text(encoding="utf-8")).tables()["Means over layers and heads"]
    assert (head[0].text, [row[0].text for row in means]) == ("label", first.labels)
    assert "Heads with the largest output difference" in first._repr_mimebundle_()["text/plain"]
    good("run", "away.safetensors", "--set", "scorers=dot", "--out", "one", "--no-plots")
    assert attncli.load("one").pictures == ["layers"], "there are no changes of outputs"


def test_heads_whose_weights_change_most_are_drawn_and_not_those_with_small_outputs() -> None:
    """A relative change is large where an output is small, also where the weights hardly differ."""
    values = [(0, 0.2, 0.1), (1, 0.001, 9.0), (2, 0.5, 0.3)]  # head, divergence, relative change of the output
    pair = {"a": "model", "b": "other", "layer": "x", "batch": 0}
    rows = [{**pair, "head": head, "js_divergence": bits, "output_difference": l2} for head, bits, l2 in values]
    records = [{"label": label, "scorer": "dot"} for label in ("model", "other")]
    result = Result("attention", "x", records, head_comparisons=rows, layers={"x": 0})
    assert [head for _, (_, head), _ in most_changed(result)] == [2, 0, 1]
    equal = [{**row, "js_divergence": None} for row in rows]
    assert [head for _, (_, head), _ in most_changed(replace(result, head_comparisons=equal))] == [1, 2, 0]


def test_panels_of_one_quantity_share_their_colours(tmp_path: Path) -> None:
    file = saved(tmp_path, capped, capped, capped)
    scorers = ["dot", "cosine", {"scorer": "scaled_dot", "scale": 1e-4, "label": "flat"}]
    result = attncli.run({"data": {"capture": file}, "scorers": [{"scorer": "scaled_dot", "scale": "model"}, *scorers]})
    with warnings.catch_warnings(action="ignore"):  # numbers have no room in the cells
        figure, heads = result.figure("layers"), result.figure("heatmaps")
    assert "heads with the largest JS divergence" in heads.get_suptitle()
    images = {axes.get_title().replace("\n", " "): axes.images[0] for axes in figure.axes if axes.images}
    changes = [image for title, image in images.items() if "mean" in title]
    assert (len(images), len(changes)) == (7, 3)
    differences: dict[Any, list[float]] = {}  # of all batch elements
    for row in (row for row in result.head_comparisons if row["a"] == "model"):
        differences.setdefault((row["b"], row["layer"], row["head"]), []).append(row["output_difference"])
    largest = max(map(fmean, differences.values()))
    (limits,) = {image.get_clim() for image in changes}
    assert limits == pytest.approx((0, min(largest, 1.0)))
    assert {image.get_clim()[0] for image in images.values()} == {0}
    (bar,) = [image.colorbar for image in changes if image.colorbar is not None]  # of all changes
    assert bar.extend == ("max" if largest > 1 else "neither")


@pytest.mark.parametrize("heads", [[2, 3], [3]])
def test_softcap_and_sinks_are_those_of_the_heads(heads: list[int], tmp_path: Path) -> None:
    for chosen, keys in ((None, {"heads": heads}), (",".join(map(str, heads)), {})):
        with attncli.Capture(heads=chosen) as seen:
            capped(QUERIES, KEYS, VALUES)
        attncli.save(seen, tmp_path / "seen.safetensors", overwrite=True)
        result = run(str(tmp_path / "seen.safetensors"), layer=0, **keys)
        assert_close(result.tensors["model/output"], capped(QUERIES, KEYS, VALUES)[:, heads], rtol=0, atol=1e-5)


def test_chosen_layers_are_in_the_order_of_the_config(tmp_path: Path) -> None:
    expected = {"where": {"layer": "1.layer", "label": "model", "batch": [0, 1]}, "metric": "first_key", "below": 1}
    result = run(saved(tmp_path, capped, short), layers=[1, "0.layer"], heads=[1], expect=[expected])
    assert [each.number for each in capture_of(result).calls.values()] == [1, 0]
    assert [row["layer"] for row in result.records] == ["1.layer"] * 4 + ["0.layer"] * 4
    assert {row["head"] for row in [*result.heads, *result.head_comparisons]} == {1}
    assert [each["holds"] for each in result.expectations] == [True, True]
