"""The HTML report of stored runs: their pictures, matrices and tables on one page."""

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import islice, product
from pathlib import Path

from torch import Tensor

from attncli.config.looks import HeatmapLook, Look
from attncli.core.numbers import number
from attncli.engine.runs.loading import StoredRun, reading
from attncli.engine.runs.resolved import dump_yaml
from attncli.engine.sweeps.figure import runs_figures
from attncli.engine.views import result_figures, result_listings
from attncli.errors import plain
from attncli.results import STAGES, Column, Comparison, Result, Row, SweepResult, tensor_name
from attncli.show.page.matrices import View, described, views
from attncli.show.page.page import DIGITS, in_words, page, records_table
from attncli.show.page.pictures import pictures
from attncli.show.pictures.heatmaps import PLAIN

FACTS = ("study", "seed", "attncli")  # of results.json


def _measured(value: object) -> str:
    return number(value, DIGITS) if isinstance(value, float) else plain(value)


EXPECTATIONS = [
    Column("claim", "claim", "What is claimed.", text=True),
    Column("where", "of", "The rows in question.", format=in_words, text=True),
    Column("metric", "metric", "The column in question.", text=True),
    Column("expected", "expected", "The expected values.", format=in_words, text=True),
    Column("got", "measured", "The value of the run.", format=_measured),
    Column(
        "holds", "holds", "Whether the value is as expected.", format=lambda value: "yes" if value else "no", text=True
    ),
    Column("reason", "reason", "The reason if it does not hold.", text=True),
    Column("source", "source", "The source of the claim.", text=True),
]
MOST_CELLS = 3_300_000  # of all matrices of a page: 5.3 MB for the 30 % that may be exact, 9 MB in all


def report(
    runs: Sequence[StoredRun],
    most: int = MOST_CELLS,
    comparisons: Sequence[Comparison] = (),
    *,
    look: Look = PLAIN,
    title: str | None = None,
    note: str | None = None,
    is_pictured: bool = False,
) -> str:
    """Return the page of runs, with `most` cells of matrices at most, and of comparisons with the first run.

    `look` has the colours of the first run's matrices, which are those of the page. `title` and `note`, in Markdown,
    are the user's. If `is_pictured`, the first picture of a run stands beside the page, which does not repeat it.

    Raises:
        InputError: files of a run are damaged.
    """
    names = run_names([run.path for run in runs]) if len(runs) > 1 else [run.result.name for run in runs]
    pair, share = None, most // len(runs)
    if len(runs) == 2 and comparisons:
        with reading(Path(f"{runs[0].path} or {runs[1].path}")):
            pair, share = paired_result([run.result for run in runs], names, comparisons[0]), most // 3
    matrices, drawn = list[list[View]](), list[list[Row]]()
    for run in runs:
        with reading(run.path):
            matrices.append(list(views(run.result, share)))
            drawn.append(_pictures(run, int(is_pictured)))
    matrices.append([] if pair is None else list(views(pair, share, pair.name)))
    rows, scales = described(
        [view for of_run in matrices for view in of_run], look if isinstance(look, HeatmapLook) else PLAIN
    )
    remaining = iter(rows)
    *explored, differences = [[next(remaining) for _ in of_run] for of_run in matrices]
    sections = [
        section_of(run, name, views=own_views, pictures=own_pictures) | {"is_pictured": is_pictured}
        for run, name, own_views, own_pictures in zip(runs, names, explored, drawn, strict=True)
    ]
    names_by_path = {str(run.path): name for run, name in zip(runs, names, strict=True)}
    compared = [
        replace(each, a=names_by_path.get(each.a, each.a), b=names_by_path.get(each.b, each.b)) for each in comparisons
    ]
    curves = pictures(partial(runs_figures, _alike(runs, names))) if compared else []
    about = "" if pair is None else f"{pair.name}: {names[0]}, {names[1]}, and {names[1]} − {names[0]}"
    both = {"title": about, "views": differences, "pictures": curves}
    return page(sections, compared, both, scales, title=title, note=note)


def paired_result(results: Sequence[Result], names: Sequence[str], comparison: Comparison) -> Result | None:
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


def run_names(paths: Sequence[Path]) -> list[str]:
    """Return the names of runs: their paths below the folder that has all of them."""
    whole = [path.resolve() if ".." in path.parts else path.absolute() for path in paths]
    folder = os.path.commonpath([path.parent for path in whole])
    return [path.relative_to(folder).as_posix() for path in whole]


def _pictures(run: StoredRun, first: int) -> list[Row]:
    """Return the pictures of a run but the `first` ones; of a results.json alone none, unless it is of a sweep."""
    if run.config is None and not run.result.tensors and not isinstance(run.result, SweepResult):
        return []
    return pictures(lambda look, note: dict(islice(result_figures(run.result, note, look).items(), first, None)))


def section_of(run: StoredRun, name: str, **drawn: Sequence[Row]) -> Row:
    """Return the variables of the template for a run with this name on the page; `drawn` has its views and pictures."""
    result, stored = run.result, run.stored
    listings = result_listings(result)
    tables = [records_table(listing.title, listing.columns, listing.rows) for listing in listings]
    columns = [column for listing in listings for column in listing.columns]
    tables.insert(
        0, records_table("Means over layers and heads", columns, getattr(result.facts, "summary", None) or ())
    )
    tables.append(records_table("Expectations", EXPECTATIONS, stored.expectations))
    title = [] if name == result.name else [result.name]
    swept = result.swept if isinstance(result, SweepResult) else ()
    facts = [key for key in FACTS if getattr(stored, key) is not None and key not in swept]
    return {
        "name": name,
        "created": stored.created[:19].replace("T", " "),
        "facts": [*title, *(f"{key} {getattr(stored, key)}" for key in facts)],
        "about": result.about or "",
        "is_interrupted": result.interrupted,
        "findings": [finding.text for finding in result.findings],
        "tables": [table for table in tables if table.rows],
        "command": stored.command,
        "formulas": result.formulas,
        "config": "" if run.config is None else dump_yaml(run.config),
        "environment": stored.environment,
        **drawn,
    }
