"""Heatmaps: the panels and their titles; nothing overlaps or leaves the page."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attncli.config.looks import HeatmapLook
from attncli.errors import InputError
from attncli.results import Matrices, Tokens
from attncli.show.pictures.heatmaps import heatmap_figure, runs_figure
from tests.show.pictures.drawn import (
    above,
    bars,
    beside,
    check_texts,
    heatmap,
    labels,
    legend,
    panels,
    ticks,
    titles,
    values,
    weights,
)

pytestmark = pytest.mark.usefixtures("sketches")


@pytest.mark.usefixtures("laid_out")
@pytest.mark.parametrize(
    ("shape", "places"),
    [
        ((2, 3), []),
        ((1, 2, 3), []),
        ((2, 2, 3), ["batch 0", "batch 1"]),
        ((2, 2, 2, 3), ["batch 0, head 0", "batch 0, head 1", "batch 1, head 0", "batch 1, head 1"]),
        ((1, 2, 2, 2, 3), ["head 0", "head 1", "head 2", "head 3"]),
    ],
)
def test_labels_stand_once_above_their_columns_and_places_beside_their_rows(shape: Any, places: list[str]) -> None:
    tensor, spare = weights(*shape), [""] * (len(places) - 1)
    alone, figure = heatmap(tensor).figure, heatmap(tensor, tensor / 2).figure
    assert titles(alone) == (places or ["a"])
    assert alone.get_suptitle() == ("attention weight, a" if places else "attention weight")
    assert (above(figure), figure.get_suptitle()) == (["a", "b", *spare * 2], "attention weight")
    assert beside(figure) == [text for place in places for text in (place, "")] or not places
    matrices = torch.stack([tensor, tensor / 2], -3).reshape(-1, 2, 3)
    for axes, matrix in zip(panels(figure), matrices, strict=True):
        np.testing.assert_array_equal(values(axes), matrix)
    if places:
        assert [axes.get_xlabel() for axes in panels(figure)] == [*spare * 2, "Keys", "Keys"]
        assert {axes.yaxis.label.get_rotation() for axes in panels(figure) if axes.get_ylabel()} == {0.0}
    ends = [end for axes in panels(figure) for end in axes.get_position().intervaly]
    assert (figure.rows_label, figure.get_supylabel(), len(bars(figure))) == (figure.rows_label, "Queries", 1)
    assert figure.rows_label is not None
    assert figure.rows_label.get_position()[1] == pytest.approx((min(ends) + max(ends)) / 2), "beside the middle"
    check_texts(figure)


@pytest.mark.usefixtures("laid_out")
def test_many_heads_stand_in_groups_of_columns() -> None:
    tensor = weights(1, 6, 5, 5)
    figure = heatmap(tensor, tensor / 2).figure
    assert titles(figure) == [f"{label}, head {head}" for head in range(6) for label in "ab"]
    columns = panels(figure)[0].get_gridspec().ncols  # type: ignore[union-attr]
    assert columns > 2
    assert above(figure) == ["a", "b"] * (columns // 2) + [""] * (12 - columns)
    assert beside(figure) == [text for head in range(6) for text in (f"head {head}", "")]
    for axes, matrix in zip(panels(figure), torch.stack([tensor, tensor / 2], 2).reshape(-1, 5, 5), strict=True):
        np.testing.assert_array_equal(values(axes), matrix)
    check_texts(figure)


def test_selections_keep_the_order_asked_for() -> None:
    tensor = weights(3, 2, 4, 4)
    figure = heatmap(tensor, tensor + 1, labels=["b", "a"], batches=[2, 0], heads=[1]).figure
    assert titles(figure) == [f"{label}, batch {batch}, head 1" for batch in (2, 0) for label in "ba"]
    np.testing.assert_array_equal(values(panels(figure)[0]), tensor[2, 1] + 1)


def test_panels_beyond_the_most_are_left_out_with_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attncli.show.pictures.matrices.MOST_PANELS", 8)
    heat = heatmap(*[weights(2, 2, 2, 2)] * 3)
    assert len(panels(heat.figure)) == 6  # all labels of a place or none
    words = "6 of 12 panels are shown, up to c, batch element 0, head 1"
    assert heat.notes == [f"{words}; attncli heatmap with --scorer, --batch or --head draws others"]


@pytest.mark.usefixtures("laid_out")
def test_panels_may_differ_in_shape_and_type() -> None:
    stack = weights(1, 50, 50).bfloat16(), weights(2, 3, 20).requires_grad_(), weights(1, 2, 6, 6) > 0.1
    figure = heatmap(*stack, stage="tensors").figure
    assert sorted(values(axes).shape for axes in panels(figure)) == [(3, 20)] * 2 + [(6, 6)] * 2 + [(50, 50)]
    check_texts(figure)
    with pytest.raises(InputError, match=r"^a: got float32 of shape \[2\]; expected real matrices \(..., n, m\)"):
        heatmap(torch.zeros(2))


SIZE = st.integers(1, 12)
TOKEN = st.text("aW我$_\\\n 0", max_size=9)


@pytest.mark.usefixtures("laid_out")
@pytest.mark.slow
@settings(max_examples=15)
@given(b=st.integers(1, 3), n=SIZE, m=SIZE, scale=st.sampled_from(["shared", "label", "panel"]), data=st.data())
def test_no_text_leaves_the_page_or_covers_another(b: int, n: int, m: int, scale: Any, data: Any) -> None:
    names = [data.draw(st.none() | st.lists(TOKEN, min_size=size, max_size=size)) for size in (n, m)]
    tokens = Tokens(*(None if name is None else [name] * b for name in names))
    heat = heatmap(weights(b, n, m), weights(b, n, m) * 1000, tokens=tokens, look=HeatmapLook(scale=scale))
    check_texts(heat.figure)


@pytest.mark.usefixtures("laid_out")
@pytest.mark.parametrize("m", [1, 7, 31, 12345])
def test_numbered_ticks_are_true_indices_and_keep_their_distance(m: int) -> None:
    figure = heatmap(weights(1, 2, m)).figure
    check_texts(figure)
    (axes,) = panels(figure)
    texts = labels(axes, "x")
    assert list(map(int, texts)) == [label.get_position()[0] for label in ticks(axes, "x")]
    assert (axes.get_xlim(), axes.get_ylim()) == ((-0.5, m - 0.5), (1.5, -0.5))
    assert (texts[0], len(texts) > 1) == ("0", m > 1)


def test_tokens_name_the_ticks_of_their_batch_element() -> None:
    tokens = Tokens([["q0", "q1"], ["r0", "r1"]], [["k0", "k1", "k2"], ["l0", "l1", "l2"]])
    figure = heatmap(weights(2, 2, 3), weights(2, 2, 3), tokens=tokens).figure
    assert [labels(axes, "y") for axes in panels(figure)] == [["q0", "q1"], [], ["r0", "r1"], []]
    keys = ["k0", "k1", "k2"], ["l0", "l1", "l2"]
    assert [labels(axes, "x") for axes in panels(figure)] == [keys[0], keys[0], keys[1], keys[1]]  # they differ
    same = heatmap(weights(2, 2, 3), weights(2, 2, 3), tokens=Tokens(None, [keys[0]] * 2)).figure
    assert [labels(axes, "x") for axes in panels(same)] == [[], [], keys[0], keys[0]]
    assert labels(panels(same)[0], "y") == ["0", "1"]


@pytest.mark.usefixtures("laid_out")
def test_tokens_that_cannot_all_be_read_are_thinned_out_with_a_note() -> None:
    names = [f"token{i}" for i in range(80)]
    heat = heatmap(weights(1, 80, 80), tokens=Tokens([names], [names]))
    (axes,) = panels(heat.figure)
    down, across = int(axes.get_yticks()[1]), int(axes.get_xticks()[1])
    assert (labels(axes, "y"), labels(axes, "x")) == (names[::down], names[::across])
    assert min(down, across) > 1
    assert f"not all tokens have room: one in {down} queries and one in {across} keys is labelled" in heat.notes
    assert heatmap(weights(1, 25, 25), tokens=Tokens([names[:25]], [names[:25]])).notes == []
    check_texts(heat.figure)


def test_tokens_are_drawn_as_they_are() -> None:
    tokens = ["$x^2$", "\\frac{", "a\nb", "", "x" * 40]
    (axes,) = panels(heatmap(weights(1, 5, 5), tokens=Tokens([tokens], [tokens])).figure)
    assert labels(axes, "x") == labels(axes, "y") == ["$x^2$", "\\frac{", "a\\nb", "''", "x" * 23 + "…"]
    assert not any(text.get_parse_math() for text in [*ticks(axes, "x"), axes.title])


@pytest.mark.usefixtures("laid_out")
@pytest.mark.parametrize(
    ("labels", "tokens", "size", "points", "stage"),
    [
        (["scaled_dot", "cosine"], ["the", "cat", "sat", "on", "the", "mat"], [3.3, 2.5], None, "weights"),
        (["dot", "cosine"], [f"{i} attention" for i in range(6)], None, None, "scores"),
        (["dot", "cosine"], ["a", "remarkable", "b", "c", "d", "e"], [13.33, 7.5], 17, "weights"),
        (["model", "softmax_plus_one", "cosine", "one_over_d"], None, [3.3, 2.5], None, "weights"),
    ],
)
def test_names_have_one_orientation_and_do_not_collide(
    labels: Any, tokens: Any, size: Any, points: float | None, stage: str
) -> None:
    """Scores have a colour bar below each column."""
    tensors = {label: weights(1, 2, 6, 6, seed=seed) for seed, label in enumerate(labels)}
    names = Tokens([tokens], [tokens]) if tokens else Tokens()
    look = HeatmapLook(size=size, font_size=points, subtitle="Mine")
    figure = heatmap_figure(Matrices(stage, tensors, tokens=names), look)
    check_texts(figure)
    for axis, degrees in (("x", {0.0, 90.0}), ("y", {0.0})):
        turned = {label.get_rotation() for axes in panels(figure) for label in ticks(axes, axis) if label.get_text()}
        assert len(turned & degrees) == len(turned) == 1
    turned = {axes.title.get_rotation() for axes in panels(figure) if axes.get_title()}
    assert turned == {90.0 if len(labels) == 4 else 0.0}, "flat where they fit"
    assert [title for title in above(figure) if title] == labels
    assert [text.get_text() for text in figure.texts].count("Mine") == (len(labels) == 2), "else there is no room"


@pytest.mark.usefixtures("laid_out")
def test_batch_elements_of_one_query_are_the_rows_of_a_map_for_each_scorer() -> None:
    """The picture of the chapter: reds from 0 to the largest weight, masked keys hatched, numbers in the cells."""
    a, b = weights(2, 1, 10, seed=1), weights(2, 1, 10, seed=2)
    valid = torch.arange(10) < torch.tensor([4, 10]).reshape(2, 1, 1)
    figure = heatmap(a, b, valid=valid).figure
    assert (titles(figure), beside(figure)) == (["a", "b"], ["", ""])
    assert (figure.get_supylabel(), legend(figure)) == ("Batch elements", ["masked"])
    largest = float(torch.cat([a, b])[valid.expand(2, 1, 10).repeat(2, 1, 1)].max())
    for axes, matrix in zip(panels(figure), (a, b), strict=True):
        assert axes.patch.get_hatch()
        np.testing.assert_array_equal(values(axes).filled(-1), matrix[:, 0].where(valid[:, 0], -1))
        assert (labels(axes, "y"), axes.images[0].get_clim()) == (["0", "1"], (0.0, largest))
        assert [text.get_text() for text in axes.texts] == [f"{value:.2f}" for value in matrix[valid].tolist()]
    assert {axes.get_xlabel() for axes in panels(figure)} == {"", "Keys"}
    check_texts(figure)


def test_heads_of_one_query_are_the_rows_of_a_map_for_each_scorer_and_batch_element() -> None:
    several = weights(2, 3, 1, 5)
    figure = heatmap(several, several / 2).figure
    assert titles(figure) == ["a, batch 0", "b, batch 0", "a, batch 1", "b, batch 1"]
    for axes, matrix in zip(panels(figure), [several[0], several[0] / 2, several[1], several[1] / 2], strict=True):
        np.testing.assert_array_equal(values(axes), matrix[:, 0])
    cases: list[tuple[dict[str, Any], str, str, list[str]]] = [
        ({"batches": [1]}, "batch 1, 3 of 6 heads", "Heads", ["0", "1", "2"]),
        ({"batches": [1], "heads": [2, 1]}, "batch 1, 2 of 6 heads", "Heads", ["2", "1"]),
        ({"heads": [2]}, "head 2, 2 of 6 heads", "Batch elements", ["0", "1"]),
    ]
    for options, place, rows, names in cases:
        chosen = heatmap(several, several, **options).figure
        assert chosen.get_suptitle() == f"attention weight, {place}"
        assert chosen.get_supylabel().replace("\n", " ") == rows
        assert (titles(chosen), labels(panels(chosen)[0], "y")) == (["a", "b"], names)


def test_rows_of_single_queries_have_differences_ranges_and_names() -> None:
    a, b = weights(2, 5, 9), weights(2, 5, 9, seed=1)
    tokens = Tokens([list("pqrst"), list("uvwxy")], [list("abcdefghi")] * 2)
    look = HeatmapLook(minus="a", queries="3:4", keys="2:8")
    figure = heatmap(a, b, tokens=tokens, look=look).figure
    (axes,) = panels(figure)
    np.testing.assert_allclose(values(axes), (b.double() - a.double())[:, 3, 2:8])
    assert (labels(axes, "x"), labels(axes, "y"), axes.get_xlim()) == (list("cdefgh"), ["0 s", "1 x"], (-0.5, 5.5))
    zoomed = heatmap(a, look=look.model_copy(update={"minus": None})).figure
    assert (zoomed.get_suptitle(), panels(zoomed)[0].get_xlim()) == ("attention weight, query 3", (1.5, 7.5))
    other = heatmap(weights(2, 1, 2), tokens=Tokens(None, [["a", "b"], ["c", "d"]])).figure
    assert [labels(axes, "x") for axes in panels(other)] == [["a", "b"], ["c", "d"]]  # a row each, as tokens differ
    assert other.get_supylabel() == "Queries"


def test_of_two_runs_it_is_the_second_minus_the_first() -> None:
    first, second = weights(1, 3, 4), weights(1, 3, 4, seed=1)
    old, new = (Matrices("weights", {"dot": matrix}) for matrix in (first, second))
    figure = runs_figure(old, new, ["dot"], [(0, 0)], ("old", "new"))
    (axes,) = panels(figure)
    assert figure.get_suptitle() == "attention weight, new − old"
    np.testing.assert_allclose(values(axes), (second - first)[0], atol=1e-6)


def test_a_head_that_no_chosen_batch_element_has_cannot_be_drawn() -> None:
    matrices = Matrices("weights", {"additive": weights(2, 3, 3), "dot": weights(1, 4, 3, 3)})
    with pytest.raises(InputError, match=r"^no matrix has a batch element of \[1\] and a head of \[3\]$"):
        heatmap_figure(matrices, batches=[1], heads=[3])
