"""`--resume`: find the configurations of an earlier run that need no new training.

A run stores one hash for each configuration, of the settings that affect the configuration's results and of its rows,
curves and parameters. If the present settings and the files in the folder have the same hash, nothing has changed.
"""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import torch
from pydantic import AliasPath, BaseModel, Field
from torch import Tensor

import attncli
from attncli.common.progress import Progress
from attncli.common.scoring import is_own
from attncli.common.study import Record
from attncli.config.document import PARAMETERS, TENSORS
from attncli.config.opening import open_file
from attncli.errors import InputError, below, looking_at
from attncli.inputs.files import read_tensors
from attncli.studies.train.columns import SUMMARISED
from attncli.studies.train.model import Configuration
from attncli.studies.train.options import TrainOptions

FILES = ("results.json", TENSORS, "config.yaml")
CURE = "expected the folder of a run of attncli train"
SETTINGS = ("keys", "vocabulary", "classes", "embedding", "seeds", "steps", "batch", "optimizer", "lr", "dtype")


@dataclass(frozen=True)
class Finished:
    """The outcome of one configuration (a scorer at one size d), as stored in a run folder.

    The keys of `curves` (seeds, points) are `label/d/measure`, the keys of the trained parameters in `states` are
    `label/d/seed/name`.
    """

    records: Sequence[Record]
    curves: Mapping[str, Tensor]
    states: Mapping[str, Tensor]


class _Results(BaseModel):
    study: Literal["train"]
    configurations: dict[str, str] = Field({}, validation_alias=AliasPath("settings", "configurations"))
    records: list[Record]


def hash_of(
    job: Configuration, found: Finished, options: TrainOptions, device: torch.device, parameters: Mapping[str, Tensor]
) -> str | None:
    """Return a SHA-256 of a configuration's settings and results; `parameters` are all parameters read from files.

    Return None for a user's scorer or normaliser: its code may have changed, so the configuration is trained again.
    """
    if is_own(job.entry):
        return None
    settings = {name: getattr(options, name) for name in (*SETTINGS, "seed", "tested")} | {
        "entry": job.entry.model_dump(mode="json", exclude={"parameters"}),
        "d": job.d,
        "device": device.type,
        "attncli": attncli.__version__,
    }
    rows = json.loads(json.dumps(found.records), parse_constant=lambda _: None)  # results.json has null for NaN
    digest = hashlib.sha256(json.dumps([settings, rows], sort_keys=True).encode())
    for name, tensor in sorted({**found.curves, **found.states, **_below(job.entry.label, parameters)}.items()):
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
        digest.update(tensor.contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def finished_before(
    jobs: Sequence[Configuration],
    options: TrainOptions,
    device: torch.device,
    parameters: Mapping[str, Tensor],
    progress: Progress,
) -> dict[str, Finished]:
    """Return the unchanged configurations of the resumed run by `label/d`; none if `options.resume` is None.

    If the run was made by an earlier version, which stored no learnt parameters, everything is trained again with a
    note.

    Raises:
        InputError: the folder is no run of this study, or its files are damaged.
    """
    if options.resume is None:
        return {}
    results, curves, learnt = _read(Path(options.resume))
    found = dict[str, Finished]()
    if results.configurations and not any(_below(place, learnt) for place in results.configurations):
        progress.note(f"{options.resume} does not have the parameters that were learnt, so all is trained again")
    for job in jobs:
        rows = [row for row in results.records if (row.get("label"), row.get("d")) == (job.entry.label, job.d)]
        finished = Finished(rows, _below(job.place, curves), _below(job.place, learnt))
        before = results.configurations.get(job.place)
        if before is not None and before == hash_of(job, finished, options, device, parameters):
            with_nan = [row | {each.key: math.nan for each in SUMMARISED if row[each.key] is None} for row in rows]
            found[job.place] = replace(finished, records=with_nan)
    return found


def config_of_run(folder: str) -> Path:
    """Return the path of the config of a run of this study; raise InputError if the folder holds no such run."""
    _read(Path(folder))
    return Path(folder) / "config.yaml"


def _below(place: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: each for name, each in tensors.items() if name.startswith(f"{place}/")}


def _read(folder: Path) -> tuple[_Results, dict[str, Tensor], dict[str, Tensor]]:
    """Return the content of results.json, the curves, and the trained parameters (empty if their file is missing)."""
    with below("resume"):
        with looking_at(folder):
            for name in FILES:
                if not (folder / name).is_file():
                    latest = folder / "latest"
                    cure = f"did you mean `{latest}`?" if latest.is_dir() else CURE
                    raise InputError.of(f'got "{folder}", which has no {name}; {cure}')
        try:
            results, curves, _ = (folder / name for name in FILES)
            parameters = folder / PARAMETERS
            learnt = read_tensors(parameters) if parameters.is_file() else {}
            with open_file(results) as file:
                return _Results.model_validate_json(file.read()), read_tensors(curves), learnt
        except (OSError, ValueError) as error:
            raise InputError.of(f'got "{folder}", whose files are damaged; {CURE}') from error
