"""Other scorers inside a model: the outputs of attention calls by an entry of a config."""

import functools
from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Any

import torch
from pydantic import AfterValidator, BeforeValidator, Field
from torch import Tensor, nn

from attncli.attention import computing_dtype
from attncli.building import (
    build_scorer,
    inputs_of_entry,
    raw_scores,
    rules_of,
    scorer_of_module,
    scoring_of,
    with_model_defaults,
)
from attncli.config.models import Experiment
from attncli.config.scorer_entries import Entry, ScorerEntry, model_entry
from attncli.config.strict import Model, validated
from attncli.config.tensors import Layer
from attncli.config.values import Indices, as_list, each_once
from attncli.inputs.captured import inputs_of
from attncli.models.call import AttentionCall
from attncli.models.replacing import Replacing
from attncli.pooling import pool_by_rules
from attncli.scorers import Scorer, is_built_in

UNIFORM, ZERO = "uniform", "zero"


class Swap(Replacing):
    """Context manager in which models attend with another scorer, in this thread.

    with attncli.Swap("sparsemax", layers=[3]), torch.no_grad():
        evaluate(model)

    With gradients, outputs carry them to queries, keys and values, and to the parameters of the scorer. Inside another
    `Swap`, this one decides for its calls.

    Args:
        entry: an entry of `scorers`, as text, mapping or function of queries and keys; the name of a normaliser, which
            is applied to the model's own scores; `model`, the model's own scorer; `uniform`, equal weights; or `zero`,
            no output at all.
        model: the module, or part of a model, to replace the attention of; by default everything in this thread. With
            it, layers have the names of its `named_modules`.
        layers: numbers of attention calls in the order of their execution, ranges of numbers such as `5-7`, names of
            layers, or patterns of names such as `decoder.*`; None for all.
        heads: numbers of heads; None for all.

    Attributes:
        swapped: how often each call was replaced, by name.
        missed: modules and operations like attention that were not recognised, and are not replaced.

    Raises:
        InputError: the entry is wrong; two models have calls of one name; or at the end of the `with`, a chosen layer
            was not replaced.
    """

    def __init__(
        self,
        entry: Any,
        model: nn.Module | None = None,
        layers: Collection[str | int] | None = None,
        heads: Collection[int] | None = None,
        *,
        seed: int = 0,
        known: Mapping[str, int] | None = None,
    ) -> None:
        chosen = validated(_Places, {"layers": listed(layers), "heads": listed(heads)}, {})
        super().__init__(chosen.layers, chosen.heads, known, model)
        self.entry = None if entry == ZERO else entry if isinstance(entry, ScorerEntry) else entry_of(entry)
        self._seed, self._scorers = seed, dict[Any, Scorer]()

    @property
    def scorers(self) -> list[Scorer]:
        """The scorers that were built so far: one for each size of queries and keys, and scale."""
        return [*self._scorers.values()]

    def parameters(self) -> Iterator[nn.Parameter]:
        """Yield the parameters of the scorers that were built so far, for an optimizer."""
        yield from nn.ModuleList(self._scorers.values()).parameters()

    def compute(self, record: AttentionCall) -> Tensor:
        """Return the output (b, h, n, v) of the entry for the queries, keys and values of one attention call."""
        if self.entry is None:
            return torch.zeros_like(record.output)
        inputs = inputs_of(record, record.queries.dtype, record.queries.device)
        entry, (n, m) = with_model_defaults(self.entry, record), inputs.valid.shape[-2:]
        d, dtype = inputs.queries.shape[-1], computing_dtype(record.queries.dtype)
        key = (d, inputs.keys.shape[-1], str(entry.options))
        if key not in self._scorers:
            self._scorers[key] = self._built(entry, d, inputs.keys.shape[-1], dtype).to(inputs.queries.device)
        first = max(m - n, 0)  # with a cache, the queries belong to the last tokens
        rules = rules_of(entry, inputs.valid, inputs.bias, empty_row=record.empty_row, sinks=record.sinks, first=first)
        queries, keys = inputs_of_entry(entry, inputs.queries, inputs.keys)
        scorer = scoring_of(entry, self._scorers[key])
        if not is_built_in(scorer):
            scorer = functools.partial(raw_scores, scorer)  # a user's scorer may do anything
        return pool_by_rules(scorer, queries, keys, rules.rounding.values(inputs.values), rules)

    @torch.inference_mode(False)
    def _built(self, entry: ScorerEntry, query_size: int, key_size: int, dtype: torch.dtype) -> Scorer:
        if entry.module is not None:  # with the user's own parameters
            return scorer_of_module(entry.module)
        return build_scorer(entry, query_size, key_size, self._seed, dtype)


class _Holder(Model):
    entry: Entry


def _several(layers: Any) -> Any:
    """Return a pattern, ranges or a name as a list; a text of digits, which may be a name or a number, is refused."""
    return layers if isinstance(layers, str) and layers.isdecimal() else as_list(layers)


class _Places(Model):
    layers: Annotated[list[Layer], Field(min_length=1), BeforeValidator(_several), AfterValidator(each_once)] | None
    heads: Indices | None


def listed(given: Any) -> Any:
    """Return a collection as a list, and anything else, such as text, unchanged."""
    is_list = isinstance(given, Collection) and not isinstance(given, str | bytes | Mapping | Tensor)
    return list(given) if is_list else given


def entry_of(given: Any) -> ScorerEntry:
    """Return the validated entry for a scorer given in Python, as `Swap` takes it.

    Raises:
        InputError: the entry is wrong.
    """
    (entry,) = Experiment.normalised({"scorers": [model_entry(given)]})["scorers"]
    return validated(_Holder, {"entry": entry}, {}).entry
