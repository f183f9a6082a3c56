"""The numbers of a model's heads are coordinates, wherever some heads are chosen: in the captured file or in `data`."""

import csv
import json
import math
import re
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from matplotlib.text import Text
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from torch.testing import assert_close

import attncli
from attncli.config.looks import HeatmapLook
from attncli.engine.interactive import InteractiveResult as Result
from attncli.errors import InputError
from attncli.results import Row
from attncli.show.page.matrices import described, views
from attncli.sources.captured import read_captured
from tests.cli import good, kept, refusal
from tests.models.written import Computed
from tests.reference import alibi, for_each_matrix, masked_softmax, rounding
from tests.show.page.reading import numbers
from tests.studies.slow import slow_comparison, slow_record

pytestmark = pytest.mark.usefixtures("sketches")

Heads = tuple[int, ...]
B, H, GROUPS, N, D = 2, 6, 3, 9, 4  # each head of keys is shared by GROUPS heads of queries
CHOSEN = (1, 3, 4)
LAYERS = {"first": 0.5, "second": 1.0}  # names, and scales
GENERATOR = torch.Generator().manual_seed(3)
QUERIES, KEYS, VALUES = (torch.randn(B, heads, N, D, generator=GENERATOR) for heads in (H, H // GROUPS, H // GROUPS))
BIAS = torch.randn(1, H, N, N, generator=GENERATOR)
VALID = (torch.rand(B, 1, N, N, generator=GENERATOR) < 0.7) | torch.eye(N, dtype=torch.bool)
VALID[..., :3] = True
SCORERS: list[Any] = [
    {"scorer": "scaled_dot", "scale": "model"},
    {"scorer": "dot"},
    {"scorer": "dot", "bias": "alibi", "label": "far"},
]


def attend(module: Any, queries: Tensor) -> None:
    mask = BIAS.masked_fill(~VALID, -torch.inf)
    scaled_dot_product_attention(queries, KEYS, VALUES, mask, scale=module.scale, enable_gqa=True)


@pytest.fixture(autouse=True)
def files(here: Path) -> None:
    """Save all heads as full.safetensors, and the heads CHOSEN as part.safetensors."""
    layers = {name: Computed(attend, scale=scale) for name, scale in LAYERS.items()}
    model = Computed(lambda module, queries: (module.first(queries), module.second(queries)), **layers)
    for name, heads in {"full": None, "part": ",".join(map(str, CHOSEN))}.items():
        with attncli.Capture(heads=heads) as seen:
            seen.take_names(model)
            model(QUERIES)
        attncli.save(seen, f"{name}.safetensors")


def data(file: str = "part", **keys: Any) -> dict[str, Any]:
    return {"capture": f"{file}.safetensors", **keys}


def run(file: str = "part", *, chosen: Sequence[int] | None = None, out: str | None = None, **keys: Any) -> Result:
    """Run the experiment on a file, with the heads `chosen` under `data`; a run folder `out` has no pictures."""
    of_data: dict[str, Any] = {key: keys.pop(key) for key in ("layer", "layers") if key in keys}
    of_data |= {} if chosen is None else {"heads": [*chosen]}
    config = {"data": data(file, **of_data), "scorers": SCORERS, "dtype": "float64", **keys}
    return attncli.run(config) if out is None else kept(config, Path(out))


def of_heads(layer: str, label: str, heads: Heads) -> tuple[Tensor, ...]:
    """Return scores before biases, weights and output (b, heads, n, .) of the model, row by row in float64."""
    found, biases = list[tuple[Tensor, ...]](), BIAS[0].double() + (alibi(H, N, N) if label == "far" else 0.0)
    for head in heads:
        keys, values = (each[:, head // GROUPS].double() for each in (KEYS, VALUES))
        raw = (LAYERS[layer] if label == "model" else 1.0) * QUERIES[:, head].double() @ keys.mT
        weights = for_each_matrix(masked_softmax, raw + biases[head], VALID[:, 0])
        found.append((raw, weights, weights @ values))
    return tuple(torch.stack(each, 1) for each in zip(*found, strict=True))


def close(found: Row, expected: Row) -> None:
    keys = expected.keys() - {"entropy_bound"}
    one, other = ({key: math.nan if row[key] is None else row[key] for key in keys} for row in (found, expected))
    assert one == pytest.approx(other, rel=1e-6, abs=1e-9, nan_ok=True)


WAYS: dict[str, tuple[str, Heads | None, Heads]] = {  # the file, the heads under `data`, and the heads of the run
    "in the file": ("part", None, CHOSEN),
    "in the config": ("full", CHOSEN, CHOSEN),
    "in both": ("part", (4, 1), (1, 4)),
    "one": ("full", (5,), (5,)),
    "nowhere": ("full", None, (0, 1, 2, 3, 4, 5)),
}


@pytest.mark.parametrize("weights", [True, False])
@pytest.mark.parametrize("way", WAYS)
def test_rows_are_about_the_chosen_heads_of_the_model(way: str, weights: bool) -> None:
    """Records and comparisons are over these heads, and rows by head have their numbers, as in slow loops."""
    file, chosen, heads = WAYS[way]
    result = run(file, weights=weights, chosen=chosen)
    rows = {(row["layer"], row["label"], row["batch"], row["head"]): row for row in result.heads}
    assert [*dict.fromkeys(row["head"] for row in result.heads)] == [*heads]
    assert len(rows) == len(result.heads) == 2 * 3 * B * len(heads)
    for record in result.records:
        layer, label = record["layer"], record["label"]
        raw, attended, output = of_heads(layer, label, heads)
        close(record, slow_record(raw, attended, VALID.expand(raw.shape)))
        assert_close(result.tensors[f"{layer}/{label}/output"], output, rtol=1e-6, atol=1e-9)
        for batch in range(B):
            for index, head in enumerate(heads):
                own = slow_record(raw[batch, index], attended[batch, index], VALID[batch, 0])
                close(rows[layer, label, batch, head], own)
    for pair in result.comparisons:
        (_, p, a), (_, q, b) = (of_heads(pair["layer"], pair[side], heads) for side in "ab")
        flat = [each.flatten(0, 2).tolist() for each in (p, q, a, b)]
        expected = slow_comparison(*flat)
        unknown = () if weights else ("js_divergence", "top1_agreement", "max_abs_difference")
        close(pair, {key: None if key in unknown else value for key, value in expected.items()})
    assert result.capture is not None
    assert max(call.rescored or 0.0 for call in result.capture.calls.values()) < rounding(64)


@pytest.mark.parametrize("heads", [None, [4], [4, 1]])
@pytest.mark.parametrize("study", ["variance", "saturation"])
def test_studies_of_scores_have_the_rows_of_the_chosen_heads(study: str, heads: list[int] | None) -> None:
    config: dict[str, Any] = {"study": study, "scorers": ["scaled_dot:scale=model", "dot"], "dtype": "float64"}
    every = attncli.run(config | {"data": data("full")}).records
    assert every == attncli.run(config | {"from": "full.safetensors"}).records
    chosen: dict[str, Any] = {} if heads is None else {"heads": heads}
    for file, keys in (("part", chosen), ("full", {"heads": heads or [*CHOSEN]})):
        found = attncli.run(config | {"data": data(file, **keys)}).records
        assert found == [row for row in every if row["head"] in (heads or CHOSEN)]
    one = attncli.run(config | {"data": data(layer="second", **chosen)}).records
    assert one == [row for row in every if row["layer"] == "second" and row["head"] in (heads or CHOSEN)]


def test_the_doctor_finds_the_chosen_heads() -> None:
    """Heads are alike, and silent, among the heads of the run."""
    config: dict[str, Any] = {"study": "doctor", "scorers": ["scaled_dot:scale=model"]}
    files = data("full"), data(), data("full", heads=[4, 3, 1])
    every, alone, chosen = (attncli.run(config | {"data": file}).heads for file in files)
    assert alone == chosen
    assert [(row["layer"], row["head"]) for row in alone] == [*product(LAYERS, CHOSEN)]
    alike = {"duplicate": None, "silent": None}
    assert [row | alike for row in alone] == [row | alike for row in every if row["head"] in CHOSEN]


def test_a_duplicate_is_named_by_the_numbers_of_the_model() -> None:
    queries = QUERIES.clone()
    queries[:, 5] = queries[:, 3]
    with attncli.Capture(heads="3-5") as seen:
        scaled_dot_product_attention(queries, KEYS, VALUES, scale=4.0, enable_gqa=True)
    attncli.save(seen, "alike.safetensors")
    found = attncli.run({"study": "doctor", "data": data("alike"), "scorers": ["scaled_dot:scale=model"]})
    about = {row["head"]: row["about"][:11] for row in found.records if row["check"] == "duplicate"}
    assert about == {3: "As head 5. ", 5: "As head 3. "}


def test_slopes_of_alibi_need_the_number_of_heads() -> None:
    """Files of version 0.3.0 with some heads do not have it."""
    with safe_open("part.safetensors", framework="pt") as file:
        content = json.loads(file.metadata()["attncli"])
    for entry in content["layers"].values():
        assert (entry["heads"], entry.pop("num_heads")) == ([*CHOSEN], H)
    save_file(load_file("part.safetensors"), "old.safetensors", {"attncli": json.dumps(content)})
    assert attncli.run({"data": data("old"), "scorers": SCORERS[:2]}).heads[0]["head"] == 1
    lines = refusal("run", "old.safetensors", "--set", "scorers=[{scorer: dot, bias: alibi}]")
    assert 'got "alibi"; its slopes depend on the model\'s number of heads, which the captured file' in lines
    assert read_captured(Path("full.safetensors")).read("first").num_heads is None


# ---- everything that is looked at


def test_tables_and_files_have_the_numbers() -> None:
    lines = good("run", "part.safetensors", "--set", "data.layer=0", "--out", "run", "--no-plots", "--full")
    assert re.findall(r"^0 +(\d) ", lines, re.MULTILINE)[:1] == ["1"]
    _, weights, _ = of_heads("first", "model", CHOSEN)
    with Path("run/weights.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["label"] == "model"]
    for row in rows:
        batch, head, query, key = (int(row[axis]) for axis in ("batch", "head", "query", "key"))
        expected = float(weights[batch, CHOSEN.index(head), query, key])
        assert float(row["weight"]) == pytest.approx(expected, rel=1e-4, abs=1e-7)
    with Path("run/heads.csv").open(newline="") as file:
        assert {int(row["head"]) for row in csv.DictReader(file)} == {*CHOSEN}
    layers = good("run", "part.safetensors", "--no-plots")
    assert re.search(r"^layer +1 +3 +4$", layers, re.MULTILINE)
    choice = ["--set=data.layer=0", "--set=heads=[3,4]", "--set=batch=[0]"]
    chosen = good("run", "part.safetensors", *choice, "--no-plots", "--scorer=dot")
    heads = "batch 0 head 3, batch 0 head 4 (2 of 6)"
    assert f"Shown: {heads}, as the config says" in " ".join(chosen.split())


def test_heatmaps_have_the_numbers() -> None:
    result = run(layer=0, out="run", heads=[3])
    words = " ".join(text.get_text() for text in result.figure("heatmaps").findobj(Text))
    assert "head 3" in words
    assert not any(f"head {other}" in words for other in range(3))
    good("heatmap", "run", "--head", 4, "--batch", 1, "--scorer", "dot", "--out", "one.svg", "--quiet")
    assert "head 4" in Path("one.svg").read_text()
    for head in (0, 2, 5):
        assert f"--head: got {head}; expected 1 or 3 to 4, of 3 heads" in refusal("heatmap", "run", "--head", head)
    grid = run(batch=[0]).figure("layers")
    labels = [[text.get_text() for text in axes.get_xticklabels()] for axes in grid.axes if axes.images]
    assert ["1", "3", "4"] in labels


def test_the_page_has_the_numbers() -> None:
    result = run()
    ((view,), _) = described(list(views(result, 10**7)), HeatmapLook())
    assert view["axes"][-1] == {"name": "head", "names": ["1", "3", "4"]}
    weights = of_heads("second", "dot", CHOSEN)[1]
    for place, (batch, head) in enumerate([(0, 0), (0, 1), (0, 2)]):
        found = [0.0 if each is None else each for each in numbers(view, "weights", "dot", 3 + place)]
        assert found == pytest.approx(weights[batch, head].flatten().tolist(), rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("layer", [None, "second"])
def test_a_query_is_explained_by_the_number_of_its_head(layer: str | None) -> None:
    result = run(out="run")
    found = result.explain("dot", layer=layer, batch=1, head=4, query=2, most=None)
    _, weights, output = of_heads(layer or "first", "dot", CHOSEN)
    assert found.output == pytest.approx(output[1, 2, 2].tolist(), rel=1e-6)
    assert [row["weight"] for row in found.keys] == pytest.approx(weights[1, 2, 2][VALID[1, 0, 2]].tolist(), rel=1e-6)
    assert (found.place["head"], result.explain().place["head"]) == (4, 1)
    assert ", batch 0, head 3, query 0" in good("explain", "run", "--head", 3)
    assert ", batch 0, head 1, query 0" in good("explain", "run")
    assert "--head: got 0; expected 1 or 3 to 4, of 3 heads" in refusal("explain", "run", "--head", 0)
    # Its tensors lack the numbers of layers and heads, and the model's scale and softcap.
    assert "use run/capture.safetensors" in refusal("variance", "--from", "run")


def test_expectations_and_sweeps_have_the_numbers() -> None:
    where = {"label": "model", "layer": 1, "head": 4, "batch": 0}
    row = next(row for row in run().heads if (row["layer"], row["head"], row["batch"]) == ("second", 4, 0))
    expected = {"where": where, "metric": "entropy", "about": row["entropy"], "within": 1e-9}
    unknown = {"where": {**where, "head": 0}, "metric": "entropy", "above": 0}
    verdict, other = run(expect=[expected, unknown]).expectations
    assert (verdict["holds"], other["holds"]) == (True, None)
    assert "head" in other["reason"]
    axes = {"data.heads": [[1], [4], [1, 4]]}
    swept = attncli.sweep({"data": data("full", layer=0), "scorers": ["dot"]}, over=axes, jobs=1)
    entropies = [row["entropy"] for row in swept.records]
    assert entropies[2] == pytest.approx((entropies[0] + entropies[1]) / 2)


def test_heads_that_are_not_there() -> None:
    wrong: list[tuple[dict[str, Any], str]]
    wrong = [({"chosen": [0]}, "data.heads[0]: got 0"), ({"heads": [1, 5]}, "heads[1]: got 5")]
    for keys, where in wrong:
        with pytest.raises(InputError, match=re.escape(f"{where}; expected 1 or 3 to 4, of ")):
            run(**keys)
