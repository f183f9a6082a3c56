"""Compute the points of a sweep on the workers of a running Dask scheduler."""

import logging
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from attncli.engine.sweeps.work import (
    EngineLostError,
    Job,
    code_version,
    in_one_line,
    journal_row,
    run_point,
    tried_twice,
)
from attncli.errors import InputError, got, os_errors_as_input_errors, printable
from attncli.results import Row
from attncli.runtime import signals

if TYPE_CHECKING:
    from distributed import Client, Future

PATIENCE = 30.0  # seconds to wait for a scheduler, for a worker, and for a result that is ready
TURN = 1.0  # seconds between looks for workers
AHEAD = 2  # points begun per worker: one computes, and the next is there when it ends
OPTION = "--cluster"
EXPECTED = "expected the address of a Dask scheduler, or its scheduler file"


def on_cluster(
    jobs: Iterable[Job], address: str, one_at_a_time: bool = False, fail_fast: bool = False
) -> Generator[Row]:
    """Compute points on the workers of a Dask scheduler, and yield their rows as they finish.

    `address` is the scheduler's address or scheduler file, and has passed `check_cluster`. If `one_at_a_time`, a point
    begins after the end of the point before. If a worker dies, Dask computes its points on others. A point that Dask
    gives up after several dead workers is tried once more, alone: at the end, or at once if `fail_fast`. If it is given
    up again, its row has the status `died`. Closing the iterator cancels points that have not begun.

    Raises:
        InputError: Dask is not installed, or the scheduler does not answer.
        EngineLostError: the scheduler or all workers are gone.
    """
    with _connected(address) as client:
        from distributed import CancelledError  # heavy, and not required

        try:
            # Dask also blames points that waited behind one that killed its worker: they have a second try.
            compute = partial(_tried_once, client=client, most=1 if one_at_a_time else None)
            yield from tried_twice(compute, jobs, fail_fast)
        except (CancelledError, OSError) as error:
            raise EngineLostError(f"the Dask scheduler at {address} is gone") from error


def check_cluster(address: str, note: Callable[[str], None]) -> None:
    """Raise InputError unless points can run on the workers of a Dask scheduler; to be called before the work.

    All workers must have this version of attncli. `note` receives remarks for the user.

    Raises:
        InputError: Dask is not installed, the scheduler has no workers or does not answer, or a worker has another
            version of attncli.
    """
    with _connected(address) as client:
        if not client.nthreads():
            note(f"waiting for workers, up to {PATIENCE:g} s")
        try:
            client.wait_for_workers(1, PATIENCE)
        except TimeoutError as error:
            start = f"dask worker {'--scheduler-file ' if _is_file(address) else ''}{address}"
            message = (
                f'got "{address}", a scheduler without workers; expected one worker at least; `{start}` starts one'
            )
            raise InputError.of(message, where=OPTION) from error
        here, versions = code_version(), client.run(code_version, on_error="return")  # runs beside tasks
        if wrong := {worker: version for worker, version in versions.items() if version != here}:
            others = "; ".join(f"{worker} has {_in_words(version)}" for worker, version in sorted(wrong.items()))
            message = f"got workers with another attncli: {others}; expected {here} on all of them"
            raise InputError.of(message, where=OPTION)
        threads = client.nthreads()
        if idle := sum(threads.values()) - len(threads):
            note(f"{idle} threads of workers stay idle; `dask worker --nworkers -1` starts a worker for every core")


def _connected(address: str) -> "Client":
    try:
        from distributed import Client  # heavy, and not required
    except ImportError as error:
        message = f'got "{address}", which needs the packages dask and distributed'
        raise InputError.of(f"{message}; install them with `pip install dask distributed`", where=OPTION) from error
    for name in ("distributed", "distributed.client"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # our own message reports a lost scheduler
    with os_errors_as_input_errors(address, OPTION):
        if _is_file(address) and not Path(address).is_file():  # Dask would wait for it
            raise InputError.of(got(address, "no such file", EXPECTED), where=OPTION)
    where = {"scheduler_file" if _is_file(address) else "address": address}
    try:
        return Client(**where, timeout=PATIENCE, name="attncli")
    except (OSError, ValueError, RuntimeError, TypeError) as error:  # TypeError: tls:// without certificates
        reason = " ".join(str(error).split())
        raise InputError.of(got(address, f"{EXPECTED}, that answers", reason), where=OPTION) from error


def _is_file(address: str) -> bool:
    return address.endswith(".json")


def _in_words(version: object) -> str:
    return f"none ({printable(str(version))})" if isinstance(version, BaseException) else str(version)


def _tried_once(jobs: Iterable[Job], client: "Client", most: int | None) -> Generator[Row]:
    from distributed import wait  # heavy, and not required

    waiting, begun = deque(jobs), dict["Future[Row]", tuple[Job, float]]()  # with the time when it was begun
    workers, looked, seen = 0, float("-inf"), time.monotonic()
    while waiting or begun:
        signals.check()
        if client.status != "running":  # a request would wait
            raise ConnectionError
        if (now := time.monotonic()) - looked > TURN:
            workers, looked = len(client.nthreads()), now
            seen = now if workers else seen
            if now - seen > PATIENCE:
                raise EngineLostError(f"there have been no Dask workers for {PATIENCE:g} s")
        while waiting and len(begun) < (most or AHEAD * max(workers, 1)):
            job = waiting.popleft()
            # A new key, as Dask would reuse an earlier sweep's result or failure of the same point.
            key = f"attncli-{job['key']}-{time.time_ns()}"
            begun[client.submit(run_point, job, key=key, pure=False)] = job, time.monotonic()
        try:
            done = wait(list(begun), TURN, "FIRST_COMPLETED").done
        except TimeoutError:
            continue
        for future in done:
            try:
                row = _row(future, *begun[future])
            except TimeoutError:
                continue  # it was ready, but its worker has died: Dask computes it again
            # Released, or Dask would compute it again when its worker dies.
            del begun[future]
            future.release()
            yield row


def _row(future: "Future[Row]", job: Job, since: float) -> Row:
    from distributed import CancelledError, KilledWorker  # heavy, and not required

    seconds = time.monotonic() - since
    try:
        row: Row = future.result(PATIENCE)
    except (CancelledError, TimeoutError, OSError):
        raise
    except KilledWorker as error:
        return journal_row(job, "died", f"{error.allowed_failures + 1} workers died of it in a row", seconds)
    except Exception as error:  # the point cannot be sent to a worker, or read by the worker
        return journal_row(job, "failed", in_one_line(error), seconds)
    return row
