"""Likely mistakes in the package, each planted for the length of a test.

A function is replaced in every module that has imported it.
"""

import importlib
import pkgutil
import sys
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from pytest import MonkeyPatch  # noqa: PT013
from torch import Tensor, nn

import attncli
from attncli import attention, textbook
from attncli.catalogue.building import entry_inputs, entry_rules
from attncli.catalogue.scorer_entries import ScorerEntry
from attncli.core import masks
from attncli.core.rotary import rotated
from attncli.normalizers import NORMALIZERS
from attncli.scorers import SCORERS
from attncli.studies.bench import implementations
from attncli.studies.pairs.entries import Entries
from attncli.studies.train.task import model_seeds

Mistake = Callable[[MonkeyPatch], None]


@cache
def import_everything() -> None:
    """Import all modules: a module first imported while a mistake is planted would keep it."""
    for each in pkgutil.walk_packages(attncli.__path__, "attncli."):
        if not each.name.endswith("__main__"):
            importlib.import_module(each.name)


def replace(patch: MonkeyPatch, original: Any, substitute: Any) -> None:
    """Replace a function in all modules of the package."""
    import_everything()
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "attncli":
            for key, value in list(vars(module).items()):
                if value is original:
                    patch.setattr(module, key, substitute)


def mask_shifted(patch: MonkeyPatch) -> None:
    """Count one key too many as valid."""
    below = masks.below_limits
    replace(patch, below, lambda limits, m, *keys: below(limits + 1, m, *keys))


def _softmax_of(masked: Callable[[Tensor, Tensor], Tensor], axis: int = -1) -> Mistake:
    """Mask the scores in another way before the softmax."""

    def wrong(scores: Tensor, valid: Tensor | None) -> Tensor:
        return (scores if valid is None else masked(scores, ~valid)).softmax(axis).nan_to_num(0.0)

    return lambda patch: replace(patch, attention.softmax_over_valid, wrong)


minus_a_million = _softmax_of(lambda scores, blocked: scores.masked_fill(blocked, -1e6))  # as in D2L's code
softmax_over_queries = _softmax_of(lambda scores, blocked: scores.masked_fill(blocked, -torch.inf), -2)


def scores_left_out(patch: MonkeyPatch) -> None:
    """Make all weights uniform."""
    replace(patch, attention.softmax_over_valid, lambda scores, valid: (0.0 * scores).softmax(-1))


def _forward_of(name: str, forward: Callable[[Any, Tensor, Tensor], Tensor]) -> Mistake:
    """Replace the formula of a scorer."""
    return lambda patch: patch.setattr(SCORERS[name], "forward", forward)


scale_left_out = _forward_of("scaled_dot", lambda self, q, k: q @ k.mT)
root_whatever_was_asked = _forward_of("scaled_dot", lambda self, q, k: k.shape[-1] ** -0.5 * q @ k.mT)
no_root = _forward_of("scaled_dot", lambda self, q, k: q @ k.mT / k.shape[-1])
always_a_quarter = _forward_of("scaled_dot", lambda self, q, k: 0.25 * q @ k.mT)
dot_is_scaled = _forward_of("dot", lambda self, q, k: q @ k.mT / q.shape[-1] ** 0.5)
no_cosine = _forward_of("cosine", lambda self, q, k: self.scale * q @ k.mT)
cosine_without_its_scale = _forward_of("cosine", lambda self, q, k: F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT)
kernel_is_exponential = _forward_of("kernel", lambda self, q, k: (q @ k.mT * k.shape[-1] ** -0.5).clamp(max=60).exp())
product_for_sum = _forward_of("vector_sum", lambda self, q, k: q @ k.mT)
gaussian_without_the_two = _forward_of("gaussian", lambda self, q, k: -2.0 * self.scale * torch.cdist(q, k).square())


def _normalizer_of(name: str, forward: Callable[[Any, Tensor, Tensor | None], Tensor]) -> Mistake:
    """Replace the formula of a normaliser."""
    return lambda patch: patch.setattr(NORMALIZERS[name], "forward", forward)


def _even(self: Any, scores: Tensor, valid: Tensor | None = None) -> Tensor:
    return 0.0 * scores + 1 / scores.shape[-1]


def _divided(weights: Tensor) -> Tensor:
    return weights / weights.sum(-1, keepdim=True)


def _without_the_number(self: Any, scores: Tensor, valid: Tensor | None) -> Tensor:
    return attention.softmax_over_valid(scores, valid)


ssmax_without_the_number = _normalizer_of("ssmax", _without_the_number)
sparsemax_is_softmax = _normalizer_of("sparsemax", lambda self, s, v: s.softmax(-1))
sparsemax_for_entmax = _normalizer_of("entmax", lambda self, s, v: NORMALIZERS["sparsemax"]()(s, v))
nothing_left_out = _normalizer_of("softmax_plus_one", lambda self, s, v: s.softmax(-1))
softmax_plus_one_for_softmax = _normalizer_of("softmax", lambda self, s, v: NORMALIZERS["softmax_plus_one"]()(s, v))
sum_is_uniform = _normalizer_of("sum", _even)
sigmoid_competes = _normalizer_of("sigmoid", lambda self, s, v: _divided(s.sigmoid()))
relu_competes = _normalizer_of("relu", lambda self, s, v: _divided(s.relu()))

softpick_is_softmax = _normalizer_of("softpick", lambda self, s, v: s.softmax(-1))
stick_from_the_first_key = _normalizer_of("stick_breaking", lambda self, s, v: s.sigmoid() * _left_before(s))
stick_is_not_broken = _normalizer_of("stick_breaking", lambda self, s, v: s.sigmoid())


def _left_before(scores: Tensor) -> Tensor:
    return (1 - F.pad(scores.sigmoid()[..., :-1], (1, 0))).cumprod(-1)


def rope_left_out(patch: MonkeyPatch) -> None:
    replace(patch, rotated, lambda vectors, *how, **more: vectors)


def alibi_turned_round(patch: MonkeyPatch) -> None:
    slopes = attention.alibi_slopes
    replace(patch, slopes, lambda heads: [-slope for slope in slopes(heads)])


def _entries_with(**changes: float) -> Mistake:
    """Draw random queries and keys with other settings."""
    draw = Entries.draw

    def plant(patch: MonkeyPatch) -> None:
        patch.setattr(Entries, "draw", lambda self, *how: draw(self.model_copy(update=changes), *how))

    return plant


queries_for_keys = _entries_with(rho=1.0)
means_left_out = _entries_with(query_mean=0.0, key_mean=0.0)


def one_seed_for_all(patch: MonkeyPatch) -> None:
    """Use one seed for all models of a training."""
    replace(patch, model_seeds, lambda options: [options.seed] * options.seeds)


def _linear_scores(queries: Tensor, keys: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor) -> Tensor:
    """Return additive scores without tanh."""
    return (queries @ w_q.mT @ w_v)[..., :, None] + (keys @ w_k.mT @ w_v)[..., None, :]


def _additive_by(scores: Callable[..., Tensor]) -> Mistake:
    def forward(self: Any, queries: Tensor, keys: Tensor) -> Tensor:
        return scores(queries, keys, self.W_q.weight, self.W_k.weight, self.w_v.weight[0])

    return _forward_of("additive", forward)


additive_without_tanh = _additive_by(_linear_scores)
additive_as_in_textbooks = _additive_by(textbook.additive_scores)  # correct, but slow and large


def product_without_a_matrix_product(patch: MonkeyPatch) -> None:
    """Compute correct dot products slowly, from all products of entries at once."""

    def scores(queries: Tensor, keys: Tensor) -> Tensor:
        time.sleep(0.05)
        products = queries.double().unsqueeze(-2) * keys.double().unsqueeze(-3)  # b n m d
        scaled: Tensor = products.sum(-1) / queries.shape[-1] ** 0.5
        return scaled.to(queries.dtype)

    replace(patch, textbook.scaled_dot_scores, scores)


def biases(patch: MonkeyPatch) -> None:
    linear = nn.Linear
    patch.setattr(nn, "Linear", lambda size, out, bias=True: linear(size, out, bias=True))


def dropout_left_out(patch: MonkeyPatch) -> None:
    replace(patch, attention.dropped, lambda weights, probability, generator: weights.clone())


def dropout_in_place(patch: MonkeyPatch) -> None:
    """Show the weights after dropout."""
    dropped = attention.dropped
    replace(patch, dropped, lambda weights, *how: weights.copy_(dropped(weights, *how)))


def norm_left_out(patch: MonkeyPatch) -> None:
    """Ignore `qk_norm`."""
    replace(patch, entry_inputs, lambda entry, queries, keys: (queries, keys))


def softcap_left_out(patch: MonkeyPatch) -> None:
    replace(patch, attention.softcap, lambda scores, cap: scores)


def _rules_without(**changes: Any) -> Mistake:
    """Ignore a key of the entries."""

    def wrong(entry: ScorerEntry, *arguments: Any, **options: Any) -> Any:
        return entry_rules(entry.model_copy(update=changes), *arguments, **options)

    return lambda patch: replace(patch, entry_rules, wrong)


window_left_out = _rules_without(window=None)
first_keys_left_out = _rules_without(first_keys=0)


def linear_makes_the_matrix(patch: MonkeyPatch) -> None:
    """Compute kernel attention with all weights at once."""

    def wrong(scorer: Any, queries: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor]:
        weights = _divided(scorer(queries, keys).double())
        return ((weights.clone() @ values.double()).to(values.dtype),)

    patch.setattr(implementations, "_linear", wrong)
