"""Steps that commands share: load experiments, check them, run one into its folder. Imported inside functions only."""

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from attncli.commands.progress import Shown
from attncli.config.document import Document, read_document
from attncli.config.models import Experiment
from attncli.config.overrides import Override
from attncli.errors import Collector, InputError
from attncli.expect.asking import check_expectations
from attncli.expect.judging import Verdict, judge
from attncli.runs.run_folder import check_out, new_folder
from attncli.runs.saving import provenance, save_run
from attncli.studies import STUDIES, load_study, options_model, part_of
from attncli.studies.progress import Progress
from attncli.studies.study import PreparedStudy, Result, Study


@dataclass(frozen=True)
class Loaded:
    """An experiment whose YAML is valid."""

    document: Document
    study: Study[Any, Any]
    options: Experiment

    def prepare(self, progress: Progress) -> PreparedStudy:
        """What the study works on; also whether its result will have what the experiment expects something of."""
        prepared: PreparedStudy = self.study.prepare(self.options, progress)
        if self.options.expect:
            check_expectations(self.options.expect, self.study.expected_rows(prepared))
        return prepared

    def check(self) -> None:
        """Everything that a run would refuse, with its place in the file."""
        with self.document.locating(), Shown(self.options.name).running() as progress:
            self.prepare(progress)


@dataclass(frozen=True)
class Finished:
    """A run in its folder; `content` is that of its results.json; `interrupted` where the user wants no more."""

    result: Result
    content: dict[str, Any]
    folder: Path
    document: Document
    verdicts: Sequence[Verdict]
    interrupted: bool


def check_out_for(configs: Sequence[Path], out: Path | None, overwrite: bool) -> None:
    """Refuse an --out that cannot take these experiments, before any work."""
    if out is None:
        return
    if len(configs) > 1:
        raise InputError.of(
            f'got "{out}" for {len(configs)} experiments; expected one; run them one by one', where="--out"
        )
    check_out(out, overwrite)


def load_experiments(configs: Sequence[Path], overrides: Sequence[Override]) -> list[Loaded]:
    """Read and check all experiments; every problem of every file is reported before anything runs."""
    collector, experiments = Collector(), []
    for path in configs:
        with collector.under():
            experiments.append(load_experiment(read_document(path, overrides)))
    collector.check()
    if len(experiments) > 1:  # a single one is checked by running it
        for experiment in experiments:
            with collector.under():
                experiment.check()
        collector.check()
    return experiments


def load_experiment(document: Document) -> Loaded:
    """Validate the YAML of one experiment, or the flags that say the same."""
    study = document.study(STUDIES)
    return Loaded(document, load_study(study), document.validate(options_model(study)))


@dataclass
class Interrupts:
    """Ctrl-C ends the work, but not the writing of what the work has given."""

    presses: int = 0
    wait: bool = False  # there is something to lose: every Ctrl-C waits
    came: bool = False  # one had to wait

    def hold(self) -> None:
        """From now on there is something to lose."""
        self.wait = True


@contextmanager
def interrupts() -> Iterator[Interrupts]:
    """Inside, a Ctrl-C that has to wait is kept in mind; all others do what they do elsewhere.

    The second waits in any case: the first has ended the work, which winds up. A third is meant, until there is
    something to lose. Only in the main thread, since signals reach no other; and not where the caller ignores Ctrl-C.
    """
    kept, before = Interrupts(), signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield kept
        return

    def handle(number: int, frame: Any) -> None:
        kept.presses += 1
        if kept.wait or kept.presses == 2:
            kept.came = True
        else:
            before(number, frame)

    signal.signal(signal.SIGINT, handle)
    try:
        yield kept
    finally:
        signal.signal(signal.SIGINT, before)


def run_experiment(experiment: Loaded, out: Path | None, overwrite: bool, *, pictures: bool, quiet: bool) -> Finished:
    """Run one experiment into a new folder. Ctrl-C ends the work, and waits while its result is judged and written."""
    started = datetime.now().astimezone()
    options, study = experiment.options, experiment.study
    _check_resumed(options, out)
    document = experiment.document
    with document.locating(), interrupts() as ctrl_c, Shown(options.name, quiet, ctrl_c.hold).running() as progress:
        prepared = experiment.prepare(progress)
        with new_folder(options.name, out, overwrite, started) as folder:
            result = study.run(prepared, progress)
            progress.finished()
            progress.step(0, 1, "writing the run folder")
            head = provenance(options.study, options.name, options.seed, prepared.device, started)
            drawn = part_of(options.study, "figure").pictures(result, progress.note) if pictures else {}
            verdicts = judge(result, options.expect, study.expected_rows(prepared))
            content = save_run(folder.path, result, config_of(options), head, drawn, verdicts)
    interrupted = ctrl_c.came or result.interrupted
    return Finished(result, content, folder.place, document, verdicts, interrupted)


def _check_resumed(options: Experiment, out: Path | None) -> None:
    """Refuse to replace a run by the one that goes on with it, and may be interrupted in its turn."""
    resumed = getattr(options, "resume", None)
    if resumed is not None and out is not None and out.resolve() == Path(resumed).resolve():
        message = f'got "{out}", the run that is resumed, which stays as it is; expected another folder'
        raise InputError.of(message, where="--out")


def config_of(options: Experiment) -> dict[str, Any]:
    """The options as YAML data, everything that was left out written down."""
    unused = options.unused()
    data = options.model_dump(mode="json", by_alias=True, exclude_none=True, serialize_as_any=True, exclude=unused)
    for entry, written in zip(options.scorers, data["scorers"], strict=True):
        written |= {name: value for name, value in entry.options.items() if value is None}  # which is a value there
    return {"study": options.study, **data}
