"""Metrics of the saturation of rows of weights: entropy, largest weight, norms of Jacobian and gradient."""

import torch
from torch import Tensor

from attncli.catalogue.guarding import calling
from attncli.core.metrics import entropy, shares
from attncli.errors import InputError
from attncli.normalizers import Normalizer

Figures = dict[str, Tensor]  # of some rows, by name


def row_weights(
    scores: Tensor, valid: Tensor | None, values: Tensor, normalizer: Normalizer
) -> tuple[Tensor, Tensor, Tensor]:
    """Return weights (rows, m), the gradient at the scores, and the Frobenius norms (rows,) of the weights' Jacobians.

    The gradient (rows, m) is the derivative of the pooled value sum_j p_j v_j with respect to the scores, for weights
    p and `values` v (rows, m), one number per key. Everything is computed in float64, since metrics may be very near 0
    or 1, and on the CPU, since some devices have no float64.
    """
    exact = scores.detach().cpu().double()
    valid = None if valid is None else valid.cpu()
    with torch.enable_grad():
        try:
            weights = normalizer(exact.requires_grad_(), valid)
        except InputError as error:  # with a place among the rows of this job
            raise InputError.of(error.problems[0].message) from error
        pooled = (weights * values).sum()
    with calling("the gradient of the normaliser"):
        (gradient,) = torch.autograd.grad(pooled, exact, retain_graph=True)
        norm = normalizer.jacobian_norm(weights.detach(), valid)
        norms = jacobian_norm(weights, exact) if norm is None else norm
    return weights.detach(), gradient, norms


def jacobian_norm(weights: Tensor, scores: Tensor) -> Tensor:
    """Return the Frobenius norm (rows,) of the Jacobian of each row of weights with respect to its scores, by autograd.

    It is computed for one weight of all rows at a time, so that no m x m matrix is needed.
    """
    squares = scores.new_zeros(scores.shape[:-1])
    for column in range(weights.shape[-1]):
        (row,) = torch.autograd.grad(weights[..., column].sum(), scores, retain_graph=True)
        squares += row.square().sum(-1)
    return squares.sqrt()


def query_gradient(scores: Tensor, sent: Tensor, queries: Tensor) -> Tensor | None:
    """Return the norm (rows,) of the gradient at each query, given the gradient `sent` (rows, m) at its scores.

    Return None if autograd cannot follow how the scores depend on `queries`.

    Raises:
        InputError: a user's own scorer fails.
    """
    if not scores.requires_grad:
        return None
    upstream = sent.to(scores.device, scores.dtype).reshape(scores.shape)
    with calling("the gradient of the scorer"):
        (gradient,) = torch.autograd.grad(scores, queries, upstream, allow_unused=True)
    if gradient is None:
        return None
    lengths: Tensor = gradient.cpu().double().flatten(0, -2).norm(dim=-1)
    return lengths


def row_figures(
    scores: Tensor, valid: Tensor | None, queries: Tensor, values: Tensor, normalizer: Normalizer
) -> Figures:
    """Return metrics (rows,) by name, for the rows with at least two valid keys.

    Entropy is computed from the weights divided by their sum, without the rows in which all weights are 0; it is NaN
    where a weight is negative.
    """
    weights, sent, norms = row_weights(scores, valid, values, normalizer)
    gradient = query_gradient(scores, sent, queries)
    keys = torch.full(weights.shape[:-1], weights.shape[-1]) if valid is None else valid.cpu().sum(-1)
    enough = keys >= 2
    weights, keys, norms = weights[enough], keys[enough], norms[enough]
    total = weights.sum(-1)
    attends = (weights != 0).any(-1)
    nats = entropy(shares(weights[attends]))
    figures = {
        "entropy": (nats / keys[attends].double().log()).clamp(0.0, 1.0),
        "effective_keys": nats.exp(),
        "max_weight": weights.amax(-1),
        "weight_sum": total,
        "jacobian": norms.masked_fill(total.isnan(), torch.nan),  # the norms of sparse normalisers ignore NaN
    }
    return figures if gradient is None else figures | {"query_gradient": gradient[enough]}
