"""Read the result of a run from its folder."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from torch import Tensor

from attncli.config.files import TENSORS
from attncli.config.strict import validated
from attncli.config.yaml_loader import parse_yaml
from attncli.core.opening import UnfitFileError, check_regular, open_file, read_config
from attncli.engine.runs.run_folder import JOURNAL, OUTPUTS
from attncli.engine.runs.stored import StoredConfig, StoredResult
from attncli.errors import InputError, below, did_you_mean, got, os_errors_as_input_errors, shortened
from attncli.results import Facts, Result, Row, SweepResult
from attncli.studies import STUDIES, load_study

AGAIN = "run the experiment again"
OTHERS = (RecursionError, SafetensorError)  # of reading, beside the errors of Python's values and files
CURE = f"expected a run folder as it was written; {AGAIN}"


def _mapped(path: Path) -> Any:
    check_regular(path)
    return safe_open(path, framework="pt")


def _written(path: Path) -> tuple[int, int, int]:
    """Return the number of a file on its disk, its size, and when it was written."""
    status = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns


# The files kept open inside `reading`, since opening one parses all names: 5,000 in a run over 320 layers.
_OPEN: ContextVar[dict[Path, Any] | None] = ContextVar("_OPEN", default=None)


class StoredTensors(Mapping[str, Tensor]):
    """The tensors of a .safetensors file by name. Each is read when requested.

    Inside the context manager `reading`, the file stays open and repeated reads of a tensor share memory. Outside, each
    read returns a copy. A file that was written again is an InputError: its tensors are another run's.
    """

    def __init__(self, path: Path, names: Sequence[str] | None = None) -> None:
        """Take all tensors of a file, or only the tensors with the given names; absent names are ignored."""
        self._path = path.resolve()  # `latest` may be another run when a tensor is read
        with reading(path.parent), _mapped(self._path) as file:
            self._written, stored = _written(self._path), set(file.keys())
        self._names = dict.fromkeys(sorted(stored) if names is None else (name for name in names if name in stored))

    def __getitem__(self, name: str) -> Tensor:
        """Read a tensor."""
        if name not in self._names:
            raise KeyError(name)
        with reading(self._path.parent) as files:
            if self._path not in files:
                if _written(self._path) != self._written:
                    raise InputError.of(f'got "{self._path}", which has changed since it was read; load the run again')
                files[self._path] = _mapped(self._path)
            tensor: Tensor = files[self._path].get_tensor(name)
        return tensor

    def __contains__(self, name: object) -> bool:
        return name in self._names  # Mapping's own method would read the tensor

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


@dataclass(frozen=True)
class StoredRun:
    """A run read from disk.

    `path` is the run folder or only a file results.json, in which case there are no tensors and `config` is None.
    `stored` is the content of results.json, `config` the content of config.yaml.
    """

    path: Path
    result: Result
    stored: StoredResult
    config: Row | None = None


def read_run(path: Path) -> StoredRun:
    """Read a run from its folder, or without tensors from a file results.json.

    Raises:
        InputError: `path` is neither of the two, or files are damaged.
    """
    results = _results_path(path)
    with reading(path):
        with open_file(results) as file:
            content = json.load(file)
        if isinstance(content, dict) and re.match(r"0\.[0-3]\.", str(version := content.get("attncli"))):
            message = f"got a run of attncli {version}; expected one of 0.4 or later; run its config.yaml again"
            raise InputError.of(message, where=str(results))
        with _located(results):
            stored = validated(StoredResult, content, {})
            if stored.study not in STUDIES:
                raise InputError.of(got(stored.study, "unknown study", did_you_mean(stored.study, STUDIES)), ["study"])
            study, sweep = load_study(stored.study), stored.settings.sweep
            with below("settings"):
                facts = Facts() if sweep else validated(study.facts, content["settings"], {})
        is_folder = results != path
        tensors: Mapping[str, Tensor] = {}
        inputs, parameters = tensors, tensors
        if is_folder and not sweep and TENSORS in stored.files:
            inputs = StoredTensors(path / TENSORS, list(stored.inputs))
            others = [name for name in StoredTensors(path / TENSORS) if name not in inputs]
            tensors = StoredTensors(path / TENSORS, others)
        if is_folder and facts.parameters_file in stored.files:
            parameters = StoredTensors(path / facts.parameters_file)
        result = stored.result(facts, inputs=inputs, tensors=tensors, parameters=parameters)
        with _located(results):
            if isinstance(result, SweepResult):  # all points of a sweep may have failed
                of_study = (study.columns[study.swept], study.columns.get("heads", ()))
                records, heads = ([column for column in kind if column.key not in result.swept] for kind in of_study)
                stored.check_rows({"records": records, "heads": heads}, needed=())
            else:
                stored.check_rows(study.columns, needed=[study.swept])
        return StoredRun(path, result, stored, _stored_config(path / "config.yaml") if is_folder else None)


def _results_path(path: Path) -> Path:
    """Return the path of the results.json of a run; raise an InputError if there is none."""
    with os_errors_as_input_errors(path):
        results = path / "results.json" if path.is_dir() or path.suffix != ".json" else path
        if results.exists():
            return results
        if (path / JOURNAL).is_file():
            looks = f"`attncli sweep --resume {path}` goes on, `--status {path}` says how far it is"
            raise InputError.of(f'got "{path}", an unfinished sweep; expected one with results; {looks}')
        runs = [path / "latest", OUTPUTS / path.stem / "latest"]
        latest = next((folder for folder in runs if folder.is_dir()), None)
        cure = f"did you mean `{latest}`?" if latest else "expected the folder of a run, as outputs/d2l/latest"
        raise InputError.of(f'got "{path}", which is not a run folder; {cure}')


def _stored_config(path: Path) -> Row:
    """Return the content of a config.yaml; raise an InputError if the keys that are read have wrong types."""
    config: Row = parse_yaml(read_config(path).decode(), lambda line, column: f"{path}:{line}:{column}")[0]
    with _located(path):
        validated(StoredConfig, config, {})
    return config


@contextmanager
def _located(file: Path) -> Iterator[None]:
    """Add the file and a cure to the problems of an InputError in the `with` block."""
    try:
        yield
    except InputError as error:
        cured = (replace(each, message=f"{each.message}; {AGAIN}", where=str(file)) for each in error.problems)
        raise InputError(cured) from error


@contextmanager
def reading(folder: Path) -> Iterator[dict[Path, Any]]:
    """Yield the tensor files that stay open in the `with` block, and turn errors caused by files into InputErrors."""
    outer = _OPEN.get()
    files = {} if outer is None else outer
    token = _OPEN.set(files)
    try:
        yield files
    except InputError:
        raise
    except UnfitFileError as error:
        raise InputError.of(f'got "{error.filename}", {error.kind}; {CURE}') from error
    except (OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, *OTHERS) as error:
        reason = f"{type(error).__name__}: {shortened(str(error))}"
        raise InputError.of(f'got "{folder}", whose files are damaged ({reason}); {CURE}') from error
    finally:
        _OPEN.reset(token)
