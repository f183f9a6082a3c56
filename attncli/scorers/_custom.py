"""Import classes that are not built in, by `my_package.my_module:MyScorer` or by a name that a package lists."""

import importlib
import inspect
import sys
import traceback
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from types import ModuleType
from typing import Any, TypeGuard

from torch import Tensor, nn

from attncli.errors import InputError, did_you_mean
from attncli.scorers._base import Scorer

PACKAGE = Path(__file__).resolve().parents[1]


def load_class(name: str, kind: str, listing: str = "", cure: str = "") -> type[nn.Module]:
    """Return the class named `module:Class`, or for `module:function` the class of a scorer that calls the function.

    Modules in the working directory are found, too. If an installed package lists the class, `listing` names both in
    messages, and `cure` says how to mend the package.

    Raises:
        InputError: if the module is missing or fails, or the object is neither a subclass of `torch.nn.Module` nor, if
            `kind` is scorer, a function.
    """
    module_name, _, class_name = name.partition(":")
    path = listing or f'"{name}"'
    module = imported(path, module_name, cure)
    cls = getattr(module, class_name, None)
    if cls is None:
        scorers = [key for key, value in vars(module).items() if _is_module(value)]
        cure = cure or (
            did_you_mean(class_name, scorers) if scorers else "it has no subclass of torch.nn.Module at all"
        )
        raise InputError.of(f"got {path}; {module_name} has no {class_name}; {cure}")
    if kind == "scorer" and callable(cls) and not isinstance(cls, type | nn.Module):
        return object_class(cls)
    if not _is_module(cls):
        functions = ", or a function of queries and keys" if kind == "scorer" else ""
        raise InputError.of(f"got {path}; expected a subclass of torch.nn.Module{functions}{cure and f'; {cure}'}")
    return cls


class FunctionScorer(Scorer):
    """A scorer without parameters that calls a function of queries and keys; subclasses have the function."""

    function: Callable[[Tensor, Tensor], Tensor]

    def __init__(self, query_size: int, key_size: int) -> None:
        super().__init__()

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Return the scores (..., n, m)."""
        return self.function(queries, keys)


class ModuleScorer(Scorer):
    """A scorer that calls a module of the user, whose parameters, dtype and mode stay as they are."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Return the scores (..., n, m)."""
        scores: Tensor = self.module(queries, keys)
        return scores


def object_class(value: Any) -> type[nn.Module]:
    """Return the class of scorers for an object of Python: a class, a torch module, or a function of queries and keys.

    The class for a function calls it, and has its name and docstring.

    Raises:
        InputError: it is a class of something else than torch modules.
    """
    if isinstance(value, nn.Module):
        return type(value)
    if isinstance(value, type):
        if not _is_module(value):
            raise InputError.of(f"got the class {value.__qualname__}; expected a subclass of torch.nn.Module")
        return value
    name = getattr(value, "__name__", None)  # missing if it is an object with `__call__`
    title = (name or type(value).__name__).strip("<>")  # of `<lambda>`
    about = {"__doc__": (name and value.__doc__) or title}
    return type(title, (FunctionScorer,), {"function": staticmethod(value), **about})


def is_importable(cls: type) -> bool:
    """Whether a class is found again by its module and name, so that a config.yaml can hold it."""
    return getattr(sys.modules.get(cls.__module__), cls.__qualname__, None) is cls and cls.__module__ != "__main__"


def raised(error: BaseException) -> str:
    """Describe an exception of the user's code in a line, with file and line if these are in the working directory."""
    try:
        first = (str(error).splitlines() or [""])[0]
    except Exception:  # formatting the exception may fail, too
        first = ""
    text = f"{type(error).__name__}: {first}".rstrip(": ")
    frames = [(Path(frame.filename), frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    here = Path.cwd()
    users = [(path, line) for path, line in frames if path.is_relative_to(here) and not path.is_relative_to(PACKAGE)]
    return f"{text} (line {users[-1][1]} of {users[-1][0].name})" if users else text


def imported(quoted: str, module_name: str, cure: str = "") -> ModuleType:
    """Import the module of an object, which messages name as `quoted`. Modules in the working directory are found, too.

    Raises:
        InputError: if the module is missing or fails.
    """
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    try:
        with redirect_stdout(sys.stderr):  # stdout is for results, such as JSON
            return importlib.import_module(module_name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # the user's module may raise anything
        names = (module_name, module_name.partition(".")[0])
        is_missing = isinstance(error, ModuleNotFoundError) and error.name in names
        usual = "expected a module in the working directory or an installed one" if is_missing else "fix the module"
        message = f"got {quoted}; importing {module_name} gave {raised(error)}; {cure or usual}"
        raise InputError.of(message) from error


def _is_module(value: object) -> TypeGuard[type[nn.Module]]:
    return inspect.isclass(value) and issubclass(value, nn.Module)
