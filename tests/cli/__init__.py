"""The command line in this process: fast, and with stdout and stderr apart."""

import json
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from attncli.api import load
from attncli.cli import app
from attncli.engine.interactive import InteractiveResult as StudyResult


def attncli(*args: object, **environment: str) -> Result:
    """Return the result of a command. An exception in the command is a bug, and is raised."""
    result = CliRunner().invoke(app, [str(arg) for arg in args], env=environment)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def good(*args: object) -> str:
    """Return the stdout of a command that must succeed."""
    result = attncli(*args)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def refusal(*args: object) -> str:
    """Return the stderr of a command that must fail because of wrong input."""
    result = attncli(*args)
    assert (result.exit_code, result.stdout) == (2, "")
    return result.stderr.rstrip("\n")


def results(folder: str | Path = "out") -> dict[str, Any]:
    """Return the content of a run's results.json, which must be strict JSON: without NaN and infinity."""
    text = Path(folder, "results.json").read_text(encoding="utf-8")
    content: dict[str, Any] = json.loads(text, parse_constant=pytest.fail)
    return content


def run(config: Path, out: Path, *args: object) -> dict[str, Any]:
    """Run an experiment without pictures into a folder, and return the content of its results.json."""
    good("run", config, "--out", out, "--no-plots", "--quiet", *args)
    return results(out)


def kept(config: Mapping[str, Any], out: Path) -> StudyResult:
    """Run an experiment without pictures, and load its run folder."""
    path = out.with_suffix(".yaml")
    path.write_text(json.dumps(config))  # JSON is YAML
    good("run", path, "--out", out, "--no-plots", "--quiet")
    return load(out)


def experiment(path: Path, /, **keys: Any) -> Path:
    """Write a YAML file, by default with small tensors and a dot product."""
    data = {"queries": {"shape": [2, 3, 4]}, "keys": {"shape": [2, 5, 4]}, **keys.pop("data", {})}
    path.write_text(json.dumps({"data": data, "scorers": [{"scorer": "dot"}], **keys}))  # JSON is YAML
    return path


def names_in(folder: Path) -> Sequence[str]:
    """Return the paths of everything below a folder, including hidden files."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def swept(study: str, *args: object, out: str = "out") -> dict[str, Any]:
    """Run a study's command without pictures, and return the content of its results.json."""
    good(study, "--out", out, "--no-plots", "--quiet", *args)
    return results(out)


def config(out: str | Path = "out") -> Any:
    """Return the content of a run's config.yaml."""
    return yaml.safe_load(Path(out, "config.yaml").read_text(encoding="utf-8"))


def heed_interrupts() -> None:
    """Reset the handlers of signals in a new process, which inherits them: tests in the background ignore some."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
