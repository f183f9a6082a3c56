"""Load the sources of `attncli heatmap`: configs, run folders and tensor files. Import it inside functions only."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attncli.catalogue.scorer_entries import MODEL
from attncli.catalogue.short_forms import model_entry
from attncli.cli.options import find_source, set_overrides, without_expectations
from attncli.cli.progress import running
from attncli.config.document import read_document
from attncli.config.models import DEFAULT_STUDY
from attncli.config.overrides import Override
from attncli.config.values import layer_choice
from attncli.core.numbers import several
from attncli.engine.experiment import load_experiment, run_look
from attncli.engine.runs.loading import read_run
from attncli.errors import InputError, did_you_mean, got, in_ranges, listed
from attncli.models.selection import matching_call
from attncli.results import STAGES, Matrices, Result, SweepResult
from attncli.runtime import Interrupted, signals
from attncli.sources.captured import is_captured, read_captured
from attncli.sources.source import is_config, stored_tensors

SUM = 0.01  # sums of weights further from 1 than this are no softmax, even in 16 bits
NEARLY = 0.2  # largest difference of nearly uniform weights from 1/m, relative to it


@dataclass(frozen=True)
class Drawable:
    """The matrices of a source of `attncli heatmap`, and how to draw them.

    `name` is the name of the picture's file, and `look` has the keys under `figure` of a config or run. `result` is the
    result of the config or run, None for a tensor file. `layer` is the name of the drawn layer of a model, if any.
    `notes` are remarks on the numbers.
    """

    matrices: Matrices
    name: str
    look: Mapping[str, Any] = field(default_factory=dict)
    result: Result | None = None
    layer: str | None = None
    notes: Sequence[str] = ()


def load_source(
    source: Path | None,
    stage: str | None,
    layer: str | None,
    layout: str | None,
    overrides: Sequence[Override],
    tensors: Sequence[str],
    quiet: bool,
) -> Drawable:
    """Return the matrices of a source; None means the built-in experiment `d2l`.

    `stage` is the stage of attention, by default the weights, `tensors` names the tensors of a tensor file, and
    `layout` is the order of the axes of tensors.

    Raises:
        InputError: the source does not exist, has an unknown format, or does not fit the options.
    """
    source, is_folder = find_source(source, "a config, a run folder, a captured model or a tensor file")
    is_capture = not tensors and is_captured(source)  # its tensors can be drawn by their names, too
    from_config = is_config(source) or is_capture
    if from_config or is_folder:
        overrides = [*overrides, *set_overrides(None, layout=layout)]
    if overrides and not from_config:
        raise InputError.of("only a config can be changed; expected a YAML file as SOURCE", where=overrides[0].text)
    if tensors and (from_config or is_folder):
        raise InputError.of("only a tensor file has named tensors; leave it out", where=f"--tensor {tensors[0]}")
    try:
        if not from_config and not is_folder:
            matrices = _from_file(source, stage, tensors, layout)
            _chosen_layer(layer, {}, source)
            return Drawable(matrices, source.stem, notes=_about_rows(matrices))
        if from_config:
            overrides = [*(_capture_overrides(source, layer, overrides) if is_capture else []), *overrides]
            result, look = _result_of_config(source, overrides, quiet)
        else:
            run = read_run(source)
            result, look = run.result, run_look(run).model_dump(exclude_unset=True)
        name = _chosen_layer(layer, result.layers if result.study == DEFAULT_STUDY else {}, source)
        matrices = _from_result(result, stage or "weights", name, source)
    except InputError as error:
        if error.problems[0].where:
            raise
        raise InputError.of(error.problems[0].message, where="SOURCE") from error
    matrices = replace(matrices, layer="" if name is None else f"layer {result.layers[name]}")
    return Drawable(matrices, Path(result.name).name or "run", look, result, name)


def _capture_overrides(path: Path, layer: str | None, overrides: Sequence[Override]) -> list[Override]:
    """Return the overrides for the model's own scorer in one layer of a captured file; `overrides` are the user's.

    Raises:
        InputError: there are several layers and none is chosen, or the chosen layer does not exist.
    """
    changes = [Override(("scorers",), [model_entry(MODEL)], "")]
    captured = read_captured(path)
    numbers = {name: captured.numbers[name] for name in captured.usable}
    if numbers and not any(override.path[0] == "data" for override in overrides):
        changes.append(Override(("data", "layers"), [_chosen_layer(layer, numbers, path)], f"--layer {layer}"))
    return changes


def _result_of_config(path: Path, overrides: Sequence[Override], quiet: bool) -> tuple[Result, dict[str, Any]]:
    experiment = load_experiment(read_document(path, [*overrides, without_expectations()]))
    options = experiment.options
    with experiment.document.locating():
        if options.study != DEFAULT_STUDY:
            message = f'got "{options.study}"; only the study attention has weights to draw'
            raise InputError.of(message, ["study"])
        if not getattr(options, "weights", True):
            message = "got false; heatmaps are drawn from weights and scores; leave it out, or add --set weights=true"
            raise InputError.of(message, ["weights"])
    with running(options.name, quiet) as progress:
        result, _ = experiment.compute(progress)
    if signals.first is not None:
        raise Interrupted  # a heatmap has all scorers or is not drawn
    return result, options.figure.model_dump(exclude_unset=True)


def _chosen_layer(layer: str | None, numbers: Mapping[str, int], source: Path) -> str | None:
    """Return the name of the layer that a name, a number or a pattern chooses; None means the only layer, if any.

    `numbers` has the numbers of all layers by name.

    Raises:
        InputError: there is no such layer, or there are several and none is chosen.
    """
    if layer is None and len(numbers) > 1:
        name, first = next(iter(numbers.items()))
        message = f'got "{source}", with {several(len(numbers), "layer")} of a model; choose one, such as'
        expected = f"expected {in_ranges(sorted(numbers.values()))}, or a name such as {name}"
        raise InputError.of(f"{message} --layer {first}; {expected}")
    if layer is None:
        return next(iter(numbers), None)
    if not numbers:
        message = got(layer, "expected a run over layers of a model as SOURCE", "leave it out")
        raise InputError.of(message, where="--layer")
    try:
        return matching_call(layer_choice(layer), numbers)
    except InputError as error:
        raise InputError.of(error.problems[0].message, where="--layer") from error


def _from_result(result: Result, stage: str, layer: str | None, source: Path) -> Matrices:
    if isinstance(result, SweepResult):
        message = f'got "{source}", a sweep, which keeps no weights; expected the folder of a run, or a config'
        raise InputError.of(f"{message}; `attncli figure {source}` draws its picture")
    matrices = result.matrices(stage, layer)
    if matrices.tensors:
        return matrices
    if not result.keeps(stage):
        message = f'got "{source}", a run that did not keep {stage}: see `save` in its config.yaml'
        raise InputError.of(f"{message}; `attncli heatmap {source / 'config.yaml'}` computes and draws them")
    if stages := [name for name in STAGES if name != "output" and result.stage(name, layer)]:
        message = got(stage, "no scorer has this stage", did_you_mean(stage, stages))
        raise InputError.of(message, where="--stage")
    message = f'got "{source}", a run without weights and scores'
    raise InputError.of(f"{message}; expected one of the study attention, and without weights: false")


def _from_file(path: Path, stage: str | None, names: Sequence[str], layout: str | None) -> Matrices:
    """Return the matrices `names` of a tensor file, by default its only matrix.

    Unless `stage` is given, the matrices are weights if all numbers are in [0, 1], and scores otherwise.
    """
    stored = stored_tensors(path)
    if not names:
        names = [name for name, tensor in stored.items() if tensor.ndim >= 2 and tensor.dtype != torch.bool]
        if len(names) != 1:
            count = f"which has {len(names)} matrices: {listed(names)}" if names else "which has no matrix"
            cure = "choose with --tensor NAME, which may be repeated" if names else "expected numbers (..., n, m)"
            raise InputError.of(f'got "{path}", {count}; {cure}')
    chosen = {name: _matrix(name, stored, path) for name in names}
    if layout == "bshd":
        chosen = {name: tensor.transpose(1, 2) if tensor.ndim == 4 else tensor for name, tensor in chosen.items()}
    weights = all(bool(((tensor >= 0) & (tensor <= 1)).all()) for tensor in chosen.values())
    return Matrices(stage or ("weights" if weights else "scores"), chosen)


def _about_rows(matrices: Matrices) -> list[str]:
    """Return a note on weights with nearly uniform rows, as a softmax of weights gives."""
    flat = list[str]()
    for name, tensor in matrices.tensors.items() if matrices.stage == "weights" else ():
        weights, uniform = tensor.double(), 1 / tensor.shape[-1]
        sums_to_one = bool(((weights.sum(-1) - 1).abs() <= SUM).all())
        if uniform < 1 and sums_to_one and bool(((weights - uniform).abs() <= NEARLY * uniform).all()):
            flat.append(name)
    names = "" if len(flat) == len(matrices.tensors) else f" of {listed(flat)}"
    return [f"rows{names} are nearly uniform, within 20 % of 1/m: was softmax applied twice?"] if flat else []


def _matrix(name: str, stored: dict[str, Tensor], path: Path) -> Tensor:
    if name not in stored:
        raise InputError.of(got(name, f"{path} has no such tensor", did_you_mean(name, stored)), where="--tensor")
    tensor = stored[name]
    if tensor.ndim < 2 or tensor.numel() == 0:
        message = f'got "{name}" of shape {list(tensor.shape)}; expected a matrix (..., n, m)'
        raise InputError.of(message, where="--tensor")
    return tensor if tensor.is_floating_point() else tensor.to(torch.float32)
