"""saturation.png of a result made by hand: medians with quartiles in three panels, and lines of uniform weights."""

from typing import Any

import numpy as np
import pytest
import torch

from attncli.config.looks import Look
from attncli.results import Result
from attncli.show.pictures.looks import label_looks
from attncli.studies.saturation.columns import SaturationFacts
from attncli.studies.saturation.figure import figures
from tests.studies.variance.test_shown import ENTRIES

SIZES = (64, 4, 16)  # out of order, as a user may give them
METRICS = {  # medians at the sizes, and metrics of uniform weights
    "entropy": ([0.25, 0.75, 0.5], 1.0),
    "max_weight": ([0.875, 0.25, 0.625], 0.125),
    "jacobian": ([0.004, 0.4, 0.04], 0.33),
}
TITLES = ["entropy / ln m", "largest weight", "norm of the softmax Jacobian"]


def result_of(normalizer: str = "softmax") -> Result:
    """Return a result of two labels: quartiles are 0.75 and 1.125 times the median, and `dot` has half of all."""
    tensors, records = dict[str, torch.Tensor](), list[dict[str, Any]]()
    for label, factor in {"scaled_dot": 1.0, "dot": 0.5}.items():
        tensors[f"curve/{label}/d"] = torch.tensor(SIZES, dtype=torch.float64)
        for metric, (medians, _) in METRICS.items():
            for end, share in {"median": 1.0, "q25": 0.75, "q75": 1.125}.items():
                tensors[f"curve/{label}/{metric}_{end}"] = torch.tensor(medians, dtype=torch.float64) * factor * share
        common = {"scorer": label, "label": label, "normalizer": normalizer, "keys": 8, "rows": 100}
        records += [{**common, "d": d} for d in SIZES]
    uniform = {metric: value for metric, (_, value) in METRICS.items()}
    return Result("saturation", "test", records, tensors=tensors, facts=SaturationFacts(uniform=uniform, **ENTRIES))


def test_medians_with_bands_of_quartiles_and_lines_of_uniform_weights() -> None:
    result = result_of()
    figure = figures(result, pytest.fail, Look())["saturation"]()
    assert [axes.get_title().replace("\n", " ") for axes in figure.axes] == TITLES
    assert [axes.get_yscale() for axes in figure.axes] == ["linear", "linear", "log"]
    for axes, (medians, uniform) in zip(figure.axes, METRICS.values(), strict=True):
        assert (axes.get_xscale(), axes.get_xlabel()) == ("log", "d")
        reference, *lines = axes.lines
        assert np.asarray(reference.get_ydata()).tolist() == [uniform] * 2
        for line, band, (label, look) in zip(lines, axes.collections, label_looks(result.labels).items(), strict=True):
            expected = np.array(medians)[np.argsort(SIZES)] * (0.5 if label == "dot" else 1.0)
            assert (line.get_label(), line.get_color()) == (label, look.light)
            np.testing.assert_allclose(np.asarray(line.get_xydata()), np.transpose([sorted(SIZES), expected]))
            outline: Any = band.get_paths()[0].vertices
            for d, median in zip(sorted(SIZES), expected, strict=True):
                ends = [y for x, y in outline if x == d]
                assert [min(ends), max(ends)] == pytest.approx([0.75 * median, 1.125 * median])
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["scaled_dot", "dot", "uniform weights over 8 keys"]
    assert "8 keys, 100 rows" in figure.subtitle.get_text()
    assert "bands: median and quartiles over the rows" in figure.subtitle.get_text()
    other = figures(result_of("relu"), pytest.fail, Look())["saturation"]()
    assert other.axes[2].get_title() == "norm of the Jacobian"
    assert other.legends[0].get_texts()[-1].get_text() == "softmax: uniform weights over 8 keys"
