"""Files that a config names: their keys are marked with the name that the file has in a run folder."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from attncli.errors import Path

TENSORS = "tensors.safetensors"  # the tensors that the run read, by their keys in the config
CAPTURED = "capture.safetensors"  # captured calls of a real model
FONT = "font"  # with the ending of the user's file: the font of pictures


@dataclass(frozen=True)
class StoredAs:
    """Marks a key of a file, as metadata of its type: a run folder has `name` in place of the file.

    Without a `name` the validated value stands in the config of a run: an absolute path, or the texts that were read.
    """

    name: str | None = None


def marked_files(model: BaseModel, above: Path = ()) -> Iterator[tuple[Path, Any, str | None]]:
    """Yield each key that is marked as a file, also in plans: its path, its value, and its name in a run folder."""
    for name, field in type(model).model_fields.items():
        value: Any = getattr(model, name)
        path = (*above, field.alias or name)
        for mark in field.metadata:
            if isinstance(mark, StoredAs) and value is not None:
                yield path, value, mark.name
        items = enumerate(value) if isinstance(value, list) else value.items() if isinstance(value, dict) else ()
        for below, item in [(path, value), *(((*path, key), item) for key, item in items)]:
            if isinstance(item, BaseModel):
                yield from marked_files(item, below)
