"""A layer of attention for tests, and weights that come from a known scorer instead of the model's own."""

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from attncli.catalogue.scorer_entries import ScorerEntry
from attncli.models.call import AttentionCall
from attncli.models.inputs import inputs_of
from attncli.models.swap import swap_entry
from attncli.scorers import Scorer
from attncli.studies.fit import fitting
from attncli.studies.fit.calls import LayerCalls, Part
from attncli.studies.fit.fitting import LayerFit, starts
from attncli.studies.fit.options import Per

HEADS, SIZE = 4, 6


def layer(texts: int = 48, n: int = 12, seed: int = 0, sinks: Tensor | None = None) -> LayerCalls:
    """Return the calls of a layer for texts of several lengths, with large numbers in the padding of the keys."""
    generator = torch.Generator().manual_seed(seed)
    queries, keys, values = (torch.randn(texts, HEADS, n, SIZE, generator=generator) for _ in range(3))
    lengths = torch.randint(n // 2, n + 1, (texts,), generator=generator)
    real = torch.arange(n) < lengths[:, None]
    keys = torch.where(real[:, None, :, None], keys, 1e3)
    valid = real[:, None, None, :].expand(texts, 1, n, n)
    call = AttentionCall(queries, keys, values, torch.zeros_like(values), SIZE**-0.5, "layer", valid=valid, sinks=sinks)
    return LayerCalls.joined("layer", 0, [inputs_of(call, torch.float32, torch.device("cpu"))], [texts])


def planted(monkeypatch: pytest.MonkeyPatch, teachers: Sequence[Scorer]) -> None:
    """Let the weights that are fitted to come from these scorers, one for each head."""

    def target(self: LayerFit, own: Part) -> Tensor:
        with torch.no_grad():
            scores = [each(own.queries[:, head], own.keys[:, head]) for head, each in enumerate(teachers)]
            return torch.stack(scores, 1).masked_fill(~own.valid, -torch.inf).softmax(-1).nan_to_num()

    monkeypatch.setattr(fitting.LayerFit, "target", target)


def fit_of(entry: object, calls: LayerCalls, per: Per = "head", *, by_output: bool = False) -> LayerFit:
    """Return the fit of an entry to a layer, before any step."""
    made = entry if isinstance(entry, ScorerEntry) else swap_entry(entry)
    (fit,) = starts(made, [calls], swap_entry("model"), per, 0, by_output=by_output)
    return fit
