"""Views of studies whose folder has none yet."""

import importlib
from types import ModuleType

from attncli.studies import part_of

VIEWS = {
    "variance": "attncli.views.variance",
    "saturation": "attncli.views.saturation",
}


def load_view(study: str, part: str = "tables") -> ModuleType:
    """The module with `tables(result, ...)` or, as the part `figure`, with `pictures(result)`."""
    return importlib.import_module(VIEWS[study]) if study in VIEWS else part_of(study, part)
