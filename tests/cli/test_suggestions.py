"""Every command that reads an experiment or a run suggests the one with a similar name."""

from pathlib import Path

import pytest

from tests.cli import good, refusal

pytestmark = pytest.mark.usefixtures("sketches")
COMMANDS = {
    "run": [],
    "check": [],
    "explain": [],
    "heatmap": [],
    "doctor": [],
    "sweep": ["--over", "seed=1,2"],
    "init": [],
}
MEANT = {
    "d2l_additve": "d2l_additive",
    "D2L": "d2l",
    "D2L.yaml": "d2l",
    "d2ll": "d2l",
    "Claims/04_variance": "claims/04_variance",
    "04_varience": "claims/04_variance",
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("typed", MEANT)
def test_a_built_in_experiment(command: str, typed: str, here: Path) -> None:
    message = refusal(command, typed, *COMMANDS[command])
    assert message.endswith(f"did you mean `{MEANT[typed]}`?")
    assert len(message.splitlines()) == 1


@pytest.mark.parametrize("command", [name for name in COMMANDS if name != "init"])
def test_a_file_beside_it(command: str, here: Path) -> None:
    (here / "My_Config.yml").write_text("scorers: [dot]\n")
    assert refusal(command, "my_confg.yaml", *COMMANDS[command]).endswith("did you mean `My_Config.yml`?")
    unknown = refusal(command, "something/else", *COMMANDS[command])
    assert "did you mean" not in unknown
    assert "expected" in unknown or "`attncli init` lists" in unknown


@pytest.mark.parametrize("command", ["figure", "report", "compare"])
def test_the_last_run_of_an_experiment(command: str, here: Path) -> None:
    good("run", "d2l", "--no-plots", "--quiet")
    others = ["outputs/d2l/latest"] if command == "compare" else []
    assert refusal(command, "d2l", *others).endswith("did you mean `outputs/d2l/latest`?")
    assert refusal(command, "outputs/d2l", *others).endswith("did you mean `outputs/d2l/latest`?")
    assert "did you mean" not in refusal(command, "d3l", *others)
