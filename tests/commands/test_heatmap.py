"""`attncli heatmap`: every kind of source, what is drawn, where it goes, and what is refused."""

from pathlib import Path

import numpy
import pytest
import torch
from safetensors.torch import save_file
from typer.testing import Result

from tests.cli import attncli, good, refusal

CONFIG = """\
data:
  queries: {shape: [2, 3, 4], fill: normal}
  keys: {shape: [2, 5, 4], fill: normal}
  valid_lens: [2, 5]
scorers:
  - {scorer: additive, dropout: 0.5}
  - {scorer: dot, softcap: 2.0}
tokens: {keys: [[a, b, c, d, e], [v, w, x, y, z]]}
"""
SVG_TEXT = "<!-- {} -->"  # matplotlib draws text as paths and leaves the words in comments


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.yaml").write_text(CONFIG)
    return tmp_path


def heatmap(*arguments: str) -> Result:
    return attncli("heatmap", *arguments)


def titles(path: Path, *labels: str) -> list[str]:
    """Which of the labels stand in an SVG."""
    text = path.read_text(encoding="utf-8")
    return [label for label in labels if SVG_TEXT.format(label) in text]


def test_without_a_source_the_d2l_example_of_both_scorers(folder: Path) -> None:
    result = heatmap("--out", "d2l.svg")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "d2l.svg\n", "")
    labels = ["additive, batch 0", "scaled_dot, batch 0", "additive, batch 1", "scaled_dot, batch 1"]
    assert titles(folder / "d2l.svg", *labels) == labels


def test_default_place_is_numbered_and_never_reused(folder: Path) -> None:
    places = [heatmap("small.yaml").stdout.strip() for _ in range(2)]
    assert places == ["outputs/heatmaps/small.png", "outputs/heatmaps/small-2.png"]
    assert [(folder / place).read_bytes()[:4] for place in places] == [b"\x89PNG"] * 2


@pytest.mark.parametrize("train", ["false", "true"])
def test_run_folder_gives_the_same_picture_as_its_config(folder: Path, train: str) -> None:
    change = ["--set", f"train={train}"]
    good("run", "small.yaml", "--quiet", *change)
    heatmap("small.yaml", "--out", "config.png", *change)
    assert heatmap("outputs/small/latest", "--out", "folder.png").exit_code == 0
    assert (folder / "config.png").read_bytes() == (folder / "folder.png").read_bytes()
    assert (folder / "config.png").read_bytes() == (folder / "outputs/small/latest/heatmaps.png").read_bytes()


def test_selection(folder: Path) -> None:
    choice = ["--scorer", "dot", "--batch", "1", "--stage", "capped"]
    assert heatmap("small.yaml", *choice, "--out", "one.svg").exit_code == 0
    assert titles(folder / "one.svg", "additive, batch 1", "dot, batch 0", "dot, batch 1") == ["dot, batch 1"]
    assert titles(folder / "one.svg", "score after softcap")


def test_dropped_weights_say_so(folder: Path) -> None:
    assert heatmap("small.yaml", "--set", "train=true", "--stage", "dropped", "--out", "after.svg").exit_code == 0
    assert titles(folder / "after.svg", "attention weight after dropout")
    assert heatmap("small.yaml", "--set", "train=true", "--out", "before.svg").exit_code == 0
    words = ["additive before dropout", "dot, batch 0"]
    assert titles(folder / "before.svg", *words, "dot before dropout, batch 0") == words


def test_tensor_files(folder: Path) -> None:
    weights = torch.rand(3, 4).softmax(-1)
    numpy.save("weights.npy", weights.numpy())
    numpy.savetxt("weights.csv", weights.numpy(), delimiter=",")
    torch.save(weights, "weights.pt")
    save_file({"weights": weights, "names": torch.zeros(3)}, "weights.safetensors")
    for ending in ("npy", "csv", "pt", "safetensors"):
        result = heatmap(f"weights.{ending}", "--out", f"{ending}.svg")
        assert result.exit_code == 0, result.stderr
        assert titles(folder / f"{ending}.svg", "weights", "attention weight") == ["weights", "attention weight"]


def test_numbers_beyond_the_unit_range_are_scores(folder: Path) -> None:
    numpy.save("numbers.npy", numpy.arange(-3.0, 3.0).reshape(2, 3))
    assert heatmap("numbers.npy", "--out", "numbers.svg").exit_code == 0
    assert titles(folder / "numbers.svg", "score", "attention weight") == ["score"]


def test_several_tensors_are_chosen_by_name(folder: Path) -> None:
    save_file({"a": torch.rand(2, 2), "b": torch.rand(2, 2), "c": torch.rand(2)}, "two.safetensors")
    assert heatmap("two.safetensors", "--tensor", "b", "--tensor", "a", "--out", "two.svg").exit_code == 0
    assert titles(folder / "two.svg", "a", "b") == ["a", "b"]


def test_an_existing_file_is_not_replaced_unless_asked(folder: Path) -> None:
    (folder / "mine.png").write_text("mine")
    message = '--out: got "mine.png", which exists; expected a new file; --overwrite replaces it'
    assert refusal("heatmap", "small.yaml", "--out", "mine.png") == message
    assert (folder / "mine.png").read_text() == "mine"
    assert heatmap("small.yaml", "--out", "mine.png", "--overwrite").exit_code == 0
    assert (folder / "mine.png").read_bytes().startswith(b"\x89PNG")


def test_weights_of_a_query_without_keys_are_drawn(folder: Path) -> None:
    change = ["--set", "data.valid_lens=[0, 5]", "--set", "mask.empty_row=uniform"]
    assert heatmap("small.yaml", "--out", "uniform.svg", *change).exit_code == 0
    assert titles(folder / "uniform.svg", "0.20", "masked") == ["0.20"]
    assert heatmap("small.yaml", "--out", "zero.svg", "--set", "data.valid_lens=[0, 5]").exit_code == 0
    assert titles(folder / "zero.svg", "masked") == ["masked"]
