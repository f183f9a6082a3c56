"""Other scorers inside a model: the outputs of attention calls by an entry of a config."""

import functools
from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Any

import numpy as np
import torch
from pydantic import AfterValidator, BeforeValidator, Field
from torch import Tensor, nn

from attncli.attention import computing_dtype
from attncli.building import build_scorer, inputs_of_entry, rules_of, scorer_of_module, scoring_of, with_model_defaults
from attncli.config.models import Experiment
from attncli.config.plans import PLAN, PlanEntry, is_plan
from attncli.config.plans import ZERO as ZERO
from attncli.config.scorer_entries import Entry, ScorerEntry
from attncli.config.short_forms import model_entry
from attncli.config.strict import Model, validated
from attncli.config.tensors import Layer
from attncli.config.values import Indices, as_list, each_once
from attncli.errors import InputError, got, show
from attncli.guarding import raw_scores
from attncli.inputs.captured import inputs_of
from attncli.models.call import AttentionCall
from attncli.models.replacing import Replacing, with_heads
from attncli.models.selection import choice_of, picks
from attncli.pooling import pool_by_rules
from attncli.scorers import Scorer, is_built_in

UNIFORM = "uniform"
Part = tuple[str, list[int] | None, ScorerEntry | str]  # layers and heads (None: all) of a plan, and their entry


class Swap(Replacing):
    """Context manager in which models attend with another scorer, in this thread.

    with attncli.Swap("sparsemax", layers=[3]), torch.no_grad():
        evaluate(model)

    With gradients, outputs carry them to queries, keys and values, and to the parameters of the scorer. Inside another
    `Swap`, this one decides for its calls.

    Args:
        entry: an entry of `scorers`, as text or mapping; a function of queries and keys, a class, or a torch module,
            which learns with the model; the name of a normaliser, which is applied to the model's own scores; `model`,
            the model's own scorer; `uniform`, equal weights; or `zero`, no output at all. Or a plan, which maps layers
            to entries: `{0: "sparsemax", "3-5": "cosine:scale=16", "decoder.*": {"heads": {0: "uniform"}}}`. Layers and
            heads that it does not name stay the model's own.
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
        chosen = validated(_Chosen, {"layers": listed(layers), "heads": listed(heads), "seed": seed}, {})
        super().__init__(chosen.layers, chosen.heads, known, model)
        self.entry = None if isinstance(entry, str) and entry == ZERO else entry_of(entry)
        self._plan = list(self.entry.parts()) if isinstance(self.entry, PlanEntry) else None
        self._seed, self._scorers = seed, dict[Any, Scorer]()

    @property
    def scorers(self) -> list[Scorer]:
        """The scorers that were built so far: one for each size of queries and keys, and scale."""
        return [*self._scorers.values()]

    def parameters(self) -> Iterator[nn.Parameter]:
        """Yield the parameters of the scorers that were built so far, and of torch modules that are entries."""
        modules = [entry.module for entry in (self.entry.entries if self.entry else ()) if entry.module is not None]
        yield from nn.ModuleList([*modules, *self._scorers.values()]).parameters()

    @property
    def places(self) -> Mapping[str, Collection[str | int]]:
        """The chosen layers by the name of the argument: `layers`, and the layers of a plan."""
        if self._plan is None or self.layers is not None:
            return super().places
        return {"plan": [layer_of(layer) for layer, *_ in self._plan]}

    def wants(self, name: str, number: int) -> bool:
        """Whether the call is chosen by the layers, and has an entry in the plan."""
        return super().wants(name, number) and bool(self._parts(name, number))

    def _parts(self, name: str, number: int) -> list[Part]:
        """Return the parts of the plan for a call.

        Raises:
            InputError: two layers of the plan choose it.
        """
        if self._plan is None:
            return [("", None, self.entry or ZERO)]
        parts = [part for part in self._plan if picks(choice_of(layer_of(part[0])), name, number)]
        keys = list(dict.fromkeys(layers for layers, *_ in parts))
        if len(keys) > 1:
            raise InputError.of(got(keys[1], f"it has {name}, as {show(keys[0])} does; expected each once"), ["plan"])
        return parts

    def compute(self, call: AttentionCall) -> Tensor:
        """Return the output (b, h, n, v) of the entry for the queries, keys and values of one attention call."""
        new = call.output
        for layers, heads, entry in self._parts(call.name, self._numbers[call.name]):
            made = torch.zeros_like(call.output) if entry == ZERO else self._output(layers, heads, entry, call)
            new = with_heads(made, new, heads, call.name, ("plan", layer_of(layers)))
        return new

    def _output(self, layers: str, heads: list[int] | None, entry: Any, call: AttentionCall) -> Tensor:
        chosen = self.heads if heads is None else heads
        if entry.is_fitted and chosen is not None and len(call.head_numbers) > len(chosen):
            some, new = [head for head in chosen if head in call.head_numbers], call.output.clone()
            made = self._output(layers, heads, entry, call.of_heads(some))  # nothing may be fitted to the others
            new[:, some] = made.to(new.dtype)
            return new
        inputs = inputs_of(call, call.queries.dtype, call.queries.device)
        gradient = call.scale_gradient if entry.has_models_scale else None
        entry, (n, m) = with_model_defaults(entry, call), inputs.valid.shape[-2:]
        d, dtype = inputs.queries.shape[-1], computing_dtype(call.queries.dtype)
        key: tuple[Any, ...] = (layers, entry.label, d, inputs.keys.shape[-1], str(entry.options))
        key += (call.name, *call.head_numbers) if entry.is_fitted else ()
        if key not in self._scorers:
            self._scorers[key] = self._built(entry, d, inputs.keys.shape[-1], dtype).to(inputs.queries.device)
        first = max(m - n, 0)  # with a cache, the queries belong to the last tokens
        rules = rules_of(entry, inputs.valid, inputs.bias, empty_row=call.empty_row, sinks=call.sinks, first=first)
        queries, keys = inputs_of_entry(entry, inputs.queries, inputs.keys)
        queries = queries if gradient is None else queries * gradient
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


class _Chosen(Model):
    layers: Annotated[list[Layer], Field(min_length=1), BeforeValidator(_several), AfterValidator(each_once)] | None
    heads: Indices | None
    seed: Annotated[int, Field(ge=0, lt=2**63)]


def listed(value: Any) -> Any:
    """Return a collection as a list, with numbers of NumPy as numbers; anything else, such as text, unchanged."""
    if not isinstance(value, Collection) or isinstance(value, str | bytes | Mapping | Tensor):
        return value
    return [item.item() if isinstance(item, np.generic) else item for item in value]


def entry_of(value: Any) -> ScorerEntry:
    """Return the validated entry for a scorer or a plan given in Python, as `Swap` takes it.

    Raises:
        InputError: the entry is wrong.
    """
    if isinstance(value, ScorerEntry):
        return value
    (entry,) = Experiment.normalised({"scorers": [model_entry({PLAN: value} if is_plan(value) else value)]})["scorers"]
    made = validated(_Holder, {"entry": entry}, {}).entry
    for part in made.entries:
        if part.dropout:
            raise InputError.of(
                got(part.dropout, "models run without dropout inside of a Swap", "leave it out"), ["dropout"]
            )
    return made


def layer_of(key: str) -> str | int:
    """Return the layer for a key of a plan, which is text: digits are a number."""
    return int(key) if key.isdecimal() else key
