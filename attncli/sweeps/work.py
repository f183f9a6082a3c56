"""One point of a sweep, on any machine: its identity, and its way from a resolved config to records.

An error is a value, as a result is.
"""

import hashlib
import json
import platform
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import closing
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import attncli
from attncli.common.memory import ran_out, shared_by
from attncli.common.progress import Progress
from attncli.common.study import Record, nan_to_null
from attncli.common.threads import on_threads
from attncli.config.document import document_of_data
from attncli.errors import InputError, printable, shortened
from attncli.modes import torch_isolated
from attncli.studies import STUDIES, load_study, options_model

# A point to compute: its `key`, its resolved `config`, the `code` version that must compute it, and as `heads` whether
# its figures by head are kept, which they are unless it says no.
Job = Mapping[str, Any]
NO_PART = ("name", "expect", "figure")  # keys of a config that change no number
LONGEST_ERROR = 500  # characters
ALIKE = 3  # points that fail in the same way at the beginning, so that the others need not be tried
POINT = "point"  # what errors call its config, which stands in no file


@cache
def code_version() -> str:
    """The version of the package with a hash of its sources, as `0.9.0+1a2b3c4d5e6f`."""
    folder, digest = Path(attncli.__file__).parent, hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes())
    return f"{attncli.__version__}+{digest.hexdigest()[:12]}"


def deciding(config: Mapping[str, Any]) -> Record:
    """What of a resolved config changes numbers: not its name, its pictures or what is expected."""
    return {key: value for key, value in config.items() if key not in NO_PART}


def key_of(config: Mapping[str, Any], code: str) -> str:
    """The identity of a point, by what changes its numbers."""
    return hashlib.sha256(json.dumps([deciding(config), code], sort_keys=True).encode()).hexdigest()[:16]


def run_point(job: Job, sharing: int = 1) -> Record:
    """The row of a point, with `records` and `heads` as results.json has them; `status` is `done` or `failed`.

    `sharing` is how many processes share the memory of the machine.
    """
    with torch_isolated():
        begun = time.perf_counter()
        status, error, rows = "done", None, dict[str, list[Record]]()
        try:
            rows = _rows(job, sharing)
        except BaseException as reason:  # the user's own scorer may raise anything
            status, error = "failed", in_one_line(reason)
        seconds = time.perf_counter() - begun
        return row_of(job, status, error, seconds, rows)


def row_of(
    job: Job, status: str, error: str | None, seconds: float, rows: Mapping[str, list[Record]] | None = None
) -> Record:
    """What an engine tells of a point."""
    return {
        "key": job["key"],
        "status": status,
        "error": error,
        "seconds": round(seconds, 4),
        "host": platform.node(),
        "records": [],
        "heads": [],
        **(rows or {}),
    }


class EngineLostError(Exception):
    """What computes the points is gone, as a scheduler that was ended; the sweep can go on later."""


def tried_twice(
    compute: Callable[[Iterable[Job]], Generator[Record]], jobs: Iterable[Job], at_once: bool = False
) -> Generator[Record]:
    """The rows of an engine in the order of finishing. A point that died is tried once more in the end, alone.

    Where the first ALIKE points have died, they are tried again before any other; with `at_once` every one is.
    """
    waiting, at_the_start = {job["key"]: job for job in jobs}, True
    while waiting:
        died = list[Job]()
        with closing(compute([*waiting.values()])) as rows:
            for row in rows:
                job = waiting.pop(row["key"])
                if row["status"] != "died":
                    at_the_start = False
                    yield row
                    continue
                died.append(job)
                if at_once or (at_the_start and len(died) == ALIKE):
                    break
        at_the_start = False
        for job in died:
            with closing(compute([job])) as rows:
                yield from rows


def _rows(job: Job, sharing: int) -> dict[str, list[Record]]:
    if job["code"] != (own := code_version()):
        raise InputError.of(f"got attncli {own} on this worker; expected {job['code']}, as where the sweep was started")
    document, progress = document_of_data(POINT, job["config"], ()), Progress()
    name = document.study(STUDIES)
    with shared_by(sharing), on_threads(None if options_model(name).measures_time else 1), document.locating():
        study, options = load_study(name), document.validate(options_model(name))
        result = study.run(study.prepare(options, progress), progress)
    kinds = ("records", "heads") if job.get("heads", True) else ("records",)
    return {kind: nan_to_null(getattr(result, kind)) for kind in kinds}


def in_one_line(error: BaseException) -> str:
    """What is wrong, in words of the point's config where that is what is wrong."""
    if isinstance(error, InputError):
        problems = (replace(each, where="") if each.where == POINT else each for each in error.problems)
        text = "; ".join(str(each) for each in problems)
    else:
        told = f"{type(error).__name__}: {error}".removesuffix(": ")
        text = printable(f"out of memory: {told}" if ran_out(error) else told)
    return shortened(text, LONGEST_ERROR)
