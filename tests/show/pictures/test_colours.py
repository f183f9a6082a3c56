"""Colours of values: pixels against independent formulas, the ends of the colours, and differences."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import matplotlib
import numpy as np
import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from torch import Tensor

from attncli.attention import masked_softmax, valid_mask
from attncli.config.looks import HeatmapLook
from attncli.errors import InputError
from attncli.results import Tokens
from tests.margins import last_digit
from tests.show.pictures.drawn import (
    bar_labels,
    bars,
    check_texts,
    heatmap,
    labels,
    legend,
    panels,
    titles,
    values,
    weights,
)

pytestmark = pytest.mark.usefixtures("sketches")

NAN, INF = math.nan, math.inf


def pixels(figure: Figure, panel: int = 0) -> Any:
    """Return the colours in the middle of every cell, from 0 to 1."""
    canvas: Any = FigureCanvasAgg(figure)
    canvas.draw()
    page, axes = np.asarray(canvas.buffer_rgba()), panels(figure)[panel]
    (n, m), left, top = values(axes).shape, axes.get_xlim()[0], axes.get_ylim()[1]
    found = np.empty((n, m, 3))
    for i, j in np.ndindex(n, m):
        x, y = axes.transData.transform((left + 0.5 + j, top + 0.5 + i))
        found[i, j] = page[int(page.shape[0] - y), int(x), :3] / 255
    return found


def check_colours(found: Any, places: Tensor, cmap: str, valid: Tensor | None = None) -> None:
    """Assert that valid pixels have the colours at these places (0 to 1) of the map, up to one step of the map."""
    colours = matplotlib.colormaps[cmap]
    for index, place in np.ndenumerate(places.clamp(0, 1).numpy()):
        if valid is not None and not valid[index]:
            continue
        near = [colours(min(max(place + step, 0.0), 1.0))[:3] for step in (-1 / 256, 0.0, 1 / 256)]
        assert min(np.abs(found[index] - colour).max() for colour in near) < last_digit(2 / 255), index


@pytest.mark.usefixtures("laid_out")
def test_causal_weights_of_many_keys_have_colours_by_the_square_root() -> None:
    valid = torch.ones(40, 40, dtype=torch.bool).tril()
    matrix = valid / valid.sum(-1, keepdim=True)
    figure = heatmap(matrix, valid=valid).figure
    assert bar_labels(figure) == ["weight (colours by square root)"]
    check_colours(pixels(figure), matrix.sqrt(), "Reds", valid)
    check_texts(figure)


def test_an_even_scorer_beside_a_sharp_one_is_pale_and_the_sharp_one_nearly_white() -> None:
    """Four scorers on random keys, as in a first exercise: 16 keys, d = 32."""
    generator = torch.Generator().manual_seed(0)
    queries, keys = (torch.randn(16, 32, generator=generator) for _ in range(2))
    unit = torch.nn.functional.normalize
    scores = {"dot": queries @ keys.T, "scaled_dot": queries @ keys.T / 32**0.5, "cosine": unit(queries) @ unit(keys).T}
    scores["additive"] = (0.2 * queries[:, None] + 0.2 * keys).tanh().mean(-1)
    figure = heatmap(*(each.softmax(-1) for each in scores.values())).figure
    paleness = {name: pixels(figure, panel).min(-1) for panel, name in enumerate(scores)}
    for name in ("cosine", "additive"):
        assert paleness[name].min() > 0.6, name
        assert np.ptp(paleness[name]) < 0.3, name
    assert np.median(paleness["dot"]) > 0.9
    assert 5 <= int((paleness["dot"] < 0.3).sum()) <= 32


SIGNED = torch.tensor([[-9.0, -4.0, -0.25, 0.0], [0.01, 1.0, 4.0, 16.0]], dtype=torch.float64)
SMALL = torch.tensor([[1e-5, 1e-4, 0.01], [0.1, 0.2, 0.5]], dtype=torch.float64)
DECADE = 10 / 9  # linear colours, up to a thousandth of the end, take as much room as a decade and a ninth
OF_BOTH_SIGNS = torch.tensor([[-10.0, -1.0, -0.005, 0.0], [0.002, 0.01, 0.3, 100.0]], dtype=torch.float64)


def signed_logarithm(values: Tensor) -> Tensor:
    sizes = values.abs() / 0.1
    return values.sign() * torch.where(sizes <= 1, sizes * DECADE, DECADE + sizes.log10())


@pytest.mark.parametrize(
    ("matrix", "stage", "look", "label", "cmap", "places"),
    [
        (
            weights(6, 7).double(),
            "weights",
            {"colours": "root", "vmax": 0.25},
            "square root",
            "Reds",
            lambda x: 2 * x**0.5,
        ),
        (SIGNED, "scores", {"colours": "root"}, "square root", "RdBu_r", lambda x: (x.sign() * x.abs().sqrt() + 4) / 8),
        (SMALL, "weights", {"colours": "log", "vmax": 1}, "logarithm", "Reds", lambda x: x.log10() / 5 + 1),
        (
            *(OF_BOTH_SIGNS, "scores", {"colours": "log", "cmap": "PuOr"}, "logarithm", "PuOr"),
            lambda x: (signed_logarithm(x) / (DECADE + 3) + 1) / 2,
        ),
    ],
    ids=["roots", "signed roots", "logarithms", "signed logarithms"],
)
def test_roots_and_logarithms_by_hand(
    matrix: Tensor, stage: str, look: dict[str, Any], label: str, cmap: str, places: Callable[[Tensor], Tensor]
) -> None:
    figure = heatmap(matrix, stage=stage, look=HeatmapLook.model_validate({**look, "annotate": "no"})).figure
    assert bar_labels(figure) == [f"{stage.removesuffix('s')} (colours by {label})"]
    check_colours(pixels(figure), places(matrix), cmap)
    assert legend(figure) == []


def test_zeros_beside_a_logarithm_have_a_colour_of_their_own() -> None:
    matrix = torch.tensor([[0.0, 1e-3, 0.999], [0.0, 0.0, 1.0]])
    heat = heatmap(matrix, look=HeatmapLook(colours="log", annotate="no"))
    found = pixels(heat.figure)
    zeros = (matrix == 0).numpy()
    assert (found[zeros] == 1).all()
    assert (np.abs(found[~zeros] - 1).max(axis=-1) > 0.05).all()
    assert len(bars(heat.figure)[0].patches) == 1, "an arrow"
    assert heat.notes == []


@pytest.mark.parametrize(("colours", "scale"), [("linear", "shared"), ("root", "label"), ("log", "panel")])
def test_masks_nan_and_infinities_have_their_looks_in_all_colours(colours: Any, scale: Any) -> None:
    matrix = torch.tensor([[NAN, 0.25, INF, 0.0], [0.5, 0.125, 0.125, 7.0]])
    valid, look = valid_mask((1, 2, 4), [[4, 3]]), HeatmapLook(colours=colours, scale=scale, annotate="no")
    heat = heatmap(matrix[None], matrix[None] / 9, valid=valid, look=look)
    found, bad = pixels(heat.figure), panels(heat.figure)[0].images[0].get_cmap().get_bad()
    np.testing.assert_allclose(found[0, 0], bad[:3], atol=last_digit(2 / 255))
    np.testing.assert_allclose(found[0, 2], matplotlib.colormaps["Reds"](1.0)[:3], atol=last_digit(2 / 255))
    assert np.abs(found[0, 3] - bad[:3]).max() > 0.3
    assert set(legend(heat.figure)) >= {"masked", "NaN"}
    assert heat.notes == ["NaN in 2 valid cells of a, b", "2 infinite values have the colours of the ends of the scale"]


@pytest.mark.usefixtures("laid_out")
@pytest.mark.parametrize(
    ("colours", "value", "minus"), [("linear", 0.0, "a"), ("root", NAN, None), ("log", 0.0, None), ("log", INF, "a")]
)
def test_panels_with_nothing_to_show_are_drawn(colours: Any, value: float, minus: str | None) -> None:
    matrix = torch.full((3, 3), value)
    check_texts(heatmap(matrix, matrix, look=HeatmapLook(colours=colours, minus=minus)).figure)


def test_differences_are_those_of_the_tensors() -> None:
    a, b, c = (weights(2, 3, 4, seed=seed) for seed in range(3))
    valid = valid_mask((2, 3, 4), [2, 4])
    stack = [masked_softmax(torch.log(each), [2, 4]).double() for each in (a, b, c)]
    heat = heatmap(*stack, valid=valid, look=HeatmapLook(minus="b", annotate="no"))
    assert valid is not None
    shown = dict(zip(titles(heat.figure), panels(heat.figure), strict=True))
    assert sorted(shown) == ["a, batch 0", "a, batch 1", "c, batch 0", "c, batch 1"]
    differences, inside = {"a": stack[0] - stack[1], "c": stack[2] - stack[1]}, valid.expand(2, 3, 4)
    for label, batch in itertools.product("ac", range(2)):
        found = values(shown[f"{label}, batch {batch}"])
        np.testing.assert_array_equal(np.ma.getmaskarray(found), ~inside[batch])
        np.testing.assert_array_equal(found.compressed(), differences[label][batch][inside[batch]])
    largest = max(float(each[inside].abs().max()) for each in differences.values())
    assert {axes.images[0].get_clim() for axes in shown.values()} == {(-largest, largest)}
    index = list(shown).index("c, batch 1")
    check_colours(pixels(heat.figure, index), (differences["c"][1] / largest + 1) / 2, "RdBu_r")
    assert heat.figure.get_suptitle() == "attention weight − that of b"
    assert bar_labels(heat.figure) == ["weight difference"]
    capped = heatmap(*stack, stage="capped", look=HeatmapLook(minus="b"))
    assert bar_labels(capped.figure) == ["score difference after softcap"]


def test_a_difference_names_its_scorers_once() -> None:
    b = torch.full((2, 2, 2), 0.5)
    step = torch.tensor([[[1.0, -1.0]] * 2, [[2.0, -2.0]] * 2])
    one = heatmap(b + 0.01 * step, b, labels=["a"], look=HeatmapLook(minus="b", annotate="yes"))
    assert titles(one.figure) == ["batch 0", "batch 1"]
    assert one.figure.get_suptitle() == "attention weight, a − b"
    assert one.notes == []
    texts = [text.get_text() for text in panels(one.figure)[1].texts]
    assert texts == ["+0.020", "−0.020"] * 2


@pytest.mark.parametrize(
    ("shapes", "there"), [([(2, 3), (3, 3)], "a matrix [3, 3]"), ([(2, 2, 3), (1, 2, 3)], "none at batch 0")]
)
def test_what_cannot_be_subtracted_is_refused(shapes: Any, there: str) -> None:
    with pytest.raises(InputError) as error:
        heatmap(*(weights(*shape) for shape in shapes), look=HeatmapLook(minus="b"))
    assert str(error.value) == f'minus: got "b"; has {there}; expected one of shape [2, 3] to subtract from a'


@pytest.mark.usefixtures("laid_out")
@pytest.mark.parametrize(("minus", "annotate"), [(None, "yes"), ("b", "no")])
def test_a_zoom_is_a_heatmap_of_the_slice(minus: str | None, annotate: Any) -> None:
    a, b, valid = weights(30, 40, seed=1), weights(30, 40, seed=2), torch.ones(30, 40, dtype=torch.bool).tril(8)
    look = HeatmapLook(minus=minus, annotate=annotate, scale="shared")
    zoomed = heatmap(a, b, valid=valid, look=look.model_copy(update={"queries": "3:12", "keys": "5:"})).figure
    sliced = heatmap(a[3:12, 5:], b[3:12, 5:], valid=valid[3:12, 5:], look=look).figure
    inside = valid[3:12, 5:].numpy()  # hatching goes through the page
    for panel in range(len(panels(sliced)) * (annotate == "no")):
        np.testing.assert_array_equal(pixels(zoomed, panel)[inside], pixels(sliced, panel)[inside])
    assert panels(zoomed)[0].get_xlim() == (4.5, 39.5)
    assert panels(zoomed)[0].get_ylim() == (11.5, 2.5)
    assert int(labels(panels(zoomed)[-1], "x")[0]) >= 5
    texts = [[text.get_text() for text in panels(figure)[0].texts] for figure in (zoomed, sliced)]
    assert texts[0] == texts[1]
    assert len(texts[0]) == int(inside.sum()) * (annotate == "yes")


def test_a_zoom_keeps_tokens_and_goes_as_far_as_there_is_something() -> None:
    names = [f"t{i}" for i in range(9)]
    heat = heatmap(weights(1, 9, 9), tokens=Tokens([names], [names]), look=HeatmapLook(queries="7:99", keys=":3"))
    (axes,) = panels(heat.figure)
    assert (labels(axes, "y"), labels(axes, "x")) == (["t7", "t8"], ["t0", "t1", "t2"])
    assert values(axes).shape == (2, 3)
