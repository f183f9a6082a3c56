"""Run, load, compare and save experiments in Python. The command line is a thin user of this module."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, overload

from attncli.catalogue.plans import PLAN, is_plan
from attncli.catalogue.scorer_entries import refuse_objects
from attncli.config.arguments import document_argument, path_argument
from attncli.config.document import Document, document_of_data
from attncli.core.modes import torch_isolated
from attncli.engine.captures import CaptureComparison, compare_captures
from attncli.engine.experiment import load_experiment, run_in_memory, run_look
from attncli.engine.interactive import InteractiveComparison, InteractiveSweep, Warnings
from attncli.engine.interactive import InteractiveResult as Result
from attncli.engine.runs.captured import check_place, save_captured
from attncli.engine.runs.comparing import compare_runs
from attncli.engine.runs.loading import read_run
from attncli.engine.runs.resolved import self_contained
from attncli.engine.runs.run_folder import Destination, OptionNames
from attncli.errors import InputError, got
from attncli.models.capture import Capture
from attncli.models.loading import LoadedModel
from attncli.models.selection import listed
from attncli.models.swap import Swap as Swap
from attncli.models.tokens import check_tokens, read_tokens, text_padding
from attncli.models.watching import check_unwatched
from attncli.results import Result as StudyResult
from attncli.results import SweepResult
from attncli.runtime import Progress
from attncli.sources.captured import is_captured
from attncli.sources.given import as_config_value, given_batches, name_of_module
from attncli.studies.study import PreparedStudy


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
            with tensors and arrays in place of nested lists, and in place of scorers functions of queries and keys,
            classes or torch modules. Paths in a mapping are relative to the working directory.
        out: a new or empty folder to save the run in; by default nothing is written.
        overwrite: replace an earlier run in `out`.
        keys: overrides of keys in the config: `seed=1`, `**{"data.keys.fill": "ones"}`, and `scale=2` for the scale of
            every scorer that has one.

    Raises:
        InputError: the config has problems; it lists all of them. InputError is a ValueError.
    """
    check_unwatched("attncli.run")
    keys = {key: as_config_value(key, value) for key, value in keys.items()}
    if isinstance(config, Mapping):
        config = {key: as_config_value(key, value) for key, value in config.items()}
    document = document_argument(config, keys, "attncli.run")
    return replace(_finished(document, "attncli.run", out=out, overwrite=overwrite), document=document)


def _finished(
    document: Document,
    where: str,
    prepare: Callable[[Any, Progress], PreparedStudy] | None = None,
    out: str | PathLike[str] | None = None,
    overwrite: bool = False,
) -> Result:
    """Run an experiment for the function `where`, and save it in the folder `out` unless that is None.

    `prepare` is another way to prepare its study, for a model that is in memory.
    """
    experiment = load_experiment(document, in_python=True)
    if prepare is not None:
        experiment = replace(experiment, study=replace(experiment.study, prepare=prepare))
    options, folder = experiment.options, None
    if out is None:
        result, verdicts = experiment.compute(Warnings())
    else:
        place = path_argument(out, f"{where}: out", "expected a folder")
        with document.locating():
            refuse_objects(options.scorers, "which the config.yaml in `out` cannot hold")
        finished = experiment.run(Warnings(), Destination(place, overwrite, function=where))
        result, verdicts, folder = finished.result, finished.verdicts, finished.folder
    config, expectations = self_contained(options, result), [verdict.record for verdict in verdicts]
    return Result(**vars(result), expectations=expectations, folder=folder, config=config, look=options.figure)


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
) -> InteractiveSweep:
    """Run a grid of experiments on this machine. Failed points are left out, with a warning.

    Points run in processes, which import the script that calls this function: it needs `if __name__ == "__main__":`
    around the call. With `jobs=1` and no `timeout`, or where they cannot import it, points run in this process.

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
    from attncli.engine.sweeps.findings import failure_lines
    from attncli.engine.sweeps.points import sweep_plan
    from attncli.engine.sweeps.processes import is_importing_script
    from attncli.engine.sweeps.running import LoadedSweep

    where = "attncli.sweep"
    if is_importing_script():
        raise SystemExit(1)  # the sweep that started this process then runs its points itself
    for name, number, kind in (("jobs", jobs, int), ("timeout", timeout, int | float)):
        if number is not None and (not isinstance(number, kind) or isinstance(number, bool) or not number > 0):
            raise InputError.of(got(number, "expected a number above 0"), where=f"{where}: {name}")
    if over is not None:
        axes = [{key: values} for key, values in over.items()] if isinstance(over, Mapping) else over
        keys["sweep"] = {"over": axes, **({} if metric is None else {"metric": metric})}
    elif metric is not None:
        keys["sweep.metric"] = metric
    document = document_argument(config, keys, where)
    check_unwatched(where)
    with TemporaryDirectory(prefix="attncli_") as temporary, torch_isolated():
        folder = Path(temporary) if out is None else path_argument(out, f"{where}: out", "expected a folder")
        loaded = LoadedSweep(sweep_plan(document), jobs=jobs, timeout=timeout, in_python=True)
        finished = loaded.run(Warnings(), Destination(folder, overwrite, out is not None, function=where))
    result, failures = finished.result, failure_lines(finished.points)
    if not result.records:
        raise KeyboardInterrupt if result.interrupted else InputError.of("; ".join(failures), where=where)
    for failure in [*failures, *([f"stopped: {finished.problem}"] if finished.problem else [])]:
        Warnings().note(f"warning: {failure}")
    fields: Any = {"look": loaded.options.figure, "config": loaded.plan.config}
    fields |= {"folder": None if out is None else finished.folder}
    return InteractiveSweep(**vars(result), expectations=[verdict.record for verdict in finished.verdicts], **fields)


def swap(
    model: Any,
    /,
    *args: Any,
    metric: Callable[[Any, Any], Any] | None = None,
    outputs: str | None = None,
    scorers: Sequence[Any] | None = None,
    by: Sequence[str] | str = ("all", "layer"),
    layers: Sequence[int | str] | None = None,
    heads: Sequence[int] | None = None,
    within: float | None = None,
    held_out: float | None = None,
    **kwargs: Any,
) -> Result:
    """Run a model with other scorers inside, and compare its outputs with its own. Nothing is written.

    Args:
        model: a torch module. It runs in evaluation mode and without gradients.
        args: a batch, or a list or loader of batches. A batch is a mapping of keyword arguments, a tuple of positional
            arguments, or a tensor. Several arguments are one batch, `model(*args, **kwargs)`.
        metric: a function `metric(model, batch)` that runs the model on a batch in its own way and returns a number,
            such as an accuracy. The column `metric` is the mean of the number over batches, `metric_change` the mean of
            its paired differences from the number with the model's own scorer, and `metric_change_se` the standard
            error of this mean: the standard deviation of the differences over the root of the number of batches. The
            other columns are of the first call of the model for a batch.
        outputs: `language` for logits of the next token, `logits` for others, `states` for hidden states; by default
            the class and the config of the model decide.
        scorers: entries as in `attncli.run`, plans as in `attncli.Swap`, or names of normalisers, which
            are applied to the model's own scores; by default a few. The references `model`, `uniform` and `zero` always
            run.
        by: the places to replace in turn: `all`, `layer`, `head`, `up_to`, `from`.
        layers: numbers or names of the layers to replace; by default all.
        heads: numbers of the heads to replace in turn by `head`; by default all.
        within: find how many layers can take each entry while the loss (else `relative_l2`) rises by at most this.
            `result.facts.plans` has the plans.
        held_out: the share of the texts that judge these plans, by default 0.2.
        kwargs: keyword arguments of the model.

    The column `loss_change` is the mean over tokens of the change of the loss, and `loss_change_se` its standard error
    as a ratio estimator over texts.

    Raises:
        InputError: an option is wrong, the model's attention cannot be replaced, or the metric fails.
    """
    from attncli.studies.swap.study import prepare_loaded

    check_unwatched("attncli.swap")
    name = name_of_module(model, "attncli.swap: model")
    if metric is not None and not callable(metric):
        raise InputError.of(got(metric, "expected a function of the model and a batch"), where="attncli.swap: metric")
    if isinstance(scorers, list | tuple):
        scorers = [{PLAN: entry} if is_plan(entry) else entry for entry in scorers]
    loaded = LoadedModel(model, given_batches(args, kwargs, "attncli.swap"))
    chosen: dict[str, Any] = {"outputs": outputs, "scorers": scorers, "layers": layers, "heads": heads}
    chosen |= {"within": within, "held_out": held_out}
    data: dict[str, Any] = {"study": "swap", "model": name, "by": by}
    data |= {key: listed(value) for key, value in chosen.items() if value is not None}

    def prepare(options: Any, progress: Progress) -> PreparedStudy:
        return prepare_loaded(options, loaded, progress, metric)

    return _finished(document_of_data("attncli.swap", data, []), "attncli.swap", prepare)


def fit(
    model: Any,
    batches: Any,
    /,
    *,
    scorers: Sequence[Any] | None = None,
    out: str | PathLike[str] | None = None,
    overwrite: bool = False,
    **keys: Any,
) -> Result:
    """Fit scorers to the attention of a model, and put them into it; nothing is written unless `out` is given.

    Args:
        model: a torch module. It runs in evaluation mode and without gradients.
        batches: a list or loader of inputs of the model, or one of them: tensors, mappings of keyword arguments, or
            tuples of arguments, with an entry for each text on the first axis of their tensors.
        scorers: entries as in `attncli.run`, or names of normalisers.
        out: a new or empty folder to save the run in, for entries `{"fitted": out, "label": ...}`.
        overwrite: replace an earlier run in `out`.
        keys: further keys of the study `fit`: `held_out`, `per`, `objective`, `steps`, `seed`, `layers`, `heads`; and
            `texts`, the text of each entry of the batches, by which fitted entries know texts that they have seen.

    Raises:
        InputError: an option is wrong, or the model's attention cannot be read.
    """
    from attncli.studies.fit.study import prepare_loaded

    name = name_of_module(model, "attncli.fit: model")
    for key in keys.keys() & {"attn", "batch_size", "device", "dtype", "revision"}:
        raise InputError.of("the model and its batches are used as they are; leave it out", [key], "attncli.fit")
    loaded = LoadedModel(model, given_batches((batches,), {}, "attncli.fit"))
    chosen = {} if scorers is None else {"scorers": listed(scorers)}
    data: dict[str, Any] = {"study": "fit", "model": name, **keys, **chosen}

    def prepare(options: Any, progress: Progress) -> PreparedStudy:
        return prepare_loaded(options, loaded, options.texts, name, progress)

    return _finished(document_of_data("attncli.fit", data, []), "attncli.fit", prepare, out, overwrite)


def load(folder: str | PathLike[str]) -> Result:
    """Return the result in a run folder. NaN and infinity, which JSON lacks, are None; tensors are read on request.

    Raises:
        InputError: there is no run, or it is damaged.
    """
    path = path_argument(folder, "attncli.load", "expected the folder of a run, as outputs/d2l/latest")
    stored = read_run(path)
    kind = InteractiveSweep if isinstance(stored.result, SweepResult) else Result
    fields: Any = {"look": run_look(stored), "expectations": stored.stored.expectations, "config": stored.config}
    return kind(**vars(stored.result), folder=path if path.is_dir() else None, **fields)


@overload
def compare(a: Capture, b: Capture | str | PathLike[str]) -> CaptureComparison: ...
@overload
def compare(a: str | PathLike[str], b: Capture) -> CaptureComparison: ...
@overload
def compare(a: str | PathLike[str] | StudyResult, b: str | PathLike[str] | StudyResult) -> Any: ...
def compare(a: Any, b: Any) -> Any:
    """Return the differences between two runs or two captures of a model.

    A run is a run folder, a results.json or a result. A capture is a file or a `Capture`: then `verdict` says whether
    they differ, `first` in which layer and how, `records` has a row a layer, and `findings` are sentences.

    Raises:
        InputError: there is no such run or capture, or it is damaged.
    """
    expected = "expected a result, or the folder of a run, as outputs/d2l/latest"
    sources: list[Any] = [
        run if isinstance(run, Capture | StudyResult) else path_argument(run, "attncli.compare", expected)
        for run in (a, b)
    ]
    captured = [isinstance(run, Capture) or (isinstance(run, Path) and is_captured(run)) for run in sources]
    if all(captured):
        with torch_isolated():
            return compare_captures(*sources)
    if any(captured):
        raise InputError.of("got a capture and a run; expected two of one kind", where="attncli.compare")
    stored = [run_in_memory(run) if isinstance(run, StudyResult) else read_run(run) for run in sources]
    with torch_isolated():
        return InteractiveComparison(**vars(compare_runs(*stored)))


def save(
    seen: Capture, file: str | PathLike[str], *, overwrite: bool = False, tokens: Any = None, **about: Any
) -> None:
    """Save captured attention calls in a .safetensors file, as the command `attncli capture` does.

    Args:
        seen: the captured calls, from `attncli.capture`.
        file: a name that ends in .safetensors.
        overwrite: replace an existing file.
        tokens: names of queries and keys: the output of a fast tokenizer of transformers, a list of names, a list for
            each batch element, or `{"queries": [...], "keys": [...]}` if they differ. The `attention_mask` of a
            tokenizer's output, or of a model's inputs, says what is padding.
        about: more metadata: `model="mine"`, `text="..."`.

    Raises:
        InputError: no call can be re-scored, the tokens fit no call, or the file exists or cannot be written.
    """
    path, words = path_argument(file, "attncli.save", "expected a file"), OptionNames("attncli.save", "overwrite=True")
    check_place(path, overwrite, words)
    if not isinstance(seen, Capture):
        raise InputError.of(got(seen, "expected the calls that attncli.capture returns"), where="attncli.save: seen")
    seen.check()
    for key, value in about.items():
        try:
            json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
        except (TypeError, ValueError, RecursionError):
            raise InputError.of(
                got(value, "expected text, or what else JSON can hold"), [key], "attncli.save"
            ) from None
    try:
        names = read_tokens(tokens)
        check_tokens(names, [call for call in seen.records if call.problem is None])
    except InputError as error:
        raise InputError.of(error.problems[0].message, where="attncli.save: tokens") from error
    save_captured(path, seen, {**about, "tokens": names, "padding": text_padding(tokens)}, words)
