"""Where a result is shown: by the modules of its study, or by those of sweeps."""

from types import ModuleType

from attncli import studies
from attncli.studies.study import Result


def view_of(result: Result, part: str) -> ModuleType:
    """The module `tables`, `figure` or `columns` that shows a result."""
    if "sweep" not in result.settings:
        return studies.part_of(result.study, part)
    from importlib import import_module

    return import_module(f"attncli.sweeps.{part}")
