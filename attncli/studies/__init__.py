"""The studies: one file each with the options of its YAML (`OPTIONS`) and `run(options, progress) -> result`.

A study computes; it prints nothing and writes no files. `STUDIES` names the modules without loading them, since all of
them load torch.
"""

import importlib
from typing import Any

STUDIES = {"attention": "attncli.studies.attention"}


def load_study(name: str) -> Any:
    """The module of a study, with `OPTIONS`, `SCORERS`, `check(options)` and `run(options, progress)`."""
    return importlib.import_module(STUDIES[name])
