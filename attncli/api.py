"""Run, load, compare and save experiments in Python. The command line is a thin user of this module."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from attncli.common.swapping import Swap as Swap
from attncli.config.builtin import experiment_path
from attncli.config.document import REPORT, Document, document_of_data, read_document
from attncli.config.looks import PLAIN, Look, is_default
from attncli.config.models import Experiment
from attncli.config.overrides import Override, as_yaml, override_in_python
from attncli.config.scorer_entries import refuse_functions
from attncli.config.strict import validated
from attncli.errors import Collector, InputError, Problem, as_line, below, did_you_mean, got
from attncli.expect.asking import check_expectations
from attncli.expect.judging import Verdict, judge
from attncli.inputs.given import given
from attncli.results import MOST_KEYS, Row, single_numbers
from attncli.results import Comparison as StudyComparison
from attncli.results import Explanation as StudyExplanation
from attncli.results import Result as StudyResult
from attncli.results import SweepResult as StudySweepResult
from attncli.runs.comparing import compare_runs, config_in
from attncli.runs.loading import StoredRun, read_run, reading
from attncli.runs.resolved import config_of, dump_yaml, self_contained
from attncli.runs.run_folder import COMMAND_LINE, IN_PYTHON, OptionNames, free_place, new_folder, writer_of
from attncli.runs.saving import FinishedRun, fingerprint, results_of, save_run
from attncli.runs.settings import settings_of
from attncli.stopping import Progress, signals
from attncli.studies import STUDIES, load_study, options_model
from attncli.studies.study import PreparedStudy, Study
from attncli.sweeps.views import Drawers, columns_of, figures_of, frames_of, tables_of

if TYPE_CHECKING:
    from attncli.models.capture import Capture
    from attncli.show.pictures.figures import Picture

WARNING = "warning: "  # begins a note that warns; other notes are for the command line
NO_QUERIES = "only experiments of the study attention have queries to explain"


@dataclass(frozen=True, repr=False)
class Result(StudyResult):
    """The result of a study or sweep. A notebook displays it as its main picture and a page to explore it.

    `records`, `comparisons`, `heads` and `head_comparisons` are lists of dicts; the last two have the metrics of
    each `batch` and `head`. `findings` are sentences with their numbers. `tensors`, `parameters` and `inputs` are torch
    tensors by name, such as `tensors["additive/weights"]`. `expectations` has a dict for each row that an expectation
    checks. `folder` is the run folder, if any; `look` has the options of its pictures; `config` is the content of
    config.yaml, None if the result is from a results.json without a run folder. `document` is the experiment as it was
    given to `attncli.run`.
    """

    expectations: Sequence[Row] = ()
    folder: Path | None = None
    look: Look = PLAIN
    config: Row | None = None
    document: Document | None = None

    @property
    def pictures(self) -> list[str]:
        """The names of the pictures of this result, such as `heatmaps`, the main picture first."""
        with self._reading():
            return list(figures_of(self, Progress().note, self.look))

    def figure(self, name: str | None = None, **looks: Any) -> "Picture":
        """Return a picture as a matplotlib Figure, by default the main one. Warnings about it are Python's.

        `looks` are keys under `figure` in YAML, such as `theme="dark"` and `size=(6, 4)`; they override the run's.

        Raises:
            InputError: there is no picture of this name or no picture at all, or `looks` are wrong.
        """
        notes = list[str]()
        try:
            look = validated(type(self.look), {**self.look.model_dump(exclude_unset=True), **as_yaml(looks)}, {})
            figure = self._figure(name, notes.append, look)
            if figure is None:
                raise InputError.of(f"this run of the study {self.study} has nothing to draw")
            if not {*look.words} <= figure.untranslated:
                from attncli.show.pictures.figures import check_words

                pictures = [figure]
                if "words" not in looks:  # the run's words may be of another of its pictures
                    pictures = [self._figure(each, Progress().note, look) or figure for each in self.pictures]
                check_words(look, set().union(*(each.untranslated for each in pictures)))
        except InputError as error:
            raise InputError(replace(each, where=each.where or "result.figure") for each in error.problems) from error
        for each in notes:
            if each.startswith(WARNING):
                warnings.warn(each.removeprefix(WARNING), stacklevel=2)  # at the caller's line
        return figure

    def _figure(self, name: str | None, note: Any, look: Look) -> "Picture | None":
        with self._reading():
            figures = figures_of(self, note, look)
            if figures and name is not None and name not in figures:
                raise InputError.of(got(name, "expected the name of a picture", did_you_mean(name, figures)))
            return figures[name or next(iter(figures))]() if figures else None

    def explain(
        self,
        label: str | None = None,
        *,
        query: int = 0,
        batch: int = 0,
        head: int | None = None,
        layer: str | int | None = None,
        most: int | None = MOST_KEYS,
    ) -> "Explanation":
        """Return how one query gets its output, step by step. A notebook displays it as a worked example.

        The experiment is prepared again, and the query computed as in the run.

        Args:
            label: the scorer, by default the first.
            query: the query's position.
            batch: the batch element.
            head: the number of the head, by default the first.
            layer: the layer of a captured model, by its name or number; by default the first of the run.
            most: the number of keys to list, the keys with the largest weights; None for all.

        Raises:
            InputError: the run has no such label, query, batch element, head or layer, or its study has no queries.
        """
        where = "result.explain"
        if self.study in STUDIES and load_study(self.study).explain is None:
            raise InputError.of(got(self.study, NO_QUERIES), where=where)
        if isinstance(self, SweepResult) or (self.document is None and self.folder is None):
            kind = "a sweep" if isinstance(self, SweepResult) else "a results.json alone"
            raise InputError.of(f"got {kind}; expected a run with its config", where=where)
        document = self.document or read_document(Path(self.folder or "") / "config.yaml")
        experiment = load_experiment(document, in_python=True)
        place = {"layer": layer, "batch": batch, "head": head, "query": query}
        found = experiment.explain(Progress(), "result.explain: ", label=label, **place, most=most)
        return Explanation(**vars(found))

    def to_frame(self, rows: str = "records") -> Any:
        """Return `records`, `comparisons`, `heads`, `head_comparisons` or a sweep's `summary` as a pandas DataFrame.

        It has the columns of records.csv, heads.csv and summary.csv.

        Raises:
            InputError: the result does not have these rows.
            ImportError: pandas is not installed.
        """
        frames = frames_of(self)
        if not isinstance(rows, str) or rows not in frames:
            kind = "sweep" if isinstance(self, SweepResult) else "run"
            why = f"this {kind} of the study {self.study} has no {rows}; " if rows in [*self.rows, "summary"] else ""
            raise InputError.of(got(rows, f"{why}expected one of {', '.join(frames)}"))
        try:
            import pandas
        except ImportError as error:
            raise ImportError("to_frame needs pandas: pip install pandas; result.records is a list of dicts") from error
        return pandas.DataFrame([single_numbers(row) for row in frames[rows]()])

    def __repr__(self) -> str:
        rows = f"{len(self.records)} record{'s' * (len(self.records) != 1)}"
        return f"<attncli.Result {self.name}: study {self.study}, {', '.join(self.labels)}, {rows}>"

    def _repr_html_(self) -> str:
        html: str = self._repr_mimebundle_()["text/html"]
        return html

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        """Return the result as text, PNG and HTML; a notebook shows the richest format that it supports."""
        from attncli.show import notebook
        from attncli.show.page.report import report
        from attncli.show.terminal.tables import findings, fit, opening

        picture = self._figure(None, Progress().note, notebook.look_in_notebook(self.look))
        with self._reading():
            tables = partial(tables_of(self), width=notebook.WIDTH, csv=None)
            shown = fit(lambda most: [*opening(self), *tables(most=most)], [*findings(self.findings)], notebook.WIDTH)
            content = {"study": self.study, "expectations": self.expectations}
            stored = StoredRun(Path(), self, content) if self.folder is None else read_run(self.folder)
            page = report([stored], notebook.MOST_BYTES)
            return notebook.mimebundle(shown, picture, page)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Reset torch's modes in the `with` block, and raise an InputError if it reads damaged files of the run."""
        from attncli.modes import torch_isolated

        with torch_isolated(), reading(self.folder) if self.folder is not None else nullcontext():
            yield


@dataclass(frozen=True, repr=False)
class SweepResult(Result, StudySweepResult):
    """The result of a sweep; `axes` has the swept values, and `metric` the column that is drawn and described."""


class Explanation(StudyExplanation):
    """One query worked out, as `Result.explain` returns it. A notebook displays it."""

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        from attncli.show import notebook
        from attncli.show.terminal.explanation import lines

        return notebook.as_text(lines(self, notebook.WIDTH))


class Comparison(StudyComparison):
    """The differences between two runs. A notebook shows them as tables."""

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        from attncli.show import notebook
        from attncli.show.terminal.comparison import tables

        return notebook.as_text(tables(self, notebook.WIDTH))


def run(
    config: str | PathLike[str] | Mapping[str, Any],
    /,
    *,
    out: str | PathLike[str] | None = None,
    overwrite: bool = False,
    **keys: Any,
) -> Result:
    """Run an experiment of any study.

    Args:
        config: a YAML file, the name of a built-in experiment such as `d2l`, or a mapping with the keys of the YAML,
            with tensors and arrays in place of nested lists, and functions of queries and keys in place of scorers.
            Paths in a mapping are relative to the working directory.
        out: a new or empty folder to save the run in; by default nothing is written.
        overwrite: replace an earlier run in `out`.
        keys: overrides of keys in the config: `seed=1`, `**{"data.keys.fill": "ones"}`, and `scale=2` for the scale of
            every scorer that has one.

    Raises:
        InputError: the config has problems; it lists all of them. InputError is a ValueError.
    """
    kept = {key: given(key, value) for key, value in keys.items()}
    if isinstance(config, Mapping):
        config = {key: given(key, value) for key, value in config.items()}
    document = _document(config, kept, "attncli.run")
    place = None if out is None else _path(out, "attncli.run: out", "expected a folder")
    experiment, progress, folder = load_experiment(document, in_python=True), Warnings(), None
    if place is not None:
        with document.locating():
            refuse_functions(experiment.options.scorers, "which the config.yaml in `out` cannot hold")
        finished = experiment.run(progress, None, place, overwrite)
        result, verdicts, folder = finished.result, finished.verdicts, finished.folder
    else:
        with isolated(document):
            result, verdicts = experiment.work(experiment.prepare(progress), progress)
    resolved = self_contained(config_of(experiment.options), result)
    expectations, look = [verdict.record for verdict in verdicts], experiment.options.figure
    more: Any = {"folder": folder, "look": look, "config": resolved, "document": document}
    return Result(**vars(result), expectations=expectations, **more)


def sweep(
    config: str | PathLike[str] | Mapping[str, Any],
    /,
    over: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
    *,
    metric: str | None = None,
    jobs: int | None = None,
    timeout: float | None = None,
    out: str | PathLike[str] | None = None,
    overwrite: bool = False,
    **keys: Any,
) -> SweepResult:
    """Run a grid of experiments in processes of this machine. Failed points are left out, with a warning.

    Args:
        config: an experiment, as in `attncli.run`.
        over: the values of each swept key, such as `{"seed": range(5), "scale": "0.1..10:log5"}`. Each key is one
            axis of the grid. In a list of mappings each mapping is one axis, and its keys change together. By default
            the axes under `sweep` in the config.
        metric: the column for the picture and the findings.
        jobs: the number of points to compute at a time; by default one for each core.
        timeout: the time in seconds after which a point is given up.
        out: a new or empty folder to save the sweep in; by default nothing is kept.
        overwrite: replace an earlier run in `out`.
        keys: overrides of keys in the config, for all points.

    Raises:
        InputError: the config or a point has problems, or every point failed.
    """
    from attncli.modes import torch_isolated
    from attncli.sweeps.findings import failures_of
    from attncli.sweeps.points import plan_of
    from attncli.sweeps.running import SweepTask, run_sweep

    where, progress = "attncli.sweep", Warnings()
    for name, number, kind in (("jobs", jobs, int), ("timeout", timeout, int | float)):
        if number is not None and (not isinstance(number, kind) or isinstance(number, bool) or not number > 0):
            raise InputError.of(got(number, "expected a number above 0"), where=f"{where}: {name}")
    if over is not None:
        axes = [{key: values} for key, values in over.items()] if isinstance(over, Mapping) else over
        keys["sweep"] = {"over": axes, **({"metric": metric} if metric else {})}
    elif metric is not None:
        keys["sweep.metric"] = metric
    document = _document(config, keys, where)
    with TemporaryDirectory(prefix="attncli_") as temporary, torch_isolated():
        place = Path(temporary) if out is None else _path(out, f"{where}: out", "expected a folder")
        words, kept = OptionNames(f"{where}: out", "overwrite=True"), out is not None
        task = SweepTask(
            plan_of(document), where, None, place, overwrite, jobs, None, timeout, pictures=kept, words=words
        )
        finished, problem = run_sweep(task, progress)
    result, failures = finished.result, failures_of(finished.content["sweep"]["points"])
    if not result.records:
        raise KeyboardInterrupt if result.interrupted else InputError.of("; ".join(failures), where=where)
    for each in [*failures, *([f"stopped: {problem}"] if problem else [])]:
        progress.note(f"warning: {each}")
    expectations, look = [verdict.record for verdict in finished.verdicts], task.plan.options.figure
    folder = finished.folder if kept else None
    return SweepResult(**vars(result), expectations=expectations, folder=folder, look=look, config=task.plan.config)


def swap(
    model: Any,
    /,
    *args: Any,
    scorers: Sequence[Any] | None = None,
    by: Sequence[str] | str = ("all", "layer"),
    layers: Sequence[int | str] | None = None,
    heads: Sequence[int] | None = None,
    **kwargs: Any,
) -> Result:
    """Run a model with other scorers inside, and compare its outputs with its own. Nothing is written.

    Args:
        model: a torch module. It runs as `model(*args, **kwargs)`, in evaluation mode and without gradients.
        args: positional arguments of the model.
        scorers: entries as in `attncli.run`, or names of normalisers, which are applied to the model's own scores; by
            default a few. The references `model`, `uniform` and `zero` always run.
        by: the places to replace in turn: `all`, `layer`, `head`, `up_to`, `from`.
        layers: numbers or names of the layers to replace; by default all.
        heads: numbers of the heads to replace in turn by `head`; by default all.
        kwargs: keyword arguments of the model.

    Raises:
        InputError: an option is wrong, or the model's attention cannot be replaced.
    """
    from torch import nn

    from attncli.common.swapping import listed
    from attncli.models.loading import LoadedModel
    from attncli.studies.swap import study as swap_study
    from attncli.studies.swap.options import SwapOptions

    if not isinstance(model, nn.Module):
        raise InputError.of(got(model, "expected a torch module"), where="attncli.swap: model")
    chosen: dict[str, Any] = {"scorers": scorers, "layers": layers, "heads": heads}
    data: dict[str, Any] = {"study": "swap", "model": type(model).__name__, "by": by}
    data |= {key: listed(value) for key, value in chosen.items() if value is not None}
    document, progress = document_of_data("attncli.swap", data, []), Warnings()
    options = document.validate(SwapOptions)
    with isolated(document):
        batch = {"args": args, **kwargs} if args and kwargs else kwargs or args
        result = swap_study.run(swap_study.prepare_loaded(options, LoadedModel(model, [batch]), progress), progress)
        result = replace(result, about=options.about)
    return Result(**vars(result), config=config_of(options))


def _document(config: Any, keys: Mapping[str, Any], where: str) -> Document:
    """Return the document of a config: a file, a built-in experiment or a mapping, with the overrides `keys` applied.

    `where` is the place in errors about the arguments, such as `attncli.run`.

    Raises:
        InputError: there is no such experiment, or an override is invalid.
    """
    collector, overrides = Collector(), list[Override]()
    for key, value in keys.items():
        with collector.under():
            overrides.append(override_in_python(key, value))
    collector.check()
    if isinstance(config, Mapping):
        return document_of_data(where, config, overrides)
    expected = "expected a YAML file, the name of a built-in experiment, or a mapping with `data` and `scorers`"
    return read_document(experiment_path(_path(config, where, expected)), overrides)


def load(folder: str | PathLike[str]) -> Result:
    """Return the result in a run folder. NaN and infinity, which JSON lacks, are None; tensors are read on request.

    Raises:
        InputError: there is no run, or it is damaged.
    """
    path = _path(folder, "attncli.load", "expected the folder of a run, as outputs/d2l/latest")
    stored = read_run(path)
    config = None if stored.config is None else config_in(stored)
    place = path if path.is_dir() else None
    expectations, look = stored.content["expectations"], look_of(stored)
    kind = SweepResult if isinstance(stored.result, StudySweepResult) else Result
    return kind(**vars(stored.result), expectations=expectations, folder=place, look=look, config=config)


def compare(a: str | PathLike[str] | StudyResult, b: str | PathLike[str] | StudyResult) -> Comparison:
    """Return the differences between two runs, each given as a run folder, a results.json, or a result.

    Raises:
        InputError: there is no run, or it is damaged.
    """
    from attncli.modes import torch_isolated

    first, second = _stored(a), _stored(b)
    with torch_isolated():
        return Comparison(**vars(compare_stored(first, second)))


def _stored(run: str | PathLike[str] | StudyResult) -> StoredRun:
    if not isinstance(run, StudyResult):
        path = _path(run, "attncli.compare", "expected a result, or the folder of a run, as outputs/d2l/latest")
        return read_run(path)
    prints = {name: fingerprint(tensor) for name, tensor in run.inputs.items()}
    config = dump_yaml(run.config) if isinstance(run, Result) and run.config is not None else None
    return StoredRun(Path(run.name), run, {"inputs": prints, "environment": {}, "settings": settings_of(run)}, config)


def compare_stored(a: StoredRun, b: StoredRun) -> StudyComparison:
    """Return the differences between two stored runs, by the columns of their study if this version has the study."""
    if a.result.study not in STUDIES:
        return compare_runs(a, b, {})
    return compare_runs(a, b, columns_of(a.result), load_study(a.result.study).between)


def save(
    seen: "Capture", file: str | PathLike[str], *, overwrite: bool = False, tokens: Any = None, **about: Any
) -> None:
    """Save captured attention calls in a .safetensors file, as the command `attncli capture` does.

    Args:
        seen: the captured calls, from `attncli.capture`.
        file: a name that ends in .safetensors.
        overwrite: replace an existing file.
        tokens: names of queries and keys: the output of a fast tokenizer of transformers, a list of names, a list for
            each batch element, or `{"queries": [...], "keys": [...]}` if they differ.
        about: more metadata: `model="mine"`, `text="..."`.

    Raises:
        InputError: no call can be re-scored, the tokens fit no call, or the file exists or cannot be written.
    """
    from attncli.models.tokens import check_tokens, read_tokens
    from attncli.runs.captured import check_place, save_captured

    place, words = _path(file, "attncli.save", "expected a file"), OptionNames("attncli.save", "overwrite=True")
    check_place(place, overwrite, words)
    seen.check()
    try:
        names = read_tokens(tokens)
        check_tokens(names, [record for record in seen.records if record.problem is None])
    except InputError as error:
        raise InputError.of(error.problems[0].message, where="attncli.save: tokens") from error
    save_captured(place, seen, {**about, "tokens": names}, words)


def _path(given: object, where: str, expected: str) -> Path:
    if not isinstance(given, str | PathLike):
        raise InputError.of(got(given, expected), where=where)
    path = Path(given)
    with suppress(RuntimeError):  # `~name` of an unknown user
        path = path.expanduser()
    return path


def look_of(stored: StoredRun, overrides: Sequence[Override] = ()) -> Look:
    """Return the look of a run's pictures: `figure` of its config, with overrides applied.

    Raises:
        InputError: keys or values under `figure` are wrong.
    """
    model: type[Look] = options_model(stored.result.study).model_fields["figure"].annotation  # type: ignore[assignment]
    if stored.config is None:
        return model()
    document = read_document(stored.path / "config.yaml", overrides)
    if isinstance(stored.result, StudySweepResult):  # its own picture ignores keys for heatmaps of its points
        model = Look
    known = [*model.model_fields, *(each.path[1] for each in overrides if len(each.path) > 1)]
    look = {key: value for key, value in document.data.get("figure", {}).items() if key in known}  # or an older key
    with document.locating(), below("figure"):
        return validated(model, look, {"folder": stored.path})


class Warnings(Progress):
    """Progress that emits warnings with Python's `warnings`, and ignores everything else."""

    def note(self, message: str) -> None:
        if message.startswith(WARNING):
            warnings.warn(as_line(message.removeprefix(WARNING)), stacklevel=2)


@contextmanager
def isolated(document: Document) -> Iterator[None]:
    """Reset the caller's modes of torch in the `with` block, and add places in the document to its errors."""
    from attncli.modes import torch_isolated

    with torch_isolated(), document.locating():
        yield


@dataclass(frozen=True)
class LoadedExperiment:
    """An experiment with valid options: its document, study and options."""

    document: Document
    study: Study[Any, Any]
    options: Experiment

    def check(self, progress: Progress) -> None:
        """Raise an InputError, with places in the file, if the experiment could not run."""
        with isolated(self.document):
            self.prepare(progress)

    def prepare(self, progress: Progress) -> PreparedStudy:
        """Check the look and the expectations, and return the study prepared to run."""
        look = self.options.figure
        if not is_default(look):
            from attncli.show.pictures.heatmaps import check_look

            check_look(look)
        prepared: PreparedStudy = self.study.prepare(self.options, progress)
        if self.options.expect:
            check_expectations(self.options.expect, self.study.expected_rows(prepared))
        return prepared

    def explain(self, progress: Progress, where: str, **choice: Any) -> StudyExplanation:
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
                found = self.study.explain(prepared, **choice)
            except InputError as error:
                raise InputError(
                    replace(each, where=f"{where}{each.path[0]}", path=()) if {*each.path} & {*choice} else each
                    for each in error.problems
                ) from error
        return found

    def run(
        self,
        progress: Progress,
        command: str | None,
        out: Path | None,
        overwrite: bool = False,
        pictures: bool = True,
        report: bool = False,
    ) -> FinishedRun:
        """Run the study, judge its expectations, and save the run in `out`, or in outputs/<name>/ if that is None.

        `report` adds a page to explore the run. `command` is the command line, None for `attncli.run`.

        Raises:
            InputError: the experiment cannot run, or its folder cannot be written.
        """
        options, started = self.options, datetime.now().astimezone()
        words = COMMAND_LINE if command else IN_PYTHON
        with isolated(self.document):
            free_place(options.name, out, overwrite, started, words)  # before the work that preparing may be
            prepared = self.prepare(progress)
            with new_folder(options.name, out, overwrite, started, words) as folder:
                result, verdicts = self.work(prepared, progress)
                progress.step(0, 1, "writing the run folder")
                drawers = Drawers(result, options.figure, progress.note) if pictures else None
                files: Mapping[str, Callable[[Path], None]] = drawers or {}
                config, command = config_of(options), command or "attncli.run"
                content = results_of(result, verdicts, options.seed, prepared.device, started, command)
                if report:
                    from attncli.show.page.report import report as page_of

                    run = StoredRun(folder.place, result, content, dump_yaml(self_contained(config, result)))
                    files = {REPORT: lambda path: writer_of(page_of([run]))(path), **files}
                save_run(folder.path, result, content, config, files, progress.note)
            if drawers is not None:
                with below("figure"):
                    drawers.check(folder.place)  # after the work, which is kept
        picture = next((folder.place / name for name in files if name in content["files"]), None)
        return FinishedRun(result, content, folder.place, self.document, verdicts, picture)

    def work(self, prepared: PreparedStudy, progress: Progress) -> tuple[StudyResult, list[Verdict]]:
        """Run the prepared study, and return its result and the verdicts on its expectations."""
        result = replace(self.study.run(prepared, progress), about=self.options.about)
        signals.wait()  # whatever the study has finished must be saved
        return result, judge(result, self.options.expect, self.study.expected_rows(prepared))


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
