"""Output of variance and saturation: tables with every metric, sentences with their numbers, and the drawn points."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

from attncli.config.looks import Look
from attncli.core.numbers import number
from attncli.engine.runs.saving import save_named
from attncli.results import Result
from attncli.scorers import SCORERS
from attncli.show.pictures.themes import look_sheet
from attncli.studies import load_study
from attncli.studies.pairs.entries import PairsFacts
from attncli.studies.variance.columns import density
from tests.show.samples import drawn, shown
from tests.studies.pairs.samples import swept

DOT: list[dict[str, Any]] = [{"scorer": "dot"}]
FEW: dict[str, dict[str, Any]] = {"variance": {"samples": 1000}, "saturation": {"rows": 20, "keys": 4}}
MIDDLE = {"variance": "variance", "saturation": "entropy_median"}  # the metric in the first panel
SAID = {"variance": ("variance", "theory_variance"), "saturation": ("jacobian_median", "max_weight_median")}
CHANGING = {"variance": ("variance",), "saturation": ("jacobian_median", "max_weight_median")}
STUDIES = pytest.mark.parametrize("study", FEW)


def said(result: Result) -> dict[str | None, str]:
    return {finding.label: finding.text for finding in result.findings}


def points(figure: Figure, label: str) -> list[list[float]]:
    """Return the points of a label in the left panel."""
    look = look_sheet(Look()).lines([label])[label]
    lines: Any = figure.axes[0].lines
    (line,) = (each for each in lines if (each.get_color(), each.get_marker()) == (look["color"], look["marker"]))
    found: list[list[float]] = line.get_xydata().tolist()
    return found


def real(folder: Path, heads: int, rows: int = 9) -> Path:
    """Save queries that grow in length from head to head, and keys with a common mean, which softmax does not see."""
    queries = torch.randn(1, heads, rows, 16) * torch.arange(1.0, heads + 1)[:, None, None]
    save_named(folder / "qk.safetensors", {"queries": queries, "keys": 2.0 + torch.randn(1, heads, 6, 16)})
    return folder / "qk.safetensors"


@STUDIES
@pytest.mark.parametrize("width", [40, 200])
def test_tables_have_every_figure_at_any_width(study: str, width: int, tmp_path: Path) -> None:
    columns = ["variance", "mean"] if study == "variance" else ["jacobian_median", "max_weight_median"]
    for keys in ({"d": [2, 64], **FEW[study]}, {"d": [64], **FEW[study]}, {"source": real(tmp_path, 2)}):
        result = swept(study, scorers=[*DOT, {"scorer": "additive", "label": "hidden"}], **keys)
        text, formats = (
            shown(result, width, full=True),
            {each.key: each.format for each in load_study(study).columns["records"]},
        )
        assert all(formats[column](record[column]) in text for record in result.records for column in columns)
        assert all(word in text for word in ("dot", "hidden", "additive"))
        assert max(map(len, text.splitlines())) <= width


@STUDIES
def test_numbers_of_a_sentence_are_those_of_both_ends(study: str, tmp_path: Path) -> None:
    """A sentence has the numbers of the first and last size or head, even if they are equal as in theory."""
    result = swept(study, d=[64, 4], scorers=[{"scorer": "scaled_dot"}], **FEW[study])
    numbers, ends = result.findings[0].numbers, sorted(result.records, key=lambda row: row["d"])
    assert {"d", *SAID[study]} <= set(numbers)
    assert all(numbers[key] == [row[key] for row in ends] for key in set(numbers) - {"power"})
    result = swept(study, source=real(tmp_path, 3), scorers=DOT)
    numbers = result.findings[0].numbers
    assert set(numbers["d"]) == {16}
    told = [result.records[head] for head in numbers["head"]]
    ends = [pick(result.records, key=lambda row: row[key]) for key in CHANGING[study] for pick in (min, max)]
    assert {row["head"] for row in told} == {row["head"] for row in ends}
    assert all(numbers[key] == [row[key] for row in told] for key in numbers)


def test_sentences_of_one_size_and_over_sizes() -> None:
    texts = said(swept("variance", d=[512], samples=20_000))
    assert " at d = 512, theory 512; a scale of " in texts["dot"]
    assert texts["scaled_dot"].endswith(" at d = 512, theory 1.")
    texts = said(swept("variance", d=[64, 1, 8], samples=20_000, scorers=[*DOT, {"scorer": "additive"}], mean=0.5))
    assert texts["dot"].startswith("dot: variance rises from 1.")
    assert ", like d^1.0" in texts["dot"]
    assert ", theory 1.5 to 96; its mean drifts from " in texts["dot"]
    assert ", theory about 0." in texts["additive"]
    assert "q_i k_i has mean 0.25 and variance 1.5, so q . k has mean 0.25 d and variance 1.5 d; " in texts[None]
    result = swept("saturation", d=[1, 8, 512], rows=200, scorers=DOT)
    first, turn, last = (number(record["jacobian_median"], 3) for record in result.records)
    turned = f"rises from {first} (d = 1) to {turn} (d = 8), then falls to {last} (d = 512)"
    turned += "; median largest weight rises from "
    assert f"norm of the softmax Jacobian {turned}" in said(result)["dot"]
    assert f"the mean hides this: {number(result.records[2]['jacobian_mean'], 3)} for dot" in said(result)[None]


@STUDIES
def test_no_why_without_its_cause(study: str) -> None:
    assert None not in said(swept(study, d=[64, 512], scorers=[{"scorer": "cosine"}], **FEW[study]))


@STUDIES
def test_numbers_that_are_not_finite(study: str) -> None:
    scorer = {"scorer": "scaled_dot", "scale": 1e300}
    text = said(swept(study, d=[4], std=1e9, dtype="float64", scorers=[scorer], **FEW[study]))["scaled_dot"]
    assert "no finite weights" in text or "not a finite number" in text


def test_what_chance_cannot_do_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    forward = SCORERS["dot"].forward
    monkeypatch.setattr(SCORERS["dot"], "forward", lambda self, queries, keys: 1.1 * forward(self, queries, keys))
    texts = said(swept("variance", d=[4, 8], samples=100_000))
    assert "standard errors from theory, more than chance explains." in texts["dot"]
    assert "chance" not in texts["scaled_dot"]


@STUDIES
@pytest.mark.parametrize("heads", [1, 3])
def test_sentences_and_points_of_real_pairs(study: str, heads: int, tmp_path: Path) -> None:
    scorers = [*DOT, {"scorer": "cosine"}]
    result = swept(study, source=real(tmp_path, heads), scorers=scorers)
    text = said(result)["dot"]
    assert "(head 0)" in text or heads > 1
    assert ("of it within rows (the rest does not change the softmax); a scale " in text) == (study == "variance")
    for index in range(len(scorers)):
        records = [record for record in result.records if record["label"] == scorers[index]["scorer"]]
        places = [head + (-0.125, 0.125)[index] for head in range(heads)]
        wanted = [[place, record[MIDDLE[study]]] for place, record in zip(places, records, strict=True)]
        assert points(drawn(result)[0], str(scorers[index]["scorer"])) == pytest.approx(np.array(wanted))


def test_density_of_scores() -> None:
    """20 of 100 scores lie outside the bins, and bins are merged until the fullest has at least 625 scores."""
    for many in (1, 100):
        counts = torch.zeros(100).double()
        counts[40:60] = 4.0 * many
        tensors = {"histogram/dot/8/edges": torch.linspace(-5, 15, 101).double(), "histogram/dot/8/counts": counts}
        curve = {"d": [4, 8], "samples": [7, 100 * many]}
        tensors |= {f"curve/dot/{column}": torch.tensor(values).double() for column, values in curve.items()}
        edges, heights = density(Result("variance", "x", [], tensors=tensors, facts=PairsFacts()), "dot", 8)
        assert [edges[0], edges[-1]] == pytest.approx([-5, 15])
        assert (heights * np.diff(edges)).sum() == pytest.approx(0.8)
        assert len(heights) == (20 if many == 1 else 50)


@pytest.mark.parametrize(
    ("study", "keys", "figure"),
    [
        ("variance", {"d": [3, 5], "std": 0.0}, "variance of the scores"),
        ("saturation", {"d": [4096], "std": 30.0}, "norm of the softmax Jacobian"),
    ],
)
def test_what_cannot_be_drawn_is_noted(study: str, keys: dict[str, Any], figure: str) -> None:
    _, notes = drawn(swept(study, scorers=DOT, **FEW[study], **keys))
    assert notes == [f"not drawn where it is not positive: {figure} of dot"]
