"""sweep.png and the page of a sweep: values of matplotlib's artists against means by hand."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.collections import PolyCollection

from attncli.config.looks import Look
from attncli.engine.report import report
from attncli.engine.runs.loading import StoredRun
from attncli.engine.runs.stored import StoredResult
from attncli.engine.sweeps.figure import MOST_PANELS, figures, runs_figures
from attncli.engine.sweeps.tables import heading, tables
from attncli.results import Result, SweepResult
from attncli.show.pictures.figures import Note, Picture
from attncli.show.pictures.looks import label_looks
from tests.engine.sweeps.test_summary import NOISE, Over, attention, swept
from tests.show.page.reading import Read
from tests.show.samples import printed

pytestmark = pytest.mark.usefixtures("sketches")

SEEDS = {"seed": [0, 1, 2]}
MEAN = sum(NOISE.values()) / 3


def numbers(line: Any) -> tuple[list[float], list[float]]:
    """Return the ends of the segments of a line."""
    x, y = line.get_data()
    return [float(each) for each in x], [float(each) for each in y]


def picture(result: SweepResult, note: Note = pytest.fail) -> Picture:
    return figures(result, note, Look())["sweep"]()


def sweep(over: Over, *labels: str) -> SweepResult:
    return swept("attention", over, attention(over, *labels))


def test_one_key_is_a_line_for_each_scorer_with_a_band_over_seeds() -> None:
    result = sweep([SEEDS, {"scorers[0].scale": [0.1, 1.0, 10.0]}])
    figure = picture(result)
    (axes,) = figure.axes
    lines = {line.get_gid(): line for line in axes.lines}
    assert set(lines) == {"entropy-dot", "entropy-cosine"}
    assert numbers(lines["entropy-dot"])[0] == pytest.approx([0.1, 1, 10])
    assert numbers(lines["entropy-cosine"])[1] == pytest.approx([each + 1 + MEAN for each in (0.1, 1, 10)])
    assert lines["entropy-dot"].get_color() == label_looks(["dot"])["dot"].light
    assert sum(isinstance(each, PolyCollection) for each in axes.collections) == 2
    assert (axes.get_xscale(), axes.get_xlabel(), axes.get_ylabel()) == ("log", "scale", "entropy (nats)")
    assert figure.get_suptitle() == "Sweep of x", "the run, and not the axis once more"
    asked = picture(replace(result, about="Which?"))
    assert (asked.get_suptitle(), asked.subtitle.get_text().count("Sweep")) == ("Which?", 0)


@pytest.mark.parametrize(
    ("keys", "heads", "x"),
    [
        (["scorers[0].scale", "scorers[1].scale"], False, "scale of dot\nwith scale of cosine"),
        (["data.keys.shape[1]", "data.queries.shape[1]"], False, "keys\nwith queries"),
        (["keys.shape[2]"], False, "size of keys"),
        (["keys.shape[2]"], True, "keys"),
        (["keys.shape[7]"], False, "keys.shape[7]"),
        (["keys.std", "queries.std"], False, "standard deviation of keys\nwith standard deviation of queries"),
        (["held_out"], False, "held out"),
    ],
)
def test_axes_are_named_in_words(keys: list[str], heads: bool, x: str) -> None:
    result = sweep([{key: [1.0, 2.0] for key in keys}])
    result = replace(result, heads=[{**row, "batch": 0, "head": 0} for row in result.records] if heads else [])
    assert picture(result).axes[0].get_xlabel() == x
    assert all(key in printed([*tables(result, width=100, most=40)], 100) for key in keys)


@pytest.mark.parametrize(("low", "cut"), [(1e-12, True), (0.00149, False)])
def test_a_band_does_not_swallow_the_lines(low: float, cut: bool) -> None:
    """Two scorers go from 1 down to 0.001, where one of three seeds has the value `low` at the largest d."""
    over: Over = [SEEDS, {"d": [16, 64, 256]}]
    rows = attention(over)
    for row in rows:
        row["score_std"] = {16: 1.0, 64: 0.03, 256: 0.0015 if row["seed"] else low}[row["d"]]
    figure = picture(swept("attention", over, rows, "score_std"))
    (axes,) = figure.axes
    assert axes.get_yscale() == "log"
    values = np.concatenate([np.asarray(line.get_ydata()) for line in axes.lines])
    bottom, top = axes.get_ylim()
    assert bottom < values.min() < values.max() < top
    assert math.log(values.max() / values.min()) > 0.45 * math.log(top / bottom)
    bands = [each.get_datalim(axes.transData) for each in axes.collections if isinstance(each, PolyCollection)]
    assert (min(box.y0 for box in bands) < bottom) == cut
    facts = "means of 3 runs; bands: 95 % intervals" + ("; bands far beyond the lines are cut off" if cut else "")
    assert figure.subtitle.get_text() == facts


@pytest.mark.parametrize(
    ("values", "scale"),
    [
        ([1, 0.01, 0.1], "log"),
        ([1, 2, 5, 10, 20, 50, 100], "log"),
        ([3, 1, 2, 4], "linear"),
        ([1, 100], "linear"),
        (["float64", "float32"], "linear"),
    ],
)
def test_numbers_are_sorted_and_grow_by_a_factor_on_a_logarithmic_axis(values: list[Any], scale: str) -> None:
    (axes,) = picture(sweep([{"x": values}], "dot")).axes
    is_words = isinstance(values[0], str)
    assert axes.get_xscale() == scale
    assert numbers(axes.lines[0])[0] == ([*range(len(values))] if is_words else sorted(values))
    assert not is_words or [text.get_text() for text in axes.get_xticklabels()] == values


def test_two_keys_are_heatmaps_on_one_scale() -> None:
    figure = picture(sweep([SEEDS, {"scale": [2.0, 1.0]}, {"d": [8, 16, 32]}]))
    images = [axes.images[0] for axes in figure.axes if axes.images]
    assert len(images) == 2
    expected = np.array([[2.0] * 3, [1.0] * 3]) + MEAN  # upwards
    np.testing.assert_allclose(np.asarray(images[0].get_array()), expected)
    np.testing.assert_allclose(np.asarray(images[1].get_array()), expected + 1)
    assert {image.get_clim() for image in images} == {(0, 3 + MEAN)}
    assert [text.get_text() for text in figure.axes[0].texts] == ["1.90"] * 3 + ["0.900"] * 3
    assert figure.get_supylabel() == "scale"
    assert "d" in {axes.get_xlabel() for axes in figure.axes}


@pytest.mark.parametrize(("metric", "factor"), [("score_std", 1), ("score_std", 1000), ("entropy", 1000)])
def test_three_keys_are_small_multiples_which_share_their_axis_upwards(metric: str, factor: float) -> None:
    """The axis is logarithmic over more than two decades, unless the metric has an upper end, as an entropy has.

    Only the first panel of a row has ticks and a title.
    """
    over: Over = [{"d": [8, 16, 32]}, {"scale": [1.0, 2.0, 4.0]}, {"dtype": ["float32", "float64"]}]
    rows = attention(over)
    for row in rows:
        row[metric] = row.pop("entropy") * (factor if row["dtype"] == "float32" and row["scale"] == 4 else 1)
    figure = picture(swept("attention", over, rows, metric))
    figure.canvas.draw()
    panels = [axes for axes in figure.axes if len(axes.lines) == 2]
    titles = [f"scale = {scale}\ndtype = {dtype}" for scale in (1, 2, 4) for dtype in ("float32", "float64")]
    assert [axes.get_title() for axes in panels] == titles
    assert numbers(panels[0].lines[0])[0] == [8, 16, 32]
    assert (len(panels), len({axes.get_ylim() for axes in panels})) == (6, 1)
    assert {axes.get_yscale() for axes in panels} == {"log" if metric == "score_std" and factor > 1 else "linear"}
    low, high = panels[0].get_ylim()
    assert low < min(row[metric] for row in rows) < max(row[metric] for row in rows) < high
    for axes in panels:
        place: Any = axes.get_subplotspec()
        ticks = [text.get_text() for text in axes.get_yticklabels() if text.get_visible() and text.get_text()]
        assert bool(ticks) == bool(axes.get_ylabel()) == place.is_first_col()
        assert bool(axes.get_xlabel()) == place.is_last_row()


def test_of_many_combinations_the_last_are_drawn() -> None:
    notes = list[str]()
    many = picture(sweep([{"scale": [*range(1, 9)]}, {"d": [*range(20)]}, {"m": [1, 2, 3]}]), notes.append)
    assert len(many.axes) <= MOST_PANELS + 2
    assert notes == ["the picture has 16 of 24 combinations of scale, m"]


def test_nothing_but_seeds_is_one_point_a_scorer() -> None:
    result = sweep([SEEDS])
    lines = picture(result).axes[0].lines
    assert [numbers(line)[1] for line in lines] == [[pytest.approx(1 + MEAN)], [pytest.approx(2 + MEAN)]]
    assert heading(result) == "1 point over seed (3): 1 done"


def test_a_value_that_is_missing_leaves_a_gap() -> None:
    over: Over = [{"scale": [1.0, 2.0]}, {"d": [8, 16]}]
    result = swept("attention", over, attention(over, "dot")[:3])
    image = picture(result).axes[0].images[0]
    assert (np.asarray(image.get_alpha()) == 0).tolist() == [[False, True], [False, False]]
    unknown = [{**row, "entropy": None} for row in result.records]
    for keys in (over, over[:1]):
        for records in ([], unknown):
            assert figures(swept("attention", keys, records), pytest.fail, Look()) == {}


def test_a_page_begins_with_the_means_over_seeds() -> None:
    result = sweep([SEEDS, {"scale": [1.0, 2.0]}])
    page = Read(report([StoredRun(Path("x"), result, StoredResult.of(result, seed=0))]))
    assert page.all("h2")[0].text.endswith("study attention"), "the seed is swept: none of them is the sweep's"
    assert len(page.all("img")) == 2, "sweep.png in both themes"
    tables = page.tables()
    assert list(tables)[:2] == ["Summary", "Records"]
    assert len(tables["Records"]) == 1 + len(result.records)
    assert [cell.text for cell in tables["Summary"][0]][-6:] == ["figure", "mean", "±", "low", "high", "runs"]
    alone = sweep([{"scale": [1.0, 2.0]}])
    assert "Records" not in Read(report([StoredRun(Path("x"), alone, StoredResult.of(alone))])).tables()


def test_runs_in_one_picture_are_lines_with_their_names_in_a_panel_for_each_scorer() -> None:
    """The runs may have different scorers and sizes."""
    rows = [
        [{"scorer": label, "label": label, "d": d, "variance": place + d} for label in labels for d in sizes]
        for place, (labels, sizes) in enumerate(((("dot", "cosine"), (4, 16, 64)), (("dot",), (4, 16))))
    ]
    results = {name: Result("variance", "v", each) for name, each in zip(("before", "after"), rows, strict=True)}
    figure = runs_figures(results, Look(), pytest.fail)["runs"]()
    assert [axes.get_title() for axes in figure.axes] == ["dot", "cosine"]
    found = [
        {line.get_gid(): numbers(line)[1] for line in axes.lines if np.size(line.get_xdata())} for axes in figure.axes
    ]
    assert found[0] == {"variance-before": [4, 16, 64], "variance-after": [5, 17]}
    assert found[1] == {"variance-before": [4, 16, 64]}
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["before", "after"]
    assert figure.axes[0].get_xlabel() == "d"
    means = [{"scorer": label, "label": label, "entropy": mean} for label, mean in (("dot", 1.0), ("cosine", 2.0))]
    without = dict.fromkeys(("a", "b"), Result("attention", "x", means))
    assert runs_figures(without, Look(), pytest.fail) == {}, "they depend on no number"
