"""Commands, output, tables, examples and pictures of README and documentation are real."""

import io
import json
import re
import shlex
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import torch
import typer
import yaml
from matplotlib.image import imread

import attncli as package
from attncli.cli import app
from attncli.config.document import read_document
from attncli.normalizers import NORMALIZERS
from attncli.results import STAGES
from attncli.scorers import SCORERS
from attncli.studies import STUDIES, options_model
from docs.website import build, pictures, reference
from tests.cli import attncli, good
from tests.docs import PAGES, ROOT, Block, assert_same_text, blocks, follow, without_times
from tests.studies.bench.small import hurry
from tests.studies.swap.test_oracle import LIMITS

TEXTS = {name: path.read_text(encoding="utf-8") for name, path in PAGES.items()}
READMES = sorted(name for name in PAGES if name.startswith("README"))
COMMANDS = {name: [block for block in blocks(text) if block.language == "console"] for name, text in TEXTS.items()}
RUN = sorted(name for name in TEXTS if {block.language for block in blocks(TEXTS[name])} & {"console", "python"})


def block_with(page: str, words: str) -> Block:
    return next(block for block in blocks(TEXTS[page]) if words in block.text)


def assert_page_holds(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, slow: bool = False) -> None:
    def check(block: Block, command: str, shown: str, printed: str) -> None:
        if "differs" not in block.flags:
            assert_same_text(shown, printed)

    hurry(monkeypatch)
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    follow(TEXTS[name], folder, check, slow)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in RUN if name not in READMES])
def test_page_runs_and_is_what_its_commands_print(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_page_holds(name, tmp_path, monkeypatch)


@pytest.mark.nightly
@pytest.mark.parametrize("name", [name for name in RUN if "<!-- slow" in TEXTS[name]])
def test_page_with_its_slow_blocks(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_page_holds(name, tmp_path, monkeypatch, slow=True)


def test_readme_with_the_commands_in_its_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_page_holds("README.md", tmp_path, monkeypatch)
    commands = re.findall(r"`(attncli [^`]+)`", " ".join(re.findall(r"^Then .*$", TEXTS["README.md"], flags=re.M)))
    assert len(commands) == 3
    for command in commands:
        good(*shlex.split(command)[1:], "--no-plots")


def test_every_command_is_run() -> None:
    """Only commands that need a shell, a model or half a minute are in `sh` blocks, and not run."""
    found = [block for text in TEXTS.values() for block in blocks(text) if block.language == "sh"]
    commands = [line.split() for block in found for line in block.text.splitlines()]
    in_shell = {"run", "swap", "fit", "doctor", "capture", "compare"}
    assert {words[1] for words in commands if words[:1] == ["attncli"]} <= in_shell
    assert sum(len(found) for found in COMMANDS.values()) > 20


def test_same_text_finds_what_differs() -> None:
    assert_same_text("a 0.51\n...\nb  2 ms", "a 0.52\nmore\n\nb   31.2 ms")
    for printed in ("a 0.53\nmore\nb 2 ms", "a 0.51\nmore\nc 2 ms", "x\na 0.51\nmore\nb 2 ms"):
        with pytest.raises(AssertionError):
            assert_same_text("a 0.51\n...\nb  2 ms", printed)


@pytest.mark.parametrize("name", READMES)
def test_readme_is_short(name: str) -> None:
    commands: Any = typer.main.get_command(app)
    assert len(TEXTS[name].splitlines()) <= 118 + len(commands.commands)  # each command has a row


@pytest.mark.parametrize("name", ["README.md", "docs/tutorial.md"])
def test_sentences_are_short(name: str) -> None:
    prose = re.sub(r"^```.*?^```$|^\|.*?$|`[^`]*`|\]\([^)]*\)|\$[^$]*\$", " ", TEXTS[name], flags=re.M | re.S)
    sentences = re.split(r"[.?!·:]\s|\n\n|\n- ", prose)
    assert [each for each in sentences if len(re.findall(r"[A-Za-z]+", each)) > 30] == []


def test_quick_start_is_two_commands() -> None:
    for name in READMES:
        commands = re.findall(r"^python3 -m venv .*$", TEXTS[name], flags=re.M)
        assert len(commands) == 2
        assert commands[0].endswith("attncli run experiments/d2l.yaml")
        assert commands[1].endswith("pytest")
    installs = [line for text in TEXTS.values() for line in text.splitlines() if re.search(r"pip install ", line)]
    without = [line for line in installs if "constraints.txt" not in line]
    assert [line for line in without if not line.startswith("| Colab")] == [], "which has a torch of its own"


@pytest.mark.parametrize("names", [READMES, ["docs/tutorial.md", "docs/tutorial.zh.md"]])
def test_both_languages_have_the_same_blocks(names: list[str]) -> None:
    first, second = ([(block.language, without_times(block.text)) for block in blocks(TEXTS[name])] for name in names)
    assert first == second


def test_figures_of_the_first_screen() -> None:
    """Counts stand in the pages of claims, changes in the page of fit, bounds in the test of a model's losses."""
    counts = [re.findall(r"\*\*(\d+ of \d+) hold", TEXTS[f"docs/{page}.md"]) for page in ("claims", "papers")]
    of_both = r"^(?:hedgehog|uniform) +\S+ +\S+ +(\S+) +(\S+)$"
    (before, fitted), (even, _) = re.findall(of_both, TEXTS["docs/how-to/fit.md"], flags=re.M)
    changes = [f"{float(each):.1%}".replace("%", " %") for each in (before, even, fitted)]
    limits = [f"{limit:.0e}".replace("e-0", "e-") for _, limit in LIMITS]
    for name in READMES:
        screen = TEXTS[name].partition("\n## ")[0]
        assert re.findall(r"\d+ of \d+", screen) == [*counts[0], *counts[1]]
        assert re.findall(r"[\d.]+ %", screen) == changes
        assert sorted(re.findall(r"1e-\d+", screen)) == sorted(limits)


@pytest.mark.catalogue("studies")
def test_table_of_commands_is_complete() -> None:
    commands: Any = typer.main.get_command(app)
    for name in READMES:
        named = re.findall(r"^\| `attncli (\w+)", TEXTS[name], flags=re.M)
        assert named == [command for command in commands.commands if command in named]
        assert set(commands.commands) - set(STUDIES) <= set(named), "a study has a page"


@pytest.mark.catalogue("scorers", "normalizers")
@pytest.mark.parametrize(
    ("page", "kind", "catalogue"),
    [("docs/index.md", "scorers", SCORERS), ("docs/normalizers.md", "normalizers", NORMALIZERS)],
)
def test_tables_have_names_of_the_catalogues(page: str, kind: str, catalogue: Iterable[str]) -> None:
    named = re.findall(rf"^\| \[`(\w+)`\]\(reference/{kind}", TEXTS[page], flags=re.M)
    assert len(named) > 6
    assert named == [name for name in catalogue if name in named]


def test_experiments_shown_are_those_shipped() -> None:
    shipped = read_document(ROOT / "experiments" / "d2l.yaml").data
    shown = block_with("docs/tutorial.md", "num_hiddens")
    assert {key: shipped[key] for key in ("data", "scorers")} == yaml.safe_load(shown.text)


def test_figures_of_saturation_in_the_text() -> None:
    records = package.run({"study": "saturation", "d": [8, 512], "scorers": ["dot", "scaled_dot"]}).records
    medians = [record["jacobian_median"] for record in records]
    shown = [f"{median:.2f}" if median > 0.01 else f"{median:.3f}" for median in medians]
    assert shown == ["0.30", "0.18", "0.003", "0.18"]
    assert f"{records[2]['jacobian_mean']:.3f}" == "0.096"
    pages = [" ".join(TEXTS[page].split()) for page in ("docs/tutorial.md", "docs/studies/saturation.md")]
    for page in pages:
        assert "0.30 at d = 8 and 0.003 at d = 512 without the scale, and 0.18 at both with it" in page
    assert "(0.096 at d = 512)" in pages[1]


def test_reference_is_a_config_that_runs_and_has_every_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from safetensors.torch import save_file

    monkeypatch.chdir(tmp_path)
    reference = block_with("docs/how-to/experiments.md", "my_experiment").text
    Path("reference.yaml").write_text(reference)
    save_file({"W.weight": torch.ones(20, 2)}, "trained.safetensors")
    torch.save(torch.ones(4, 10, dtype=torch.bool), "mask.pt")
    printed = good("run", "reference.yaml", "--set", "mask.file=mask.pt", "--no-plots", "--json")
    assert json.loads(printed)["name"] == "my_experiment"
    keys = {line.partition(":")[0] for line in reference.splitlines() if line[0].isalpha()}
    assert keys == set(options_model("attention").model_fields)


def test_files_named_in_the_text_exist() -> None:
    """Paths in backticks and links to files, in all pages and in the pages beside the README."""
    texts = [*TEXTS.values(), *(path.read_text(encoding="utf-8") for path in ROOT.glob("[CS]*.md"))]
    named = {each for text in texts for each in re.findall(r"`((?:attncli|tests|experiments|docs)/[\w./]*)`", text)}
    linked = {each for text in texts for each in re.findall(r"\]\(((?:attncli|tests|experiments)/[^)]*)\)", text)}
    assert len(linked) > 15
    assert {each for each in named | linked if not (ROOT / each).exists()} == set()


@pytest.mark.parametrize("name", sorted(PAGES))
def test_yaml_of_the_pages_has_no_mistakes_of_form(name: str, tmp_path: Path) -> None:
    for number, block in enumerate(block for block in blocks(TEXTS[name]) if block.language == "yaml"):
        (tmp_path / f"{number}.yaml").write_text(block.text)
        read_document(tmp_path / f"{number}.yaml")


def test_options_in_the_text_exist() -> None:
    """Every `--option` in the pages is an option of some command."""
    helped = {
        option
        for command in ("", *vars(typer.main.get_command(app))["commands"])
        for option in options_in(attncli(*command.split(), "--help", COLUMNS="200").stdout)
    }
    others = {"--quiet", "--index-url", "--no-deps", "--everything", "--strict"}
    cluster = TEXTS["docs/how-to/sweeps.md"].partition("\n## On a cluster\n")[2]
    dask = {each for line in cluster.splitlines() if "attncli" not in line for each in options_in(line)}
    assert {option for text in TEXTS.values() for option in options_in(text)} - helped - others - dask == set()


def options_in(text: str) -> set[str]:
    return set(re.findall(r"(?<![\w-])--[a-z][a-z-]*[a-z]|--[dnm]\b", text))


SENTENCE = re.compile(r"[^a-z].* .*\.")
OPTIONS = re.compile(r"^\| (`[^`]+`) \| (.*) \| (.*) \| (.*) \|$", flags=re.M)


@pytest.mark.catalogue("scorers", "normalizers", "studies")
@pytest.mark.parametrize("texts", [lambda: [reference.yaml_keys()], lambda: reference.commands().values()])
def test_every_key_and_option_has_a_type_a_default_and_a_sentence(texts: Callable[[], Iterable[str]]) -> None:
    rows = [row for text in texts() for row in OPTIONS.findall(text)]
    assert len(rows) > 200
    incomplete = [row for row in rows if not all(row) or not SENTENCE.fullmatch(row[3])]
    assert incomplete == [], "give the field or option a description"


def test_defaults_and_types_of_keys_are_in_words() -> None:
    rows = {row[0].strip("`"): row[1:3] for row in OPTIONS.findall(reference.yaml_keys())}
    assert rows["alpha"] == ("a number at least 1", "`1.5`")
    assert rows["scale"][1] == "none"  # the last: the colour scale of pictures
    assert rows["factor"] == ("an integer at least 2", "`2`")
    assert rows["save"] == (", ".join(f"`{each}`" for each in STAGES) + ", or `none`, or a list of these", "all")
    options = dict(row[::2] for page in reference.commands().values() for row in OPTIONS.findall(page))
    assert options["`--samples N`"] == "enough for 0.5 % error of the variance"
    assert options["`--df X`"] == "`10`"
    assert options["`--full`"] == "off"


def test_every_picture_has_its_command() -> None:
    files = set((ROOT / "docs" / "pictures").iterdir())
    dark = {path for path in files if path.stem.endswith("-dark")}
    assert set(pictures.commands()) == pictures.shown() == files - dark
    assert {path.with_stem(path.stem.removesuffix("-dark")) for path in dark} <= files - dark


@pytest.mark.slow
@pytest.mark.parametrize("name", ["d2l", "real_heads", "variance", "saturation"])
def test_picture_is_what_its_command_draws(name: str, tmp_path: Path) -> None:
    picture, command = next(each for each in pictures.commands().items() if each[0].stem == name)
    theme, image = next(pictures.draw(command, pictures.name_of(picture), tmp_path))
    drawn, old = imread(io.BytesIO(image)), imread(picture)
    assert theme == "light"
    assert drawn.shape == old.shape
    assert abs(drawn - old).mean() < 0.01  # other machines may smooth edges a little otherwise


def test_gallery_has_thirty_pictures_with_their_commands() -> None:
    shown = [each for group in pictures.gallery() for each in group["pictures"]]
    assert len({each["name"] for each in shown}) == len(shown) >= 30
    stored = {path.stem: command for path, command in pictures.commands().items()}
    assert [each["name"] for each in shown if each["command"] != stored.get(each["name"], each["command"])] == []
    assert build.gallery().count("```console") == len(shown)  # the build of the site runs the drawn commands


def test_pictures_follow_the_theme_of_the_site() -> None:
    image = ROOT / "docs/pictures/d2l.png"
    files = {"pictures/d2l.png": image.read_bytes(), "pictures/d2l-dark.png": b"", "pictures/x.png": b""}
    shown = build.in_both_themes("![a](../pictures/d2l.png) and ![b](pictures/x.png)", files)
    light, dark = "![a](../pictures/d2l.png#only-light)", "![a](../pictures/d2l-dark.png#only-dark)"
    options = f"{{ loading=lazy width={imread(image).shape[1] // 2} }}"
    assert shown == f"{light}{options}{dark}{options} and ![b](pictures/x.png)"
