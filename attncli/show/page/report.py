"""The HTML report of stored runs: their pictures, matrices and tables on one page."""

import re
import shlex
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path

from torch import Tensor

from attncli.engine.runs.loading import StoredRun, reading
from attncli.engine.sweeps.figure import runs_figures
from attncli.engine.sweeps.views import figures_of
from attncli.results import STAGES, Comparison, Result, Row, SweepResult, tensor_name
from attncli.show.page.matrices import views
from attncli.show.page.page import page, section_of
from attncli.show.page.svg import pictures

BUDGET = 5_500_000  # bytes of all matrices of a page
GENERIC_NAMES = re.compile(r"latest|results\.json|\d{4}-\d\d-\d\dT[\d-]+")  # too common as names of runs


def report(
    runs: Sequence[StoredRun],
    budget: int = BUDGET,
    comparisons: Sequence[Comparison] = (),
    *,
    title: str | None = None,
    note: str | None = None,
) -> str:
    """Return the page of runs, with matrices of about `budget` bytes, and of comparisons with the first run.

    `title` and `note`, in Markdown, are the user's.

    Raises:
        InputError: files of a run are damaged.
    """
    names = names_of([run.path for run in runs]) if len(runs) > 1 else [run.result.name for run in runs]
    pair, share = None, budget // len(runs)
    if len(runs) == 2 and comparisons:
        with reading(Path(f"{runs[0].path} or {runs[1].path}")):
            pair, share = pair_of([run.result for run in runs], names, comparisons[0]), budget // 3
    sections = []
    for number, (run, name) in enumerate(zip(runs, names, strict=True)):
        with reading(run.path):
            sections.append(_section(run, name, number, share))
    named = {str(run.path): name for run, name in zip(runs, names, strict=True)}
    compared = [replace(pair, a=named.get(pair.a, pair.a), b=named.get(pair.b, pair.b)) for pair in comparisons]
    curves = pictures(partial(runs_figures, _alike(runs, names)), "all runs", "all") if compared else []
    differences = [] if pair is None else [{**view, "difference": True} for view in views(pair, share, None)]
    about = "" if pair is None else f"{pair.name}: {names[0]}, {names[1]}, and {names[1]} − {names[0]}"
    both = {"title": about, "views": differences, "pictures": curves}
    return page(sections, compared, both, title=title, note=note)


def pair_of(results: Sequence[Result], names: Sequence[str], comparison: Comparison) -> Result | None:
    """Return the stages of the label whose weights differ most between two runs, as a result with the runs as labels.

    A key that either run sees is unmasked. It is None if the runs share no weights that differ, or if tokens differ.
    """
    a, b = results
    most = max(comparison.weights, key=_difference, default={})
    layers = [layer for layer in a.layer_names if layer in b.layer_names]
    if not most or not _difference(most) or any(a.tokens_in(layer) != b.tokens_in(layer) for layer in layers):
        return None
    tensors, masks = dict[str, Tensor](), dict[str, Tensor]()
    for layer, stage in product(layers, STAGES):
        mask, stored = tensor_name("valid", layer=layer), tensor_name(most["label"], stage, layer=layer)
        pairs = [(run.inputs.get(mask), run.tensors.get(stored)) for run in results]
        shapes = [[None if tensor is None else tensor.shape for tensor in pair] for pair in pairs]
        if None not in shapes[0] and shapes[0] == shapes[1]:
            masks[mask] = a.inputs[mask] | b.inputs[mask]
            for run, name in zip(results, names, strict=True):
                tensors[tensor_name(name, stage, layer=layer)] = run.tensors[stored]
    records = [{**a.records[0], "label": name} for name in names]
    return replace(a, name=most["label"], records=records, inputs=masks, tensors=tensors, findings=())


def _difference(row: Row) -> float:
    return float(row["js_divergence"] or row["max_abs_difference"] or 0.0)


def _alike(runs: Sequence[StoredRun], names: Sequence[str]) -> dict[str, Result]:
    """Return by name the results of the first run's study; only sweeps if it is a sweep, else none of them."""
    kinds = [(run.result.study, isinstance(run.result, SweepResult)) for run in runs]
    return {name: run.result for run, name, kind in zip(runs, names, kinds, strict=True) if kind == kinds[0]}


def names_of(paths: Sequence[Path]) -> list[str]:
    """Return unique names of runs: the names of their folders, with parent folders if needed."""
    parts_of = [(path.resolve() if ".." in path.parts else path.absolute()).parts for path in paths]
    depths = [2 if GENERIC_NAMES.fullmatch(path.name) else 1 for path in paths]
    while True:
        names = ["/".join(parts[-depth:]) for parts, depth in zip(parts_of, depths, strict=True)]
        short_names = [
            names.count(name) > 1 and depth < len(parts)
            for name, depth, parts in zip(names, depths, parts_of, strict=True)
        ]
        if not any(short_names):
            return names
        depths = [depth + more for depth, more in zip(depths, short_names, strict=True)]


def _section(run: StoredRun, name: str, number: int, budget: int) -> Row:
    """Return the section of a run, with matrices of about `budget` bytes; `number` is its index on the page."""
    here, result = Path.cwd(), run.result
    path = run.path.relative_to(here) if run.path.is_relative_to(here) else run.path
    source = None if run.config is None else shlex.quote(str(path))  # no command can draw a results.json alone
    has_numbers = run.config is not None or result.tensors or isinstance(result, SweepResult)
    figures = partial(figures_of, result)
    drawn = pictures(lambda look, note: figures(note, look), name, number) if has_numbers else []
    matrices = list(views(result, budget, source and f"attncli heatmap {source}"))
    return section_of(run, name, source, views=matrices, pictures=drawn)
