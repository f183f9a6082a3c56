"""The pictures of a run: `heatmaps` with all scorers side by side, `heatmap_<label>` for each, and `heads`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from attncli.config.looks import HeatmapLook
from attncli.core.numbers import number
from attncli.errors import printable
from attncli.results import Result, Row, tensor_name
from attncli.show.pictures.figures import Note, Picture, ignore_note
from attncli.show.pictures.heatmaps import draw_heatmap, heatmap_figure, stage_figure
from attncli.show.pictures.matrices import Heatmap, Panel, select, zoom
from attncli.show.pictures.scales import BITS, CHANGE
from attncli.studies.attention.columns import OUTPUT_DIFFERENCE
from attncli.studies.attention.heads import OF_WEIGHTS, Distance, HeadIndex, pair_distance, shown_heads
from attncli.studies.attention.layers import change_distance, grids, head_numbers, most_changed

MOST_PANELS = 24  # of all scorers; the largest differences are drawn if there are more
MOST_PAIRS = 6  # of scorers; with more, each is compared with the first only


def figures(result: Result, note: Note, look: HeatmapLook) -> Mapping[str, Callable[[], Picture]]:
    """Return functions that draw the pictures: heatmaps if there are weights, and `heads` for several heads.

    A run over layers has `layers`, and `heatmaps` of the heads that change most, if any.
    """
    drawers: dict[str, Callable[[], Picture]] = {}
    if result.layers:
        drawers["layers"] = partial(layers_figure, result, note, look)
        names = (tensor_name(label, "weights", layer=layer) for layer in result.layer_names for label in result.labels)
        if most_changed(result) and any(name in result.tensors for name in names):
            drawers["heatmaps"] = partial(_most_changed, result, note, look)
        return drawers
    weights = result.matrices("weights")
    if weights.tensors:

        def draw(labels: Sequence[str] | None, note: Note) -> Picture:
            heads = heads_drawn(result, len(weights.tensors), look.minus, note)
            return heatmap_figure(weights, look, labels=labels, indices=heads, note=note)

        drawers["heatmaps"] = partial(draw, None, note)
        for label in weights.tensors:  # without their notes, which are the same
            if label != look.minus:
                drawers[f"heatmap_{label}"] = partial(draw, [label], ignore_note)
    if len({row["head"] for row in result.head_comparisons}) > 1 and pair_distance(result.head_comparisons):
        drawers["heads"] = partial(heads_figure, result, note, look)
    return drawers


def heads_drawn(
    result: Result, scorers: int, minus: str | None, note: Note, layer: str | None = None
) -> Sequence[HeadIndex]:
    """Return the batch elements and heads to draw for this number of scorers; report omissions and order by `note`.

    If there are many, the heads with the largest differences between scorers, or from the scorer `minus`, come first.
    """
    chosen = shown_heads(result, max(MOST_PANELS // scorers, 1), minus, layer)
    if result.inputs[tensor_name("queries", layer=layer)].shape[-2] == 1:  # heads are rows, and so there is room
        return shown_heads(result, len(result.heads)).heads
    if chosen.ranked and not chosen.note:
        note("the heatmaps show the largest difference first")
    elif chosen.note and not chosen.is_chosen:
        order = ", the largest difference first" if chosen.ranked else ""
        others = "others with the keys `heads` and `batch`, or with attncli heatmap --batch N --head N"
        note(f"the heatmaps show {chosen.note}{order}; {others}")
    return chosen.ranked or chosen.heads


def layers_figure(result: Result, note: Note, look: HeatmapLook) -> Picture:
    """Return a picture with a panel (layers, heads) for each metric; panels of one quantity share a colour scale."""
    heads, layers = head_numbers(result.heads), _names(list(result.layers.values()))
    panels = list[Panel]()
    for title, (quantity, grid) in grids(result).items():
        values = torch.tensor(grid, dtype=torch.float64)
        is_change = quantity == OUTPUT_DIFFERENCE.name
        if is_change:  # the colour bar names the quantity; other panels have titles for theirs
            label = title.partition(": ")[2].removesuffix(f" in place of {printable(result.labels[0])}")
            title = f"{label}, mean {number(float(values.nanmean()), 2)}"
        about: dict[str, Any] = {"quantity": quantity, "limit": CHANGE} if is_change else {"quantity": title}
        panels.append(Panel(title, "", (0, 0), values, ~values.isnan(), layers, _names(heads), **about))
    title = "Layers and heads of a model"
    if any(panel.quantity == OUTPUT_DIFFERENCE.name for panel in panels):
        title += f"; output differences from {printable(result.labels[0])}"
    content = Heatmap(panels, title, sides=("Layers", "Heads"), name="layers", about=result.about)
    return draw_heatmap(content, look, note)


def _most_changed(result: Result, note: Note, look: HeatmapLook) -> Picture:
    """Return a heatmap of the weights in the heads of all layers that change most, by divergence of weights if any."""
    panels = list[Panel]()
    changed = most_changed(result)
    chosen = changed[: max(MOST_PANELS // len(result.labels), 1)]
    for layer, (batch, head), _ in chosen:
        weights = result.matrices("weights", layer)
        for panel in select(weights, None, None, None, [(batch, head)]) if weights.tensors else []:
            row_name = f"layer {result.layers[layer]}, {panel.row_name or f'head {head}'}"
            panels.append(replace(panel, row_name=row_name, index=(0, len(panels))))
    largest = f"with the largest {change_distance(result).name}"
    words = "" if len(chosen) == len(changed) else f"the {len(chosen)} of {len(changed)} heads {largest}"
    return stage_figure(zoom(panels, look), "weights", look, note, names=[words], about=result.about)


def heads_figure(result: Result, note: Note, look: HeatmapLook) -> Picture:
    """Return a picture of the distance between scorers by batch element and head, with a panel for each pair.

    With many scorers, each is compared with the first only.
    """
    rows = result.head_comparisons
    distance = pair_distance(rows) or OF_WEIGHTS
    pairs = list(dict.fromkeys((row["a"], row["b"]) for row in rows))
    if len(pairs) > MOST_PAIRS:
        first = pairs[0][0]
        note(f"heads: {len(pairs)} pairs of scorers are too many; each scorer is compared with {printable(first)}")
        pairs = [pair for pair in pairs if pair[0] == first]
    panels = [_panel(pair, [row for row in rows if (row["a"], row["b"]) == pair], distance) for pair in pairs]
    sides = ("Batch elements", "Heads")
    return draw_heatmap(Heatmap(panels, distance.title, sides=sides, name="heads", about=result.about), look, note)


def _panel(pair: tuple[str, str], rows: Sequence[Row], distance: Distance) -> Panel:
    """Return the distance of a pair as a matrix (batch elements, heads), masked where it is unknown."""
    batches, heads = (list(dict.fromkeys(row[axis] for row in rows)) for axis in ("batch", "head"))
    figures = [float("nan") if value is None else value for value in map(distance.of, rows)]
    values = torch.tensor(figures, dtype=torch.float64).reshape(len(batches), len(heads))
    queries, keys = (_names(indices) for indices in (batches, heads))
    label = " and ".join(map(printable, pair))
    limit = BITS if distance is OF_WEIGHTS else CHANGE
    return Panel(label, "", (0, 0), values, ~values.isnan(), queries, keys, quantity=distance.quantity, limit=limit)


def _names(indices: Sequence[int]) -> tuple[str, ...] | range:
    """Return the indices as a range, or as strings if some indices are left out."""
    return range(len(indices)) if indices == list(range(len(indices))) else tuple(map(str, indices))
