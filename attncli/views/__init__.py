"""Results as rich tables and as matplotlib figures; they only read. One view for each study."""

import importlib
from types import ModuleType

VIEWS = {
    "attention": "attncli.views.attention",
    "variance": "attncli.views.variance",
    "saturation": "attncli.views.saturation",
    "bench": "attncli.views.bench",
    "train": "attncli.views.train",
}


def load_view(study: str) -> ModuleType:
    """The module of a study's view, with `tables(result, ...)` and `pictures(result)`."""
    return importlib.import_module(VIEWS[study])
