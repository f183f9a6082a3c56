"""Write a run folder: config.yaml, results.json, records.csv, heads.csv, weights.csv, tensors and pictures."""

import csv
import itertools
import json
import platform
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from attncli import __version__
from attncli.config.document import REPORT, Document
from attncli.config.files import TENSORS
from attncli.config.models import Experiment
from attncli.engine.expect.judging import Verdict
from attncli.engine.runs.resolved import dump_yaml, self_contained, stored_files
from attncli.engine.runs.run_folder import NEW, Destination, hidden_folder, new_folder, writing
from attncli.engine.runs.stored import StoredResult
from attncli.errors import InputError, refusal
from attncli.results import PARAMETERS, STAGES, Result, Row, SweepResult, single_numbers
from attncli.runtime import signals

RESULTS = "results.json"
MOST_ROWS = 200_000  # in weights.csv; larger weights are only in tensors.safetensors
SWEPT = ("records", "summary", "heads", "sweep")  # names, without endings, of files with a sweep's results


@dataclass(frozen=True)
class FinishedRun:
    """A finished run: its result in memory and in results.json, and the path of its main picture, if any.

    `problem` is the reason why a sweep stopped before its last point, if it did.
    """

    result: Result
    stored: StoredResult
    folder: Path
    document: Document
    verdicts: Sequence[Verdict]
    picture: Path | None
    problem: str | None = None

    @property
    def points(self) -> Sequence[Row]:
        """The state of each point of a sweep."""
        points: Sequence[Row] = (self.stored.sweep or {}).get("points", ())
        return points


def how_made(verdicts: Sequence[Verdict], seed: int, device: torch.device, to: Destination) -> Row:
    """Return the keys of results.json about how a result was made and judged."""
    command = to.command or to.function
    return {
        "attncli": __version__,
        "seed": seed,
        "created": to.started.isoformat(timespec="seconds"),
        "command": command.encode("utf-8", "surrogateescape").decode("utf-8", "replace"),  # names may not be UTF-8
        "environment": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": numpy.__version__,
            "platform": platform.platform(),
            "device": str(device),
            "device_name": torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine(),
            "cpu_capability": torch.backends.cpu.get_cpu_capability(),  # rounding depends on it
            "threads": torch.get_num_threads(),
        },
        "expectations": [verdict.record for verdict in verdicts],
    }


def save_run(
    folder: Path,
    result: Result,
    stored: StoredResult,
    options: Experiment,
    files: Mapping[str, Callable[[Path], None]],
    note: Callable[[str], None],
) -> None:
    """Write all files of a run into `folder`, the empty folder yielded by `new_folder`.

    `stored` is the content of results.json, which is written last; the list of all files is added to it. `files` maps
    names of further files, such as pictures, to functions that write to a path. `note` is called with a message about a
    file that is left out.

    Raises:
        InputError: a file cannot be written.
    """
    left_out = [stage for stage in STAGES if not result.keeps(stage)]
    stages = {name: tensor for name, tensor in result.tensors.items() if name.rpartition("/")[2] not in left_out}
    tensors = {**result.inputs, **stages}
    try:
        (folder / "config.yaml").write_text(dump_yaml(self_contained(options, result)), encoding="utf-8")
        for name, data in result.facts.documents.items():
            (folder / name).write_text(dump_yaml(data), encoding="utf-8")
        _save_tables(folder, records=result.records, heads=result.heads)
        if tensors or not result.parameters:
            save_named(folder / TENSORS, tensors)
        for _, file, name in stored_files(options, result):
            if name not in (TENSORS, PARAMETERS):  # which have the tensors that the run read from the file
                shutil.copyfile(file, folder / name)
        if result.parameters:
            save_named(folder / result.facts.parameters_file, result.parameters, result.facts.metadata)
        if reason := save_weights_csv(folder / "weights.csv", result):
            note(f"weights.csv is left out: {reason}")
        _draw(folder, files)
        stored.files = sorted([*(path.name for path in folder.iterdir()), RESULTS])
        (folder / RESULTS).write_text(to_json(stored.content), encoding="utf-8")
    except OSError as error:
        raise InputError.of(f"cannot write the run: {refusal(error)}", where=str(folder.parents[1])) from error


def begin_sweep(name: str, to: Destination, config: Mapping[str, Any]) -> Path:
    """Create the folder of a sweep with its config.yaml, by default in outputs/<name>_sweep/, and return its path.

    Raises:
        InputError: as in `new_folder`.
    """
    with new_folder(f"{name}_sweep", to) as folder:
        (folder.path / "config.yaml").write_text(dump_yaml(config), encoding="utf-8")
    return folder.target


def save_sweep(
    folder: Path,
    result: SweepResult,
    stored: StoredResult,
    points: Sequence[Row],
    summary: Sequence[Row],
    pictures: Mapping[str, Callable[[Path], None]],
) -> None:
    """Write or replace the results of a sweep in its folder, which has its config and its journal already.

    Earlier results that are not written again are removed, since they have fewer points. `points` has the state of each
    point, `summary` the rows of summary.csv, and `pictures` functions that draw a picture to a path, by file name.
    `stored` is the content of results.json; points and the list of files are added to it.

    Raises:
        InputError: the folder cannot be written.
    """
    with _replacing(folder) as hidden:
        _save_tables(hidden, records=result.records, summary=summary, heads=result.heads)
        _draw(hidden, pictures)
        new = [path.name for path in hidden.iterdir()]
        drawn = [path for path in folder.iterdir() if path.stem in SWEPT or path.name == REPORT]
        stale = [path for path in drawn if path.name not in new]
        others = [path.name for path in folder.iterdir() if not path.name.startswith(".") and path not in stale]
        stored.files = sorted({*new, *others, RESULTS})
        stored.sweep = {"axes": result.axes, "points": points}
        (hidden / RESULTS).write_text(to_json(stored.content), encoding="utf-8")
    with writing(folder):
        for path in stale:
            path.unlink()


def add_files(folder: Path, files: Mapping[str, Callable[[Path], None]]) -> list[Path]:
    """Write or replace files in a run folder, and list them in results.json.

    `files` maps names to functions that write to a path.

    Raises:
        InputError: the folder cannot be written.
    """
    with _replacing(folder) as hidden:
        for name, write in files.items():
            write(hidden / name)
        content = json.loads((folder / RESULTS).read_text(encoding="utf-8"))
        listed = {**content, "files": sorted({*content.get("files", []), *files})}
        (hidden / RESULTS).write_text(to_json(listed), encoding="utf-8")
    return [folder / name for name in files]


@contextmanager
def _replacing(folder: Path) -> Iterator[Path]:
    """Yield a hidden folder. At the end its files are moved into `folder` and replace others, results.json last."""
    with writing(folder), hidden_folder((folder / RESULTS).absolute()) as hidden:
        new = hidden / NEW
        new.mkdir()
        yield new
        with signals.waiting():
            for path in sorted(new.iterdir(), key=lambda path: path.name == RESULTS):
                path.replace(folder / path.name)


def _draw(folder: Path, files: Mapping[str, Callable[[Path], None]]) -> None:
    """Write pictures and pages, which `attncli figure` and `report` can make later; a signal leaves out the rest."""
    for name, write in files.items():
        if not signals.is_pending:
            write(folder / name)


def _save_tables(folder: Path, **tables: Sequence[Row]) -> None:
    """Write NAME.csv for each table NAME=rows that has rows."""
    for name, records in tables.items():
        if records:
            rows = [single_numbers(record) for record in records]
            names = dict.fromkeys(key for row in rows for key in row)
            with (folder / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
                csv.writer(file).writerows([names, *([row.get(name) for name in names] for row in rows)])


def to_json(content: Row | list[Row]) -> str:
    """Return indented JSON; NaN and infinity raise a ValueError."""
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def save_named(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> None:
    """Write tensors by name to a .safetensors file; raise an OSError if that fails."""
    path.touch()
    mode = path.stat().st_mode  # by the user's umask; the library makes files that only their owner may read
    try:
        save_file(_owned(tensors), path, None if metadata is None else dict(metadata))
    except SafetensorError as error:  # for a full disk, too
        raise OSError(str(error)) from error
    path.chmod(mode)


def _owned(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors by name, copied if not contiguous or if they share memory, as .safetensors requires."""
    owned: dict[str, Tensor] = {}
    storages: set[int] = set()
    for name, tensor in tensors.items():
        storage = tensor.untyped_storage()
        shared = storage.nbytes() != tensor.nbytes or storage.data_ptr() in storages
        copied = shared or not tensor.is_contiguous()
        owned[name] = tensor.clone(memory_format=torch.contiguous_format) if copied else tensor
        storages.add(storage.data_ptr())
    return owned


def save_weights_csv(path: Path, result: Result) -> str | None:
    """Write weights.csv with a row per weight. Return why it is left out, or None if it is written or has no rows."""
    weights = result.stage("weights")
    if not weights:
        return None
    if left_out := [stage for stage in ("scores", "weights") if not result.keeps(stage)]:
        return f"`save` leaves out {' and '.join(left_out)}"
    if (rows := sum(matrix.numel() for matrix in weights.values())) > MOST_ROWS:
        cure = f"{TENSORS} has the weights, which `attncli.load` and `attncli heatmap` read"
        return f"it would have {rows:,} rows, and has at most {MOST_ROWS:,}; {cure}"
    rank = result.inputs["valid"].ndim
    axes = ["batch", "head"] if rank == 4 else ["batch", *(f"axis{index}" for index in range(1, rank - 2))]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["label", *axes, "query", "key", "query_token", "key_token", "valid", "score", "weight"])
        for label in weights:
            writer.writerows(_rows(label, result))
    return None


def _rows(label: str, result: Result) -> Iterator[list[object]]:
    valid, tokens = result.inputs["valid"], result.tokens_in()
    axes: list[Sequence[int]] = [range(size) for size in valid.shape]
    if heads := result.head_numbers():
        axes[1] = heads
    cells = itertools.product(*axes)
    numbers = (_digits(result.tensors[f"{label}/scores"]), _digits(result.tensors[f"{label}/weights"]))
    for cell, score, weight, allowed in zip(cells, *numbers, valid.flatten().tolist(), strict=True):
        *leading, query, key = cell
        query_token = tokens.queries[leading[0]][query] if tokens.queries else ""
        key_token = tokens.keys[leading[0]][key] if tokens.keys else ""
        yield [label, *leading, query, key, query_token, key_token, int(allowed), score, weight]


def _digits(matrix: Tensor) -> Iterator[str]:
    """Yield the numbers as text with enough digits to restore them exactly."""
    precision = 17 if matrix.element_size() == 8 else 9
    return (f"{number:.{precision}g}" for number in matrix.flatten().tolist())
