"""A run folder, read again: the result that it keeps."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from safetensors import SafetensorError, safe_open
from torch import Tensor

from attncli.errors import InputError
from attncli.runs.resolved import PARAMETERS, TENSORS
from attncli.studies.study import Finding, Record, Result


class StoredTensors(Mapping[str, Tensor]):
    """Tensors of a .safetensors file by name, each read when it is asked for."""

    def __init__(self, path: Path, names: Sequence[str] | None = None) -> None:
        """All of a file, or those with these names."""
        with safe_open(path, framework="pt") as file:
            there = set(file.keys())
        self._path, self._names = path, sorted(there) if names is None else [name for name in names if name in there]

    def __getitem__(self, name: str) -> Tensor:
        """The tensor, which belongs to the caller."""
        if name not in self._names:
            raise KeyError(name)
        with safe_open(self._path, framework="pt") as file:
            tensor: Tensor = file.get_tensor(name)
        return tensor

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def load_run(folder: Path) -> tuple[Result, Record]:
    """The result that a run folder keeps, and the content of its results.json.

    Raises:
        InputError: no run folder, or one whose files are damaged.
    """
    try:
        content = json.loads((folder / "results.json").read_text(encoding="utf-8"))
        tensors = StoredTensors(folder / TENSORS)
        parameters = StoredTensors(folder / PARAMETERS) if PARAMETERS in content["files"] else {}
        result = Result(
            content["study"],
            content["name"],
            content["settings"],
            content["records"],
            content["comparisons"],
            [Finding(each["text"], each["label"], each["numbers"]) for each in content["findings"]],
            StoredTensors(folder / TENSORS, list(content["inputs"])),
            StoredTensors(folder / TENSORS, [name for name in tensors if name not in content["inputs"]]),
            parameters,
            content.get("interrupted", False),
        )
    except FileNotFoundError as error:
        latest = folder / "latest"
        cure = f"did you mean `{latest}`?" if latest.is_dir() else "expected the folder of a run, as outputs/d2l/latest"
        raise InputError.of(f'got "{folder}", which is not a run folder; {cure}') from error
    except (OSError, ValueError, LookupError, TypeError, AttributeError, SafetensorError) as error:
        raise InputError.of(f'got "{folder}", whose files are damaged') from error
    return result, content
