"""What stands in a run folder: config.yaml, results.json, records.csv, and the files of its study."""

import csv
import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attncli.errors import InputError
from attncli.expect.judging import Verdict
from attncli.runs.resolved import dump_yaml, self_contained
from attncli.runs.tensors import save_named, save_tensors
from attncli.runs.weights_csv import save_weights_csv
from attncli.studies.study import Record, Result

Pictures = Mapping[str, Callable[[Path], None]]


def save_run(
    folder: Path,
    result: Result,
    config: Mapping[str, Any],
    provenance: Record,
    pictures: Pictures,
    verdicts: Sequence[Verdict] = (),
) -> Record:
    """Write a run into an empty folder inside a hidden one beside its place; returns the content of results.json.

    `pictures` maps file names to functions that draw into the path they are given. results.json comes last and lists
    all files, itself too.
    """
    try:
        (folder / "config.yaml").write_text(dump_yaml(self_contained(config, result)), encoding="utf-8")
        save_records(folder / "records.csv", result.records)
        save_tensors(folder / "tensors.safetensors", result)
        if result.parameters:
            save_named(folder / "parameters.safetensors", result.parameters)
        save_weights_csv(folder / "weights.csv", result)
        for name, draw in pictures.items():
            draw(folder / name)
        content = content_of(result, provenance, sorted(path.name for path in folder.iterdir()), verdicts)
        (folder / "results.json").write_text(to_json(content), encoding="utf-8")
    except OSError as error:
        raise InputError.of(f"cannot write the run: {error.strerror or error}", where=str(folder.parents[1])) from error
    return content


def content_of(result: Result, provenance: Record, files: Sequence[str], verdicts: Sequence[Verdict] = ()) -> Record:
    """The content of results.json. NaN and infinity, which JSON does not have, become null.

    `interrupted` stands in it only where the user ended the work, and rows are missing.
    """
    inputs = {name: fingerprint(tensor) for name, tensor in result.inputs.items()}
    content = {
        **provenance,
        "settings": result.settings,
        "inputs": inputs,
        "records": result.records,
        "comparisons": list(result.comparisons),
        "findings": [finding.record for finding in result.findings],
        "expectations": [verdict.record for verdict in verdicts],
        "files": sorted([*files, "results.json"]),
        **({"interrupted": True} if result.interrupted else {}),
    }
    plain: Record = _plain(content)
    return plain


def to_json(content: Record | list[Record]) -> str:
    """Strict JSON, indented."""
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def fingerprint(tensor: Tensor) -> Record:
    """Shape, dtype and SHA-256 of the numbers in row order."""
    flat = tensor.contiguous().cpu().flatten()
    numbers = flat.numpy() if flat.dtype.itemsize != 2 else flat.view(torch.int16).numpy()
    digest = hashlib.sha256(numbers.data).hexdigest()
    return {"shape": list(tensor.shape), "dtype": str(tensor.dtype).removeprefix("torch."), "sha256": digest}


def save_records(path: Path, records: Sequence[Record]) -> None:
    """One row per record; what does not exist is left empty."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(records[0]))
        writer.writeheader()
        writer.writerows(records)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
