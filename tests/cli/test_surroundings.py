"""Paths that the system refuses, and broken environments, give messages and never a traceback."""

import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest

import attncli as package
from tests.cli import attncli, experiment, good

LONG = "x" * 300
DEEP = "/".join(["y" * 200] * 30)  # each name is short enough, all of them are not
COMMANDS = [
    "run PATH",
    "run PATH.safetensors",
    "run a.yaml --out PATH",
    "run a.yaml --set data.values.file=PATH",
    "heatmap PATH.npy",
    "heatmap run --out PATH.png",
    "figure PATH",
    "report PATH",
    "report run --out PATH.html",
    "compare run PATH",
    "compare run run --out PATH.png",
    "variance --from PATH",
    "variance --from PATH.safetensors",
    "sweep PATH --over seed=0",
    "sweep a.yaml --over seed=0 --out PATH",
    "sweep --resume PATH",
    "sweep a.yaml --over seed=0 --cluster PATH.json",
    "capture own:PATH",
    "capture a/b --image PATH",
    "capture a/b --text hello --out PATH.safetensors",
    "fit PATH --text hello --scorer dot",
    "swap PATH --text hello --scorer dot",
    "init d2l --out PATH",
]


@pytest.mark.parametrize(
    ("command", "path"),
    [*itertools.product(COMMANDS, (LONG, "loop")), *((command, DEEP) for command in COMMANDS[:4])],
)
def test_paths_that_the_system_refuses(command: str, path: str, here: Path) -> None:
    """Their names are too long, or they are links in a circle."""
    experiment(here / "a.yaml")
    good("run", "a.yaml", "--out", "run", "--no-plots", "--quiet")
    for ending in ("", ".yaml", ".npy", ".safetensors", ".json"):
        (here / f"loop{ending}").symlink_to(f"loop{ending}")
    result = attncli(*command.replace("PATH", path).split())
    if path == "loop" and "--out" in command and result.exit_code == 0:  # the run is written beside it
        assert not (here / "loop").exists()
    else:
        assert (result.exit_code, result.stdout) == (2, "")
        assert path == "loop" or "File name too long" in result.stderr


def alone(code: str, cwd: Path, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run Python code in a separate process."""
    path = str(Path(package.__file__).parents[1])
    everything = {**os.environ, "PYTHONPATH": path, **environment}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, cwd=cwd, env=everything, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("command", ["run a.yaml", "init", "scorers", "variance --d 2", "--help"])
def test_a_working_directory_that_was_removed(command: str, here: Path) -> None:
    """It is noticed before libraries fail in it."""
    (here / "gone").mkdir()
    code = f"import os; os.rmdir(os.getcwd()); from attncli.cli import app; app({command.split()})"
    result = alone(code, cwd=here / "gone")
    if command == "--help":
        assert (result.returncode, "Usage" in result.stdout) == (0, True)
    else:
        message = "attncli: got a working directory that does not exist any more; change to another\n"
        assert (result.returncode, result.stderr) == (2, message)


@pytest.mark.slow
def test_a_backend_of_matplotlib_that_there_is_not(here: Path) -> None:
    """A wrong backend of matplotlib has no effect, since pictures are only saved to files."""
    result = alone("from attncli.cli import app; app(['heatmap', '--out', 'a.png'])", cwd=here, MPLBACKEND="nonsense")
    assert (result.returncode, result.stderr, result.stdout) == (0, "", "a.png\n")
