"""The differences between the weights and outputs of two runs, by label, batch element and head."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from attncli.attention import Rules
from attncli.core.masks import Valid
from attncli.results import Result, Row, tensor_name
from attncli.studies.attention.rows import output_rows, pair_rows, scorer_rows
from attncli.studies.attention.statistics import Groups


def between(a: Result, b: Result) -> list[Row]:
    """Return a row for each `label, layer, batch, head`, with the differences of one scorer between the two runs.

    The metrics are the same as for a pair of scorers in one run. A scorer has rows if both runs store its outputs with
    equal shapes, of the same heads. Queries without a valid key in both runs are left out.
    """
    layers = set(b.layer_names)
    return [row for layer in a.layer_names if layer in layers for row in _layer_rows(a, b, layer)]


def _layer_rows(a: Result, b: Result, layer: str | None) -> list[Row]:
    rows, layer_column = list[Row](), {} if layer is None else {"layer": layer}
    numbers = a.head_numbers(layer)
    if numbers != b.head_numbers(layer):
        return []
    for label in a.labels:
        output, weights = (_both(a, b, tensor_name(label, stage, layer=layer)) for stage in ("output", "weights"))
        if output is None or (weights is not None and weights[0].shape[:-1] != output[0].shape[:-1]):
            continue
        leading = output[0].shape[1:-2]
        heads: Sequence[int | None] = numbers or (range(math.prod(leading)) if leading else [None])
        groups = Groups(_empty(a, layer, output[0]) & _empty(b, layer, output[0]), heads)
        pair = None
        if weights is not None:
            masks = (run.inputs.get(tensor_name("valid", layer=layer)) for run in (a, b))
            rules_a, rules_b = (Rules(Valid(weights[0].shape, mask=mask)) for mask in masks)
            rows_a, rows_b = (
                scorer_rows(matrix, matrix, rules) for matrix, rules in zip(weights, (rules_a, rules_b), strict=True)
            )
            pair = pair_rows(*weights, rows_a, rows_b, (rules_a, rules_b))
        rows += [{"label": label, **layer_column, **row} for row in groups.of_pair(pair, output_rows(*output))]
    return rows


def _both(a: Result, b: Result, name: str) -> tuple[Tensor, Tensor] | None:
    """Return the tensor `name` of each run, as a pair; None unless both runs store it with equal shapes."""
    if name not in a.tensors or name not in b.tensors:
        return None
    ours, theirs = a.tensors[name], b.tensors[name]
    return (ours, theirs) if ours.shape == theirs.shape else None


def _empty(result: Result, layer: str | None, output: Tensor) -> Tensor:
    """Return a boolean tensor, True for queries without a valid key; all False if the run does not store its mask."""
    valid = result.inputs.get(tensor_name("valid", layer=layer))
    return torch.zeros(output.shape[:-1], dtype=torch.bool) if valid is None else ~valid.any(-1)
