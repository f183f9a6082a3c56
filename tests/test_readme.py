"""The README is held to the code: its commands, outputs, tables and examples are the real ones."""

import json
import re
import shlex
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import torch
import typer
from typer.testing import CliRunner

from attncli.cli import app
from attncli.config.document import read_document
from attncli.config.scorer_entries import options_of
from attncli.config.tensors import FILLS
from attncli.scorers import SCORERS
from attncli.studies import STUDIES

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, flags=re.M | re.S)


def rows(section: str, header: str) -> list[list[str]]:
    """The rows of the table with this header in a section."""
    part = README.partition(f"\n## {section}\n")[2].partition("\n## ")[0].partition(header)[2]
    lines = [line for line in part.splitlines()[2:] if line]
    table = lines[: next((i for i, line in enumerate(lines) if not line.startswith("|")), len(lines))]
    return [[cell.strip().replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in table]


def invoke(command: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """What a command prints at width 80, as a person sees it, without trailing spaces."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "80")
    result = CliRunner().invoke(app, shlex.split(command)[1:])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.output
    return "\n".join(line.rstrip() for line in (result.stdout + result.stderr).rstrip().splitlines())


NUMBER = re.compile(r"\d+\.\d+")


def assert_same_text(shown: str, printed: str) -> None:
    """But for times, and for ones in the last digit of a number: processors round differently."""
    shown, printed = without_times(shown.rstrip()), without_times(printed)
    assert NUMBER.sub("#", shown) == NUMBER.sub("#", printed)
    for old, new in zip(NUMBER.findall(shown), NUMBER.findall(printed), strict=True):
        assert abs(Decimal(old) - Decimal(new)) <= Decimal(1).scaleb(-len(old.partition(".")[2])), (old, new)


def without_times(text: str) -> str:
    """Times of day and of work are the only things that may differ from run to run."""
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(-\d+)?", "<start>", text)
    text = re.sub(r" +([\d.]+ (s|ms|µs)|time)$", " <time>", text, flags=re.M)
    return re.sub("─{9,}", "─", text)  # as wide as the times are


def test_quick_start_is_two_commands() -> None:
    commands = re.findall(r"^python3 -m venv .*$", README, flags=re.M)
    assert len(commands) == 2
    assert commands[0].endswith("attncli run experiments/d2l.yaml")
    assert commands[1].endswith("pytest")
    assert all("-c constraints.txt" in command for command in commands)


def test_worked_example_is_what_the_command_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = next(block for block in blocks("console") if "run modified_keys.yaml" in block)
    invoke("attncli init modified_keys", tmp_path, monkeypatch)
    printed = invoke("attncli run modified_keys.yaml", tmp_path, monkeypatch)
    assert_same_text(shown.partition("\n")[2], printed)


def test_variance_example_is_what_the_command_prints_and_draws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = next(block for block in blocks("console") if "attncli variance" in block)
    command, _, output = shown.removeprefix("$ ").partition("\n")
    printed = invoke(command, tmp_path, monkeypatch)
    assert_same_text(output, printed)
    assert_same_picture(tmp_path / "outputs/variance/latest/variance.png", "docs/variance.png")


@pytest.mark.slow
def test_picture_of_saturation_is_that_of_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    invoke("attncli saturation", tmp_path, monkeypatch)
    assert_same_picture(tmp_path / "outputs/saturation/latest/saturation.png", "docs/saturation.png")


def test_figures_of_saturation_in_the_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = "attncli saturation --d 8 --d 512 --scorer dot --scorer scaled_dot --no-plots --json"
    records = json.loads(invoke(command, tmp_path, monkeypatch))["records"]
    medians = [record["jacobian_median"] for record in records]
    assert [f"{median:.2f}" if median > 0.01 else f"{median:.3f}" for median in medians] == [
        "0.30",
        "0.18",
        "0.003",
        "0.18",
    ]
    assert f"{records[2]['jacobian_mean']:.3f}" == "0.096"
    assert "0.30 at d = 8 and 0.003 at d = 512 without the scale, and 0.18 at both" in README
    assert "(0.096 at d = 512)" in README


def test_study_of_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "study.yaml").write_text(next(block for block in blocks("yaml") if "study: variance" in block))
    printed = invoke("attncli run study.yaml --set samples=1000 --no-plots --json", tmp_path, monkeypatch)
    records = json.loads(printed)["records"]
    assert {record["d"] for record in records} == {4**power for power in range(7)}
    assert [record["label"] for record in records[:3]] == ["dot", "gaussian_2", "wide"]


def options_in(text: str) -> set[str]:
    return set(re.findall(r"--[a-z][a-z-]*", text))


def helped(command: str) -> set[str]:
    return options_in(CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "200"}).stdout)


@pytest.mark.parametrize(
    ("section", "commands"),
    [
        ("Why the square root", ["variance", "saturation"]),
        ("What it costs", ["bench"]),
        ("What scorers learn", ["train"]),
    ],
)
def test_table_of_the_options_of_the_studies_is_complete(section: str, commands: list[str]) -> None:
    text = " ".join(" ".join(row) for row in rows(section, "| option | does |"))
    own = set[str]().union(*(helped(command) for command in commands))
    missing = (own - helped("run") | (own & {"--compile"})) - options_in(text)
    assert missing == set()
    assert options_in(text) <= own
    assert helped("run") - own <= {"--set", "--compile"}, "the other options of run are there too"


def test_worked_example_shows_the_shipped_yaml() -> None:
    shipped = (ROOT / "experiments" / "modified_keys.yaml").read_text(encoding="utf-8")
    assert blocks("yaml")[0] == "".join(f"{line}\n" for line in shipped.splitlines() if not line.startswith("#"))


def test_mistakes_are_reported_as_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mistakes.yaml").write_text(next(block for block in blocks("yaml") if "scaled_dott" in block))
    shown = next(block for block in blocks("console") if "mistakes.yaml" in block)
    assert shown.partition("\n")[2].rstrip() == invoke("attncli check mistakes.yaml", tmp_path, monkeypatch)


def test_reference_is_a_config_that_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from safetensors.torch import save_file

    (tmp_path / "reference.yaml").write_text(next(block for block in blocks("yaml") if "my_experiment" in block))
    save_file({"W.weight": torch.ones(20, 2)}, tmp_path / "trained.safetensors")
    torch.save(torch.ones(4, 10, dtype=torch.bool), tmp_path / "mask.pt")
    command = "attncli run reference.yaml --set mask.file=mask.pt --no-plots --json"
    assert json.loads(invoke(command, tmp_path, monkeypatch))["name"] == "my_experiment"


def test_reference_has_every_key() -> None:
    from attncli.studies.attention.options import AttentionOptions

    reference = next(block for block in blocks("yaml") if "my_experiment" in block)
    assert {line.partition(":")[0] for line in reference.splitlines() if line[0].isalpha()} == set(
        AttentionOptions.model_fields
    )


def test_table_of_fills_has_every_fill() -> None:
    text = " ".join(row[0] for row in rows("The YAML", "| written as | gives |"))
    assert set(re.findall(r"fill: (\w+)|`(\w+)`", text)) >= {(f, "") for f in ("normal", "uniform", "constant")}
    assert all(re.search(rf"\b{fill}\b", text) for fill in FILLS)


def test_table_of_commands_is_complete() -> None:
    commands: Any = typer.main.get_command(app)
    named = {row[0].strip("`").split()[1] for row in rows("Commands", "| command | does |")}
    assert set(commands.commands) - set(STUDIES) <= named <= set(commands.commands)


def test_table_of_options_is_complete() -> None:
    text = " ".join(" ".join(row) for row in rows("Commands", "| option | does |"))
    helped = CliRunner().invoke(app, ["run", "--help"], env={"COLUMNS": "200"}).stdout
    assert set(re.findall(r"--[a-z-]+", helped)) - {"--help"} == set(re.findall(r"--[a-z-]+", text))


def test_table_of_scorers_is_the_catalogue() -> None:
    table = {row[0].strip("`"): row[1:] for row in rows("Scorers", "| name | score | options | parameters |")}
    assert len(table) > 6
    assert list(table) == [name for name in SCORERS if name in table]
    for name, (score, options, parameters) in table.items():
        scorer = SCORERS[name]
        assert (scorer.__doc__ or "").startswith(f"{score} (")
        assert all(f"`{option}` = " in options for option in options_of(scorer)) or options == "none"
        for option, (_, default) in options_of(scorer).items():
            assert f"`{option}` = {default}" in options.replace("= `", "= ").replace("`,", ",")
        assert re.findall(r"`([\w.]+)`", parameters) == list(scorer(4, 4).state_dict())


def test_python_example_holds() -> None:
    for block in blocks("python"):
        exec(compile(block, "README.md", "exec"), {"__name__": "readme"})
    assert len(blocks("python")) == 2


def test_own_scorer_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = next(block for block in blocks("python") if "my_scorers.py" in block)
    entry = next(block for block in blocks("yaml") if "my_scorers:Distance" in block)
    (tmp_path / "my_scorers.py").write_text(code)
    data = "data: {queries: {shape: [3, 2]}, keys: {shape: [4, 2]}}\n"
    (tmp_path / "own.yaml").write_text(data + entry)
    monkeypatch.syspath_prepend(str(tmp_path))
    record = json.loads(invoke("attncli run own.yaml --no-plots --json", tmp_path, monkeypatch))["records"][0]
    assert (record["scorer"], record["label"]) == ("my_scorers:Distance", "Distance")


def test_editor_line_names_a_schema_that_the_command_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "$schema=attncli.schema.json" in README
    assert json.loads(invoke("attncli schema", tmp_path, monkeypatch))["title"] == "attncli experiment"


def test_configs_of_the_readme_have_no_repeated_keys(tmp_path: Path) -> None:
    for number, block in enumerate(blocks("yaml")):
        (tmp_path / f"{number}.yaml").write_text(block)
        assert not read_document(tmp_path / f"{number}.yaml").problems


def test_picture_is_what_its_command_draws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command, picture = re.findall(r"`(attncli heatmap experiments/\S+ .*) --out (docs/\S+)`", README)[0]
    invoke(f"{command} --out {tmp_path / 'new.png'}", ROOT, monkeypatch)
    assert_same_picture(tmp_path / "new.png", picture)


def assert_same_picture(new: Path, shown: str) -> None:
    from matplotlib.image import imread

    assert f"]({shown})" in README
    drawn, old = imread(new), imread(ROOT / shown)
    assert drawn.shape == old.shape
    assert abs(drawn - old).mean() < 0.01  # other machines may smooth edges a little otherwise
