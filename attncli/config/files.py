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
    """Marks a key with the path of a file, as metadata of its type: the run folder has `name` in place of the file."""

    name: str


def marked_files(model: BaseModel, above: Path = ()) -> Iterator[tuple[Path, str, str]]:
    """Yield each file that a config names: the path of its key, its value, and its name in a run folder."""
    for name, field in type(model).model_fields.items():
        value: Any = getattr(model, name)
        path = (*above, field.alias or name)
        for mark in field.metadata:
            if isinstance(mark, StoredAs) and isinstance(value, str):
                yield path, value, mark.name
        items = [((*path, index), item) for index, item in enumerate(value)] if isinstance(value, list) else []
        for below, item in [(path, value), *items]:
            if isinstance(item, BaseModel):
                yield from marked_files(item, below)
