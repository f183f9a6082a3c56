"""variance.png shows the points, intervals, theory and histograms of a result, however many labels there are."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

from attncli.runs.tensors import save_named
from attncli.show.panels import drawing, look_of
from attncli.studies.study import Result
from attncli.studies.variance.figure import density, figure_of, pictures
from tests.studies.pairs.samples import swept
from tests.views.sweep_pictures import check_texts
from tests.views.sweep_samples import many_scorers


def points(figure: Figure, index: int) -> list[tuple[float, float]]:
    """Those of the label with this index, in the left panel."""
    look = look_of(index)
    lines: Any = figure.axes[0].lines
    (line,) = (each for each in lines if (each.get_color(), each.get_marker()) == (look["color"], look["marker"]))
    return list(zip(line.get_xdata(), line.get_ydata(), strict=True))


def labelled(labels: list[str], **keys: Any) -> Result:
    scorers = [{"scorer": "dot", "label": label} for label in labels]
    return swept("variance", samples=1000, scorers=scorers, **keys)


def test_points_intervals_and_theory() -> None:
    result = swept("variance", d=[2, 4, 8], samples=1000)
    figure = figure_of(result, print)
    for index, label in enumerate(result.labels):
        records = [record for record in result.records if record["label"] == label]
        assert points(figure, index) == [(record["d"], record["variance"]) for record in records]
        bars: Any = figure.axes[0].collections[index]
        assert [segment[:, 1].tolist() for segment in bars.get_segments()] == [r["variance_ci"] for r in records]
    lines: Any = figure.axes[0].lines
    theory = next(line for line in lines if line.get_linestyle() == "-")
    assert theory.get_xydata().tolist() == [[2.0, 2.0], [4.0, 4.0], [8.0, 8.0]]


def test_a_single_size_has_the_powers_of_two_below_it() -> None:
    assert [d for d, _ in points(figure_of(swept("variance", d=[6], samples=1000), print), 0)] == [1, 2, 4, 6]


@pytest.mark.parametrize(("heads", "places"), [(1, [-0.25, 0.25]), (3, [-0.25, 0.25])])
def test_real_heads_side_by_side(heads: int, places: list[float], tmp_path: Path) -> None:
    leading = (1, heads) if heads > 1 else (1,)
    tensors = {"queries": torch.randn(*leading, 5, 16), "keys": torch.randn(*leading, 6, 16)}
    save_named(tmp_path / "qk.safetensors", tensors)
    scorers = [{"scorer": "dot"}, {"scorer": "cosine"}]
    figure = figure_of(swept("variance", source=tmp_path / "qk.safetensors", scorers=scorers), print)
    for index, aside in enumerate(places):
        found = [x for x, _ in points(figure, index)]
        assert found == pytest.approx([head + aside / 2 for head in range(heads)])


def test_density_of_standardised_scores() -> None:
    """With 20 of 100 samples outside of the bins, and moments of two heads together."""
    edges, counts = np.linspace(-5, 15, 101), np.zeros(100)
    counts[40:60] = 4.0
    curve = {"d": [8, 8], "samples": [50, 50], "mean": [4.0, 6.0], "variance": [3.0, 3.0]}
    found, heights = density(edges, counts, {key: np.array(column) for key, column in curve.items()})
    assert [found[0], found[-1]] == pytest.approx([-5, 5])  # mean 5, std sqrt(3 + 1) = 2
    assert (heights * np.diff(found)).sum() == pytest.approx(0.8)


@pytest.mark.parametrize("count", [1, 3, 14])
def test_all_texts_have_room(count: int) -> None:
    notes: list[str] = []
    result = labelled(list(many_scorers(count)), d=[1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024], mean=0.25)
    with drawing(result.labels, notes.append):
        check_texts(figure_of(result, print))


def test_what_cannot_be_drawn_is_noted(tmp_path: Path) -> None:
    notes: list[str] = []
    pictures(swept("variance", d=[3, 5], std=0.0, samples=10), notes.append)["variance.png"](tmp_path / "variance.png")
    lost = "variance of the scores of dot, scaled_dot, scaled_dot_1_over_d"
    assert notes == [f"not drawn, as not a positive number: {lost}"]
    assert (tmp_path / "variance.png").stat().st_size > 1000


def test_the_same_result_gives_the_same_bytes(tmp_path: Path) -> None:
    result = labelled(["a", "_b $x$"], d=[2, 4])
    for name in "ab":
        pictures(result, print)["variance.png"](tmp_path / f"{name}.png")
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
