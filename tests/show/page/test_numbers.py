"""The matrices of a page: exact, rounded, averaged over blocks or left out, its notes about these, and its colours."""

import base64
import itertools
import math
import struct
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import attncli
from attncli.config.looks import HeatmapLook
from attncli.results import Finding, Result
from attncli.show.page.matrices import described, views
from attncli.show.pictures.scales import ColourScale, colour_scale
from tests.margins import last_digit
from tests.show.page.reading import numbers

LARGE = 10**7  # cells: room for everything


def result_of(scores: Tensor, valid: Tensor | None = None, weights: Tensor | None = None, **fields: Any) -> Result:
    """Return a result with scores (..., n, m) of the label a, and their negatives of the label b."""
    allowed = torch.ones(scores.shape, dtype=torch.bool) if valid is None else valid
    tensors = {"a/scores": scores, "b/scores": -scores}
    if weights is not None:
        tensors |= {"a/weights": weights, "b/weights": weights}
    records = [{"label": label, "scorer": "dot"} for label in "ab"]
    return Result("attention", "x", records, inputs={"valid": allowed}, tensors=tensors, **fields)


def rows_of(result: Result, most: int = LARGE) -> list[dict[str, Any]]:
    return described(list(views(result, most)), HeatmapLook())[0]


def view_of(result: Result, most: int = LARGE) -> dict[str, Any]:
    (view,) = rows_of(result, most)
    return view


def bits(values: list[float | None]) -> list[bytes | None]:
    return [None if value is None else struct.pack("<f", value) for value in values]


def test_numbers_of_a_run_are_those_of_its_tensors_bit_for_bit() -> None:
    """This holds for all stages, batch elements, heads and labels; masked cells have no number."""
    config = {
        "data": {"queries": {"shape": [2, 3, 5, 4]}, "keys": {"shape": [2, 3, 7, 4]}, "valid_lens": [3, 7]},
        "scorers": [{"scorer": "additive", "softcap": 2.0}, "dot"],
    }
    result = attncli.run(config)
    view = view_of(result)
    assert ([each["name"] for each in view["stages"]], view["notes"]) == (["scores", "capped", "weights"], [])
    assert [(axis["name"], axis["names"]) for axis in view["axes"]] == [
        ("batch", ["0", "1"]),
        ("head", ["0", "1", "2"]),
    ]
    valid = result.inputs["valid"].reshape(6, 35)
    for stage, labels in (("scores", ("additive", "dot")), ("weights", ("additive", "dot")), ("capped", ("additive",))):
        (about,) = (each for each in view["stages"] if each["name"] == stage)
        assert [view["labels"][index] for index in about["labels"]] == list(labels)
        for label in labels:
            flat = result.tensors[f"{label}/{stage}"].reshape(6, 35)
            for place in range(6):
                cells = zip(flat[place].tolist(), valid[place].tolist(), strict=True)
                wanted = [value if is_valid else None for value, is_valid in cells]
                assert bits(numbers(view, stage, label, place)) == bits(wanted)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_a_note_says_where_the_dtype_has_more_digits(dtype: torch.dtype) -> None:
    view = view_of(result_of(torch.randn(1, 4, 4, generator=torch.Generator().manual_seed(0)).to(dtype)))
    assert any("float64" in note for note in view["notes"]) == (dtype == torch.float64)


def test_stages_that_are_not_kept_are_not_shown() -> None:
    scores = torch.zeros(1, 2, 2)
    assert view_of(result_of(scores, None, scores, save=["weights", "output"]))["stages"][0]["name"] == "weights"
    assert rows_of(result_of(scores, save=["output"])) == []


def over_layers(shapes: Mapping[str, tuple[int, ...]], tokens: dict[str, Any], *, capped: str = "") -> Result:
    """Return a result over layers with random scores of these shapes, and the stage `capped` in one layer."""
    generator = torch.Generator().manual_seed(4)
    tensors = {f"{name}/a/scores": torch.randn(shape, generator=generator) for name, shape in shapes.items()}
    tensors |= {f"{capped}/a/capped": torch.zeros(shapes[capped])} if capped else {}
    return Result(
        "attention",
        "x",
        [{"label": "a", "scorer": "dot"}],
        inputs={f"{name}/valid": torch.ones(shape, dtype=torch.bool) for name, shape in shapes.items()},
        tensors=tensors,
        layers={name: number for number, name in enumerate(shapes)},
        tokens={f"{name}/{side}": names for name, of in tokens.items() for side, names in of.items()},
    )


def test_layers_of_one_size_share_a_view() -> None:
    """There is one view for each size; names of layers may contain any characters."""
    sizes = {"first": (1, 2, 3, 3), "second": (1, 2, 3, 3), "cross": (1, 2, 3, 5)}
    tokens = {name: {"keys": [[f"{name} {i}" for i in range(size[-1])]]} for name, size in sizes.items()}
    result = over_layers(sizes, tokens)
    alike, other = rows_of(result)
    assert (alike["title"], other["title"]) == ("first, second", "cross")
    assert [axis["name"] for axis in alike["axes"]] == ["batch", "layer", "head"]
    assert alike["axes"][1]["names"] == ["first", "second"]
    assert other["tokens"]["keys"]["names"] == tokens["cross"]["keys"]
    for place, (name, head) in enumerate(itertools.product(("first", "second"), range(2))):
        assert numbers(alike, "scores", "a", place) == result.tensors[f"{name}/a/scores"][0, head].flatten().tolist()


@pytest.mark.parametrize("step", [1, 2])
def test_each_layer_and_batch_element_has_its_tokens(step: int) -> None:
    """Layers of one size may have different tokens, as an encoder and a decoder; others may have none."""
    layers, n = ["encoder", "decoder", "cross", "unnamed"], 80
    names = {(layer, batch): [f"{layer} {batch} {i}" for i in range(n)] for layer in layers for batch in range(3)}
    names |= {("unnamed", batch): [str(i) for i in range(n)] for batch in range(3)}
    tokens = {
        "encoder": {"queries": [names["encoder", batch] for batch in range(3)]},
        "decoder": {"queries": [names["decoder", batch] for batch in range(3)]},
        "cross": {"queries": [names["cross", 0]]},
    }
    names |= {("cross", batch): names["cross", 0] for batch in range(3)}
    result = over_layers(dict.fromkeys(layers, (3, 2, n, n)), tokens)
    view = view_of(result, {1: LARGE, 2: 4 * 3 * 2 * n * n // 4}[step])
    batches, of_layers = (len(axis["names"]) for axis in view["axes"][:2])
    assert (n // view["n"], of_layers) == (step, 4)
    lists = [view["tokens"]["queries"]["names"][index] for index in view["tokens"]["queries"]["list"]]
    assert len(lists) == batches * of_layers
    for batch, (index, layer) in itertools.product(range(batches), enumerate(layers)):
        own = names[layer, batch]
        blocks = own if step == 1 else [f"{own[i]} … {own[i + 1]}" for i in range(0, n, 2)]
        assert lists[batch * of_layers + index] == blocks
    assert view["tokens"]["keys"] is None or step > 1


@pytest.mark.parametrize("capped", ["first", "second"])
def test_layers_with_other_stages_have_a_view_of_their_own(capped: str) -> None:
    result = over_layers(dict.fromkeys(["first", "second"], (1, 2, 3, 3)), {}, capped=capped)
    assert {view["title"]: [each["name"] for each in view["stages"]] for view in rows_of(result)} == {
        name: ["scores", "capped"] if name == capped else ["scores"] for name in ("first", "second")
    }


ODD = [math.nan, math.inf, -math.inf, -0.0, 1e-45, 3.4028234e38]


def test_infinite_numbers_and_nan_are_kept() -> None:
    assert bits(numbers(view_of(result_of(torch.tensor([[ODD]]))), "scores", "a", 0)) == bits(list(ODD))


def test_numbers_are_rounded_to_float16_if_there_is_no_room() -> None:
    scores = torch.randn(1, 40, 40, generator=torch.Generator().manual_seed(1)) * 100
    scores[0, 0, :6] = torch.tensor([math.inf, math.nan, 1 + 2.0**-11, 1 + 3 * 2.0**-11, -0.0, 1e-9])
    view = view_of(result_of(scores), 4000)
    assert (view["bytes"], view["n"], view["m"]) == (2, 40, 40)
    assert view["notes"] == ["Numbers are rounded to float16: at most 0.05 % off, or 3e-8."]
    first, second, *others = numbers(view, "scores", "a", 0)
    assert first == math.inf
    assert second is not None
    assert math.isnan(second)
    assert others[:4] == [1.0, 1 + 2.0**-9, 0.0, 0.0], "halfway: to the even one"
    for got, x in zip(others[4:], scores.flatten().tolist()[6:], strict=True):
        mantissa, exponent = math.frexp(x)
        places = max(exponent, -13) - 11  # of the last bit
        assert got == math.ldexp(round(math.ldexp(mantissa, exponent - places)), places)


def test_numbers_beyond_float16_stay_float32() -> None:
    scores = torch.full((1, 40, 40), 1e5)
    view = view_of(result_of(scores), 4000)
    assert (view["bytes"], view["stages"][0]["bytes"]) == (2, 4)
    assert set(numbers(view, "scores", "a", 0)) == {1e5}


@pytest.mark.parametrize(("n", "m"), [(100, 70), (1, 4000)])
def test_blocks_are_the_means_of_their_valid_cells(n: int, m: int) -> None:
    generator = torch.Generator().manual_seed(2)
    scores, valid = torch.randn(1, n, m, generator=generator), torch.rand(1, n, m, generator=generator) < 0.2
    tokens = {"keys": [[f"k{i}" for i in range(m)]]}
    view = view_of(result_of(scores, valid.expand(1, n, m), tokens=tokens), 1500)
    down, across = math.ceil(n / view["n"]), math.ceil(m / view["m"])
    assert down * across > 1
    assert any(f"a block of {down} by {across} cells of the run's {n} by {m}" in note for note in view["notes"])
    for i, got in enumerate(numbers(view, "scores", "a", 0)):
        row, column = divmod(i, view["m"])
        block = (0, slice(row * down, (row + 1) * down), slice(column * across, (column + 1) * across))
        cells = scores[block][valid[block]].double()
        mean = float(cells.mean()) if len(cells) else None
        assert got == (
            None if mean is None else pytest.approx(mean, rel=last_digit(2.0**-10), abs=last_digit(2.0**-24))
        )
    assert view["tokens"]["keys"]["names"][0][:2] == [f"k0 … k{across - 1}", f"k{across} … k{2 * across - 1}"]


@pytest.mark.parametrize("shape", [(50, 2, 32, 32), (50, 32, 32), (2, 300, 32, 32)])
def test_batch_elements_without_room_are_left_out(shape: tuple[int, ...]) -> None:
    """All heads are kept, in larger blocks if necessary."""
    most = 15_000
    view = view_of(result_of(torch.randn(shape, generator=torch.Generator().manual_seed(3))), most)
    kept, *heads = (len(axis["names"]) for axis in view["axes"])
    assert heads == list(shape[1:-2])
    assert f"The first {kept} of {shape[0]} batch elements are here." in view["notes"]
    assert 2 * kept * math.prod(heads) * view["n"] * view["m"] <= most


def test_a_row_without_valid_keys_shows_the_weights_that_it_has() -> None:
    valid = torch.tensor([[[True, False], [False, False]]])
    weights = torch.tensor([[[1.0, 0.0], [0.5, 0.5]]])
    assert numbers(view_of(result_of(weights.log(), valid, weights)), "weights", "a", 0) == [1.0, None, 0.5, 0.5]
    empty = view_of(result_of(weights.log(), valid, weights * valid))
    assert numbers(empty, "weights", "a", 0) == [1.0, None, None, None]


def test_it_starts_where_weights_differ_most() -> None:
    generator = torch.Generator().manual_seed(5)
    scores, weights = torch.randn(2, 3, 4, 5, generator=generator), torch.rand(2, 3, 4, 5, generator=generator)
    result = result_of(scores, None, weights)
    changed = weights.clone()
    changed[1, 2, 3, 4] += 1
    changed[0, 1, 2, 3] += 0.9
    view = view_of(replace(result, tensors={**result.tensors, "b/weights": changed}))
    assert view["start"] == [1, 2, 3, 4]
    alone = {"a/weights": weights, "a/scores": scores}
    records = [{"label": "a", "scorer": "dot"}]
    largest = torch.unravel_index(weights.argmax(), weights.shape)
    assert view_of(replace(result, tensors=alone, records=records))["start"] == [int(i) for i in largest]


def check_scale(found: dict[str, Any], scale: ColourScale, values: Tensor) -> None:
    """Assert that the values have the colours of the scale, and that the ends are right."""
    edges = np.frombuffer(base64.b64decode(found["edges"]), "<f4")
    indices = np.searchsorted(edges, values.flatten().numpy(), side="right")
    shares = np.ma.filled(scale.norm(scale.clip(values.flatten().double().numpy())), 0)
    assert np.abs(indices - np.clip(shares * 256, 0, 255)).max() <= 1
    assert [share for share, _ in found["ticks"]] == [0, 0.25, 0.5, 0.75, 1]
    ends = [float(found["ticks"][end][1]) for end in (0, -1)]
    assert ends == pytest.approx([scale.low, scale.high], rel=0.06, abs=1e-12)
    assert found["isBelow"] == (scale.extend in ("min", "both"))
    assert found["isAbove"] == (scale.extend in ("max", "both"))
    assert found["isDiverging"] == scale.is_diverging


def test_all_weights_of_a_page_have_the_scale_of_pictures() -> None:
    """Two runs with other weights share it, and so do all their differences."""
    generator = torch.Generator().manual_seed(6)
    weights = torch.rand(2, 3, 4, 5, generator=generator) ** 9
    small = weights / 7
    first = result_of(weights.log(), None, weights)
    first = replace(first, tensors={**first.tensors, "b/weights": weights.flip(0)})
    second = result_of(weights.log(), None, small)
    rows, scales = described([*views(first, LARGE), *views(second, LARGE)], HeatmapLook())
    for row in rows:
        (stage,) = (each for each in row["stages"] if each["name"] == "weights")
        assert (stage["scales"], stage["difference"]) == (["weights", "weights"], "weights-")
    everything = torch.cat([weights, weights, small, small])
    own = colour_scale([everything.numpy()], "weights")
    assert own.kind == "root"
    check_scale(scales["weights"], own, everything)
    assert scales["weights"]["label"] == "weight (colours by square root)"
    change = weights - weights.flip(0)
    check_scale(scales["weights-"], colour_scale([change.numpy()], "weights", is_difference=True), change)
    assert scales["weights-"]["label"] == "weight difference"


def test_scores_of_each_label_have_a_scale_in_their_units_in_all_runs() -> None:
    scores = torch.randn(1, 2, 4, 5, generator=torch.Generator().manual_seed(7))
    first, second = result_of(scores), result_of(3 * scores)
    first = replace(first, tensors={**first.tensors, "b/scores": 100 * scores})
    all_views = [*views(first, LARGE), *views(second, LARGE), *views(second, LARGE, scorer="a")]
    rows, scales = described(all_views, HeatmapLook())
    assert [row["stages"][0]["scales"] for row in rows] == [["scores/a", "scores/b"]] * 2 + [["scores/a", "scores/a"]]
    for key, values in {"scores/a": 3 * scores, "scores/b": 100 * scores}.items():
        check_scale(scales[key], colour_scale([values.numpy()], "scores"), values)
        assert (scales[key]["label"], float(scales[key]["ticks"][2][1])) == ("score", 0)


def test_colours_are_those_of_the_look() -> None:
    weights = torch.rand(1, 2, 4, 5, generator=torch.Generator().manual_seed(8)) / 2
    result = result_of(weights.log(), None, weights)
    look = HeatmapLook(colours="log", vmax=1.0, scale="label")
    rows, scales = described(list(views(result, LARGE)), look)
    assert rows[0]["stages"][1]["scales"] == ["weights/a", "weights/b"]
    scale = colour_scale([weights.numpy()], "weights", kind="log", high=1.0)
    assert scale.high == 1.0
    check_scale(scales["weights/b"], scale, weights)


@pytest.mark.parametrize(
    ("shape", "row", "axes"),
    [((3, 1, 4), "batch", []), ((1, 3, 1, 4), "head", ["batch"]), ((2, 3, 1, 4), "head", ["batch"])],
)
def test_single_queries_are_rows_of_one_map(shape: tuple[int, ...], row: str, axes: list[str]) -> None:
    """As in pictures, rows are batch elements, or heads where there are several."""
    scores = torch.randn(shape, generator=torch.Generator().manual_seed(9))
    view = view_of(result_of(scores))
    assert (view["rows"]["name"], view["n"], [axis["name"] for axis in view["axes"]]) == (row, 3, axes)
    batches = shape[0] if axes else 1
    assert view["tokens"] == {"queries": {"names": [["0", "1", "2"]], "list": [0] * batches}, "keys": None}
    for place, matrix in enumerate(scores.reshape(-1, 12)):
        assert numbers(view, "scores", "a", place) == matrix.tolist()
    named = {"queries": [["cat"], ["dog"], ["cat"]], "keys": [list("abcd")] * 2 + [list("abce")]}
    result = result_of(torch.zeros(3, 1, 4), tokens=named)
    assert (view_of(result)["rows"]["name"], view_of(result)["n"]) == ("query", 1), "keys have other tokens"
    view = view_of(replace(result, tokens={**named, "keys": [list("abcd")]}))
    assert view["tokens"]["queries"]["names"] == [["0 cat", "1 dog", "2 cat"]]
    for batches in (2, 3):  # heads share their query: its token names none of them
        tokens = {"queries": named["queries"][:batches], "keys": [list("abcd")]}
        view = view_of(result_of(torch.zeros(batches, 2, 1, 4), tokens=tokens))
        assert view["tokens"]["queries"]["names"] == [["0", "1"]]


def test_a_finding_about_a_scorer_leads_to_its_matrix() -> None:
    findings = [Finding("All keys are equal."), Finding("a: every key gets the same weight.", "a")]
    view = view_of(replace(result_of(torch.zeros(1, 2, 2)), findings=findings))
    assert view["findings"] == [{"index": 1, "label": 0, "place": {}}]
