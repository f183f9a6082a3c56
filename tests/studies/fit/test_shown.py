"""Sentences, tables and pictures of the study `fit` for a result with known numbers."""

import numpy as np
import torch
from matplotlib.colors import to_hex

from attncli.catalogue.fitted import FittedFacts, FittedLayer
from attncli.config.looks import HeatmapLook
from attncli.models.outputs import OutputKind
from attncli.results import Result, Row
from attncli.show.pictures.figures import Picture, ignore_note
from attncli.studies.fit.columns import BEFORE, FitFacts
from attncli.studies.fit.figure import figures
from attncli.studies.fit.findings import fit_findings
from tests.show.samples import shown

LAYERS = {"encoder.1": 0, "encoder.4": 1}  # numbers by name
HEADS = (0, 2, 3)
KL = {"cosine": (4.0, 0.25), "hedgehog": (2.0, 0.5), "keys_alone": (3.0, 0.04)}  # first head, unfitted and fitted


def result_of(kind: OutputKind | None = "states", trained: float = 1.0, uniform: float = 0.17) -> Result:
    """Return a result in which each head has half the divergence of the one before it, training `trained` times."""
    rows = list[Row]()
    for label in ("model", "uniform", *KL):
        unfitted, fitted = {**KL, "uniform": (uniform, uniform)}.get(label, (0.0, 0.0))
        for index, (layer, head) in enumerate((layer, head) for layer in LAYERS for head in HEADS):
            row: Row = {"scorer": label, "label": label, "normalizer": "softmax", "by": "head", "layer": layer}
            row |= {"head": head, "parameters": 2 * (label in KL), "kl" + BEFORE: unfitted / 2**index}
            row |= {"kl": fitted / 2**index, "kl_train": trained * fitted / 2**index, "top1_agreement": 0.75}
            row |= {"outside": 0.0}
            rows.append(row | {"output_l2" + BEFORE: 1.5, "output_l2": (index + 1) / 8})
        if kind is not None:
            whole = row | dict.fromkeys(("layer", "head", "kl")) | {"by": "all"}
            main = "loss_change" if kind == "language" else "relative_l2"
            rows.append(whole | {main + BEFORE: 1.5 if label in KL else 0.0, main: fitted / 2})
    sizes = {"query_size": 4, "key_size": 4}
    layers = {name: FittedLayer(number=number, heads=[*HEADS], **sizes) for name, number in LAYERS.items()}
    file = FittedFacts(model="tiny", texts="hash", trained_on=["hash"], entries={}, layers=layers)
    facts = FitFacts(model="tiny", texts=8, held_out=2, kind=kind, fitted=file)
    scales = {"cosine/encoder.1/scale": torch.tensor([8.0, 2.0, 4.0]), "cosine/encoder.4/scale": torch.full((3,), 16.0)}
    formulas = {label: f"the formula of {label}" for label in ("model", "uniform", *KL)}
    result = Result("fit", "fit", rows, formulas=formulas, layers=LAYERS, parameters=scales, facts=facts)
    return Result(**{**vars(result), "findings": fit_findings(result)})


def drawn(result: Result, name: str) -> Picture:
    return figures(result, ignore_note, HeatmapLook())[name]()


def test_sentences_have_fitted_options_the_worst_head_and_the_whole_model() -> None:
    cosine, hedgehog, keys = fit_findings(result_of())
    assert cosine.text == (
        "cosine: fitted scale 12.0 (2.00 to 16.0); the median divergence of a head is 0.0469 nats, unfitted 0.750 "
        "nats; the worst is layer 0, head 0 (0.250); inside the model it changes the output by 12.5 %, "
        "unfitted by 150 %."
    )
    assert cosine.numbers["scale"] == 12.0
    assert (cosine.numbers["kl_before"], cosine.numbers["kl"], cosine.numbers["worst"]) == (0.75, 0.046875, 0.25)
    assert hedgehog.text.startswith("hedgehog: the median divergence of a head is 0.0938 nats, unfitted 0.375 nats")
    assert keys.text == (
        "6 of 6 heads hardly look at their queries: with w . k they are less than 0.05 nats off, with equal weights "
        "over 4 times as far: layer 1, head 3; layer 1, head 2; layer 1, head 0; layer 0, head 3; layer 0, head 2 and "
        "1 more."
    )
    assert len(fit_findings(result_of(uniform=0.15))) == 2, "nearly uniform heads say nothing about queries"


def test_sentences_about_a_loss_and_about_overfitting() -> None:
    (sentence, *_) = (finding.text for finding in fit_findings(result_of("language", trained=0.5)))
    assert "inside the model it changes the loss by 0.125 nats, unfitted by 1.50 nats" in sentence
    assert sentence.endswith("held-out texts are 2.0 times as far off as those in training: give more texts.")
    assert "give more" not in fit_findings(result_of(trained=0.7))[0].text
    assert "inside" not in fit_findings(result_of(None))[0].text


def test_tables_have_medians_over_heads_and_each_head() -> None:
    text = shown(result_of(), 100)
    assert "tiny: 6 heads of 2 layers; 8 texts to learn from, 2 held out" in text
    (line,) = (line for line in text.splitlines() if line.startswith("cosine "))
    assert line.split() == ["cosine", "2", "0.750", "0.0469", "0.250", "1.50", "0.438", "0.750", "1.50", "0.125"]
    by_head = text.partition("KL (nats) by head")[2].splitlines()
    (row,) = (line.split() for line in by_head if line.split()[:2] == ["1", "2"])
    assert row[2:] == ["0.0106", "0.0156", "0.0312", "0.00250"]


def test_the_grids_have_scorers_in_rows_and_one_scale() -> None:
    picture = drawn(result_of(), "fit")
    *panels, bar = picture.axes
    assert picture.title.get_text() == "tiny: scorers fitted to its heads"
    assert [axes.get_title() for axes in panels] == ["unfitted", "fitted", "", "", "", ""]
    assert [axes.get_ylabel() for axes in panels[::2]] == [*KL]
    label = bar.get_xlabel() + bar.get_ylabel()
    assert label.replace("\n", " ") == "KL (nats, colours by square root)"  # most are small
    images = [(*axes.images, *axes.collections)[0] for axes in panels]
    scales = {(image.norm.vmin, image.norm.vmax) for image in images}
    assert scales == {(0.0, 4.0)}
    cells = [np.asarray(image.get_array()).ravel() for image in images]
    for index, (label, stage) in enumerate((label, stage) for label in KL for stage in (0, 1)):
        np.testing.assert_allclose(cells[index], KL[label][stage] / 2.0 ** np.arange(6))
    rows = [row | {"parameters": 0} if row["label"] == "cosine" else row for row in result_of().records]
    *without, _ = drawn(Result(**{**vars(result_of()), "records": rows}), "fit").axes
    assert [axes.get_title() for axes in without] == ["unfitted", "", "fitted", "", ""]
    assert [axes.get_ylabel() for axes in without] == ["cosine", "hedgehog", "", "keys_alone", ""]
    ticks = [[label.get_text() for label in axis.get_ticklabels()] for axis in (panels[-2].yaxis, panels[-2].xaxis)]
    assert ticks == [["0", "1"], ["0", "2", "3"]]


def test_heads_have_points_of_their_error_and_divergence() -> None:
    picture = drawn(result_of(), "heads")
    (axes,) = picture.axes
    lines = {str(line.get_label()): line for line in axes.lines}
    legend = [text.get_text() for text in picture.legends[0].get_texts()]
    assert legend == [*KL]
    points = {tuple(np.asarray(line.get_xydata())[0]): to_hex(line.get_color()) for line in lines.values()}
    assert set(points) == {(1 / 8, fitted) for _, fitted in KL.values()}
    assert len(set(points.values())) == 3
    assert all(line.get_linestyle() == "None" for line in lines.values())
    labels = (axes.get_xlabel(), axes.get_ylabel(), axes.get_yscale())
    assert labels == ("relative error of the output (L2)", "KL (nats)", "log")
