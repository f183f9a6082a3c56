"""The pictures of a run: `heatmaps` with all scorers side by side, `heatmap_<label>` for each, and `heads`."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch
from matplotlib.figure import Figure

from attncli.errors import printable
from attncli.show.figures import Note
from attncli.show.heatmaps import by_head_figure, heatmap_figure
from attncli.show.matrices import Panel
from attncli.studies.attention.places import Place, choices, distance_of, shown_places
from attncli.studies.study import Matrices, Record, Result, matrices_of

MOST_PANELS = 24  # of all scorers side by side; of more places those that differ most are drawn
MOST_PAIRS = 6  # of scorers; where there are more, each is compared with the first only
QUANTITIES = {"js_divergence": "JS divergence of the weights (bits)", "output_difference": "Difference of the outputs"}


def figures(result: Result, note: Note) -> Mapping[str, Callable[[], Figure]]:
    """What makes each figure: heatmaps where there are weights, and `heads` where scorers differ in several heads.

    What the first does not show as it is goes to `note`; the others of its kind only say the same again.
    """
    found: dict[str, Callable[[], Figure]] = {}
    weights = matrices_of(result, "weights")
    if weights.tensors:
        shown = shown_places(result, max(MOST_PANELS // len(weights.tensors), 1))
        others = f"others with {choices(result)} in the YAML, or with attncli heatmap --batch N --head N"
        few = f"the heatmaps show {shown.note}; {others}" if shown.note and not shown.is_chosen else ""
        found["heatmaps"] = partial(_heatmaps, weights, shown.places, few, note)
        for label in weights.tensors:
            found[f"heatmap_{label}"] = partial(heatmap_figure, weights, labels=[label], places=shown.places)
    if len({row["head"] for row in result.head_comparisons}) > 1 and distance_of(result.head_comparisons):
        found["heads"] = partial(heads_figure, result.head_comparisons, note)
    return found


def _heatmaps(weights: Matrices, places: Sequence[Place], few: str, note: Note) -> Figure:
    if few:
        note(few)
    return heatmap_figure(weights, places=places, note=note)


def heads_figure(rows: Sequence[Record], note: Note) -> Figure:
    """How far scorers are apart in every batch element and head: a panel for each pair, with one colour bar.

    Of many scorers every other one is compared with the first.
    """
    key = distance_of(rows) or next(iter(QUANTITIES))
    pairs = list(dict.fromkeys((row["a"], row["b"]) for row in rows))
    if len(pairs) > MOST_PAIRS:
        first = pairs[0][0]
        note(f"heads: {len(pairs)} pairs of scorers are too many; each scorer is compared with {printable(first)}")
        pairs = [pair for pair in pairs if pair[0] == first]
    panels = [_panel(pair, [row for row in rows if (row["a"], row["b"]) == pair], key) for pair in pairs]
    return by_head_figure(panels, QUANTITIES[key], note)


def _panel(pair: tuple[str, str], rows: Sequence[Record], key: str) -> Panel:
    """The figure `key` of a pair as a matrix (batch elements, heads); what is not known is masked."""
    batches, heads = (list(dict.fromkeys(row[axis] for row in rows)) for axis in ("batch", "head"))
    figures = [float("nan") if row[key] is None else row[key] for row in rows]
    values = torch.tensor(figures, dtype=torch.float64).reshape(len(batches), len(heads))
    queries, keys = (_names(indices) for indices in (batches, heads))
    label = " and ".join(map(printable, pair))
    return Panel(label, "", (0, 0), values, ~values.isnan(), queries, keys)


def _names(indices: Sequence[int]) -> tuple[str, ...] | range:
    """Indices as they are, or by name where some are left out."""
    return range(len(indices)) if indices == list(range(len(indices))) else tuple(map(str, indices))
