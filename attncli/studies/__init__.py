"""The studies: one file each, with the options of its YAML and what it makes of them.

A study computes; it prints nothing and writes no files. `STUDIES` names the modules without loading them, since all of
them load torch.
"""

import importlib
from typing import Any, Protocol, cast

from attncli.studies.expectations.outlook import Outlook
from attncli.studies.progress import Progress

STUDIES = {
    "attention": "attncli.studies.attention",
    "variance": "attncli.studies.variance",
    "saturation": "attncli.studies.saturation",
    "bench": "attncli.studies.bench",
    "train": "attncli.studies.train",
}


class Study(Protocol):
    """What the module of a study has."""

    OPTIONS: type[Any]  # the model of its YAML, an Experiment

    def prepare(self, options: Any, progress: Progress) -> Any:
        """Check all that can be wrong with the options, and make what `run` needs; with a `device`."""

    def expected_rows(self, prepared: Any) -> Outlook:
        """The rows that the result will have, as far as they are known, for expectations to be checked."""

    def run(self, prepared: Any, progress: Progress) -> Any:
        """The result: a frozen record with `records`, `comparisons` and `inputs`."""


def load_study(name: str) -> Study:
    """The module of a study."""
    return cast(Study, importlib.import_module(STUDIES[name]))
