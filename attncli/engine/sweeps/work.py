"""One point of a sweep: its identity, and its computation on any machine.

Errors are returned in the row of a point, not raised.
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
from attncli.config.document import document_of_data
from attncli.core.modes import torch_isolated
from attncli.core.threads import on_threads
from attncli.errors import InputError, printable, ran_out, shortened
from attncli.results import Row, nan_to_null
from attncli.runtime import Progress
from attncli.studies import STUDIES, load_study, options_model

# A point to compute: its `key`, its resolved `config`, the required version of the `code`, and under `heads` the most
# rows by head that are kept.
Job = Mapping[str, Any]
COSMETIC_KEYS = ("name", "about", "expect", "figure")  # keys of a config that change no number
MOST_HEADS = 250_000  # rows by head of all points together; they take about 60 MB in results.json
LONGEST_ERROR = 500  # characters
ALIKE = 3  # a sweep stops if this number of points fail alike at the beginning
POINT = "point"  # the name of a point's config in errors


@cache
def code_version() -> str:
    """Return the version of the package with a hash of its sources, as `0.9.0+1a2b3c4d5e6f`."""
    folder, digest = Path(attncli.__file__).parent, hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes())
    return f"{attncli.__version__}+{digest.hexdigest()[:12]}"


def result_config(config: Mapping[str, Any]) -> Row:
    """Return the part of a config that decides the results: all keys but COSMETIC_KEYS."""
    return {key: value for key, value in config.items() if key not in COSMETIC_KEYS}


def point_key(config: Mapping[str, Any], code: str) -> str:
    """Return the key of a point: a hash of its config and of the version of the code."""
    return hashlib.sha256(json.dumps([result_config(config), code], sort_keys=True).encode()).hexdigest()[:16]


def run_point(job: Job) -> Row:
    """Compute a point and return its row: `status` is `done` or `failed`, rows are as in results.json."""
    with torch_isolated():
        begun = time.perf_counter()
        status, error, rows = "done", None, Row()
        try:
            rows = _rows(job)
        except KeyboardInterrupt:  # of the user, where points run in the process of the sweep
            raise
        except BaseException as reason:  # the user's own scorer may raise anything
            status, error = "failed", in_one_line(reason)
        seconds = time.perf_counter() - begun
        return journal_row(job, status, error, seconds, rows)


def journal_row(job: Job, status: str, error: str | None, seconds: float, rows: Row | None = None) -> Row:
    """Return the row of one sweep point: status, error, run time and host, with the study's rows if it finished."""
    return {
        "key": job["key"],
        "status": status,
        "error": error,
        "seconds": round(seconds, 4),
        "host": platform.node(),
        "records": [],
        "heads": [],
        "random": [],
        "layers": {},
        **(rows or {}),
    }


class EngineLostError(Exception):
    """The Dask scheduler or all workers are gone; the sweep can be resumed."""


def tried_twice(
    compute: Callable[[Iterable[Job]], Generator[Row]], jobs: Iterable[Job], at_once: bool = False
) -> Generator[Row]:
    """Yield the rows of points as `compute` finishes them; a point that died is tried once more at the end, alone.

    If the first ALIKE points all die, these points are tried again before the others begin. If `at_once`, every point
    that died is tried again before the others go on.
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


def _rows(job: Job) -> Row:
    """Return the rows of a point, the labels of its scorers with random parameters, and the numbers of its layers."""
    if (code := job["code"]) != (here := code_version()):
        raise InputError.of(f"got attncli {here} on this worker; expected {code}, as where the sweep was started")
    document, progress = document_of_data(POINT, job["config"], ()), Progress()
    name = document.study(STUDIES)
    with on_threads(None if options_model(name).measures_time else 1), document.locating():
        study, options = load_study(name), document.validate(options_model(name))
        result = study.run(study.prepare(options, progress), progress)
    if result.interrupted:
        raise KeyboardInterrupt
    heads = result.heads if study.swept == "records" else ()
    return {
        "records": nan_to_null(result.rows[study.swept]),
        "heads": nan_to_null(heads) if len(heads) <= job.get("heads", MOST_HEADS) else None,
        "random": list(result.random),
        "layers": dict(result.layers),
    }


def in_one_line(error: BaseException) -> str:
    """Return an error as one line of text; the line of an InputError leaves out the name of the config."""
    if isinstance(error, InputError):
        problems = (replace(problem, where="") if problem.where == POINT else problem for problem in error.problems)
        text = "; ".join(str(problem) for problem in problems)
    else:
        reason = f"{type(error).__name__}: {error}".removesuffix(": ")
        text = printable(f"out of memory: {reason}" if ran_out(error) else reason)
    return shortened(text, LONGEST_ERROR)
