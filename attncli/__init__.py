"""A command-line laboratory and Python package for attention scoring functions.

result = attncli.run("d2l", seed=1)  # a built-in experiment, a YAML file, or a dict with the same keys
result = attncli.sweep("d2l", over={"seed": range(5)})  # a grid of experiments
result = attncli.load("outputs/d2l/latest")  # a run folder
seen = attncli.capture(model, inputs)  # the inputs of the attention calls of a PyTorch model
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attncli.api import Swap, compare, fit, load, run, save, swap, sweep
    from attncli.engine.interactive import InteractiveResult as Result
    from attncli.errors import InputError
    from attncli.models.capture import Capture, capture

__version__ = "0.5.0"
__all__ = [
    "Capture",
    "InputError",
    "Result",
    "Swap",
    "capture",
    "compare",
    "fit",
    "load",
    "run",
    "save",
    "swap",
    "sweep",
]


def __getattr__(name: str) -> Any:
    """Import a public name at its first use, so that `import attncli` does not load torch."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "InputError":
        from attncli.errors import InputError

        return InputError
    if name.lower() == "capture":
        from attncli.models import capture

        return getattr(capture, name)
    from attncli import api

    return getattr(api, name)


def __dir__() -> list[str]:
    """Return the names of the module, including public names that are not imported yet."""
    return sorted({*globals(), *__all__})
