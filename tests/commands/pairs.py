"""Studies against d from the command line, small enough for tests."""

import json
from pathlib import Path
from typing import Any

import yaml

from tests.cli import good

FEW: dict[str, list[object]] = {"variance": ["--samples", 1000], "saturation": ["--rows", 20, "--keys", 5]}
PAIRS = tuple(FEW)


def swept(study: str, *args: object, out: str = "out") -> dict[str, Any]:
    """Run a study's command without pictures; the content of its results.json."""
    good(study, "--out", out, "--no-plots", "--quiet", *args)
    content: dict[str, Any] = json.loads(Path(out, "results.json").read_text(encoding="utf-8"))
    return content


def config(out: str = "out") -> Any:
    """The content of a run's config.yaml."""
    return yaml.safe_load(Path(out, "config.yaml").read_text(encoding="utf-8"))
