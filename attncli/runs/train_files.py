"""What a run folder has of the study `train`: learning curves, and parameters that were read; read again, too."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from attncli.errors import InputError, show
from attncli.runs.records import TrainResult
from attncli.runs.tensors import save_named
from attncli.studies.study import Record

RESULTS, TENSORS = "results.json", "tensors.safetensors"
INCOMPLETE = "the run folder is incomplete"


@dataclass(frozen=True)
class Kept:
    """What an earlier run has of one configuration: its rows, and its curves by name."""

    records: Sequence[Record]
    curves: Mapping[str, Tensor]


def save_train(folder: Path, result: TrainResult) -> None:
    """tensors.safetensors, and parameters.safetensors where parameters were read.

    The first has `steps`, the steps before which was tested, and for each of them `<label>/<d>/accuracy`, `/loss`,
    `/entropy` and `/gradient_norm`, one row a seed.
    """
    save_named(folder / TENSORS, {"steps": result.steps, **result.curves})
    parameters = {f"{label}/{name}": each for label, state in result.states.items() for name, each in state.items()}
    if parameters:
        save_named(folder / "parameters.safetensors", parameters)


def load_train(folder: Path) -> dict[tuple[str, int], Kept]:
    """What a run folder has by label and d, whatever its rows and curves hold.

    Raises:
        InputError: a folder that is no run of this study, or has not all of its files.
    """
    if not folder.exists():
        raise InputError.of(f'got "{folder}", which does not exist; expected the folder of a run of attncli train')
    if folder.is_file():
        raise InputError.of(f'got "{folder}", a file; expected its folder')
    if not (folder / RESULTS).is_file():
        latest = folder / "latest"
        cure = f"did you mean `{latest}`?" if latest.is_dir() else "expected the folder of a run of attncli train"
        raise InputError.of(f'got "{folder}", which has no {RESULTS}; {cure}')
    rows: dict[tuple[str, int], list[Record]] = {}
    for row in _records(folder):
        rows.setdefault((row["label"], row["d"]), []).append(row)
    curves = _curves(folder)
    return {
        (label, d): Kept(found, {name: each for name, each in curves.items() if name.startswith(f"{label}/{d}/")})
        for (label, d), found in rows.items()
    }


def _records(folder: Path) -> list[Record]:
    """The rows of a run of this study, each with a label and a size d at least."""
    content = _content(folder)
    if not isinstance(content, dict) or "study" not in content:
        raise _strange(folder, "it does not say of which study")
    if content["study"] != "train":
        raise InputError.of(f'got "{folder}", a run of the study {_word(content["study"])}; expected one of train')
    records = content.get("records")
    if not isinstance(records, list) or not all(map(_has_place, records)):
        raise _strange(folder, "it has no list of records with a label and a size d each")
    return records


def _word(name: Any) -> str:
    return name if isinstance(name, str) else show(name)


def _has_place(row: Any) -> bool:
    return isinstance(row, dict) and isinstance(row.get("label"), str) and type(row.get("d")) is int


def _content(folder: Path) -> Any:
    try:
        return json.loads((folder / RESULTS).read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise _strange(folder, f"no JSON at line {error.lineno}, column {error.colno}") from error
    except (ValueError, RecursionError) as error:
        raise _strange(folder, "it is no JSON in UTF-8") from error
    except OSError as error:
        raise InputError.of(f'got "{folder}", whose {RESULTS} cannot be read: {error.strerror}') from error


def _strange(folder: Path, why: str) -> InputError:
    return InputError.of(f'got "{folder}", whose {RESULTS} is not what a run has written: {why}')


def _curves(folder: Path) -> dict[str, Tensor]:
    try:
        return load_file(folder / TENSORS)
    except FileNotFoundError as error:
        raise InputError.of(f'got "{folder}", which has no {TENSORS}; {INCOMPLETE}') from error
    except OSError as error:
        reason = error.strerror or "not a file"
        raise InputError.of(f'got "{folder}", whose {TENSORS} cannot be read: {reason}') from error
    except (SafetensorError, ValueError, KeyError) as error:  # what the library raises of a damaged file
        raise InputError.of(f'got "{folder}", whose {TENSORS} is damaged; {INCOMPLETE}') from error
