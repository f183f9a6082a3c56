"""Bounds on the rounding of an attention call that is scored again, from its sizes and numbers."""

import torch

from attncli.models.call import AttentionCall
from tests.reference import rounding


def row_rounding(record: AttentionCall) -> float:
    """Return a bound on the relative error of a row of the output.

    Scores are sums of d products, and weights err as much as their scores do; the output is a sum of m products. These
    sums are in float32, at least. In 16 bits a fused kernel rounds its output once. One that writes its steps
    down rounds scores, scaled scores, weights and output.
    """
    queries, keys = record.queries.double().abs(), record.keys.double().abs().repeat_interleave(record.groups, -3)
    largest = float((queries @ keys.mT).max()) * record.scale * record.pre_scale
    operations = 2 * keys.shape[-1] * largest + 2 * keys.shape[-2] + 8
    sums = rounding(operations, torch.promote_types(record.queries.dtype, torch.float32))
    if record.queries.dtype not in (torch.float16, torch.bfloat16):
        return sums
    return sums + rounding(2 * largest + 4 if record.how == "steps" else 4, record.queries.dtype)


def output_rounding(record: AttentionCall) -> float:
    """Return a bound on the error of a number of the output, a mean of values by the weights."""
    return row_rounding(record) * float(record.values.double().abs().max())
