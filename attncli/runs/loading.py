"""A run folder, read again: the result that it keeps."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, Field
from safetensors import SafetensorError, safe_open
from torch import Tensor

from attncli.config.document import PARAMETERS, TENSORS
from attncli.errors import InputError
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


def _labelled(record: Record) -> Record:
    if not isinstance(record["label"], str) or not isinstance(record["scorer"], str):
        raise ValueError(record)
    return record


class Stored(BaseModel):
    """What is read of results.json."""

    study: str
    name: str
    settings: Record
    records: Annotated[list[Annotated[Record, AfterValidator(_labelled)]], Field(min_length=1)]
    comparisons: list[Record]
    heads: list[Record] = []
    head_comparisons: list[Record] = []
    findings: list[Finding]
    inputs: Record
    expectations: list[Record]
    files: list[str]
    interrupted: bool = False


def load_run(folder: Path, studies: Collection[str]) -> tuple[Result, Sequence[Record]]:
    """The result that a run folder keeps, and what became of its expectations.

    Raises:
        InputError: no run folder, or one whose files are damaged.
    """
    with reading(folder):
        if not (folder / "results.json").exists():
            latest = folder / "latest"
            expected = "expected the folder of a run, as outputs/d2l/latest"
            cure = f"did you mean `{latest}`?" if latest.is_dir() else expected
            raise InputError.of(f'got "{folder}", which is not a run folder; {cure}')
        stored = Stored.model_validate_json((folder / "results.json").read_bytes(), strict=True)
        if stored.study not in studies:
            raise ValueError(stored.study)
        tensors = StoredTensors(folder / TENSORS)
        result = Result(
            stored.study,
            stored.name,
            stored.settings,
            stored.records,
            stored.comparisons,
            stored.findings,
            StoredTensors(folder / TENSORS, list(stored.inputs)),
            StoredTensors(folder / TENSORS, [name for name in tensors if name not in stored.inputs]),
            StoredTensors(folder / PARAMETERS) if PARAMETERS in stored.files else {},
            stored.interrupted,
            stored.heads,
            stored.head_comparisons,
        )
    return result, stored.expectations


@contextmanager
def reading(folder: Path) -> Iterator[None]:
    """Any error inside that damaged files of a run cause becomes an InputError that names the folder.

    Raises:
        InputError: something was not what a run has written.
    """
    try:
        yield
    except InputError:
        raise
    except (OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, SafetensorError) as error:
        raise InputError.of(f'got "{folder}", whose files are damaged') from error
