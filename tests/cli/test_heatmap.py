"""`attncli heatmap`: every kind of source, the picture and its file, and wrong input."""

import re
from html import escape
from pathlib import Path

import numpy
import pytest
import torch
from safetensors.torch import save_file
from typer.testing import Result

import attncli as package
from attncli.cli.sources import load_source
from attncli.sources.captured import read_captured
from tests.cli import attncli, experiment, good, refusal

pytestmark = pytest.mark.usefixtures("sketches")

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


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.yaml").write_text(CONFIG)
    return tmp_path


def heatmap(*arguments: str) -> Result:
    return attncli("heatmap", *arguments)


def titles(path: Path, *labels: str) -> list[str]:
    """Return the labels that an SVG has as texts, on one line or folded over several."""
    lines = "\n".join(re.findall(r">([^<]+)</text>", path.read_text(encoding="utf-8")))
    patterns = {label: r"[ \n]".join(map(re.escape, escape(label).split(" "))) for label in labels}
    return [label for label, pattern in patterns.items() if re.search(f"^{pattern}$", lines, re.MULTILINE)]


def test_without_a_source_the_d2l_example_of_both_scorers(folder: Path) -> None:
    result = heatmap("--out", "d2l.svg")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "d2l.svg\n", "")
    labels = ["additive", "scaled_dot", "Batch elements", "Keys", "weight", "0.50"]
    assert titles(folder / "d2l.svg", *labels) == labels
    assert (folder / "d2l.svg").read_text(encoding="utf-8").count(">additive</text>") == 1


def test_default_place_is_numbered_and_never_reused(folder: Path) -> None:
    places = [heatmap("small.yaml").stdout.strip() for _ in range(2)]
    assert places == ["outputs/heatmaps/small.png", "outputs/heatmaps/small-2.png"]
    assert [(folder / place).read_bytes()[:4] for place in places] == [b"\x89PNG"] * 2


def test_selection(folder: Path) -> None:
    choice = ["--scorer", "dot", "--batch", "1", "--stage", "capped"]
    assert heatmap("small.yaml", *choice, "--out", "one.svg").exit_code == 0
    assert titles(folder / "one.svg", "additive", "dot", "batch 0", "batch 1") == ["dot"]
    assert titles(folder / "one.svg", "score after softcap, batch 1, 1 of 2 batch elements")


def test_dropped_weights_say_so(folder: Path) -> None:
    assert heatmap("small.yaml", "--set", "train=true", "--stage", "dropped", "--out", "after.svg").exit_code == 0
    assert titles(folder / "after.svg", "attention weight after dropout, additive")
    assert heatmap("small.yaml", "--set", "train=true", "--out", "before.svg").exit_code == 0
    words = ["additive before dropout", "dot"]
    assert titles(folder / "before.svg", *words, "dot before dropout") == words


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
    numpy.save("numbers.npy", numpy.arange(-3.0, 3.0).reshape(2, 3))
    assert heatmap("numbers.npy", "--out", "numbers.svg").exit_code == 0
    assert titles(folder / "numbers.svg", "score", "attention weight") == ["score"]


def test_several_tensors_are_chosen_by_name(folder: Path) -> None:
    save_file({"a": torch.rand(2, 2), "b": torch.rand(2, 2), "c": torch.rand(2)}, "two.safetensors")
    assert heatmap("two.safetensors", "--tensor", "b", "--tensor", "a", "--out", "two.svg").exit_code == 0
    assert titles(folder / "two.svg", "a", "b") == ["a", "b"]


def test_weights_of_a_query_without_keys_are_drawn(folder: Path) -> None:
    change = ["--set", "data.valid_lens=[0, 5]", "--set", "mask.empty_row=uniform"]
    assert heatmap("small.yaml", "--out", "uniform.svg", *change).exit_code == 0
    assert titles(folder / "uniform.svg", "weight", "masked") == ["weight"]
    assert heatmap("small.yaml", "--out", "zero.svg", "--set", "data.valid_lens=[0, 5]").exit_code == 0
    assert titles(folder / "zero.svg", "masked") == ["masked"]


def test_looks_of_a_config_are_those_of_its_pictures_and_flags_win(folder: Path) -> None:
    figure = "figure: {colours: root, minus: dot, keys: '1:4', annotate: yes}\n"
    (folder / "looks.yaml").write_text(CONFIG + figure)
    good("run", "looks.yaml", "--quiet")
    run = folder / "outputs/looks/latest"
    assert (run / "heatmap_additive.png").exists()
    assert not (run / "heatmap_dot.png").exists()  # it would be the difference from itself
    flags = ["--colours", "root", "--minus", "dot", "--keys", "1:4", "--annotate", "yes"]
    for name, arguments in {"config": ["looks.yaml"], "folder": [str(run)], "flags": ["small.yaml", *flags]}.items():
        assert heatmap(*arguments, "--out", f"{name}.png").exit_code == 0
        assert (folder / f"{name}.png").read_bytes() == (run / "heatmaps.png").read_bytes(), name
    assert heatmap(str(run), "--colours", "log", "--minus", "additive", "--out", "other.svg").exit_code == 0
    words = ["attention weight, dot − additive", "weight difference (colours by logarithm)", "batch 1", "b", "e"]
    assert titles(folder / "other.svg", *words) == words[:-1]


@pytest.mark.parametrize(
    ("logits", "times", "is_noted"), [((1.0, 0.0, 0.5), 2, True), ((2.0, 0.0, 0.5), 1, False), ((0.0,) * 3, 1, True)]
)
def test_weights_of_a_file_that_went_through_softmax_twice_are_noted(
    folder: Path, logits: tuple[float, ...], times: int, is_noted: bool
) -> None:
    weights = torch.tensor([logits, logits[::-1]]) / 2
    for _ in range(times):
        weights = weights.softmax(-1)
    numpy.save("weights.npy", weights.numpy())
    result = heatmap("weights.npy", "--out", "twice.png")
    assert (result.exit_code, (folder / "twice.png").exists()) == (0, True)
    assert ("rows are nearly uniform" in result.stdout + result.stderr) == is_noted


@pytest.mark.slow
def test_of_many_heads_those_of_a_run_or_of_the_flags_are_drawn(folder: Path) -> None:
    """The command says which they are, and keeps the order of flags; tests/show/pictures/test_heads.py ranks heads."""
    shape = {"shape": [1, 14, 2, 8]}
    experiment(folder / "many.yaml", data={"queries": shape, "keys": shape}, scorers=["scaled_dot", "dot"])
    good("run", "many.yaml", "--quiet")
    result = heatmap("outputs/many/latest", "--out", "many.png")
    assert (folder / "many.png").read_bytes() == (folder / "outputs/many/latest/heatmaps.png").read_bytes()
    assert result.stderr.startswith("the heatmaps show head ")
    for heads in ((3, 1), (1, 3)):
        flags = [word for head in heads for word in ("--head", str(head))]
        assert heatmap("many.yaml", *flags, "--minus", "dot", "--out", "two.svg", "--overwrite").stderr == ""
        text = (folder / "two.svg").read_text(encoding="utf-8")
        first, second = (text.index(f">head {head}</text>") for head in heads)
        assert first < second


def test_a_character_without_a_font_is_a_warning_even_if_quiet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attncli.show.pictures.figures.FALLBACKS", ())
    config = experiment(tmp_path / "x.yaml", tokens={"keys": ["注", "意", "力", "a", "b"]})
    for quiet in ([], ["--quiet"]):
        shown = attncli("heatmap", config, "--out", tmp_path / "x.png", "--overwrite", *quiet)
        assert shown.exit_code == 0
        assert "warning: no installed font can draw 力 意 注" in shown.stderr
    assert "warning: no installed font" in attncli("run", config, "--out", tmp_path / "run", "--quiet").stderr


def test_an_unknown_choice(folder: Path) -> None:
    assert 'got "score"; did you mean `scores`?' in refusal("heatmap", "small.yaml", "--stage", "score")


MINILM = Path(__file__).parents[2] / "experiments" / "minilm.safetensors"
LAYER = "encoder.layer.{}.attention.self"


@pytest.mark.parametrize("layer", ["3", LAYER.format(3)])
def test_a_captured_file_has_the_weights_of_the_model(folder: Path, layer: str) -> None:
    """The weights are computed from the captured tensors as the capture itself does; only this layer is computed."""
    drawn = load_source(MINILM, None, layer, None, [], [], quiet=True)
    assert (drawn.layer, drawn.name, drawn.matrices.layer) == (LAYER.format(3), "minilm", "layer 3")
    weights = read_captured(MINILM).read(3).weights()
    torch.testing.assert_close(dict(drawn.matrices.tensors), {"model": weights})
    scores = load_source(MINILM, "scores", layer, None, [], [], quiet=True).matrices.tensors["model"]
    torch.testing.assert_close(scores.softmax(-1), weights)
    assert drawn.result is not None
    assert list(drawn.result.layers) == [LAYER.format(3)]
    good("heatmap", MINILM, "--layer", layer, "--head", 2, "--head", 5, "--out", "two.svg")
    assert titles(folder / "two.svg", "head 2", "head 5", "head 3") == ["head 2", "head 5"]


def test_a_captured_file_with_one_layer_needs_no_choice(folder: Path) -> None:
    with package.Capture(heads="4-5") as seen, torch.no_grad():
        torch.nn.functional.scaled_dot_product_attention(*torch.randn(3, 1, 8, 5, 4))
    package.save(seen, "one.safetensors")
    good("heatmap", "one.safetensors", "--out", "one.svg")
    assert titles(folder / "one.svg", "head 3", "head 4", "head 5") == ["head 4", "head 5"]
    good("heatmap", "one.safetensors", "--tensor", "function.queries", "--out", "queries.svg")
    good("heatmap", "one.safetensors", "--set", "scorers=dot", "--head", 5, "--out", "dot.svg")
    assert titles(folder / "dot.svg", "attention weight, layer 0, head 5, 1 of 2 heads")
    good("heatmap", MINILM, "--set", "data.layer=1", "--head", 3, "--out", "set.svg")
    assert "--head: got 6; expected 4 to 5, of 2 heads" in refusal("heatmap", "one.safetensors", "--head", 6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            [],
            f"6 layers of a model; choose one, such as --layer 0; expected 0 to 5, or a name such as {LAYER.format(0)}",
        ),
        (
            ["--layer", "6"],
            "--layer: got 6; expected 0 to 5, of 6 layers with attention",
        ),
        (["--layer", "encoder.layer.1"], f"did you mean `{LAYER.format(1)}`?"),
        (["--layer", "1", "--head", "12"], "--head: got 12; expected 0 to 11, of 12 heads"),
        (["--layer", "1", "--scorer", "dot"], '--scorer: got "dot"; unknown label; known: model'),
        (["--layer", "1", "--tensor", "x"], 'got "x"; MINILM has no such tensor'),
    ],
)
def test_what_a_captured_file_does_not_have(folder: Path, arguments: list[str], message: str) -> None:
    assert message in refusal("heatmap", MINILM, *arguments).replace(str(MINILM), "MINILM")
    assert [path.name for path in folder.iterdir()] == ["small.yaml"]


def test_a_run_over_layers_says_which_there_are(folder: Path) -> None:
    good("run", MINILM, "--set", "data.layers=[1,3]", "--no-plots", "--quiet", "--out", "run")
    lines = refusal("heatmap", "run")
    assert f"choose one, such as --layer 1; expected 1 or 3, or a name such as {LAYER.format(1)}" in lines
