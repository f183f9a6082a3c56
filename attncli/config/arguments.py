"""Arguments of functions in Python: a path, and an experiment as a file, a name or a mapping."""

from collections.abc import Mapping
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Any

from attncli.config.builtin import experiment_path
from attncli.config.document import Document, document_of_data, read_document
from attncli.config.overrides import Override, override_in_python
from attncli.errors import Collector, InputError, got


def document_argument(config: object, keys: Mapping[str, Any], where: str) -> Document:
    """Return the document of a config: a file, a built-in experiment or a mapping, with the overrides `keys` applied.

    `where` names the arguments in errors, such as `attncli.run`.

    Raises:
        InputError: there is no such experiment, or an override is invalid.
    """
    collector, overrides = Collector(), list[Override]()
    for key, value in keys.items():
        with collector.under():
            overrides.append(override_in_python(key, value))
    collector.check()
    if isinstance(config, Mapping):
        return document_of_data(where, config, overrides)
    expected = "expected a YAML file, the name of a built-in experiment, or a mapping with `data` and `scorers`"
    return read_document(experiment_path(path_argument(config, where, expected)), overrides)


def path_argument(value: object, where: str, expected: str) -> Path:
    """Return an argument as a path, with `~` expanded.

    Raises:
        InputError: it is no path; `where` is its name, and `expected` is part of the message.
    """
    if not isinstance(value, str | PathLike):
        raise InputError.of(got(value, expected), where=where)
    path = Path(value)
    with suppress(RuntimeError):  # `~name` of an unknown user
        path = path.expanduser()
    return path
