"""The output of a command fits one screen for input of any size; `--full` prints everything."""

import re
from pathlib import Path
from typing import Any

import pytest

from attncli.show.terminal.tables import SCREEN
from tests.cli import attncli, good
from tests.studies.bench.small import hurry

pytestmark = pytest.mark.usefixtures("here")
MINILM = Path(__file__).parents[2] / "experiments" / "minilm.safetensors"
MANY_SCORERS = [f"--scorer=scaled_dot:scale={scale}" for scale in range(1, 21)]
LARGE = """
data:
  queries: {shape: [4, 12, 40, 8]}
  keys: {shape: [4, 12, 300, 8]}
  values: {shape: [4, 12, 300, 3]}
scorers: [dot, cosine, additive]
"""
COMMANDS: dict[str, list[Any]] = {
    "d2l": ["run", "d2l"],
    "many heads, queries and keys": ["run", "large.yaml"],
    "many scorers": ["run", "d2l_dot_product", *MANY_SCORERS],
    "layers": ["run", "minilm"],
    "several": ["run", *(["claims/01a_mask_per_example"] * 30)],
    "variance": ["variance", "--set=samples=200"],
    "variance of a model": ["variance", "--from", MINILM],
    "saturation": ["saturation", "--rows=20"],
    "saturation of a model": ["saturation", "--from", MINILM],
    "train": ["train", "--d=4", "--d=8", "--d=16", "--steps=2", "--seeds=2", "--set=test_keys=[4, 16]"],
    "bench": ["bench", "--n=4", "--n=8", "--d=4"],
    "swap": ["swap", "tests.studies.swap.models:tower", "--by=all", "--by=layer", "--by=head", *MANY_SCORERS[:6]],
    "fit": ["fit", "tests.studies.swap.models:tower", "--steps=1", *MANY_SCORERS[:6]],
    "doctor of layers with many scorers": ["doctor", "minilm", *MANY_SCORERS[:6]],
    "explain": ["explain", "d2l"],
    "scorers": ["scorers"],
    "init": ["init"],
}


@pytest.mark.parametrize(("name", "width"), [*((name, 80) for name in COMMANDS), ("many scorers", 120)])
def test_a_command_fits_one_screen(name: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch)
    monkeypatch.setenv("COLUMNS", str(width))
    plots = ["--no-plots"] * (COMMANDS[name][0] not in ("explain", "scorers", "init"))
    Path("large.yaml").write_text(LARGE)
    lines = good(*COMMANDS[name], *plots).splitlines()
    assert len(lines) <= SCREEN
    assert not any(line.endswith(" ") for line in lines), "no blanks at the end of lines in a pipe"
    wide = [line for line in lines if len(line.rstrip()) > width and not line.startswith("outputs/")]
    assert wide == [] or name == "init", "paths and commands are not folded"
    if name.endswith("of a model"):  # the heads of the findings are in both tables
        extremes = [line.split()[:2] for line in lines if re.match(r"0 +[02] ", line)]
        assert extremes == [["0", "0"], ["0", "2"]] * 2
    if COMMANDS[name][0] in ("variance", "saturation", "train", "swap", "fit", "doctor"):
        assert lines.index("Findings") > len(lines) / 4


def test_findings_are_last_above_the_folder_and_full_prints_everything() -> None:
    layers = "--set=data.layers=[0, 3, 5]"
    short = good("run", MINILM, layers, "--no-plots").splitlines()
    (after,) = (line for line in short[short.index("Findings") + 1 :] if not line.startswith(("- ", "  ")))
    assert after.startswith("outputs/")
    full = good("run", MINILM, layers, "--no-plots", "--full").splitlines()
    assert len(full) > 3 * SCREEN
    assert not any("left out" in line for line in full)
    assert "weights of layer 0 (encoder.layer.0.attention.self), head 2, the largest JS" in short
    assert sum(" left out; see them with --full" in line for line in short) >= 1


def test_scores_stand_in_place_of_weights() -> None:
    weights, scores = (good("run", "modified_keys", "--no-plots", *stage) for stage in ([], ["--stage=scores"]))
    rows = [re.findall(r"^0 +(\w+) +(-?\d\.\d{3})", text, re.M)[:3] for text in (weights, scores)]
    assert [[label for label, _ in each] for each in rows] == [["additive", "scaled_dot", "dot"]] * 2
    assert rows[0] != rows[1]
    assert "scores   * row maximum" in scores
    without = good("run", "modified_keys", "--no-plots", "--stage=capped").split()
    assert "this run has no stage `capped`; it has scores, weights, output" in " ".join(without)


def test_scorers_of_the_command_line_replace_those_of_the_config() -> None:
    result = attncli("run", "claims/03_modified_keys", "--scorer=dot", "--scorer=cosine:scale=2", "--no-plots")
    assert result.exit_code == 0
    assert "cosine_2" in result.stdout
    assert "expectation" not in result.stdout
    assert "whose expectations are not checked" in result.stderr
