"""The matrices of a page: exact, rounded, joined to blocks or left out, which it says."""

import math
import struct
from typing import Any

import pytest
import torch
from torch import Tensor

import attncli
from attncli.common.study import Result
from attncli.show.report.matrices import views
from tests.show.report.reading import mask, matrix, numbers

LARGE = 10**8  # bytes: room for everything


def result_of(scores: Tensor, valid: Tensor | None = None, weights: Tensor | None = None, **settings: Any) -> Result:
    """Scores (..., n, m) of the labels a and b, the second ones negative."""
    allowed = torch.ones(scores.shape, dtype=torch.bool) if valid is None else valid
    tensors = {"a/scores": scores, "b/scores": -scores}
    if weights is not None:
        tensors |= {"a/weights": weights, "b/weights": weights}
    records = [{"label": label, "scorer": "dot"} for label in "ab"]
    return Result("attention", "x", settings, records, inputs={"valid": allowed}, tensors=tensors)


def view_of(result: Result, budget: int = LARGE) -> dict[str, Any]:
    (view,) = views(result, budget, None)
    return view


def test_numbers_of_a_run_are_those_of_its_tensors_bit_for_bit() -> None:
    """Also of masked cells, which are 0; all stages, batch elements, heads and labels."""
    config = {
        "data": {"queries": {"shape": [2, 3, 5, 4]}, "keys": {"shape": [2, 3, 7, 4]}, "valid_lens": [3, 7]},
        "scorers": [{"scorer": "additive", "softcap": 2.0}, "dot"],
    }
    result = attncli.run(config)
    view = view_of(result)
    assert (view["stages"], view["bits"], view["notes"]) == (["scores", "capped", "weights"], 23, [])
    assert [(axis["name"], axis["names"]) for axis in view["axes"]] == [
        ("batch", ["0", "1"]),
        ("head", ["0", "1", "2"]),
    ]
    valid = result.inputs["valid"].reshape(6, 35)
    for stage, labels in (("scores", ("additive", "dot")), ("weights", ("additive", "dot")), ("capped", ("additive",))):
        assert set(view["matrices"][stage]) == set(labels)
        for label in labels:
            flat = result.tensors[f"{label}/{stage}"].reshape(6, 35)
            for place in range(6):
                assert mask(view, place) == valid[place].tolist()
                wanted = [struct.pack("<f", x) for x in flat[place].where(valid[place], 0.0).tolist()]
                assert matrix(view, stage, label, place) == wanted


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_a_note_says_where_the_dtype_has_more_digits(dtype: torch.dtype) -> None:
    view = view_of(result_of(torch.randn(1, 4, 4, generator=torch.Generator().manual_seed(0)).to(dtype)))
    assert any("float64" in note for note in view["notes"]) == (dtype == torch.float64)


def test_numbers_that_are_none_are_kept() -> None:
    odd = [math.nan, math.inf, -math.inf, -0.0, 1e-45, 3.4028234e38]
    view = view_of(result_of(torch.tensor([[odd]])))
    assert matrix(view, "scores", "a", 0) == [struct.pack("<f", x) for x in odd]


def test_numbers_are_rounded_to_the_nearest_where_there_is_no_room() -> None:
    scores = torch.randn(1, 40, 40, generator=torch.Generator().manual_seed(1)) * 100
    scores[0, 0, :4] = torch.tensor([3.4028234e38, math.inf, math.nan, -3.4028234e38])
    scores[0, 1, :8] = torch.tensor([1 + k * 2.0**-bits for bits in (9, 11, 13, 17) for k in (1, 3)])  # halfway
    view = view_of(result_of(scores), 8000)
    bits = view["bits"]
    room = sum(len(text) for of in view["matrices"].values() for texts in of.values() for text in texts)
    assert room <= 8000
    assert bits < 23
    assert (view["n"], view["m"]) == (40, 40)
    (note,) = view["notes"]
    assert str(bits + 1) in note
    for got, x in zip(numbers(view, "scores", "a", 0)[4:], scores.flatten().tolist()[4:], strict=True):
        mantissa, exponent = math.frexp(x)
        assert got == math.ldexp(round(mantissa * 2 ** (bits + 1)), exponent - bits - 1)
    first = numbers(view, "scores", "a", 0)[:4]
    assert 3.3e38 < first[0] < math.inf
    assert first[1] == math.inf
    assert math.isnan(first[2])
    assert first[3] == -first[0]


def test_blocks_are_the_means_of_their_valid_cells() -> None:
    generator = torch.Generator().manual_seed(2)
    scores, valid = torch.randn(1, 100, 70, generator=generator), torch.rand(1, 100, 70, generator=generator) < 0.02
    tokens = {"keys": [[f"k{i}" for i in range(70)]]}
    view = view_of(result_of(scores, valid.expand(1, 100, 70), tokens=tokens), 2000)
    assert view["n"] < 100
    down, across = math.ceil(100 / view["n"]), math.ceil(70 / view["m"])
    assert any(f"{view['n']} by {view['m']} blocks of 100 by 70" in note for note in view["notes"])
    for i, (got, shown) in enumerate(zip(numbers(view, "scores", "a", 0), mask(view, 0), strict=True)):
        row, column = divmod(i, view["m"])
        block = (0, slice(row * down, (row + 1) * down), slice(column * across, (column + 1) * across))
        cells = scores[block][valid[block]].double()
        assert shown == bool(len(cells))
        assert got == pytest.approx(float(cells.mean()) if shown else 0.0, rel=2.0 ** -view["bits"])
    assert view["tokens"]["keys"][0][:2] == [f"k0 … k{across - 1}", f"k{across} … k{2 * across - 1}"]
    assert view["tokens"]["queries"][0][0] == f"0 … {down - 1}"


@pytest.mark.parametrize(
    ("shape", "kept"),
    [((50, 2, 32, 32), "batch elements"), ((1, 50, 32, 32), "heads"), ((50, 32, 32), "batch elements")],
)
def test_what_has_no_room_at_all_is_left_out_and_told(shape: tuple[int, ...], kept: str) -> None:
    view = view_of(result_of(torch.randn(shape, generator=torch.Generator().manual_seed(3))), 40_000)
    places = math.prod(axis["size"] for axis in view["axes"])
    assert len(view["matrices"]["scores"]["a"]) == len(view["mask"]) == places < math.prod(shape[:-2])
    assert f"of 50 {kept} are here" in view["notes"][0]


def test_a_row_without_valid_keys_shows_the_weights_that_it_has() -> None:
    valid = torch.tensor([[[True, False], [False, False]]])
    weights = torch.tensor([[[1.0, 0.0], [0.5, 0.5]]])
    assert mask(view_of(result_of(weights.log(), valid, weights)), 0) == [True, False, True, True]
    assert mask(view_of(result_of(weights.log(), valid, weights * valid)), 0) == [True, False, False, False]


def test_stages_that_are_not_kept_are_not_shown() -> None:
    scores = torch.zeros(1, 2, 2)
    assert view_of(result_of(scores, None, scores, save=["weights", "output"]))["stages"] == ["weights"]
    assert list(views(result_of(scores, save=["output"]), LARGE, None)) == []


def test_layers_of_one_size_share_a_view() -> None:
    """Each size has a view of its own; a name of a layer may have anything in it."""
    generator = torch.Generator().manual_seed(4)
    sizes = {"first": (1, 2, 3, 3), "second": (1, 2, 3, 3), "cross": (1, 2, 3, 5)}
    scores = {name: torch.randn(size, generator=generator) for name, size in sizes.items()}
    names = {name: {"tokens": {"keys": [[f"{name} {i}" for i in range(size[-1])]]}} for name, size in sizes.items()}
    result = Result(
        "attention",
        "x",
        {"layers": names},
        [{"label": "a", "scorer": "dot"}],
        inputs={f"{name}/valid": torch.ones(size, dtype=torch.bool) for name, size in sizes.items()},
        tensors={f"{name}/a/scores": tensor for name, tensor in scores.items()},
    )
    alike, other = views(result, LARGE, "attncli heatmap x")
    assert (alike["title"], other["title"]) == ("first, second", "cross")
    assert [axis["name"] for axis in alike["axes"]] == ["batch", "layer", "head"]
    assert alike["axes"][1]["names"] == ["first", "second"]
    assert other["tokens"]["keys"] == [[f"cross {i}" for i in range(5)]]
    assert alike["command"] == "attncli heatmap x"
    for place, (name, head) in enumerate([("first", 0), ("first", 1), ("second", 0), ("second", 1)]):
        assert numbers(alike, "scores", "a", place) == scores[name][0, head].flatten().tolist()
