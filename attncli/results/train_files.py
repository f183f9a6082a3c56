"""What a run folder has of the study `train`: learning curves, and parameters that were read; read again, too."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from safetensors.torch import load_file
from torch import Tensor

from attncli.errors import InputError
from attncli.results.records import Record, TrainResult
from attncli.results.tensors import save_named

TENSORS = "tensors.safetensors"


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
    """What a run folder has by label and d.

    Raises:
        InputError: a folder that is no run of this study.
    """
    if not (folder / "results.json").is_file():
        latest = folder / "latest"
        cure = f"did you mean `{latest}`?" if latest.is_dir() else "expected the folder of a run of attncli train"
        raise InputError.of(f'got "{folder}", which has no results.json; {cure}')
    try:
        return _loaded(folder)
    except InputError:
        raise
    except Exception as error:  # the library raises its own kinds, and what the files hold may be anything
        reason = " ".join(str(error).split())
        raise InputError.of(f'got "{folder}", which has not what a run has written: {reason}') from error


def _loaded(folder: Path) -> dict[tuple[str, int], Kept]:
    content = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    if content["study"] != "train":
        raise InputError.of(f'got "{folder}", a run of the study {content["study"]}; expected one of train')
    rows: dict[tuple[str, int], list[Record]] = {}
    for row in content["records"]:
        rows.setdefault((row["label"], row["d"]), []).append(row)
    curves = load_file(folder / TENSORS)
    return {
        (label, d): Kept(found, {name: each for name, each in curves.items() if name.startswith(f"{label}/{d}/")})
        for (label, d), found in rows.items()
    }
