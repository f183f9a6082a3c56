"""Heatmaps: which panels there are, where they stand, and what they are called."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure
from torch import Tensor

from attncli.attention import masked_softmax, valid_mask
from attncli.errors import InputError
from attncli.studies.study import Matrices, Tokens
from attncli.views.heatmaps import HeatmapStyle, heatmap_figure
from tests.views.artists import artists, drawn_texts, grid, heatmap, inches, panels, values, weights, words


def test_rows_are_batch_elements_and_columns_are_scorers() -> None:
    a, b = weights(2, 1, 10, seed=1), weights(2, 1, 10, seed=2)
    figure = heatmap(a, b).figure
    assert words(figure, "title") == ["a, batch 0", "b, batch 0", "a, batch 1", "b, batch 1"]
    shown = [values(image) for image in panels(figure)]
    for cells, matrix in zip(shown, (a[0], b[0], a[1], b[1]), strict=True):
        np.testing.assert_array_equal(cells, matrix)
    (left_a, top_a, *_), (left_b, top_b, *_), (left_c, top_c, *_) = (
        inches(figure, image) for image in panels(figure)[:3]
    )
    assert (left_a, top_a) == (left_c, top_b)
    assert left_b > left_a
    assert top_c > top_a


def test_axes_are_named_on_the_bottom_row_and_the_left_column_only() -> None:
    figure = heatmap(weights(2, 3, 4), weights(2, 3, 4)).figure
    names = {name: artists(figure, "axis-title") for name in ("Keys", "Queries")}
    places = {name: [t.get_position() for t in found if t.get_text() == name] for name, found in names.items()}
    assert len(places["Keys"]) == len(places["Queries"]) == 2
    assert len({y for _, y in places["Keys"]}) == 1
    assert len({x for x, _ in places["Queries"]}) == 1
    assert words(figure, "key") == ["0", "1", "2", "3"] * 2
    assert words(figure, "query") == ["0", "1", "2"] * 2


@pytest.mark.parametrize(
    ("shape", "titles"),
    [
        ((2, 3), ["a"]),
        ((1, 2, 3), ["a"]),
        ((2, 2, 3), ["a, batch 0", "a, batch 1"]),
        ((1, 2, 2, 3), ["a, head 0", "a, head 1"]),
        ((2, 2, 2, 3), ["a, batch 0, head 0", "a, batch 0, head 1", "a, batch 1, head 0", "a, batch 1, head 1"]),
        ((1, 2, 2, 2, 3), ["a, head 0", "a, head 1", "a, head 2", "a, head 3"]),
    ],
)
def test_titles_name_batch_element_and_head_where_there_is_more_than_one(shape: Any, titles: list[str]) -> None:
    tensor = weights(*shape)
    figure = heatmap(tensor).figure
    assert [title.replace("\n", ", ") for title in words(figure, "title")] == titles
    for image, matrix in zip(panels(figure), tensor.reshape(-1, 2, 3), strict=True):
        np.testing.assert_array_equal(values(image), matrix)


def test_selections_keep_the_order_asked_for() -> None:
    tensor = weights(3, 2, 4, 4)
    figure = heatmap(tensor, tensor + 1, labels=["b", "a"], batches=[2, 0], heads=[1]).figure
    assert [title.replace("\n", ", ") for title in words(figure, "title")] == [
        f"{label}, batch {batch}, head 1" for batch in (2, 0) for label in "ba"
    ]
    np.testing.assert_array_equal(values(panels(figure)[0]), tensor[2, 1] + 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"labels": ["additiv"]}, 'scorer: got "additiv"; unknown label; did you mean `additive`?'),
        ({"labels": ["xyz"]}, 'scorer: got "xyz"; unknown label; known: additive, dot'),
        ({"batches": [2]}, "batch: got 2; expected a batch element in 0..1"),
        ({"batches": [-1]}, "batch: got -1; expected a batch element in 0..1"),
        ({"heads": [4]}, "head: got 4; expected a head in 0..3"),
        ({"batches": [1], "heads": [3]}, "no matrix has a batch element of [1] and a head of [3]"),
    ],
)
def test_what_is_not_there_cannot_be_selected(options: dict[str, Any], message: str) -> None:
    matrices = Matrices("weights", {"additive": weights(2, 3, 3), "dot": weights(1, 4, 3, 3)})
    with pytest.raises(InputError) as error:
        heatmap_figure(matrices, **options)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (torch.ones(3), "a: got float32 of shape [3]; expected real matrices (..., n, m), no size 0"),
        (torch.ones(2, 0, 3), "a: got float32 of shape [2, 0, 3]; expected real matrices (..., n, m), no size 0"),
        (torch.ones(2, 2) * 1j, "a: got complex64 of shape [2, 2]; expected real matrices (..., n, m), no size 0"),
    ],
)
def test_what_is_no_matrix_is_refused(tensor: Tensor, message: str) -> None:
    with pytest.raises(InputError) as error:
        heatmap(tensor)
    assert str(error.value) == message


def test_a_stage_that_no_scorer_has_is_refused() -> None:
    with pytest.raises(InputError) as error:
        heatmap_figure(Matrices("dropped", {}))
    assert str(error.value) == 'no scorer has the stage "dropped"; expected one that some scorer has'


@pytest.mark.parametrize(
    ("style", "message"),
    [
        ({"cmap": "Redz"}, 'cmap: got "Redz"; expected a colour map of matplotlib; did you mean `Reds`?'),
        ({"cmap": "??"}, 'cmap: got "??"; expected a colour map of matplotlib; such as Reds, viridis or Greys'),
        ({"scale": "log"}, 'got "log"; expected scale unit, shared, panel'),
        ({"annotate": "maybe"}, 'got "maybe"; expected annotate auto, yes, no'),
    ],
)
def test_unknown_styles_are_refused(style: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as error:
        HeatmapStyle(**style)
    assert str(error.value) == message


def test_panels_beyond_the_most_are_left_out_with_a_note() -> None:
    heat = heatmap(weights(5, 4, 2, 2), weights(5, 4, 2, 2), most_panels=16)
    assert len(panels(heat.figure)) == 16
    assert heat.notes == (
        "16 of 40 panels are shown, up to b, batch element 1, head 3; "
        "attncli heatmap with --scorer, --batch or --head draws others",
    )
    assert heatmap(weights(8, 2, 2), weights(8, 2, 2), most_panels=16).notes == ()


@pytest.mark.parametrize(
    ("shapes", "rows_and_columns"),
    [
        ([(1, 4, 4)], (1, 1)),
        ([(2, 4, 4)] * 2, (2, 2)),
        ([(2, 1, 10)] * 2, (2, 2)),
        ([(4, 6, 6)] * 2, (4, 2)),  # a longer page rather than another order
        ([(12, 4, 4)], (3, 4)),  # not one strip of twelve
        ([(2, 4, 6, 6)], (2, 4)),  # heads side by side
        ([(1, 8, 6, 6)], (2, 4)),
        ([(1, 4, 4)] * 12, (3, 4)),  # the labels of one place wrap
        ([(1, 4, 4)] * 3, (1, 3)),
        ([(24, 4, 4)] * 2, (6, 8)),  # several places beside each other, their labels together
        ([(16, 4, 4)] * 3, (6, 9)),
    ],
)
def test_many_panels_fill_a_page_rather_than_a_strip(shapes: Any, rows_and_columns: tuple[int, int]) -> None:
    assert grid(heatmap(*(weights(*shape) for shape in shapes)).figure) == rows_and_columns


def test_scorers_of_a_place_stay_side_by_side() -> None:
    titles = words(heatmap(weights(24, 4, 4), weights(24, 4, 4)).figure, "title")
    assert [title.split("\n")[0].split(",")[0] for title in titles] == ["a", "b"] * 24


@pytest.mark.parametrize(("n", "m"), [(1, 1), (1, 10), (10, 10), (5, 12), (1, 500), (500, 1), (50, 50), (2000, 3000)])
def test_size_follows_the_content(n: int, m: int) -> None:
    figure = heatmap(weights(1, n, m)).figure
    _, _, width, height = inches(figure, panels(figure)[0])
    assert min(width, height) >= 0.3
    assert max(width, height) <= 5
    if min(n, m) * max(width, height) / max(n, m) >= 0.31:  # square cells are not too thin
        assert width / m == pytest.approx(height / n, abs=0.01)
    assert max(figure.get_size_inches()) <= 8


def test_pictures_have_a_largest_size() -> None:
    figure = heatmap(
        weights(2, 24, 40, 40),
        tokens=Tokens([[f"token {i}" for i in range(40)]] * 2, [[f"key {i}" for i in range(40)]] * 2),
    ).figure
    assert max(figure.get_size_inches()) <= 20
    assert len(panels(figure)) == 48


def test_panels_may_differ_in_shape() -> None:
    figure = heatmap(weights(1, 50, 50), weights(2, 3, 20), weights(2, 2, 6, 6), stage="tensors").figure
    assert sorted(values(image).shape for image in panels(figure)) == [(3, 20)] * 2 + [(6, 6)] * 4 + [(50, 50)]
    assert words(figure, "quantity") == ["tensors"]


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int64, torch.bool]
)
def test_every_dtype_is_drawn(dtype: torch.dtype) -> None:
    tensor = torch.tensor([[0, 1], [1, 0]]).to(dtype)
    np.testing.assert_array_equal(values(panels(heatmap(tensor).figure)[0]), [[0, 1], [1, 0]])


def test_tensors_that_want_gradients_are_drawn_and_left_alone() -> None:
    tensor = weights(1, 2, 2).requires_grad_()
    valid = valid_mask((1, 2, 2), [1])
    before = tensor.detach().clone()
    assert len(panels(heatmap(tensor, valid=valid).figure)) == 1
    torch.testing.assert_close(tensor.detach(), before, rtol=0, atol=0)


SIZE = st.integers(1, 12)
TOKEN = st.text("aW我$_\\\n 0", max_size=9)


@settings(max_examples=15)
@given(b=st.integers(1, 3), n=SIZE, m=SIZE, scale=st.sampled_from(["unit", "shared", "panel"]), data=st.data())
def test_no_text_leaves_the_page_or_covers_another(b: int, n: int, m: int, scale: Any, data: Any) -> None:
    names = [data.draw(st.none() | st.lists(TOKEN, min_size=size, max_size=size)) for size in (n, m)]
    tokens = Tokens(*(None if name is None else [name] for name in names))
    figure = heatmap(weights(b, n, m), weights(b, n, m) * 1000, tokens=tokens, style=HeatmapStyle(scale=scale)).figure
    check_texts(figure)


def check_texts(figure: Figure) -> None:
    """Every text lies on the page, and on no other text."""
    width, height = figure.bbox.size
    boxes = drawn_texts(figure)
    for index, (text, box) in enumerate(boxes):
        assert box.x0 >= 0, text
        assert box.y0 >= 0, text
        assert box.x1 <= width, text
        assert box.y1 <= height, text
        for other, second in boxes[:index]:
            across = min(box.x1, second.x1) - max(box.x0, second.x0)
            down = min(box.y1, second.y1) - max(box.y0, second.y0)
            assert min(across, down) <= 4, (text, other)  # pixels: boxes are a little wider than the ink


def test_titles_wider_than_their_panels_have_room() -> None:
    tensors = {"scaled_dot": weights(2, 2, 1, 1), "additive": weights(2, 2, 1, 1)}
    figure = heatmap_figure(Matrices("weights", tensors)).figure
    assert words(figure, "title")[0] == "scaled_dot\nbatch 0, head 0"
    check_texts(figure)


def test_legend_and_footnote_wider_than_the_panels_have_room() -> None:
    lengths = [[0] * 1000 + [1] * 3000]
    heat = heatmap(masked_softmax(torch.zeros(1, 4000, 1), lengths), valid=valid_mask((1, 4000, 1), lengths))
    assert words(heat.figure, "legend") == ["masked"]
    assert words(heat.figure, "footnote") == ["each pixel is the mean of about 4 × 1 cells"]
    check_texts(heat.figure)
