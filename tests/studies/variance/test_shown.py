"""variance.png of results made by hand: points with intervals and theory, and a panel of densities for each label."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import scipy.stats
import torch
from matplotlib.colors import to_rgb

from attncli.config.looks import Look, Theme
from attncli.results import Result
from attncli.show.pictures.figures import Picture
from attncli.show.pictures.looks import label_looks
from attncli.show.pictures.themes import THEMES
from attncli.studies.pairs.entries import PairsFacts
from attncli.studies.variance.figure import MOST_PANELS, figures
from tests.margins import sampled

pytestmark = pytest.mark.usefixtures("sketches")

SIZES = (4, 16, 64, 256)
STDS: dict[str, Callable[[float], float]] = {
    "dot": math.sqrt,
    "scaled_dot": lambda d: 1.0,
    "scaled_dot_1_over_d": lambda d: d**-0.5,
}
SAMPLES = 100_000
STATS: Any = scipy.stats
ENTRIES: dict[str, Any] = {"distribution": "normal", "df": None, "rho": 0.0}
ENTRIES |= {f"{side}_{name}": float(name == "std") for side in ("query", "key") for name in ("mean", "std")}


def result_of(
    labels: Sequence[str] = tuple(STDS), sizes: Sequence[int] = SIZES, theory: str | None = "exact", **facts: Any
) -> Result:
    """Return a result of normal scores of mean d / 100 whose counts in each bin are the expected ones."""
    records, tensors = list[dict[str, Any]](), dict[str, torch.Tensor]()
    for label in labels:
        rows = []
        for d in sizes:
            std, mean = STDS.get(label, math.sqrt)(d), d / 100
            edges = mean + std * np.linspace(-5, 5, 101)
            counts = SAMPLES * np.diff(STATS.norm.cdf(edges, mean, std))
            tensors[f"histogram/{label}/{d}/edges"] = torch.from_numpy(edges)
            tensors[f"histogram/{label}/{d}/counts"] = torch.from_numpy(counts)
            row = {"d": d, "samples": SAMPLES, "mean": mean, "variance": std**2, "theory_mean": mean}
            row |= {"variance_ci_low": 0.9 * std**2, "variance_ci_high": 1.2 * std**2}
            rows.append(row | {"theory_mean": mean, "theory_variance": 1.1 * std**2 if theory else math.nan})
            records.append({"scorer": label, "label": label, "theory": theory, **row})
        for column in rows[0]:
            tensors[f"curve/{label}/{column}"] = torch.tensor([row[column] for row in rows], dtype=torch.float64)
    return Result("variance", "variance", records, tensors=tensors, facts=PairsFacts(**ENTRIES | facts))


def draw(result: Result, note: Any = pytest.fail, **looks: Any) -> Picture:
    figure: Picture = figures(result, note, Look(**looks))["variance"]()
    return figure


def panels(figure: Picture) -> tuple[Any, list[Any]]:
    """Return the panel of variances and the panels of densities."""
    left, *right = sorted(figure.axes, key=lambda axes: axes.get_title() != "variance of the\nscores")
    return left, right


def solid(axes: Any) -> list[Any]:
    """Return the lines of measured densities."""
    return [line for line in axes.lines if line.get_linestyle() == "-"]


def depth(colour: Any, ground: str) -> float:
    """Return the distance of a colour from the background."""
    return math.dist(to_rgb(colour), to_rgb(ground))


@pytest.mark.usefixtures("laid_out")
def test_variances_with_their_intervals_and_theory() -> None:
    result = result_of()
    left, right = panels(draw(result))
    assert len(right) == 3
    assert (left.get_xscale(), left.get_yscale(), left.get_xlabel()) == ("log", "log", "d")
    assert all(left.get_position().x1 <= axes.get_position().x0 for axes in right), "left of all densities"
    for index, (label, look) in enumerate(label_looks(result.labels).items()):
        of_label = [line for line in left.lines if line.get_color() == look.light]
        variances = np.array([row["variance"] for row in result.records if row["label"] == label])
        (points,) = (line for line in of_label if line.get_marker() == look.marker)
        (theory,) = (line for line in of_label if line.get_marker() in ("", "None"))
        assert points.get_linestyle() == "None"
        np.testing.assert_allclose(points.get_xydata(), np.transpose([SIZES, variances]))
        np.testing.assert_allclose(theory.get_xydata(), np.transpose([SIZES, 1.1 * variances]))
        bars: Any = left.collections[index]
        ends = [segment[:, 1].tolist() for segment in bars.get_segments()]
        np.testing.assert_allclose(ends, np.transpose([0.9 * variances, 1.2 * variances]))
    assert [1.0, 1.0] in [list(line.get_ydata()) for line in left.lines]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_each_label_has_its_densities_from_pale_to_its_colour(theme: Theme) -> None:
    result = result_of()
    figure = draw(result, theme=theme)
    legend = figure.legends[0]
    shades = {text.get_text(): line for text, line in zip(legend.get_texts(), legend.get_lines(), strict=True)}
    assert {"dot", "scaled_dot", "theory", "variance 1", "normal density"} <= shades.keys()
    depths = [depth(shades[f"d = {d}"].get_color(), THEMES[theme].ground) for d in SIZES]
    assert depths == sorted(depths)
    for axes, (label, look) in zip(panels(figure)[1], label_looks(result.labels).items(), strict=True):
        assert axes.get_title().replace("\n", "") == label
        assert (axes.get_xscale(), axes.get_yscale()) == ("linear", "linear")
        lines = solid(axes)
        assert [line.get_label() for line in lines] == [f"d = {d}" for d in SIZES]
        assert lines[-1].get_color() == getattr(look, theme)
        depths = [depth(line.get_color(), THEMES[theme].ground) for line in lines]
        assert depths == sorted(depths)
        assert len(set(depths)) == len(SIZES)
        assert all(1.5 <= line.get_linewidth() <= 2 for line in axes.lines)
        for line, d in zip(lines, SIZES, strict=True):
            x, y = line.get_xydata().T
            np.testing.assert_allclose(
                y, STATS.norm.pdf(x, d / 100, STDS[label](d)), rtol=sampled(0.01, 0.003), atol=1e-4
            )


def test_dotted_densities_are_normal_with_the_moments_of_the_theory() -> None:
    figure = draw(result_of(["dot"]))
    (axes,) = panels(figure)[1]
    dotted = [line for line in axes.lines if line not in solid(axes)]
    assert len(dotted) == len(SIZES)
    for line, d in zip(dotted, SIZES, strict=True):
        x, y = line.get_xydata().T
        np.testing.assert_allclose(y, STATS.norm.pdf(x, d / 100, math.sqrt(1.1 * d)), rtol=1e-9)
    assert "dotted: normal with the theory's mean and variance" in figure.subtitle.get_text()
    unknown = draw(result_of(["dot"], theory=None))
    assert panels(unknown)[1][0].lines[:] == solid(panels(unknown)[1][0])
    assert "theory" not in unknown.subtitle.get_text()
    figure = draw(result_of(["dot"], [64], theory=None, **{"from": "qk.npz"}))
    assert figure.facts[-1].endswith(" pairs"), "without heads"
    (line,) = panels(figure)[1][0].lines
    assert line.get_color() == label_looks(["dot"])["dot"].light, "real tensors"
    assert "normal density" not in [text.get_text() for text in unknown.legends[0].get_texts()]


@pytest.mark.parametrize(
    ("label", "sizes"), [("dot", SIZES), ("scaled_dot", (64,)), ("scaled_dot_1_over_d", (16, 256))]
)
def test_every_bell_looks_like_a_bell(label: str, sizes: Sequence[int]) -> None:
    """The axis covers the widest bell and not much more, and the lowest bell takes a tenth of the panel or more."""
    (axes,) = panels(draw(result_of([label], sizes)))[1]
    stds = [STDS[label](d) for d in sizes]
    means = [d / 100 for d in sizes]
    for sign, end in zip((-1, 1), axes.get_xlim(), strict=True):
        wanted = max(sign * mean + 2.9 * std for mean, std in zip(means, stds, strict=True))
        assert sign * end == pytest.approx(wanted, abs=0.2 * max(stds))
    assert axes.get_ylim()[0] == 0
    assert min(max(line.get_ydata()) for line in solid(axes)) > 0.08 * axes.get_ylim()[1]


def test_scores_far_outside_do_not_widen_the_axis() -> None:
    """One score in a thousand lies a hundred times as far out as the others."""
    result = result_of(["dot"], [64])
    edges = np.linspace(-500, 500, 101)
    counts = SAMPLES * np.diff(STATS.norm.cdf(edges, 0, 8))
    counts[-1] = SAMPLES / 1000
    result.tensors["histogram/dot/64/edges"] = torch.from_numpy(edges)  # type: ignore[index]
    result.tensors["histogram/dot/64/counts"] = torch.from_numpy(counts)  # type: ignore[index]
    assert panels(draw(result))[1][0].get_xlim()[1] < 50


@pytest.mark.usefixtures("laid_out")
@pytest.mark.parametrize("count", [1, 4, 14])
def test_many_labels_have_a_panel_each_that_can_be_read(count: int) -> None:
    notes = list[str]()
    figure = draw(result_of([f"entry {index}" for index in range(count)], sizes=[16, 64]), notes.append)
    _, right = panels(figure)
    assert len(right) == min(count, MOST_PANELS)
    assert notes == (["variance.png has the densities of 12 of 14 labels"] if count > MOST_PANELS else [])
    rows = {axes.get_subplotspec().rowspan.start for axes in right}
    assert len(rows) == math.ceil(len(right) / 4 if count > 9 else len(right) / 3 if count != 4 else 2)
    for axes in right:
        width, height = axes.get_position().size * figure.get_size_inches()
        assert min(width, height) > 0.7
    assert figure.get_figwidth() == pytest.approx(7)
    assert [axes.get_xlabel() for axes in right[-2:]] == ["score"] * min(2, len(right))
