"""The command `attncli swap`: its rows, its screen, and wrong input."""

import re
import sys
from pathlib import Path

import pytest

import attncli as package
from attncli.models.loading import Request, load
from tests.cli import attncli, config, good, refusal, results, swept

TOWER = "tests.studies.swap.models:tower"
pytestmark = [pytest.mark.usefixtures("here"), pytest.mark.filterwarnings("ignore")]


def test_rows_of_all_places_in_their_order() -> None:
    places = ("all", "layer", "head", "up_to", "from")
    found = swept("swap", TOWER, "--scorer", "sparsemax", *(f"--by={by}" for by in places))["records"]
    found_places = [(row["by"], row["layer"], row["head"]) for row in found if row["label"] == "sparsemax"]
    heads = [("head", layer, head) for layer in ("first", "second") for head in range(4)]
    layers = [(by, layer, None) for by in ("layer", "up_to", "from") for layer in ("first", "second")]
    assert found_places == [("all", None, None), *layers[:2], *heads, *layers[2:]]
    assert list(dict.fromkeys(row["label"] for row in found)) == ["model", "sparsemax", "uniform", "zero"]
    by_place = {(row["label"], row["by"], row["layer"]): row["relative_l2"] for row in found if row["head"] is None}
    assert by_place["zero", "up_to", "second"] == by_place["zero", "from", "first"] == by_place["zero", "all", None]
    assert by_place["zero", "up_to", "first"] == by_place["zero", "layer", "first"]


def test_one_layer_and_one_head_and_a_run_that_runs_again() -> None:
    arguments = ("--layers", "1", "--heads", "2", "--by", "head", "--scorer", "additive", "--seed", "3")
    found = swept("swap", TOWER, *arguments)["records"]
    places = {(row["layer"], row["head"]) for row in found if row["label"] != "model"}
    assert places == {("second", 2)}
    good("run", "out/config.yaml", "--out", "again", "--no-plots", "--quiet")
    assert [row | {"seconds": 0} for row in results("again")["records"]] == [row | {"seconds": 0} for row in found]
    assert package.compare("out", "again").verdict != "different"


def test_texts_of_a_file_and_their_batches(minilm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts of like length run together, and rows do not depend on it."""
    lines = ["Another one, which is longer by some words.", "One sentence.", "A third one, short.", "Two words."]
    Path("texts.txt").write_text("\n\n".join(lines))
    monkeypatch.setattr("attncli.models.loading.TOKENS", 16)
    loaded = load(Request(minilm, tuple(lines)))
    assert loaded.order == [0, 2, 1, 3]
    assert [list(batch["input_ids"].shape) for batch in loaded.batches] == [[1, 12], [2, 8], [1, 5]]
    arguments = ("swap", minilm, "--texts", "texts.txt", "--by", "all", "--scorer", "sparsemax")
    of_file, small = swept(*arguments), swept(*arguments, "--batch-size", "1", out="small")
    assert config()["texts"] == lines
    for row, other in zip(of_file["records"], small["records"], strict=True):
        for key in ("relative_l2", "pooled_cosine", "rank_correlation"):
            assert row[key] == pytest.approx(other[key], rel=1e-3, abs=1e-5)


def test_what_is_shown_and_drawn() -> None:
    result = attncli("swap", TOWER, "--scorer", "sparsemax", "--by", "all", "--by", "layer", "--by", "head")
    assert result.exit_code == 0
    line = r"34 passes of about [\d.]+ s: [\d.]+ s and [\d.]+ GiB; `--by all` alone [\d.]+ s"
    assert re.search(line, result.stderr)
    lines = result.stdout.splitlines()
    assert "relative L2, one layer at a time" in lines
    assert "sparsemax: in all layers changes the output by" in " ".join(lines)
    folder = next(Path("outputs/swap").glob("2*"))
    assert {"swap.png", "heads.png", "records.csv"} <= {path.name for path in folder.iterdir()}
    assert package.load(folder).pictures == ["swap", "heads"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([TOWER, "--layers", "7"], "--layers 7: got 7; expected 0 to 1, of 2 layers with attention"),
        ([TOWER, "--layers", "frist"], '--layers frist: got "frist"; no layer with attention; did you mean `first`?'),
        ([TOWER, "--by=head", "--heads", "4"], "--heads 4: got 4; expected 0 to 3, of the heads of first"),
        ([TOWER, "--by", "sideways"], 'got "sideways"; expected all, layer, head, up_to or from'),
        ([TOWER, "--scorer", "model"], 'got "model"; a reference that always runs'),
        ([TOWER, "--scorer", "dot:dropout=0.1"], "this study runs the model without dropout"),
        (["tests.studies.swap.models:broken"], "Relu: relu in place of a softmax between two matrix products"),
        (["tests.studies.swap.models:nothing"], "which gives int; expected (model, inputs)"),
        (["/etc/hosts"], 'MODEL /etc/hosts: got "/etc/hosts", a file; expected a folder with a model'),
        (["nowhere", "--texts", "none.txt"], "No such file or directory"),
        (
            ["nowhere", "--text", "a", "--text", ""],
            'attncli swap: --text a --text "": texts[1]: got ""; expected text that is not empty',
        ),
    ],
)
def test_wrong_input_is_one_line_and_nothing_is_written(arguments: list[str], message: str) -> None:
    assert message in refusal("swap", *arguments, "--no-plots")
    assert list(Path().iterdir()) == []


def test_without_texts_nothing_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    cure = 'give --text "..." (repeatable) or --texts FILE, in YAML `texts: [...]`'
    assert refusal("swap", "gpt2") == f"attncli swap: texts: got no texts for the model to read; {cure}"


@pytest.mark.parametrize("command", ["swap", "doctor", "capture"])
def test_a_text_with_more_tokens_than_positions(command: str, minilm: str) -> None:
    out = ["--out", "x.safetensors"] if command == "capture" else []
    message = "the longest text has 602 tokens and the model 512 positions; shorten the text"
    assert message in refusal(command, minilm, "--text", "word " * 600, *out)
