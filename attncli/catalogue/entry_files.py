"""Entries of scorers in YAML files: a text that ends in `.yaml` stands for the entries under `scorers` of this file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeGuard

from attncli.config.yaml_loader import parse_yaml
from attncli.core.opening import read_config
from attncli.errors import InputError, below, got, refusal

SCORERS, PATHS = "scorers", ("fitted", "file")  # the key of the entries, and keys of files inside of them


def with_entries_of_files(data: Any, folder: Path) -> Any:
    """Return the data of a config in which files under `scorers` are replaced by their entries.

    Raises:
        InputError: a file has no entries.
    """
    entries = data.get(SCORERS) if isinstance(data, Mapping) else None
    listed = entries if isinstance(entries, list) else [entries]
    if not any(map(_is_file, listed)):
        return data
    with below(SCORERS):
        each = [_entries(entry, folder) if _is_file(entry) else [entry] for entry in listed]
    return {**data, SCORERS: [entry for entries in each for entry in entries]}


def one_entry(value: Any, folder: Path) -> Any:
    """Return the entry of a file, given its name; anything else is unchanged.

    Raises:
        InputError: the file has several entries, or none.
    """
    if not _is_file(value):
        return value
    entries = _entries(value, folder)
    if len(entries) > 1:
        mappings = (entry if isinstance(entry, Mapping) else {"label": entry} for entry in entries)
        labels = [str(entry.get("label", entry.get("scorer"))) for entry in mappings]
        raise InputError.of(got(value, f"it has the entries {', '.join(labels)}; expected one"))
    return entries[0]


def _is_file(value: Any) -> TypeGuard[str]:
    return isinstance(value, str) and value.endswith(".yaml")


def _entries(name: str, folder: Path) -> list[Any]:
    path = (folder / name).absolute()
    try:
        data, _ = parse_yaml(read_config(path).decode("utf-8-sig"), lambda line, column: f"{name}:{line}:{column}")
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError.of(got(name, refusal(error), "expected a file with entries under `scorers`")) from None
    entries = data.get(SCORERS) if isinstance(data, Mapping) else None
    if not isinstance(entries, list) or not entries:
        raise InputError.of(got(name, "expected a file with a list of entries under `scorers`"))
    return [located(entry, path.parent) for entry in entries]


def located(entry: Any, folder: Path) -> Any:
    """Return an entry in which the paths of files, which are relative to the folder, are absolute."""
    if not isinstance(entry, Mapping):
        return entry
    return {
        key: str(folder / value) if key in PATHS and isinstance(value, str) else located(value, folder)
        for key, value in entry.items()
    }
