"""Results as Python and notebooks get them: with pictures, data frames and explanations."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attncli.config.document import Document, read_document
from attncli.config.looks import PLAIN, Look
from attncli.config.overrides import as_yaml
from attncli.config.strict import validated
from attncli.core.modes import torch_isolated
from attncli.core.numbers import several
from attncli.engine.experiment import NO_QUERIES, load_experiment
from attncli.engine.runs.loading import StoredRun, read_run, reading
from attncli.engine.runs.stored import StoredResult
from attncli.engine.views import result_figures, result_frames, result_tables
from attncli.errors import InputError, did_you_mean, got, printable
from attncli.results import MOST_KEYS, Comparison, Explanation, Result, Row, SweepResult, single_numbers
from attncli.runtime import Progress
from attncli.studies import load_study

if TYPE_CHECKING:
    from attncli.show.pictures.figures import Picture

WARNING = "warning: "  # begins a note that warns; other notes are for the command line


@dataclass(frozen=True, repr=False)
class InteractiveResult(Result):
    """The result of a study or sweep: `attncli.Result`.

    A notebook displays it as its main picture and a page to explore it. `records`, `comparisons`, `heads` and
    `head_comparisons` are lists of dicts; the last two have the metrics of each `batch` and `head`. `findings` are
    sentences with their numbers. `tensors`, `parameters` and `inputs` are torch tensors by name, such as
    `tensors["additive/weights"]`. `expectations` has a dict for each row that an expectation checks. `folder` is the
    run folder, if any; `look` has the options of its pictures; `config` is the content of config.yaml, None if the
    result is from a results.json without a run folder. `document` is the experiment as it was given to `attncli.run`.
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
            return list(result_figures(self, Progress().note, self.look))

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
            if "words" in looks:
                from attncli.show.pictures.figures import unknown_words  # loads matplotlib

                notes += [f"{WARNING}{note}" for note in unknown_words(look, [figure])]
        except InputError as error:
            raise InputError(
                replace(problem, where=problem.where or "result.figure") for problem in error.problems
            ) from error
        for message in notes:
            if message.startswith(WARNING):
                warnings.warn(message.removeprefix(WARNING), stacklevel=2)  # at the caller's line
        return figure

    def _figure(self, name: str | None, note: Any, look: Look) -> "Picture | None":
        with self._reading():
            figures = result_figures(self, note, look)
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
    ) -> "InteractiveExplanation":
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
        if load_study(self.study).explain is None:
            raise InputError.of(got(self.study, NO_QUERIES), where=where)
        if isinstance(self, SweepResult) or (self.document is None and self.folder is None):
            kind = "a sweep" if isinstance(self, SweepResult) else "a results.json alone"
            raise InputError.of(f"got {kind}; expected a run with its config", where=where)
        document = self.document or read_document(Path(self.folder or "") / "config.yaml")
        experiment = load_experiment(document, in_python=True)
        position = {"layer": layer, "batch": batch, "head": head, "query": query}
        explanation = experiment.explain(Progress(), "result.explain: ", label=label, **position, most=most)
        return InteractiveExplanation(**vars(explanation))

    def to_frame(self, rows: str = "records") -> Any:
        """Return `records`, `comparisons`, `heads`, `head_comparisons` or a sweep's `summary` as a pandas DataFrame.

        It has the columns of records.csv, heads.csv and summary.csv.

        Raises:
            InputError: the result does not have these rows.
            ImportError: pandas is not installed.
        """
        frames = result_frames(self)
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
        rows = several(len(self.records), "record")
        return f"<attncli.Result {self.name}: study {self.study}, {', '.join(self.labels)}, {rows}>"

    def _repr_html_(self) -> str:
        html: str = self._repr_mimebundle_()["text/html"]
        return html

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        """Return the result as text, PNG and HTML; a notebook shows the richest format that it supports."""
        from attncli.engine.report import report
        from attncli.show import notebook
        from attncli.show.terminal.opening import opening
        from attncli.show.terminal.tables import findings, fit

        picture = self._figure(None, Progress().note, notebook.look_in_notebook(self.look))
        with self._reading():
            tables = partial(result_tables, self, notebook.WIDTH)
            blocks = fit(lambda most: [*opening(self), *tables(most)], [*findings(self.findings)], notebook.WIDTH)
            if self.folder is not None:
                run = read_run(self.folder)
            else:
                run = StoredRun(Path(), self, StoredResult.of(self, expectations=self.expectations, inputs={}))
            page = report([run], notebook.MOST_BYTES, look=self.look, is_pictured=picture is not None)
            return notebook.mimebundle(blocks, picture, page)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Reset torch's modes in the `with` block, and raise an InputError if it reads damaged files of the run."""
        with torch_isolated(), reading(self.folder) if self.folder is not None else nullcontext():
            yield


@dataclass(frozen=True, repr=False)
class InteractiveSweep(InteractiveResult, SweepResult):
    """The result of a sweep; `axes` has the swept values, and `metric` the column that is drawn and described."""


class InteractiveExplanation(Explanation):
    """One query worked out, as `Result.explain` returns it. A notebook displays it."""

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        from attncli.show import notebook
        from attncli.show.terminal.explanation import lines

        return notebook.as_text(lines(self, notebook.WIDTH))


class InteractiveComparison(Comparison):
    """The differences between two runs. A notebook shows them as tables."""

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        from attncli.show import notebook
        from attncli.show.terminal.comparison import tables

        return notebook.as_text(tables(self, notebook.WIDTH))


class Warnings(Progress):
    """Progress that emits warnings with Python's `warnings`, and ignores everything else."""

    def note(self, message: str) -> None:
        """Emit a warning for a note that is one."""
        if message.startswith(WARNING):
            warnings.warn(printable(message.removeprefix(WARNING)), stacklevel=2)
