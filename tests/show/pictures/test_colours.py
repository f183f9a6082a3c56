"""Colours of values: pixels against independent formulas, the ends of the colours, and differences."""

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

from attncli.attention import valid_mask
from attncli.config.looks import HeatmapLook
from attncli.errors import InputError
from attncli.results import Tokens
from tests.margins import last_digit
from tests.show.pictures.drawn import (
    bar_labels,
    bars,
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


def check_colours(found: Any, places: Tensor, cmap: str) -> None:
    """Assert that pixels have the colours at these places (0 to 1) of the map, up to one step of the map."""
    colours = matplotlib.colormaps[cmap]
    for index, place in np.ndenumerate(places.clamp(0, 1).numpy()):
        near = [colours(min(max(place + step, 0.0), 1.0))[:3] for step in (-1 / 256, 0.0, 1 / 256)]
        assert min(np.abs(found[index] - colour).max() for colour in near) < last_digit(2 / 255), index


SIGNED = torch.tensor([[-9.0, -4.0, -0.25, 0.0], [0.01, 1.0, 4.0, 16.0]], dtype=torch.float64)
SMALL = torch.tensor([[1e-5, 1e-4, 0.01], [0.1, 0.2, 1.0]], dtype=torch.float64)
DECADE = 10 / 9  # linear colours, up to a thousandth of the end, take as much room as a decade and a ninth
OF_BOTH_SIGNS = torch.tensor([[-10.0, -1.0, -0.005, 0.0], [0.002, 0.01, 0.3, 100.0]], dtype=torch.float64)


def signed_logarithm(values: Tensor) -> Tensor:
    sizes = values.abs() / 0.1
    return values.sign() * torch.where(sizes <= 1, sizes * DECADE, DECADE + sizes.log10())


@pytest.mark.parametrize(
    ("matrix", "stage", "colours", "places"),
    [
        (weights(6, 7).double(), "weights", "root", lambda x: (x / x.max()) ** 0.5),
        (SIGNED, "scores", "root", lambda x: (x.sign() * x.abs().sqrt() + 4) / 8),
        (SMALL, "weights", "log", lambda x: x.log10() / 5 + 1),
        (OF_BOTH_SIGNS, "scores", "log", lambda x: (signed_logarithm(x) / (DECADE + 3) + 1) / 2),
    ],
)
def test_roots_and_logarithms_by_hand(
    matrix: Tensor, stage: str, colours: Any, places: Callable[[Tensor], Tensor]
) -> None:
    figure = heatmap(matrix, stage=stage, look=HeatmapLook(colours=colours, cmap="PuOr", annotate="no")).figure
    name = {"root": "square root", "log": "logarithm"}[colours]
    assert bar_labels(figure) == [f"{stage.removesuffix('s')} (colours by {name})"]
    check_colours(pixels(figure), places(matrix), "PuOr")
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
    assert heat.notes == ["NaN in 2 cells of a, b", "2 infinite values have the colours of the ends of the scale"]


def test_differences_are_those_of_the_tensors() -> None:
    stack = {label: weights(2, 3, 4, seed=seed).double() for seed, label in enumerate("abc")}
    valid = valid_mask((2, 3, 4), [2, 4])
    heat = heatmap(*stack.values(), valid=valid, look=HeatmapLook(minus="b", annotate="no"))
    assert valid is not None
    inside = valid.expand(2, 3, 4)
    changes = {label: stack[label] - stack["b"] for label in "ac"}
    places = [(label, batch) for batch in range(2) for label in "ac"]
    assert titles(heat.figure) == [f"{label}, batch {batch}" for label, batch in places]
    for (label, batch), axes in zip(places, panels(heat.figure), strict=True):
        np.testing.assert_array_equal(values(axes).filled(9), changes[label][batch].where(inside[batch], 9))
    largest = max(float(each[inside].abs().max()) for each in changes.values())
    check_colours(pixels(heat.figure, places.index(("c", 1))), (changes["c"][1] / largest + 1) / 2, "RdBu_r")
    assert heat.figure.get_suptitle() == "attention weight − that of b"
    assert bar_labels(heat.figure) == ["weight difference"]
    one = heatmap(*stack.values(), stage="capped", labels=["a"], look=HeatmapLook(minus="b", annotate="yes"))
    assert (titles(one.figure), one.figure.get_suptitle()) == (["batch 0", "batch 1"], "score after softcap, a − b")
    assert bar_labels(one.figure) == ["score difference after softcap"]
    texts = [text.get_text() for axes in panels(one.figure) for text in axes.texts]
    assert texts == [f"{value:+.2f}".replace("-", "−") for value in changes["a"].flatten().tolist()]


@pytest.mark.parametrize(
    ("shapes", "there"), [([(2, 3), (3, 3)], "a matrix [3, 3]"), ([(2, 2, 3), (1, 2, 3)], "none at batch 0")]
)
def test_what_cannot_be_subtracted_is_refused(shapes: Any, there: str) -> None:
    with pytest.raises(InputError) as error:
        heatmap(*(weights(*shape) for shape in shapes), look=HeatmapLook(minus="b"))
    assert str(error.value) == f'minus: got "b"; has {there}; expected one of shape [2, 3] to subtract from a'


def test_a_zoom_is_a_heatmap_of_the_slice() -> None:
    """It keeps the tokens and numbers of queries and keys, and goes as far as there is something."""
    a, b = (weights(12, 40, seed=seed).double() for seed in range(2))
    valid = torch.ones(12, 40, dtype=torch.bool).tril(8)
    names, look = [f"t{i}" for i in range(12)], HeatmapLook(minus="b", queries="3:99", keys="5:20")
    zoomed = heatmap(a[None], b[None], valid=valid, tokens=Tokens([names], None), look=look).figure
    (axes,), (sliced,) = panels(zoomed), panels(heatmap(a - b, stage="a", valid=valid).figure)
    np.testing.assert_array_equal(values(axes), values(sliced)[3:, 5:20])
    assert (axes.get_xlim(), axes.get_ylim()) == ((4.5, 19.5), (8.5, -0.5))
    assert (labels(axes, "y"), int(labels(axes, "x")[0])) == (names[3:], 6)
