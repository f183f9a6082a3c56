"""saturation.png shows medians and quartiles of a result, however many labels there are."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from attncli.runs.tensors import save_named
from attncli.show.panels import drawing
from attncli.studies.saturation.figure import TITLES, figure_of, pictures
from tests.studies.pairs.samples import swept
from tests.views.sweep_pictures import check_texts
from tests.views.sweep_samples import many_scorers


def test_medians_quartiles_and_uniform_weights() -> None:
    result = swept("saturation", d=[2, 32, 8], rows=50, keys=4)
    figure = figure_of(result, print)
    uniform = {"entropy": 1.0, "max_weight": 1 / 4, "jacobian": 3**0.5 / 4}
    for axes, (column, title) in zip(figure.axes, TITLES.items(), strict=True):
        assert axes.get_title() == title
        drawn: Any = axes.lines
        reference, *lines = drawn
        assert list(reference.get_ydata()) == pytest.approx([uniform[column]] * 2)
        for line, band, label in zip(lines, axes.collections, result.labels, strict=True):
            records = sorted((r for r in result.records if r["label"] == label), key=lambda record: record["d"])
            assert line.get_xydata().tolist() == [[r["d"], r[f"{column}_median"]] for r in records]
            corners: Any = band.get_paths()[0].vertices
            assert {r[f"{column}_{end}"] for r in records for end in ("q25", "q75")} <= set(corners[:, 1])


def test_heads_have_bars_and_no_lines(tmp_path: Path) -> None:
    tensors = {"queries": torch.randn(1, 3, 9, 5), "keys": torch.randn(1, 3, 4, 5)}
    save_named(tmp_path / "qk.safetensors", tensors)
    result = swept("saturation", source=tmp_path / "qk.safetensors", scorers=[{"scorer": "dot"}])
    axes = figure_of(result, print).axes[0]
    line, bars = axes.lines[1], axes.collections[0]
    assert line.get_linestyle() == "None"
    assert np.asarray(line.get_xydata()).tolist() == [[r["head"], r["entropy_median"]] for r in result.records]
    segments: Any = bars
    assert [s[:, 1].tolist() for s in segments.get_segments()] == [
        [r["entropy_q25"], r["entropy_q75"]] for r in result.records
    ]


@pytest.mark.parametrize("count", [1, 14])
@pytest.mark.parametrize("sizes", [[64], [1, 2, 3, 5, 7, 11, 100, 101, 102, 1024]])
def test_all_texts_have_room(count: int, sizes: list[int]) -> None:
    scorers = [{"scorer": "dot", "label": label} for label in many_scorers(count)]
    result = swept("saturation", d=sizes, rows=10, scorers=scorers)
    with drawing(result.labels, lambda note: None):
        check_texts(figure_of(result, print))


def test_what_cannot_be_drawn_is_noted(tmp_path: Path) -> None:
    notes: list[str] = []
    result = swept("saturation", d=[65536], rows=4, keys=2, std=30.0, scorers=[{"scorer": "dot"}])
    pictures(result, notes.append)["saturation.png"](tmp_path / "saturation.png")
    assert notes
    assert notes[0].startswith("not drawn, as not a positive number: norm of the softmax Jacobian of dot")
    assert (tmp_path / "saturation.png").stat().st_size > 1000
