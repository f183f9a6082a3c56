"""Points on a real Dask cluster: a scheduler and two workers on this machine."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from distributed import Client

from attncli.engine.sweeps import cluster as engine
from attncli.engine.sweeps.cluster import check_cluster, on_cluster
from attncli.engine.sweeps.processes import on_processes
from attncli.engine.sweeps.work import EngineLostError
from attncli.errors import InputError
from tests.engine.sweeps.jobs import bad, figures, jobs
from tests.engine.sweeps.test_killed import LONG, ROOT, until


@dataclass
class Cluster:
    """Processes of Dask, to be killed by the tests."""

    folder: Path
    processes: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    @property
    def file(self) -> Path:
        return self.folder / "scheduler.json"

    def start(self, *args: object, path: Path = ROOT) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "dask", *map(str, args), "--no-dashboard", "--scheduler-file", str(self.file)]
        # The working directory must not be the source tree, which Python would put first.
        environment = {**os.environ, "PYTHONPATH": str(path)}
        with (self.folder / f"{len(self.processes)}.log").open("wb") as log:
            process = subprocess.Popen(
                command, env=environment, cwd=self.folder, stdout=log, stderr=log, start_new_session=True
            )
        self.processes.append(process)
        return process

    def worker(self, *args: object, path: Path = ROOT) -> "subprocess.Popen[bytes]":
        return self.start("worker", "--nthreads", 1, "--host", "127.0.0.1", *args, path=path)


def kill(process: "subprocess.Popen[bytes]") -> None:
    """Kill a process and its children."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Start a scheduler without workers."""
    cluster = Cluster(tmp_path)
    cluster.start("scheduler", "--host", "127.0.0.1", "--port", 0)
    try:
        until(cluster.file.exists)
        yield cluster
    finally:
        for process in reversed(cluster.processes):
            kill(process)


def test_figures_are_those_of_processes_whoever_dies(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """A scheduler without workers is refused, a worker may die, and the death of the scheduler is named."""
    message = f'got "{cluster.file}", a scheduler without workers; expected one worker at least; '
    cure = f"`dask worker --scheduler-file {cluster.file}` starts one"
    notes = list[str]()
    with monkeypatch.context() as patch:
        patch.setattr(engine, "PATIENCE", 0.5)
        with pytest.raises(InputError, match=re.escape(f"--cluster: {message}{cure}")):
            check_cluster(str(cluster.file), notes.append)
    assert notes == ["waiting for workers, up to 0.5 s"]
    cluster.worker()
    first = cluster.worker("--no-nanny")
    points, rows = [*jobs(6), bad("Raises"), *jobs(12)[6:]], []
    for row in on_cluster(points, str(cluster.file)):
        rows.append(row)
        if len(rows) == 4:
            kill(first)
    assert figures(rows) == figures(list(on_processes(points, 2)))
    last = on_cluster([*jobs(2), bad("NeverEnds")], str(cluster.file))
    assert [next(last)["status"] for _ in range(2)] == ["done", "done"]
    kill(cluster.processes[0])
    with pytest.raises(EngineLostError, match=r"the Dask scheduler at .*scheduler.json is gone"):
        next(last)


def test_workers_with_another_attncli_are_named(cluster: Cluster, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "attncli", tmp_path / "old/attncli", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "old/attncli/__init__.py").write_text('__version__ = "0.1.0"\n')
    (tmp_path / "none/attncli").mkdir(parents=True)
    (tmp_path / "none/attncli/__init__.py").touch()
    cluster.worker("--name", "good")
    cluster.worker("--name", "old", path=tmp_path / "old")
    cluster.worker("--name", "none", path=tmp_path / "none")
    with Client(scheduler_file=str(cluster.file)) as client:
        client.wait_for_workers(3, LONG)
        address = {worker["name"]: address for address, worker in client.scheduler_info()["workers"].items()}
    with pytest.raises(InputError) as caught:
        check_cluster(str(cluster.file), pytest.fail)
    (problem,) = caught.value.problems
    assert f"{address['old']} has 0.1.0+" in problem.message
    assert f"{address['none']} has none (ModuleNotFoundError(" in problem.message
    assert address["good"] not in problem.message


@pytest.mark.nightly
def test_workers_that_all_die(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "PATIENCE", 1.0)
    worker = cluster.worker("--no-nanny")
    with Client(scheduler_file=str(cluster.file)) as client:
        client.wait_for_workers(1, LONG)
    rows = on_cluster([*jobs(1), bad("NeverEnds")], str(cluster.file))
    next(rows)
    kill(worker)
    with pytest.raises(EngineLostError, match="there have been no Dask workers for 1 s"):
        next(rows)


@pytest.mark.nightly
def test_points_that_kill_workers_die_in_the_end(cluster: Cluster) -> None:
    """No other point dies, although a dying worker also loses the points in its queue."""
    cluster.worker()  # with a nanny, which starts it again
    rows = list(on_cluster([bad("EndsBadly"), *jobs(2), bad("Leaves")], str(cluster.file)))
    states = {row["key"]: row["status"] for row in rows}
    assert states == {"additive-0": "done", "additive-1": "done", "EndsBadly": "died", "Leaves": "failed"}
    (died,) = (row["error"] for row in rows if row["status"] == "died")
    assert died == "4 workers died of it in a row"


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "nonsense://x"])
def test_schedulers_that_are_not_there(here: Path, monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setattr(engine, "PATIENCE", 0.5)
    reason = "expected the address of a Dask scheduler, or its scheduler file, that answers; "
    with pytest.raises(InputError, match=re.escape(f'--cluster: got "{address}"; {reason}')):
        check_cluster(address, pytest.fail)


def test_dask_is_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(InputError, match="needs the packages dask and distributed; install them with `pip install"):
        check_cluster("tcp://x:1", pytest.fail)
