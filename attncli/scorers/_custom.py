"""Scorers of the user's own, named in YAML as `my_package.my_module:MyScorer`."""

import importlib
import inspect
import sys
from pathlib import Path

from torch import nn

from attncli.errors import InputError, did_you_mean


def load_class(name: str) -> type[nn.Module]:
    """The class of `module:Class`; modules in the working directory are found too.

    Raises:
        InputError: a module that is not there or fails, or an object that is not a scorer.
    """
    module_name, _, class_name = name.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # the user's module may raise anything
        message = f'got "{name}"; importing {module_name} gave {type(error).__name__}: {error}'
        raise InputError.of(f"{message}; expected a module in the working directory or an installed one") from error
    found = getattr(module, class_name, None)
    if found is None:
        classes = [key for key, value in vars(module).items() if inspect.isclass(value)]
        raise InputError.of(f'got "{name}"; {module_name} has no {class_name}; {did_you_mean(class_name, classes)}')
    if not (inspect.isclass(found) and issubclass(found, nn.Module)):
        raise InputError.of(f'got "{name}"; expected a subclass of torch.nn.Module')
    return found
