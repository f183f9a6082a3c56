"""Experiments from YAML text, and their problems."""

from pathlib import Path
from typing import Any

import pytest

from attncli.config.document import read_document
from attncli.config.overrides import parse_override
from attncli.config.yaml_loader import parse_yaml
from attncli.errors import InputError
from attncli.studies import STUDIES, options_model

GOOD = """\
data:
  queries: {shape: [2, 3, 4]}
  keys: {shape: [2, 5, 4]}
scorers:
  - scorer: dot
"""


def data_of(text: str) -> Any:
    """Return the data that YAML text stands for."""
    return parse_yaml(text, lambda line, column: f"{line}:{column}")[0]


def not_yaml(text: str) -> str:
    """Return the reason why text is not YAML."""
    with pytest.raises(InputError) as caught:
        parse_yaml(text, lambda line, column: f"{line}:{column}")
    return str(caught.value)


def options_of(folder: Path, text: str = GOOD, *sets: str) -> Any:
    """Return the options of an experiment in `folder`, with --set options applied."""
    path = folder / "x.yaml"
    path.write_text(text, encoding="utf-8")
    document = read_document(path, [parse_override(each) for each in sets])
    return document.validate(options_model(document.study(STUDIES)))


def problems_of(folder: Path, text: str, *sets: str) -> list[str]:
    """Return the lines of the error without the path of the file."""
    with pytest.raises(InputError) as caught:
        options_of(folder, text, *sets)
    return [str(problem).removeprefix(f"{folder / 'x.yaml'}:").strip() for problem in caught.value.problems]
