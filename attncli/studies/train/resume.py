"""`--resume`: which configurations of an earlier run are those that this one would train.

A run writes down one hash for each configuration: of the settings that decide its numbers, and of the rows and curves
that came out. Where the same hash comes out of this run's settings and of what the folder holds, nothing has changed.
"""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel, ValidationError
from safetensors.torch import save
from torch import Tensor

import attncli
from attncli.errors import InputError, below
from attncli.inputs.files import read_tensors
from attncli.scorers import SCORERS
from attncli.studies.scoring import outline
from attncli.studies.study import Record
from attncli.studies.train.columns import SUMMARISED
from attncli.studies.train.configurations import Configuration
from attncli.studies.train.options import TrainOptions

RESULTS, TENSORS, CONFIG = "results.json", "tensors.safetensors", "config.yaml"
CURE = "expected the folder of a run of attncli train"
DECISIVE = (
    "seed", "seeds", "steps", "batch", "keys", "vocabulary", "classes", "embedding", "tested", "optimizer", "lr",
    "dtype",
)  # fmt: skip


@dataclass(frozen=True)
class Finished:
    """What became of one configuration: its rows, and its curves by name, (seeds, points) each."""

    records: Sequence[Record]
    curves: Mapping[str, Tensor]


class _Settings(BaseModel):
    configurations: dict[str, str] = {}


class _Results(BaseModel):
    """What is looked at in results.json."""

    study: str
    settings: _Settings = _Settings()
    records: list[dict[str, Any]]


def hash_of(
    job: Configuration,
    finished: Finished,
    options: TrainOptions,
    device: torch.device,
    parameters: Mapping[str, Tensor] | None,
) -> str | None:
    """A SHA-256 of what decides a configuration's numbers, and of the numbers; None where the former is not known.

    `parameters` are those that its scorer begins with, where they are read. A scorer of the user's own may do anything:
    it is trained again.
    """
    if job.entry.scorer not in SCORERS:
        return None
    settings = {name: getattr(options, name) for name in DECISIVE}
    settings |= {"entry": job.entry.model_dump(mode="json", exclude={"parameters"}), "d": job.d}
    settings |= {"device": device.type, "attncli": attncli.__version__}
    rows = [{name: _plain(value) for name, value in row.items()} for row in finished.records]
    found = hashlib.sha256(json.dumps([settings, rows], sort_keys=True).encode())
    for tensors in (finished.curves, parameters or {}):
        found.update(save(dict(tensors)))
    return found.hexdigest()


def _plain(value: Any) -> Any:
    """As in results.json, which has null in place of NaN."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def kept_of(jobs: Sequence[Configuration], options: TrainOptions, device: torch.device) -> dict[str, Finished]:
    """What the run that is resumed has of these configurations, by `label/d`; nothing where no run is resumed.

    Raises:
        InputError: a folder that is no run of this study, or whose files are damaged.
    """
    if options.resume is None:
        return {}
    with below("resume"):
        results, curves = _results(Path(options.resume)), _curves(Path(options.resume))
    kept = dict[str, Finished]()
    for job in jobs:
        rows = [row for row in results.records if (row.get("label"), row.get("d")) == (job.entry.label, job.d)]
        finished = Finished(rows, {name: each for name, each in curves.items() if name.startswith(f"{job.place}/")})
        before = results.settings.configurations.get(job.place)
        if before is not None and before == hash_of(job, finished, options, device, _parameters(job, options)):
            kept[job.place] = Finished([_with_nan(row) for row in rows], finished.curves)
    return kept


def _with_nan(row: Record) -> Record:
    return row | {column.key: math.nan for column in SUMMARISED if row[column.key] is None}


def _parameters(job: Configuration, options: TrainOptions) -> dict[str, Tensor]:
    """What a scorer begins with, by its own names; where the file cannot be read, the work is refused later."""
    source, dtype = job.entry.parameters, getattr(torch, options.dtype)
    if source is None:
        return {}
    stored: Mapping[str, Tensor] = {}
    with suppress(InputError):
        stored = read_tensors(Path(source.file))
    names = {name: source.names.get(name, name) for name in outline(job.entry, job.d, job.d).state_dict()}
    return {name: stored[there].to(dtype) for name, there in names.items() if there in stored}


def config_of_run(folder: str) -> Path:
    """The config that a run of this study goes on with.

    Raises:
        InputError: a folder that is no run of this study, or has not all of its files.
    """
    path = Path(folder) / CONFIG
    with below("resume"):
        _results(Path(folder))
        _curves(Path(folder))
        if not path.is_file():
            raise InputError.of(f'got "{folder}", which has no {CONFIG}; {CURE}')
    return path


def _results(folder: Path) -> _Results:
    path = folder / RESULTS
    if not path.is_file():
        what = f"has no {RESULTS}" if folder.exists() else "does not exist"
        latest = folder / "latest"
        raise InputError.of(f'got "{folder}", which {what}; {f"did you mean `{latest}`?" if latest.is_dir() else CURE}')
    try:
        results = _Results.model_validate_json(path.read_bytes())
    except OSError as error:
        raise InputError.of(f'got "{folder}", whose {RESULTS} cannot be read: {error.strerror}') from error
    except ValidationError as error:
        raise InputError.of(f'got "{folder}", whose {RESULTS} is not what a run has written; {CURE}') from error
    if results.study != "train":
        raise InputError.of(f'got "{folder}", a run of the study {results.study}; {CURE}')
    return results


def _curves(folder: Path) -> dict[str, Tensor]:
    try:
        return read_tensors(folder / TENSORS)
    except InputError as error:
        raise InputError.of(f'got "{folder}", an incomplete run: {error.problems[0].message}') from error
