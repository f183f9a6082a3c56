"""How far the weights and outputs of two runs are apart, by label, batch element and head."""

import torch
from torch import Tensor

from attncli.common.study import Record, Result
from attncli.studies.attention.layers import by_layer
from attncli.studies.attention.rows import output_rows, pair_rows, scorer_rows
from attncli.studies.attention.statistics import Groups


def between(a: Result, b: Result) -> list[Record]:
    """Rows `label, layer, batch, head` with the figures of a pair of scorers: here of one scorer in two runs.

    Labels whose stages either run has not kept, or that have other shapes there, have no row. Queries without a valid
    key in both runs count in no figure.
    """
    if "layers" in a.settings or "layers" in b.settings:
        ours, theirs = by_layer(a), by_layer(b)
        return [
            {"label": row.pop("label"), "layer": layer, **row}
            for layer in ours
            if layer in theirs
            for row in _of_one_layer(ours[layer], theirs[layer])
        ]
    return _of_one_layer(a, b)


def _of_one_layer(a: Result, b: Result) -> list[Record]:
    rows = list[Record]()
    for label in a.labels:
        output, weights = (_both(a, b, f"{label}/{stage}") for stage in ("output", "weights"))
        if output is None or (weights is not None and weights[0].shape[:-1] != output[0].shape[:-1]):
            continue
        groups = Groups(_empty(a, output[0]) & _empty(b, output[0]), by_head=True)
        pair = None
        if weights is not None:
            own = [scorer_rows(each, each, torch.ones_like(each, dtype=torch.bool)) for each in weights]
            pair = pair_rows(*weights, *own)
        rows += [{"label": label, **row} for row in groups.of_pair(pair, output_rows(*output))]
    return rows


def _both(a: Result, b: Result, name: str) -> tuple[Tensor, Tensor] | None:
    """The tensor of both runs, where both have kept it and it has one shape."""
    if name not in a.tensors or name not in b.tensors:
        return None
    ours, theirs = a.tensors[name], b.tensors[name]
    return (ours, theirs) if ours.shape == theirs.shape else None


def _empty(result: Result, output: Tensor) -> Tensor:
    """The queries without a valid key; none where the mask is not kept."""
    valid = result.inputs.get("valid")
    return torch.zeros(output.shape[:-1], dtype=torch.bool) if valid is None else ~valid.any(-1)
