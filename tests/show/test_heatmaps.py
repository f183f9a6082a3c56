"""Heatmaps: the panels and their titles; nothing overlaps or leaves the page."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attncli.common.study import Matrices, Tokens
from attncli.config.looks import HeatmapLook
from attncli.errors import InputError
from attncli.show.heatmaps import heatmap_figure
from tests.show.drawn import bars, check_texts, heatmap, labels, panels, ticks, titles, values, weights


def test_rows_are_batch_elements_and_columns_are_scorers() -> None:
    a, b = weights(2, 1, 10, seed=1), weights(2, 1, 10, seed=2)
    figure = heatmap(a, b).figure
    assert titles(figure) == ["a, batch 0", "b, batch 0", "a, batch 1", "b, batch 1"]
    tops = [axes.get_window_extent().y1 for axes in panels(figure)]
    assert tops == sorted(tops, reverse=True), "flat panels stand below each other"
    assert (panels(figure)[-1].get_xlabel(), figure.get_supylabel()) == ("Keys", "Queries")
    assert len(bars(figure)) == 1


@pytest.mark.parametrize(
    ("shape", "names"),
    [
        ((2, 3), ["a"]),
        ((1, 2, 3), ["a"]),
        ((2, 2, 3), ["a, batch 0", "a, batch 1"]),
        ((1, 2, 2, 3), ["a, head 0", "a, head 1"]),
        ((2, 2, 2, 3), ["a, batch 0, head 0", "a, batch 0, head 1", "a, batch 1, head 0", "a, batch 1, head 1"]),
        ((1, 2, 2, 2, 3), ["a, head 0", "a, head 1", "a, head 2", "a, head 3"]),
    ],
)
def test_titles_name_batch_element_and_head_where_there_is_more_than_one(shape: Any, names: list[str]) -> None:
    tensor = weights(*shape)
    figure = heatmap(tensor).figure
    assert titles(figure) == names
    for axes, matrix in zip(panels(figure), tensor.reshape(-1, 2, 3), strict=True):
        np.testing.assert_array_equal(values(axes), matrix)


def test_selections_keep_the_order_asked_for() -> None:
    tensor = weights(3, 2, 4, 4)
    figure = heatmap(tensor, tensor + 1, labels=["b", "a"], batches=[2, 0], heads=[1]).figure
    assert titles(figure) == [f"{label}, batch {batch}, head 1" for batch in (2, 0) for label in "ba"]
    np.testing.assert_array_equal(values(panels(figure)[0]), tensor[2, 1] + 1)


def test_a_head_that_no_chosen_batch_element_has_cannot_be_drawn() -> None:
    matrices = Matrices("weights", {"additive": weights(2, 3, 3), "dot": weights(1, 4, 3, 3)})
    with pytest.raises(InputError) as error:
        heatmap_figure(matrices, batches=[1], heads=[3])
    assert str(error.value) == "no matrix has a batch element of [1] and a head of [3]"


def test_panels_beyond_the_most_are_left_out_with_a_note() -> None:
    heat = heatmap(*[weights(5, 4, 2, 2)] * 5)
    assert len(panels(heat.figure)) == 45  # all labels of a place or none
    assert heat.notes == [
        "45 of 100 panels are shown, up to e, batch element 2, head 0; "
        "attncli heatmap with --scorer, --batch or --head draws others",
    ]


def test_pages_have_a_limit() -> None:
    tokens = Tokens(*([[f"a long token {batch} {i}" for i in range(20)] for batch in range(8)] for _ in range(2)))
    figure = heatmap(weights(8, 20, 20), weights(8, 20, 20), tokens=tokens).figure
    assert len(panels(figure)) == 16
    assert figure.get_figwidth() <= 20
    check_texts(figure)


def test_panels_may_differ_in_shape() -> None:
    figure = heatmap(weights(1, 50, 50), weights(2, 3, 20), weights(2, 2, 6, 6), stage="tensors").figure
    assert sorted(values(axes).shape for axes in panels(figure)) == [(3, 20)] * 2 + [(6, 6)] * 4 + [(50, 50)]
    check_texts(figure)


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int64, torch.bool]
)
def test_every_dtype_is_drawn(dtype: torch.dtype) -> None:
    tensor = torch.tensor([[0, 1], [1, 0]]).to(dtype).requires_grad_(dtype.is_floating_point)
    np.testing.assert_array_equal(values(panels(heatmap(tensor).figure)[0]), [[0, 1], [1, 0]])
    with pytest.raises(InputError) as error:
        heatmap(tensor[0])
    kind = str(dtype).removeprefix("torch.")
    assert str(error.value) == f"a: got {kind} of shape [2]; expected real matrices (..., n, m), no size 0"


SIZE = st.integers(1, 12)
TOKEN = st.text("aW我$_\\\n 0", max_size=9)


@settings(max_examples=15)
@given(b=st.integers(1, 3), n=SIZE, m=SIZE, scale=st.sampled_from(["unit", "shared", "panel"]), data=st.data())
def test_no_text_leaves_the_page_or_covers_another(b: int, n: int, m: int, scale: Any, data: Any) -> None:
    names = [data.draw(st.none() | st.lists(TOKEN, min_size=size, max_size=size)) for size in (n, m)]
    tokens = Tokens(*(None if name is None else [name] * b for name in names))
    heat = heatmap(weights(b, n, m), weights(b, n, m) * 1000, tokens=tokens, look=HeatmapLook(scale=scale))
    check_texts(heat.figure)


def test_numbered_ticks_are_true_indices_and_keep_their_distance() -> None:
    for m in (1, 2, 7, 31, 1000, 12345):
        (axes,) = panels(heatmap(weights(1, 2, m)).figure)
        texts = labels(axes, "x")
        assert list(map(int, texts)) == [label.get_position()[0] for label in ticks(axes, "x")]
        assert axes.get_xlim() == (-0.5, m - 0.5)
        assert axes.get_ylim() == (1.5, -0.5)
        boxes = [label.get_window_extent() for label in ticks(axes, "x")]
        assert all(second.x0 > first.x1 for first, second in pairwise(boxes))
        assert texts[0] == "0"
        assert m == 1 or len(texts) > 1


def test_tokens_name_the_ticks_of_their_batch_element() -> None:
    tokens = Tokens([["q0", "q1"], ["r0", "r1"]], [["k0", "k1", "k2"], ["l0", "l1", "l2"]])
    figure = heatmap(weights(2, 2, 3), weights(2, 2, 3), tokens=tokens).figure
    assert [labels(axes, "y") for axes in panels(figure)] == [["q0", "q1"], [], ["r0", "r1"], []]
    keys = ["k0", "k1", "k2"], ["l0", "l1", "l2"]
    assert [labels(axes, "x") for axes in panels(figure)] == [keys[0], keys[0], keys[1], keys[1]]  # they differ
    same = heatmap(weights(2, 2, 3), weights(2, 2, 3), tokens=Tokens(None, [keys[0]] * 2)).figure
    assert [labels(axes, "x") for axes in panels(same)] == [[], [], keys[0], keys[0]]
    assert labels(panels(same)[0], "y") == ["0", "1"]


def test_tokens_that_cannot_all_be_read_are_thinned_out_with_a_note() -> None:
    names = [f"token{i}" for i in range(200)]
    heat = heatmap(weights(1, 200, 200), tokens=Tokens([names], [names]))
    (axes,) = panels(heat.figure)
    down, across = int(axes.get_yticks()[1]), int(axes.get_xticks()[1])
    assert (labels(axes, "y"), labels(axes, "x")) == (names[::down], names[::across])
    assert min(down, across) > 1
    assert f"too many tokens: one in {down} of the queries is shown, one in {across} of the keys is shown" in heat.notes
    assert heatmap(weights(1, 30, 30), tokens=Tokens([names[:30]], [names[:30]])).notes == []
    check_texts(heat.figure)


def test_tokens_are_drawn_as_they_are() -> None:
    tokens = ["$x^2$", "a_b", "\\frac{", "$", "a\nb", "\t", "", "x" * 40]
    shown = ["$x^2$", "a_b", "\\frac{", "$", "a\\nb", "\\t", "''", "x" * 23 + "…"]
    (axes,) = panels(heatmap(weights(1, 8, 8), tokens=Tokens([tokens], [tokens])).figure)
    assert labels(axes, "x") == labels(axes, "y") == shown
    assert not any(text.get_parse_math() for text in [*ticks(axes, "x"), axes.title])
