"""How an experiment is prepared, run, judged and kept, whoever asks for it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from attncli.catalogue.building import parameter_notes
from attncli.config.document import REPORT, Document, read_document
from attncli.config.looks import Look, is_default
from attncli.config.models import Experiment
from attncli.config.overrides import Override
from attncli.config.strict import validated
from attncli.core.modes import torch_isolated
from attncli.engine.expect.judging import Verdict, judge
from attncli.engine.expect.selecting import check_expectations
from attncli.engine.runs.loading import StoredRun
from attncli.engine.runs.resolved import self_contained
from attncli.engine.runs.run_folder import Destination, free_place, new_folder, text_writer
from attncli.engine.runs.saving import FinishedRun, how_made, save_run
from attncli.engine.runs.stored import StoredResult
from attncli.engine.views import result_drawers
from attncli.errors import Collector, InputError, Problem, below, got
from attncli.results import Explanation, Result, SweepResult
from attncli.runtime import Mode, Progress, signals
from attncli.studies import STUDIES, load_study, options_model
from attncli.studies.study import PreparedStudy, Study

NO_QUERIES = "only experiments of the study attention have queries to explain"


@contextmanager
def isolated(document: Document) -> Iterator[None]:
    """Reset the caller's modes of torch in the `with` block, and add places in the document to its errors."""
    with torch_isolated(), document.locating():
        yield


@dataclass(frozen=True)
class LoadedExperiment:
    """An experiment with valid options: its document, study and options."""

    is_sweep: ClassVar[Literal[False]] = False
    document: Document
    study: Study[Any, Any]
    options: Experiment

    def check(self, progress: Progress) -> None:
        """Raise an InputError, with places in the file, if the experiment could not run."""
        with isolated(self.document):
            self.prepare(progress)

    def prepare(self, progress: Progress) -> PreparedStudy:
        """Check the look and the expectations, and return the study prepared to run."""
        look, collector = self.options.figure, Collector()
        with collector.under():
            if not is_default(look):
                from attncli.show.pictures.heatmaps import check_look  # loads matplotlib

                with below("figure"):
                    check_look(look)
        for sentence in parameter_notes(self.options.scorers):
            progress.note(sentence)
        with collector.under():
            labels = [*(entry.label for entry in self.options.scorers), *self.study.references]
            check_expectations(self.options.expect, self.study.all_columns, labels, self.study.between is not None)
        with collector.under():
            prepared: PreparedStudy = self.study.prepare(self.options, progress)
        collector.check()
        return prepared

    def explain(self, progress: Progress, where: str, **choice: Any) -> Explanation:
        """Return how one query gets its output. `choice` are the arguments of the study's `explain`.

        Raises:
            InputError: the experiment cannot run, or is of another study, or has no such place. Problems of a choice
                are located at `where` and the name of the argument.
        """
        with isolated(self.document):
            if self.study.explain is None:
                raise InputError.of(got(self.options.study, NO_QUERIES), ["study"])
            prepared = self.prepare(progress)
            try:
                explanation = self.study.explain(prepared, **choice)
            except InputError as error:
                raise InputError(
                    replace(item, where=f"{where}{item.path[0]}", path=()) if {*item.path} & {*choice} else item
                    for item in error.problems
                ) from error
        return explanation

    def run(self, progress: Progress, to: Destination) -> FinishedRun:
        """Run the study, judge its expectations, and save the run.

        Raises:
            InputError: the experiment cannot run, or its folder cannot be written.
        """
        options = self.options
        with isolated(self.document):
            free_place(options.name, to)  # before preparing, which may take long
            prepared = self.prepare(progress)
            with new_folder(options.name, to) as folder:
                result, verdicts = self.work(prepared, progress)
                progress.step(0, 1, "writing the run folder")
                files = result_drawers(result, options.figure, progress.note) if to.pictures else {}
                origin = how_made(verdicts, options.seed, prepared.device, to)
                stored = StoredResult.of(result, **origin)
                if to.report:
                    from attncli.engine.report import report as page_of  # loads jinja2

                    run = StoredRun(folder.target, result, stored, self_contained(options, result))
                    files = {REPORT: lambda path: text_writer(page_of([run], look=options.figure))(path), **files}
                save_run(folder.path, result, stored, options, files, progress.note)
        picture = next((folder.target / name for name in files if name in stored.files), None)
        return FinishedRun(result, stored, folder.target, self.document, verdicts, picture)

    def compute(self, progress: Progress) -> tuple[Result, Sequence[Verdict]]:
        """Run the study and judge its expectations, as `run` does, and write nothing."""
        with isolated(self.document):
            return self.work(self.prepare(progress), progress)

    def work(self, prepared: PreparedStudy, progress: Progress) -> tuple[Result, list[Verdict]]:
        """Run the prepared study, and return its result and the verdicts on its expectations."""
        result = replace(self.study.run(prepared, progress), about=self.options.about)
        signals.keep(Mode.WRITING)  # all that the study has finished must be saved
        return result, judge(result, self.options.expect)


def load_experiment(document: Document, *, in_python: bool = False) -> LoadedExperiment:
    """Return the experiment of a document, with its options validated.

    If `in_python`, errors suggest Python code in place of options of commands.

    Raises:
        InputError: the document has problems, or is a sweep.
    """
    name = document.study(STUDIES)
    if document.data.get("sweep") is not None:
        cure = f"`attncli sweep {document.path}` runs it, `--set sweep=null` the experiment without it"
        if in_python:
            cure = "`attncli.sweep` runs it, and `sweep=None` drops it"
        raise document.located(InputError([Problem(f"got a sweep; expected one experiment; {cure}", ("sweep",))]))
    document = document.of_study(options_model(name))
    return LoadedExperiment(document, load_study(name), document.validate(options_model(name)))


def run_look(stored: StoredRun, overrides: Sequence[Override] = ()) -> Look:
    """Return the look of a run's pictures: `figure` of its config, with overrides applied.

    Raises:
        InputError: keys or values under `figure` are wrong.
    """
    model: type[Look] = options_model(stored.result.study).model_fields["figure"].annotation  # type: ignore[assignment]
    if stored.config is None:
        return model()
    document = read_document(stored.path / "config.yaml", overrides)
    if isinstance(stored.result, SweepResult):  # its own picture ignores keys for heatmaps of its points
        model = Look
    keys = [*model.model_fields, *(override.path[1] for override in overrides if len(override.path) > 1)]
    look = {key: value for key, value in document.data.get("figure", {}).items() if key in keys}  # or an older key
    with document.locating(), below("figure"):
        return validated(model, look, {"folder": stored.path})


def run_in_memory(result: Result) -> StoredRun:
    """Return a result, with its config if that is known, as if it were read from a run folder."""
    return StoredRun(Path(result.name), result, StoredResult.of(result), getattr(result, "config", None))
