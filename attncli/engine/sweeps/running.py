"""Run a sweep: rows go into the journal as points finish, and all results are written at the end."""

import os
import re
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Literal

from attncli.config.document import Document
from attncli.config.models import Experiment
from attncli.config.sweep import as_data
from attncli.core.numbers import several
from attncli.engine.expect.judging import judge
from attncli.engine.runs.resolved import dump_yaml
from attncli.engine.runs.run_folder import JOURNAL, Destination, save_file_at, text_writer
from attncli.engine.runs.saving import FinishedRun, begin_sweep, how_made, save_sweep
from attncli.engine.runs.stored import StoredResult
from attncli.engine.sweeps.cluster import on_cluster
from attncli.engine.sweeps.columns import default_metric, in_words, with_sweep
from attncli.engine.sweeps.findings import sweep_findings
from attncli.engine.sweeps.journal import STATES, Journal, PointRow, read_journal
from attncli.engine.sweeps.points import GridPoint, SweepPlan
from attncli.engine.sweeps.processes import can_import_script, on_processes
from attncli.engine.sweeps.summary import summary
from attncli.engine.sweeps.work import ALIKE, MOST_HEADS, EngineLostError, code_version, run_point
from attncli.engine.views import result_drawers
from attncli.errors import InputError
from attncli.results import Row, SweepResult
from attncli.runtime import Mode, Progress, keep_finished, signals

MISSING = "missing"  # the status of a point that was not computed
GUARD = "they need `if __name__ == '__main__':` around attncli.sweep"
UNGUARDED = f"warning: points run in this process, one at a time: others cannot import its script; {GUARD}"
TOO_MANY_HEADS = "metrics by head are left out: too many rows; `heads: [...]` and `batch: [...]` choose some"
# Keys of rows of the journal that results.json leaves out.
NOT_LISTED = ("finished", "records", "heads", "random", "layers")


@dataclass(frozen=True)
class LoadedSweep:
    """A sweep with valid points, and where to compute them; the counterpart of `LoadedExperiment`.

    `resume` is the folder of a sweep to resume. Unless `cluster` is the address of a Dask scheduler, points run in
    `jobs` processes of this machine, each point for at most `timeout` seconds. If `in_python`, the process of the sweep
    runs a script or a notebook of the user: it computes the points itself if one at a time is wanted, or if other
    processes cannot import the script.
    """

    is_sweep: ClassVar[Literal[True]] = True
    plan: SweepPlan
    resume: Path | None = None
    jobs: int | None = None
    cluster: str | None = None
    timeout: float | None = None
    fail_fast: bool = False
    in_python: bool = False

    @property
    def document(self) -> Document:
        """The document of the experiment that is swept."""
        return self.plan.document

    @property
    def options(self) -> Experiment:
        """The options of the experiment that is swept."""
        return self.plan.options

    def check(self, progress: Progress) -> None:
        """Do nothing, since the points were checked when the plan was made."""

    def run(self, progress: Progress, to: Destination) -> FinishedRun:
        """Run all points that are not done, and write the results; a sweep has no page.

        Raises:
            InputError: the folder or the journal cannot be written, or is in use; or as `_is_here`.
        """
        plan, is_here = self.plan, self._is_here(progress)
        folder = (self.resume or begin_sweep(plan.options.name, to, plan.config)).absolute()
        problem = None
        journals = [folder / JOURNAL]  # its rows are kept, even if no point is finished
        with (
            keep_finished(journals) as outcome,
            Journal(folder, {point.key: point.sweep for point in plan.points}) as journal,
        ):
            if self.resume is not None:
                save_file_at(folder / "config.yaml", text_writer(dump_yaml(plan.config)))
            done = journal.tally.done
            waiting = [point for point in plan.points if point.key not in done]
            texts = [several(len(plan.points), "point")]
            if done:
                texts.append(f"{len(done)} done already")
            if journal.outdated:
                texts.append(
                    f"{journal.outdated} done with another version of attncli, a file or a scorer, which run again"
                )
            progress.note("; ".join(texts))
            if waiting:
                problem = journal_rows(self._rows(waiting, is_here, progress), journal, progress, self.fail_fast)
        signals.keep(Mode.WRITING)  # all points in the journal must be saved
        progress.step(0, 1, "writing the results")
        finished = {row["key"]: row for row in read_journal(folder)}
        result, points = sweep_result(plan, finished, outcome.interrupted)
        if any(row.get("heads", ()) is None for row in finished.values()):
            progress.note(TOO_MANY_HEADS)
        verdicts = judge(result, plan.options.expect)
        is_drawn = to.pictures and bool(result.records) and not outcome.interrupted
        drawn = result_drawers(result, plan.options.figure, progress.note) if is_drawn else {}
        stored = StoredResult.of(result, **how_made(verdicts, plan.options.seed, plan.device, to))
        save_sweep(folder, result, stored, points, summary(result), drawn)
        picture = next((folder / name for name in drawn if name in stored.files), None)
        return FinishedRun(result, stored, folder, plan.document, verdicts, picture, problem)

    def _is_here(self, progress: Progress) -> bool:
        """Whether this process computes the points; `progress` gets a note if it does so for want of others.

        Raises:
            InputError: there is a timeout, which needs other processes, and they cannot import the script.
        """
        if not self.in_python:
            return False
        if self.timeout is None and self.jobs == 1:
            return True
        if can_import_script():
            return False
        if self.timeout is not None:
            message = f"got {self.timeout:g}, for which points need other processes, which cannot import this script"
            raise InputError.of(f"{message}; {GUARD}, or no timeout", where="attncli.sweep: timeout")
        progress.note(UNGUARDED)
        return True

    def _rows(self, points: Sequence[GridPoint], is_here: bool, progress: Progress) -> Generator[Row]:
        """Compute points in this process, on this machine or on a cluster, and yield their rows."""
        code, plan = code_version(), self.plan
        heads = MOST_HEADS // len(plan.points)
        jobs = [{"key": point.key, "config": point.config, "code": code, "heads": heads} for point in points]
        alone = plan.options.measures_time
        if alone and self.jobs != 1:
            progress.note("points of a study that measures time run one at a time")
        if self.cluster is not None:
            return on_cluster(jobs, self.cluster, alone, self.fail_fast)
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        wanted = 1 if alone else self.jobs or cores or 1
        if is_here:
            return (run_point(job) for job in jobs)
        return on_processes(jobs, min(wanted, len(jobs)), self.timeout, self.fail_fast)


def journal_rows(rows: Generator[Row], journal: Journal, progress: Progress, fail_fast: bool = False) -> str | None:
    """Write rows into the journal; return the reason if the sweep stops before the last row, else None.

    Raises:
        InputError: the journal cannot be written.
        KeyboardInterrupt: the user has stopped the sweep; finished points are kept.
    """
    first, tally = list[str | None](), journal.tally
    try:
        with closing(rows):
            for row in rows:
                sweep = journal.add(row)
                progress.step(tally.finished, tally.total, tally.failures or "points")
                if fail_fast and row["error"]:
                    return f"{in_words(sweep)}: {row['error']}; --fail-fast ends the sweep"
                if len(first) < ALIKE:
                    first.append(row["error"] and re.sub(r"[\d.]+", "0", row["error"]))
                    if len(first) == ALIKE and first[0] and len(set(first)) == 1 and tally.finished < tally.total:
                        return f"the first {ALIKE} points fail alike: {row['error']}"
    except EngineLostError as error:
        return str(error)
    return None


def sweep_result(plan: SweepPlan, finished: Mapping[str, Row], interrupted: bool) -> tuple[SweepResult, list[Row]]:
    """Return the result of the finished points, in the order of the plan, and the state of every point.

    `finished` has the rows of the journal by key, perhaps also of points that are not of the plan.
    """
    keeps_heads = all(row.get("heads", ()) is not None for row in finished.values())
    records, heads, points = list[Row](), list[Row](), list[Row]()
    for point in plan.points:
        row = finished.get(point.key, {"key": point.key, "status": MISSING, "records": []}) | {"sweep": point.sweep}
        points.append({key: row.get(key) for key in PointRow.model_fields if key not in NOT_LISTED})
        records += [with_sweep(point.sweep, record) for record in row["records"]]
        heads += [with_sweep(point.sweep, record) for record in (row.get("heads", ()) if keeps_heads else ())]
    states = Counter(point["status"] for point in points)
    result = SweepResult(
        plan.options.study,
        plan.options.name,
        records,
        heads=heads,
        interrupted=interrupted,
        random=list(dict.fromkeys(label for row in finished.values() for label in row.get("random", ()))),
        layers={name: number for row in finished.values() for name, number in row.get("layers", {}).items()},
        axes=as_data(plan.axes, None)["over"],
        chosen=plan.metric,
        points={state: states[state] for state in (*STATES, MISSING)},
    )
    result = replace(result, metric=plan.metric or default_metric(result) or "")
    return replace(result, about=plan.options.about, findings=sweep_findings(result)), points
