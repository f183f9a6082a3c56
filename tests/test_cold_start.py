"""Commands that need no tensors start without torch."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import attncli

pytestmark = pytest.mark.catalogue("studies")
HEAVY = {"torch", "matplotlib", "numpy", "safetensors", "psutil", "jinja2", "entmax"}

# Runs the command line like the entry point, then prints the loaded modules.
SCRIPT = """
import json, sys
import attncli
alone = sorted({name.partition(".")[0] for name in sys.modules})
from attncli.cli import app
try:
    app(sys.argv[1:], prog_name="attncli")
except SystemExit as end:
    code = end.code
modules = sorted({name.partition(".")[0] for name in sys.modules})
print("\\n" + json.dumps([code, alone, modules]))
"""


def loaded_by(*arguments: str, **environment: str) -> tuple[str, set[str], set[str]]:
    """Return what a command prints, and the modules that `import attncli` alone and the whole command load."""
    command = [sys.executable, "-c", SCRIPT, *arguments]
    process = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, check=True, timeout=300
    )
    stdout, _, last = process.stdout.rstrip("\n").rpartition("\n")
    code, alone, modules = json.loads(last)
    assert code == 0
    return stdout, set(alone), set(modules)


COMPLETE = {"_ATTNCLI_COMPLETE": "complete_bash", "COMP_WORDS": "attncli scorers ", "COMP_CWORD": "2"}


@pytest.mark.parametrize(
    ("arguments", "environment", "said"),
    [
        (["--help"], {}, "Usage: attncli"),
        (["--version"], {}, f"attncli {attncli.__version__}"),
        (["init"], {}, "attncli init NAME"),
        ([], COMPLETE, "scaled_dot"),
        (["variance", "--help"], {}, "--query-mean"),
    ],
    ids=["help", "version", "init", "completion", "help of a study"],
)
def test_starts_without_anything_heavy(arguments: list[str], environment: dict[str, str], said: str) -> None:
    stdout, alone, modules = loaded_by(*arguments, **environment)
    assert said in stdout
    assert "typer" in modules, "the list covers the whole command"
    assert HEAVY & modules == set()
    assert "pydantic" not in modules or arguments not in (["--help"], ["--version"])
    assert {"typer", "rich", "yaml", *HEAVY} & alone == set(), "`import attncli` loads nothing at all"


@pytest.mark.slow
def test_no_command_loads_what_it_does_not_need(tmp_path: Path) -> None:
    runs = [str(tmp_path / name) for name in ("a", "b")]
    for seed, run in enumerate(runs):
        _, _, modules = loaded_by("run", "d2l", "--no-plots", "--quiet", "--seed", str(seed), "--out", run)
        assert "torch" in modules
        assert {"jinja2", "matplotlib", "sympy"} & modules == set()
    assert {"jinja2", "matplotlib", "sympy"} & loaded_by("compare", *runs)[-1] == set()
    assert {"jinja2", "matplotlib", "sympy"} & loaded_by("check", "d2l")[-1] == set()
    assert {"jinja2", "sympy"} & loaded_by("figure", runs[0], "--out", str(tmp_path / "pictures"))[-1] == set()
