"""`attncli heatmap`: every kind of source, what is drawn, where it goes, and what is refused."""

from pathlib import Path

import numpy
import pytest
import torch
from safetensors.torch import save_file
from typer.testing import CliRunner, Result

from attncli.cli import app

CONFIG = """\
data:
  queries: {shape: [2, 3, 4], fill: normal}
  keys: {shape: [2, 5, 4], fill: normal}
  valid_lens: [2, 5]
scorers:
  - {scorer: additive, dropout: 0.5}
  - {scorer: dot, softcap: 2.0}
"""
SVG_TEXT = "<!-- {} -->"  # matplotlib draws text as paths and leaves the words in comments


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.yaml").write_text(CONFIG)
    return tmp_path


def heatmap(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["heatmap", *arguments])


def titles(path: Path, *labels: str) -> list[str]:
    """Which of the labels stand in an SVG."""
    text = path.read_text(encoding="utf-8")
    return [label for label in labels if SVG_TEXT.format(label) in text]


def refused(*arguments: str) -> str:
    result = heatmap(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    return result.stderr.rstrip()


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
    assert CliRunner().invoke(app, ["run", "small.yaml", "--quiet", *change]).exit_code == 0
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
    words = ["additive before dropout", "dot"]
    assert titles(folder / "before.svg", *words, "dot before dropout") == words


def test_stage_that_no_scorer_has(folder: Path) -> None:
    message = '--stage: got "dropped"; no scorer has this stage; did you mean `capped`?'
    assert refused("small.yaml", "--stage", "dropped") == message


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
    message = (
        'SOURCE: got "two.safetensors", which has 2 matrices: a, b; choose with --tensor NAME, which may be repeated'
    )
    assert refused("two.safetensors") == message
    assert heatmap("two.safetensors", "--tensor", "b", "--tensor", "a", "--out", "two.svg").exit_code == 0
    assert titles(folder / "two.svg", "a", "b") == ["a", "b"]


LONG = f'--out: got "{"x" * 300}.png"; cannot write there: File name too long; expected a place that can be written'
MISTAKES = {
    "no source": (["nope.yaml"], "nope.yaml: no such file; `attncli init` lists experiments to start from"),
    "missing tensor file": (["nope.npy"], 'SOURCE: got "nope.npy"; no such file'),
    "ending": (["small.yaml", "--out", "a.jpg"], '--out: got "a.jpg"; expected a name ending in .png, .svg, .pdf'),
    "folder": (["small.yaml", "--out", "."], '--out: got ""; expected a name ending in .png, .svg, .pdf'),
    "label": (["small.yaml", "--scorer", "dott"], '--scorer: got "dott"; unknown label; did you mean `dot`?'),
    "batch": (["small.yaml", "--batch", "2"], "--batch: got 2; expected a batch element in 0..1"),
    "head": (["small.yaml", "--head", "1"], "--head: got 1; expected a head in 0..0"),
    "colour map": (
        ["--cmap", "redss"],
        '--cmap: got "redss"; expected a colour map of matplotlib; did you mean `Reds`?',
    ),
    "set without a config": (
        ["weights.npy", "--set", "seed=1"],
        "--set seed=1: only a config can be changed; expected a YAML file as SOURCE",
    ),
    "tensor of a config": (
        ["small.yaml", "--tensor", "a"],
        "--tensor a: only a tensor file has named tensors; leave it out",
    ),
    "not a run": (
        ["empty"],
        'SOURCE: got "empty", which has no tensors.safetensors; expected the folder of a run',
    ),
    "vector": (["vector.npy"], 'SOURCE: got "vector.npy", which has no matrix; expected numbers (..., n, m)'),
    "unknown tensor": (["weights.npz", "--tensor", "b"], '--tensor: got "b"; weights.npz has no such tensor; known: a'),
    "long name": (["small.yaml", "--out", "x" * 300 + ".png"], LONG),
}


@pytest.mark.parametrize(("arguments", "message"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes(folder: Path, arguments: list[str], message: str) -> None:
    (folder / "empty").mkdir()
    numpy.save("weights.npy", numpy.eye(2))
    numpy.save("vector.npy", numpy.ones(3))
    numpy.savez("weights.npz", a=numpy.eye(2))
    before = sorted(folder.rglob("*"))
    assert refused(*arguments) == message
    assert sorted(folder.rglob("*")) == before


def test_an_existing_file_is_not_replaced_unless_asked(folder: Path) -> None:
    (folder / "mine.png").write_text("mine")
    message = '--out: got "mine.png", which exists; expected a new file; --overwrite replaces it'
    assert refused("small.yaml", "--out", "mine.png") == message
    assert (folder / "mine.png").read_text() == "mine"
    assert heatmap("small.yaml", "--out", "mine.png", "--overwrite").exit_code == 0
    assert (folder / "mine.png").read_bytes().startswith(b"\x89PNG")


def test_a_place_that_cannot_be_written(folder: Path) -> None:
    assert refused("small.yaml", "--out", "small.yaml/a.png").startswith('--out: got "small.yaml/a.png"; cannot write')
    assert [path.name for path in folder.iterdir()] == ["small.yaml"]


def test_weights_of_a_query_without_keys_are_drawn(folder: Path) -> None:
    change = ["--set", "data.valid_lens=[0, 5]", "--set", "mask.empty_row=uniform"]
    assert heatmap("small.yaml", "--out", "uniform.svg", *change).exit_code == 0
    assert titles(folder / "uniform.svg", "0.20", "masked") == ["0.20"]
    assert heatmap("small.yaml", "--out", "zero.svg", "--set", "data.valid_lens=[0, 5]").exit_code == 0
    assert titles(folder / "zero.svg", "masked") == ["masked"]
