"""A run folder, read again: the result that it keeps."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ValidationError, model_validator
from safetensors import SafetensorError, safe_open
from torch import Tensor

from attncli.common.study import Finding, Record, Result
from attncli.config.document import PARAMETERS, TENSORS
from attncli.config.opening import UnfitFileError, check_regular, open_file, read_config
from attncli.errors import InputError, dotted, looking_at
from attncli.runs.run_folder import JOURNAL

OF_RESULT = {each.name for each in fields(Result)} - {"inputs"}  # of which results.json has fingerprints alone
CURE = "expected a run folder as it was written; run the experiment again"


class _DamagedError(ValueError):
    """A file of a run that is damaged: the text says which one, and where in it."""


@contextmanager
def _naming(name: str) -> Iterator[None]:
    """Errors that a file of this name causes say so, and where in it."""
    try:
        yield
    except UnfitFileError:
        raise
    except ValidationError as error:
        where = dotted(error.errors(include_url=False, include_context=False, include_input=False)[0]["loc"])
        raise _DamagedError(f"{name}: {where}" if where else name) from error
    except (OSError, ValueError, SafetensorError) as error:
        raise _DamagedError(name) from error


def _mapped(path: Path) -> Any:
    check_regular(path)
    return safe_open(path, framework="pt")


class StoredTensors(Mapping[str, Tensor]):
    """Tensors of a .safetensors file by name, each read when it is asked for."""

    def __init__(self, path: Path, names: Sequence[str] | None = None) -> None:
        """All of a file, or those with these names."""
        with _naming(path.name), _mapped(path) as file:
            there = set(file.keys())
        self._path = path
        self._names = dict.fromkeys(sorted(there) if names is None else (name for name in names if name in there))

    def __getitem__(self, name: str) -> Tensor:
        """The tensor, which belongs to the caller."""
        if name not in self._names:
            raise KeyError(name)
        with _naming(self._path.name), _mapped(self._path) as file:
            tensor: Tensor = file.get_tensor(name)
        return tensor

    def __contains__(self, name: object) -> bool:
        return name in self._names  # a Mapping would read the tensor

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _labelled(record: Record) -> Record:
    if not isinstance(record.get("label"), str) or not isinstance(record.get("scorer"), str):
        raise ValueError(record)
    return record


class Stored(BaseModel):
    """What is read of results.json."""

    study: str
    name: str
    settings: Record
    records: list[Annotated[Record, AfterValidator(_labelled)]]
    comparisons: list[Record]
    heads: list[Record] = []
    head_comparisons: list[Record] = []
    findings: list[Finding]
    inputs: Record
    expectations: list[Record]
    created: str
    command: str
    environment: Record
    files: list[str]
    interrupted: bool = False

    @model_validator(mode="after")
    def _has_rows(self) -> "Stored":
        if not self.records and "sweep" not in self.settings:  # of which all points may have failed
            raise ValueError(self.records)
        return self


@dataclass(frozen=True)
class StoredRun:
    """A run as it is kept: what it gave, and what was written down beside it.

    `path` is the run folder, or a results.json alone, which has no tensors and no config. `content` is all of
    results.json, with `created`, `command`, `environment` and the fingerprints of `inputs`; `config` is the text of
    config.yaml.
    """

    path: Path
    result: Result
    content: Record
    config: str | None = None


def read_run(path: Path, studies: Collection[str]) -> StoredRun:
    """A run folder, or a results.json that stands for one.

    Raises:
        InputError: neither, or files that are damaged.
    """
    with reading(path):
        with looking_at(path):
            results = path / "results.json" if path.is_dir() or path.suffix != ".json" else path
            if not results.exists():
                if (path / JOURNAL).is_file():
                    looks = f"`attncli sweep --resume {path}` goes on, `--status {path}` says how far it is"
                    raise InputError.of(f'got "{path}", an unfinished sweep; expected one with results; {looks}')
                latest = path / "latest"
                expected = "expected the folder of a run, as outputs/d2l/latest"
                cure = f"did you mean `{latest}`?" if latest.is_dir() else expected
                raise InputError.of(f'got "{path}", which is not a run folder; {cure}')
        with open_file(results) as file:
            text = file.read()
        with _naming(results.name):
            stored = Stored.model_validate_json(text, strict=True)
        if stored.study not in studies:
            raise _DamagedError(f"{results.name}: study")
        is_folder = results != path
        tensors: Mapping[str, Tensor] = {}
        inputs, parameters = tensors, tensors
        if is_folder and "sweep" not in stored.settings:
            inputs = StoredTensors(path / TENSORS, list(stored.inputs))
            made = [name for name in StoredTensors(path / TENSORS) if name not in inputs]
            tensors = StoredTensors(path / TENSORS, made)
        if is_folder and PARAMETERS in stored.files:
            parameters = StoredTensors(path / PARAMETERS)
        kept = {name: value for name, value in stored if name in OF_RESULT}
        result = Result(**kept, inputs=inputs, tensors=tensors, parameters=parameters)
        with _naming("config.yaml"):
            config = read_config(path / "config.yaml").decode() if is_folder else None
        return StoredRun(path, result, json.loads(text), config)


@contextmanager
def reading(folder: Path) -> Iterator[None]:
    """Any error that damaged files of a run cause becomes an InputError: it names the folder, and the file if known.

    Raises:
        InputError: something was not what a run has written.
    """
    try:
        yield
    except InputError:
        raise
    except UnfitFileError as error:
        raise InputError.of(f'got "{error.filename}", {error.kind}; {CURE}') from error
    except (OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, SafetensorError) as error:
        which = f" ({error})" if isinstance(error, _DamagedError) else ""
        raise InputError.of(f'got "{folder}", whose files are damaged{which}; {CURE}') from error
