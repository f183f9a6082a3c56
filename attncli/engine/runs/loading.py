"""Read the result of a run from its folder."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ValidationError
from safetensors import SafetensorError, safe_open
from torch import Tensor

from attncli.config.document import TENSORS
from attncli.config.opening import UnfitFileError, check_regular, open_file, read_config
from attncli.engine.runs.run_folder import JOURNAL, OUTPUTS
from attncli.engine.runs.settings import Settings
from attncli.errors import InputError, dotted, os_errors_as_input_errors, shortened
from attncli.results import Facts, Finding, Result, Row, SweepResult
from attncli.studies import STUDIES, load_study

OF_RESULT = {field.name for field in fields(Result)} - {"inputs"}  # results.json has only fingerprints of inputs
CURE = "expected a run folder as it was written; run the experiment again"


def _damaged(folder: Path, where: str) -> InputError:
    """Return the InputError for a damaged run; `where` is the damaged key, or the error that the damage has caused."""
    return InputError.of(f'got "{folder}", whose files are damaged ({where}); {CURE}')


def _mapped(path: Path) -> Any:
    check_regular(path)
    return safe_open(path, framework="pt")


# The files kept open inside `reading`, since opening one parses all names: 5,000 in a run over 320 layers.
_OPEN: ContextVar[dict[Path, Any] | None] = ContextVar("_OPEN", default=None)


class StoredTensors(Mapping[str, Tensor]):
    """The tensors of a .safetensors file by name. Each is read when requested.

    Inside the context manager `reading`, the file stays open and repeated reads of a tensor share memory. Outside, each
    read returns a copy.
    """

    def __init__(self, path: Path, names: Sequence[str] | None = None) -> None:
        """Take all tensors of a file, or only the tensors with the given names; absent names are ignored."""
        with reading(path.parent), _mapped(path) as file:
            there = set(file.keys())
        self._path = path
        self._names = dict.fromkeys(sorted(there) if names is None else (name for name in names if name in there))

    def __getitem__(self, name: str) -> Tensor:
        """Read a tensor."""
        if name not in self._names:
            raise KeyError(name)
        files = _OPEN.get()
        with reading(self._path.parent), ExitStack() as exits:
            if files is None:
                file = exits.enter_context(_mapped(self._path))
            elif (file := files.get(self._path)) is None:
                file = files[self._path] = _mapped(self._path)
            tensor: Tensor = file.get_tensor(name)
        return tensor

    def __contains__(self, name: object) -> bool:
        return name in self._names  # Mapping's own method would read the tensor

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _labelled(record: Row) -> Row:
    if not isinstance(record.get("label"), str) or not isinstance(record.get("scorer"), str):
        raise ValueError(record)
    return record


class Stored(BaseModel):
    """The keys of results.json that are read from a run folder, with their types."""

    study: str
    name: str
    about: str | None = None
    settings: Settings
    records: list[Annotated[Row, AfterValidator(_labelled)]]
    comparisons: list[Row]
    heads: list[Row] = []
    head_comparisons: list[Row] = []
    findings: list[Finding]
    inputs: Row
    expectations: list[Row]
    created: str
    command: str
    environment: Row
    files: list[str]
    interrupted: bool = False


@dataclass(frozen=True)
class StoredRun:
    """A run read from disk.

    `path` is the run folder or only a file results.json, in which case there are no tensors and `config` is None.
    `content` is the whole content of results.json, `config` the text of config.yaml.
    """

    path: Path
    result: Result
    content: Row
    config: str | None = None


def read_run(path: Path) -> StoredRun:
    """Read a run from its folder, or without tensors from a file results.json.

    Raises:
        InputError: `path` is neither of the two, or files are damaged.
    """
    with reading(path):
        with os_errors_as_input_errors(path):
            results = path / "results.json" if path.is_dir() or path.suffix != ".json" else path
            if not results.exists():
                if (path / JOURNAL).is_file():
                    looks = f"`attncli sweep --resume {path}` goes on, `--status {path}` says how far it is"
                    raise InputError.of(f'got "{path}", an unfinished sweep; expected one with results; {looks}')
                runs = [path / "latest", OUTPUTS / path.stem / "latest"]
                latest = next((folder for folder in runs if folder.is_dir()), None)
                expected = "expected the folder of a run, as outputs/d2l/latest"
                cure = f"did you mean `{latest}`?" if latest else expected
                raise InputError.of(f'got "{path}", which is not a run folder; {cure}')
        with open_file(results) as file:
            text = file.read()
        stored = Stored.model_validate_json(text, strict=True)
        if stored.study not in STUDIES:
            raise _damaged(path, "results.json: study")
        study, is_sweep, content = load_study(stored.study), stored.settings.sweep is not None, json.loads(text)
        if not is_sweep and not getattr(stored, study.swept):  # all points of a sweep may have failed
            raise _damaged(path, "results.json")
        facts = Facts() if is_sweep else study.facts.model_validate(content["settings"])
        is_folder = results != path
        tensors: Mapping[str, Tensor] = {}
        inputs, parameters = tensors, tensors
        if is_folder and not is_sweep and TENSORS in stored.files:
            inputs = StoredTensors(path / TENSORS, list(stored.inputs))
            made = [name for name in StoredTensors(path / TENSORS) if name not in inputs]
            tensors = StoredTensors(path / TENSORS, made)
        if is_folder and facts.parameters_file in stored.files:
            parameters = StoredTensors(path / facts.parameters_file)
        kept = {name: value for name, value in stored if name in OF_RESULT} | stored.settings.fields
        kind = SweepResult if is_sweep else Result
        result = kind(**kept, facts=facts, inputs=inputs, tensors=tensors, parameters=parameters)
        config = read_config(path / "config.yaml").decode() if is_folder else None
        return StoredRun(path, result, content, config)


@contextmanager
def reading(folder: Path) -> Iterator[None]:
    """Keep tensor files open in the `with` block, and turn errors caused by its files into an InputError."""
    outer = _OPEN.get()
    token = _OPEN.set({} if outer is None else outer)
    try:
        yield
    except InputError:
        raise
    except UnfitFileError as error:
        raise InputError.of(f'got "{error.filename}", {error.kind}; {CURE}') from error
    except ValidationError as error:
        where = dotted(error.errors(include_url=False, include_input=False)[0]["loc"])
        raise _damaged(folder, f"results.json: {where}" if where else "results.json") from error
    except (OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, SafetensorError) as error:
        raise _damaged(folder, f"{type(error).__name__}: {shortened(str(error))}") from error
    finally:
        _OPEN.reset(token)
