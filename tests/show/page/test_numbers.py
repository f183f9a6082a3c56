"""The matrices of a page: exact, rounded, averaged over blocks or left out, its notes about these, and its colours."""

import itertools
import math
import struct
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

import attncli
from attncli.config.looks import HeatmapLook
from attncli.results import Finding, Result
from attncli.show.page.matrices import described, views
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
    assert {axis["name"]: axis["names"] for axis in view["axes"]} == {"batch": ["0", "1"], "head": ["0", "1", "2"]}
    found = {stage["name"]: [view["labels"][index] for index in stage["labels"]] for stage in view["stages"]}
    assert found == {"scores": ["additive", "dot"], "capped": ["additive"], "weights": ["additive", "dot"]}
    valid = result.inputs["valid"].flatten().tolist()
    for stage, labels in found.items():
        for label in labels:
            cells = zip(result.tensors[f"{label}/{stage}"].flatten().tolist(), valid, strict=True)
            got = [number for place in range(6) for number in numbers(view, stage, label, place)]
            assert bits(got) == bits([value if is_valid else None for value, is_valid in cells])


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
    """There is one view for each size, and one for layers with other stages."""
    sizes = {"first": (1, 2, 3, 3), "second": (1, 2, 3, 3), "cross": (1, 2, 3, 5), "own": (1, 2, 3, 3)}
    tokens = {name: {"keys": [[f"{name} {i}" for i in range(size[-1])]]} for name, size in sizes.items()}
    result = over_layers(sizes, tokens, capped="own")
    alike, other, own = rows_of(result)
    assert (alike["title"], other["title"], own["title"]) == ("first, second", "cross", "own")
    assert [axis["names"] for axis in alike["axes"]] == [["0"], ["first", "second"], ["0", "1"]]
    assert other["tokens"]["keys"]["names"] == tokens["cross"]["keys"]
    assert [[stage["name"] for stage in view["stages"]] for view in (other, own)] == [["scores"], ["scores", "capped"]]
    for place, (name, head) in enumerate(itertools.product(("first", "second"), range(2))):
        assert numbers(alike, "scores", "a", place) == result.tensors[f"{name}/a/scores"][0, head].flatten().tolist()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_infinite_numbers_and_nan_are_kept_and_a_note_says_where_the_dtype_has_more_digits(dtype: torch.dtype) -> None:
    odd = [math.nan, math.inf, -math.inf, -0.0, 2.0**-130, 2.0**127]
    view = view_of(result_of(torch.tensor([[odd]], dtype=dtype)))
    assert bits(numbers(view, "scores", "a", 0)) == bits([*odd])
    assert any("float64" in note for note in view["notes"]) == (dtype == torch.float64)


def test_numbers_are_rounded_to_float16_if_there_is_no_room() -> None:
    scores = torch.randn(1, 40, 40, generator=torch.Generator().manual_seed(1)) * 100
    scores[0, 0, :6] = torch.tensor([math.inf, math.nan, 1 + 2.0**-11, 1 + 3 * 2.0**-11, -0.0, 1e-9])
    view = view_of(result_of(scores), 4000)
    assert (view["bytes"], view["n"], view["m"]) == (2, 40, 40)
    assert view["notes"] == ["Numbers are rounded to float16: at most 0.05 % off, or 3e-8."]
    assert bits(numbers(view, "scores", "a", 0)) == bits([*scores.half().flatten().tolist()])
    large = view_of(result_of(torch.full((1, 40, 40), 1e5)), 4000)
    assert set(numbers(large, "scores", "a", 0)) == {1e5}, "beyond float16, in float32"


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
        rounded: dict[str, Any] = {"rel": last_digit(2.0**-10), "abs": last_digit(2.0**-24)}
        assert got == (pytest.approx(float(cells.mean()), **rounded) if len(cells) else None)
    assert view["tokens"]["keys"]["names"][0][:2] == [f"k0 … k{across - 1}", f"k{across} … k{2 * across - 1}"]


@pytest.mark.parametrize("shape", [(50, 2, 32, 32), (50, 32, 32), (2, 300, 32, 32)])
def test_batch_elements_without_room_are_left_out(shape: tuple[int, ...]) -> None:
    """All heads are kept, in larger blocks if necessary."""
    most = 15_000
    view = view_of(result_of(torch.randn(shape, generator=torch.Generator().manual_seed(3))), most)
    elements, *heads = (len(axis["names"]) for axis in view["axes"])
    assert heads == list(shape[1:-2])
    assert f"The first {elements} of {shape[0]} batch elements are here." in view["notes"]
    assert 2 * elements * math.prod(heads) * view["n"] * view["m"] <= most


def test_it_starts_where_weights_differ_most() -> None:
    generator = torch.Generator().manual_seed(5)
    scores, weights = torch.randn(2, 3, 4, 5, generator=generator), torch.rand(2, 3, 4, 5, generator=generator)
    result = result_of(scores, None, weights)
    changed = weights.clone()
    changed[1, 2, 3, 4] += 1
    view = view_of(replace(result, tensors={**result.tensors, "b/weights": changed}))
    assert view["start"] == [1, 2, 3, 4]
    largest = torch.unravel_index(weights.argmax(), weights.shape)
    alone = replace(result, tensors={"a/weights": weights}, records=result.records[:1])
    assert view_of(alone)["start"] == [int(i) for i in largest]


def test_runs_of_a_page_share_one_scale_of_weights_and_one_of_the_scores_of_each_scorer() -> None:
    """The numbers of a scale have the colours of pictures; pages in a browser are compared with them."""
    weights = torch.full((1, 2, 2, 2), 0.01)
    weights[0, 0, 0, 0] = 0.5
    first = result_of(torch.full((1, 2, 2, 2), 2.0), None, weights)
    changed = {"b/weights": weights / 4, "b/scores": 8 * first.tensors["a/scores"]}
    second = replace(first, tensors={**first.tensors, **changed})
    pair = views(second, LARGE, scorer="a")
    rows, scales = described([*views(first, LARGE), *views(second, LARGE), *pair], HeatmapLook())
    keys = [[stage["scales"] for stage in row["stages"]] for row in rows]
    assert keys == [[["scores/a", f"scores/{label}"], ["weights", "weights"]] for label in "bba"]
    assert rows[2]["stages"][1]["difference"] == "weights-"
    found = {
        key: (scale["label"], *(float(scale["ticks"][end][1]) for end in (0, -1))) for key, scale in scales.items()
    }
    assert found.pop("scores-")
    assert found == {
        "weights": ("weight (colours by square root)", 0, 0.5),
        "weights-": ("weight difference", -0.375, 0.375),
        **{f"scores/{label}": ("score", -16, 16) for label in "ab"},
    }
    rows, scales = described(list(views(second, LARGE)), HeatmapLook(colours="log", vmax=1.0, scale="label"))
    assert rows[0]["stages"][1]["scales"] == ["weights/a", "weights/b"]
    assert (scales["weights/b"]["ticks"][-1][1], scales["weights/b"]["label"]) == ("1", "weight (colours by logarithm)")


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
    tokens = {"queries": [["cat"], ["dog"], ["cat"]], "keys": [list("abcd")] * 2 + [list("abce")]}
    result = result_of(torch.zeros(3, 1, 4), tokens=tokens)
    assert (view_of(result)["rows"]["name"], view_of(result)["n"]) == ("query", 1), "keys have other tokens"
    view = view_of(replace(result, tokens={**tokens, "keys": [list("abcd")]}))
    assert view["tokens"]["queries"]["names"] == [["0 cat", "1 dog", "2 cat"]]


def test_a_finding_about_a_scorer_leads_to_its_matrix() -> None:
    findings = [Finding("All keys are equal."), Finding("a: every key gets the same weight.", "a")]
    view = view_of(replace(result_of(torch.zeros(1, 2, 2)), findings=findings))
    assert view["findings"] == [{"index": 1, "label": 0, "place": {}}]
