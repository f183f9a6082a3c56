"""`attncli heatmap`: every kind of source, the picture and its file, and wrong input."""

import re
from html import unescape
from pathlib import Path

import numpy
import pytest
import torch
from safetensors.torch import save_file

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
def folder(here: Path) -> Path:
    Path("small.yaml").write_text(CONFIG)
    return here


def drawn(*arguments: object) -> str:
    """Draw a heatmap into a.svg, and return its texts, one on a line."""
    good("heatmap", *arguments, "--out", "a.svg", "--overwrite")
    texts = re.findall(r">([^<]+)</text>", Path("a.svg").read_text(encoding="utf-8"))
    return "\n".join(map(unescape, texts))


def titles(text: str, *labels: str) -> list[str]:
    """Return the labels that a picture has as texts, on one line or folded over several."""
    patterns = {label: r"[ \n]".join(map(re.escape, label.split(" "))) for label in labels}
    return [label for label, pattern in patterns.items() if re.search(f"^{pattern}$", text, re.MULTILINE)]


def test_without_a_source_the_d2l_example_of_both_scorers(folder: Path) -> None:
    result = attncli("heatmap", "--out", "a.svg")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "a.svg\n", "")
    labels = ["additive", "scaled_dot", "Batch elements", "Keys", "weight", "0.50"]
    text = drawn()
    assert titles(text, *labels) == labels
    assert text.splitlines().count("additive") == 1


def test_default_place_is_numbered_and_never_reused(folder: Path) -> None:
    places = [good("heatmap", "small.yaml").strip() for _ in range(2)]
    assert places == ["outputs/heatmaps/small.png", "outputs/heatmaps/small-2.png"]
    assert [(folder / place).read_bytes()[:4] for place in places] == [b"\x89PNG"] * 2


CAPPED = "--scorer dot --batch 1 --stage capped"
LABELS = {  # options, labels in the picture, and labels that it has not
    CAPPED: (["dot", "score after softcap, batch 1, 1 of 2 batch elements"], ["additive", "batch 0", "batch 1"]),
    "--set train=true --stage dropped": (["attention weight after dropout, additive"], ["dot"]),
    "--set train=true": (["additive before dropout", "dot"], ["dot before dropout"]),
    "--set data.valid_lens=[0,5] --set mask.empty_row=uniform": (["weight"], ["masked"]),
    "--set data.valid_lens=[0,5]": (["weight", "masked"], []),
}


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("options", LABELS)
def test_stages_and_queries_without_keys_have_their_names(options: str) -> None:
    expected, others = LABELS[options]
    assert titles(drawn("small.yaml", *options.split()), *expected, *others) == expected


@pytest.mark.usefixtures("here")
def test_tensor_files() -> None:
    weights = torch.rand(3, 4).softmax(-1)
    numpy.save("weights.npy", weights.numpy())
    numpy.savetxt("weights.csv", weights.numpy(), delimiter=",")
    torch.save(weights, "weights.pt")
    save_file({"weights": weights, "names": torch.zeros(3)}, "weights.safetensors")
    for ending in ("npy", "csv", "pt", "safetensors"):
        assert titles(drawn(f"weights.{ending}"), "weights", "attention weight") == ["weights", "attention weight"]
    numpy.save("numbers.npy", numpy.arange(-3.0, 3.0).reshape(2, 3))
    assert titles(drawn("numbers.npy"), "score", "attention weight") == ["score"]
    save_file({"a": torch.rand(2, 2), "b": torch.rand(2, 2), "c": torch.rand(2)}, "two.safetensors")
    text = drawn("two.safetensors", "--tensor", "b", "--tensor", "a").splitlines()
    assert [line for line in text if line in ("a", "b", "c")] == ["b", "a"]


def test_looks_of_a_config_are_those_of_its_pictures_and_flags_win(folder: Path) -> None:
    figure = "figure: {colours: root, minus: dot, keys: '1:4', annotate: yes}\n"
    (folder / "looks.yaml").write_text(CONFIG + figure)
    good("run", "looks.yaml", "--quiet", "--out", "run")
    assert Path("run/heatmap_additive.png").exists()
    assert not Path("run/heatmap_dot.png").exists()  # it would be the difference from itself
    flags = ["--colours", "root", "--minus", "dot", "--keys", "1:4", "--annotate", "yes"]
    for name, arguments in {"config": ["looks.yaml"], "folder": ["run"], "flags": ["small.yaml", *flags]}.items():
        good("heatmap", *arguments, "--out", f"{name}.png")
        assert Path(f"{name}.png").read_bytes() == Path("run/heatmaps.png").read_bytes(), name
    words = ["attention weight, dot − additive", "weight difference (colours by logarithm)", "batch 1", "b", "e"]
    assert titles(drawn("run", "--colours", "log", "--minus", "additive"), *words) == words[:-1]


@pytest.mark.parametrize(
    ("logits", "times", "is_noted"), [((1.0, 0.0, 0.5), 2, True), ((2.0, 0.0, 0.5), 1, False), ((0.0,) * 3, 1, True)]
)
def test_weights_of_a_file_that_went_through_softmax_twice_are_noted(
    here: Path, logits: tuple[float, ...], times: int, is_noted: bool
) -> None:
    weights = torch.tensor([logits, logits[::-1]]) / 2
    for _ in range(times):
        weights = weights.softmax(-1)
    numpy.save("weights.npy", weights.numpy())
    result = attncli("heatmap", "weights.npy", "--out", "twice.png")
    assert (result.exit_code, (here / "twice.png").exists()) == (0, True)
    assert ("rows are nearly uniform" in result.stdout + result.stderr) == is_noted


@pytest.mark.slow
def test_of_many_heads_those_of_a_run_or_of_the_flags_are_drawn(here: Path) -> None:
    """The command says which they are, and keeps the order of flags; tests/show/pictures/test_heads.py ranks heads."""
    shape = {"shape": [1, 14, 2, 8]}
    experiment(here / "many.yaml", data={"queries": shape, "keys": shape}, scorers=["scaled_dot", "dot"])
    good("run", "many.yaml", "--quiet", "--out", "run")
    result = attncli("heatmap", "run", "--out", "many.png")
    assert Path("many.png").read_bytes() == Path("run/heatmaps.png").read_bytes()
    assert result.stderr.startswith("the heatmaps show head ")
    for heads in ([3, 1], [1, 3]):
        lines = drawn("many.yaml", *(f"--head={head}" for head in heads), "--minus", "dot").splitlines()
        assert [line for line in lines if line.startswith("head ")] == [f"head {head}" for head in heads]


def test_a_character_without_a_font_is_a_warning_even_if_quiet(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attncli.show.pictures.figures.FALLBACKS", ())
    config = experiment(here / "x.yaml", tokens={"keys": ["注", "意", "力", "a", "b"]})
    for command in ("heatmap x.yaml --out x.png", f"heatmap {config} --out y.png --quiet", "run x.yaml --quiet"):
        result = attncli(*command.split())
        assert result.exit_code == 0
        assert "warning: no installed font can draw 力 意 注" in result.stderr


MINILM = Path(__file__).parents[2] / "experiments" / "minilm.safetensors"
LAYER = "encoder.layer.{}.attention.self"


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("layer", ["3", LAYER.format(3)])
def test_a_captured_file_has_the_weights_of_the_model(layer: str) -> None:
    """The weights are computed from the captured tensors as the capture itself does; only this layer is computed."""
    source = load_source(MINILM, None, layer, None, [], [], quiet=True)
    assert (source.layer, source.name, source.matrices.layer) == (LAYER.format(3), "minilm", "layer 3")
    weights = read_captured(MINILM).read(3).weights()
    torch.testing.assert_close(dict(source.matrices.tensors), {"model": weights})
    scores = load_source(MINILM, "scores", layer, None, [], [], quiet=True).matrices.tensors["model"]
    torch.testing.assert_close(scores.softmax(-1), weights)
    assert source.result is not None
    assert list(source.result.layers) == [LAYER.format(3)]
    text = drawn(MINILM, "--layer", layer, "--head", 2, "--head", 5)
    assert titles(text, "head 2", "head 5", "head 3") == ["head 2", "head 5"]


@pytest.mark.usefixtures("here")
def test_a_captured_file_with_one_layer_needs_no_choice() -> None:
    with package.Capture(heads="4-5") as seen, torch.no_grad():
        torch.nn.functional.scaled_dot_product_attention(*torch.randn(3, 1, 8, 5, 4))
    package.save(seen, "one.safetensors")
    assert titles(drawn("one.safetensors"), "head 3", "head 4", "head 5") == ["head 4", "head 5"]
    drawn("one.safetensors", "--tensor", "function.queries")
    text = drawn("one.safetensors", "--set", "scorers=dot", "--head", 5)
    assert titles(text, "attention weight, layer 0, head 5, 1 of 2 heads")
    drawn(MINILM, "--set", "data.layer=1", "--head", 3)
    assert "--head: got 6; expected 4 to 5, of 2 heads" in refusal("heatmap", "one.safetensors", "--head", 6)


@pytest.mark.usefixtures("here")
def test_a_run_over_layers_says_which_there_are() -> None:
    good("run", MINILM, "--set", "data.layers=[1,3]", "--no-plots", "--quiet", "--out", "run")
    message = f"choose one, such as --layer 1; expected 1 or 3, or a name such as {LAYER.format(1)}"
    assert message in refusal("heatmap", "run")
    assert titles(drawn("run", "--layer", 3, "--head", 2), "attention weight, layer 3, head 2, 1 of 12 heads")
