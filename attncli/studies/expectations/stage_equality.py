"""Whether a whole stage, such as the weights, is what someone has written down."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attncli.config.expectations import share_of
from attncli.studies.expectations.stage_shapes import without_ones

ULPS = 8  # units in the last place that rounding may cost


@dataclass(frozen=True)
class Compared:
    """The stage as nested lists, and where it differs most from what was expected, if it does."""

    got: Any
    reason: str | None


def compare_stage(stage: Tensor, expected: Any, within: float | str | None, kept: torch.dtype) -> Compared:
    """Compare a stage (..., n, m) with nested lists of its shape, leading axes of size 1 aside.

    A cell may be off by `within`, a number or a share of the cell as in `5 %`; without it by ULPS units in the last
    place of the largest number expected, in the dtype `kept` of queries, keys and values. NaN equals NaN.
    """
    wanted = torch.tensor(expected, dtype=torch.float64)
    wanted = wanted.reshape(without_ones(wanted.shape))
    got = stage.detach().cpu().double().reshape(wanted.shape)
    allowed = _allowed(wanted, within, max(torch.finfo(kept).eps, torch.finfo(stage.dtype).eps))
    alike = (got == wanted) | ((got - wanted).abs() <= allowed) | (got.isnan() & wanted.isnan())
    if bool(alike.all()):
        return Compared(got.tolist(), None)
    excess = ((got - wanted).abs() - allowed).nan_to_num(torch.inf).masked_fill(alike, -torch.inf)
    place = [int(index) for index in torch.unravel_index(excess.argmax(), excess.shape)]
    here = f"at {place} {float(got[tuple(place)]):.7g} in place of {float(wanted[tuple(place)]):.7g}"
    return Compared(got.tolist(), f"{int((~alike).sum())} of {alike.numel()} numbers differ, most {here}")


def _allowed(wanted: Tensor, within: float | str | None, eps: float) -> Tensor:
    share = share_of(within)
    if share is not None:
        return wanted.abs() * share
    if within is None:
        within = ULPS * eps * float(wanted.nan_to_num(0.0, 0.0, 0.0).abs().max())
    return torch.full_like(wanted, float(within))
