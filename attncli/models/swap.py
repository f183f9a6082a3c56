"""Other scorers inside a model: the outputs of attention calls by an entry of a config."""

import functools
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self
from weakref import WeakSet

import torch
from pydantic import Field
from torch import Tensor, nn

from attncli.attention import computing_dtype
from attncli.catalogue.building import Learnt, build_scorer, scorer_of_module, scoring_function
from attncli.catalogue.entries import Entry
from attncli.catalogue.entry_files import one_entry
from attncli.catalogue.guarding import raw_scores
from attncli.catalogue.plans import PLAN, PlanEntry, is_plan
from attncli.catalogue.plans import ZERO as ZERO
from attncli.catalogue.scorer_entries import ScorerEntry
from attncli.catalogue.short_forms import model_entry
from attncli.config.models import Experiment
from attncli.config.strict import Model, validated
from attncli.config.values import layer_choice
from attncli.errors import InputError, below, got, show
from attncli.models.call import AttentionCall, Site
from attncli.models.fitted import FittedScorers
from attncli.models.following import FullWatch
from attncli.models.inputs import Inputs, Scored, call_inputs, learnt_numbers, rules_of_inputs, with_model_defaults
from attncli.models.selection import Choice, Several, matching_calls, picks
from attncli.pooling import pool_by_rules
from attncli.scorers import Scorer, is_built_in

UNIFORM = "uniform"
MOST_NAMED = 3  # calls in a message
Assignment = tuple[str, list[int] | None, ScorerEntry | str]  # layers and heads (None: all) of a plan, and their entry


class Swap(FullWatch):
    """Context manager in which models attend with another scorer, in this thread.

    with attncli.Swap("sparsemax", layers=[3]), torch.no_grad():
        evaluate(model)

    With gradients, outputs carry them to queries, keys and values, and to the parameters of the scorer. Inside another
    `Swap`, this one decides for its calls.

    A call has the name of its layer. Further calls of a layer in one run of the model have a number, as `layer#1`. A
    run ends when a top-level module that ran in it is called again. Each layer must be called in the same way in every
    run.

    Args:
        entry: an entry of `scorers`, as text or mapping; a function of queries and keys, a class, or a torch module,
            which learns with the model; the name of a normaliser, which is applied to the model's own scores; `model`,
            the model's own scorer; `uniform`, equal weights; or `zero`, no output at all. Or a plan, which maps layers
            to entries: `{0: "sparsemax", "3-5": "cosine:scale=16", "decoder.*": {"heads": {0: "uniform"}}}`. Layers and
            heads that it does not name stay the model's own.
        model: the module, or part of a model, to replace the attention of; by default everything in this thread. With
            it, layers have the names of its `named_modules`.
        layers: numbers of attention calls in the order of their execution, ranges of numbers such as `0,5-7`, names of
            calls, or patterns of names such as `decoder.*`: one of these, or a list. None for all.
        heads: numbers of heads, and ranges such as `0-3`; None for all.
        seed: the seed of the parameters that attncli draws.
        known: `AttentionCall.reading` of the calls in an earlier run on the same inputs, by name. They are not verified
            again. If all are repeatable, only they can be replaced, and the model's own output is not computed.
        fitted: the numbers that the entry learnt for each layer; by default the numbers in the file that it names.

    Attributes:
        swapped: how often each call was replaced, by name.
        missed: modules and operations like attention that were not recognised, and are not replaced.

    Raises:
        InputError: the entry is wrong; two models have calls of one name; or at the end of the `with`, a chosen layer
            was not replaced.
    """

    replaces: ClassVar = True

    def __init__(
        self,
        entry: Any,
        model: nn.Module | None = None,
        layers: Several | None = None,
        heads: Several | None = None,
        *,
        seed: int = 0,
        known: Mapping[str, AttentionCall] | None = None,
        fitted: FittedScorers | None = None,
    ) -> None:
        chosen = _Chosen.of(layers=layers, heads=heads, seed=seed)
        super().__init__(model)
        self.layers, self.heads, self._known = chosen.layers, chosen.heads, known or {}
        self.entry = None if isinstance(entry, str) and entry == ZERO else swap_entry(entry)
        self.swapped = dict[str, int]()
        self.problems = dict[str, str]()  # by call
        self._plan = list(self.entry.assignments()) if isinstance(self.entry, PlanEntry) else None
        self.follows = not self._known or not all(reading.is_repeatable for reading in self._known.values())
        self._seed, self._fitted, self._scorers = seed, fitted, dict[Any, Scorer]()
        self._handled = set[str]()  # calls that were replaced, by this one or by one inside of it
        self._numbers = dict[str, int]()  # of calls, in the order of their first runs
        self._owners = dict[str, int]()  # number of the model of each layer
        self._called = WeakSet[nn.Module]()  # top-level modules of this run
        self._run = WeakSet[nn.Module]()  # these and their parts

    @property
    def scorers(self) -> list[Scorer]:
        """The scorers that were built so far: one for each size of queries and keys, and scale."""
        return [*self._scorers.values()]

    def parameters(self) -> Iterator[nn.Parameter]:
        """Yield the parameters of the scorers that were built so far, and of torch modules that are entries."""
        modules = [entry.module for entry in (self.entry.entries if self.entry else ()) if entry.module is not None]
        yield from nn.ModuleList([*modules, *self._scorers.values()]).parameters()

    def __enter__(self) -> Self:
        """Start watching, without the counts and problems of earlier uses."""
        if self.monitor is None:  # else it is active already, which is an error
            for state in (self.swapped, self.problems, self._handled, self._numbers, self._owners):
                state.clear()
            self._begin_run()
        return super().__enter__()

    def __exit__(self, *raised: Any) -> None:
        """Stop watching; raise an InputError if a chosen call was not replaced, unless the `with` block failed."""
        super().__exit__(*raised)
        if raised[0] is None:
            self.check()

    def check(self) -> None:
        """Raise an InputError if no call was replaced, or if a chosen call was not."""
        problems = {missed.layer: missed.problem for missed in self.missed} | self.problems
        key, layers = "layers", self.layers or ()
        if self._plan is not None and self.layers is None:
            key, layers = "plan", [layer_choice(layers) for layers, *_ in self._plan]
        for layer in layers:
            others = dict.fromkeys(problems, -1)  # which have no number
            with below(key):
                chosen = matching_calls(layer, {**others, **self._numbers}, self.prefix)
            for name in chosen:
                if name not in self._handled and self._wants(name, self._numbers.get(name, -1)):
                    why = problems.get(name, "it did not run")
                    raise InputError.of(f"{name}: its attention was not replaced: {why}")
        if self.layers is None and (not self._handled or self.problems):
            reasons = [f"{name}: {problem}" for name, problem in (self.problems or problems).items()]
            raise InputError.of(f"attention was not replaced: {'; '.join(reasons[:MOST_NAMED]) or 'none ran'}")

    def begins(self, module: nn.Module, *, is_recomputed: bool) -> None:
        """Start a new run if the top-level module, or a part of it, ran in this one."""
        super().begins(module, is_recomputed=is_recomputed)
        modules = set(module.modules())
        if self.model is not None and not any(map(self.knows, modules)):
            return
        if is_recomputed or module in self._run or not modules.isdisjoint(self._called):
            self._begin_run()
        self._called.add(module)
        self._run |= modules

    def _begin_run(self) -> None:
        for state in (self._calls, self._called, self._run):
            state.clear()

    def _wants(self, name: str, number: int) -> bool:
        """Whether the call with this name and number is chosen by the layers, and has an entry in the plan."""
        is_chosen = self.layers is None or any(picks(layer, name, number, self.prefix) for layer in self.layers)
        return is_chosen and (self.follows or name in self._known) and bool(self._assignments(name, number))

    def chooses(self, site: Site) -> bool:
        """Whether to replace a call.

        Raises:
            InputError: another model has a layer with the same name.
        """
        owner = self.owner
        if self._owners.setdefault(site.layer, owner) != owner:
            message = f"got two modules with attention of the name {site.layer}; name the one to replace"
            raise InputError.of(f"{message}, or the whole model, as model=")
        return self._wants(site.name, self._numbers.setdefault(site.name, len(self._numbers)))

    def reading(self, site: Site) -> AttentionCall | None:
        """Return the reading of a call in an earlier run on the same inputs, if there was one."""
        return self._known.get(site.name)

    def needs_own(self, site: Site) -> bool:
        """Whether heads keep the model's own output of a chosen call."""
        assignments = self._assignments(site.name, self._numbers[site.name])
        return self.heads is not None or any(heads is not None for _, heads, _ in assignments)

    def replaced(self, call: AttentionCall) -> Tensor:
        """Return the new output (b, h, n, v) of the chosen heads, and the model's own of all others."""
        new = with_heads(self.compute(call), call.output, self.heads, call.name)
        self.swapped[call.name] = self.swapped.get(call.name, 0) + 1
        return new

    def keep(self, call: AttentionCall, output: Tensor) -> None:
        """Note the problem of a call that was not replaced, or that it was, by this one or by one inside of it."""
        if call.problem is None:
            self._handled.add(call.name)
        else:
            self.problems[call.name] = call.problem

    def _assignments(self, name: str, number: int) -> list[Assignment]:
        """Return the assignments of the plan for a call.

        Raises:
            InputError: two layers of the plan choose it.
        """
        if self._plan is None:
            return [("", None, self.entry or ZERO)]
        matching = [each for each in self._plan if picks(layer_choice(each[0]), name, number, self.prefix)]
        keys = list(dict.fromkeys(layers for layers, *_ in matching))
        if len(keys) > 1:
            raise InputError.of(got(keys[1], f"it has {name}, as {show(keys[0])} does; expected each once"), ["plan"])
        return matching

    def compute(self, call: AttentionCall) -> Tensor:
        """Return the output (b, h, n, v) of the entry for the queries, keys and values of one attention call."""
        new = call.output
        for layers, heads, entry in self._assignments(call.name, self._numbers[call.name]):
            output = torch.zeros_like(call.output) if entry == ZERO else self._output(layers, heads, entry, call)
            new = with_heads(output, new, heads, call.name, ("plan", layer_choice(layers)))
        return new

    def _output(self, layers: str, heads: list[int] | None, entry: Any, call: AttentionCall) -> Tensor:
        chosen = self.heads if heads is None else heads
        is_fitted = self._fitted is not None or entry.fitted is not None
        if is_fitted and chosen is not None and len(call.head_numbers) > len(chosen):
            fitted_heads, new = [head for head in chosen if head in call.head_numbers], call.output.clone()
            # nothing may be fitted to the others
            output = self._output(layers, heads, entry, call.of_heads(fitted_heads))
            new[:, fitted_heads] = output.to(new.dtype)
            return new
        inputs = call_inputs(call, call.queries.dtype, call.queries.device)
        gradient = call.scale_gradient if entry.has_models_scale else None
        learnt = learnt_numbers(entry, call) if self._fitted is None else self._fitted.of_call(entry.label, call)
        entry = with_model_defaults(entry, call)
        sizes = inputs.queries.shape[-1], inputs.keys.shape[-1]
        key: tuple[Any, ...] = (layers, entry.label, *sizes, str(entry.options))
        key += (call.name, *call.head_numbers) if is_fitted else ()
        if key not in self._scorers:
            self._scorers[key] = self._built(entry, inputs, learnt).to(inputs.queries.device)
        scored = Scored(entry, self._scorers[key], rules_of_inputs(entry, inputs, call.empty_row, learnt))
        queries, keys, values = scored.seen(inputs)
        queries = queries if gradient is None else queries * gradient
        scorer = scoring_function(entry, scored.scorer)
        if is_built_in(scorer):
            return pool_by_rules(scorer, queries, keys, values, scored.rules)
        scorer = functools.partial(raw_scores, scorer)  # a user's scorer may do anything
        output = pool_by_rules(scorer, queries, keys, values, scored.rules)
        if not bool(output.isfinite().any()) and bool(values.isfinite().all()):
            raise InputError.of(f"{call.name}: {entry.label} gives an output without a finite number")
        return output

    @torch.inference_mode(False)
    def _built(self, entry: ScorerEntry, inputs: Inputs, learnt: Learnt) -> Scorer:
        if entry.module is not None:  # with the user's own parameters
            return scorer_of_module(entry.module)
        queries, keys = inputs.queries, inputs.keys
        dtype = computing_dtype(queries.dtype)
        return build_scorer(entry, queries.shape[-1], keys.shape[-1], self._seed, dtype, learnt)


def with_heads(
    new: Tensor, own: Tensor, heads: Collection[int] | None, name: str, plan: Sequence[str | int] = ()
) -> Tensor:
    """Return the output `new` (b, h, n, v) of the chosen heads, and the output `own` of all other heads.

    Raises:
        InputError: the call with this name has no such head. For heads of a plan, `plan` is the path of the layer.
    """
    if heads is None:
        return new
    count = new.shape[1]
    for head in heads:
        if not 0 <= head < count:
            path = (*plan, "heads", head) if plan else ("heads",)
            raise InputError.of(got(head, f"expected 0 to {count - 1}, of the {count} heads of {name}"), path)
    chosen = torch.zeros(count, dtype=torch.bool, device=new.device)
    chosen[list(heads)] = True
    return torch.where(chosen[:, None, None], new, own.to(new.dtype))  # b h n v


class _Holder(Model):
    entry: Entry


class _Chosen(Choice):
    seed: Annotated[int, Field(ge=0, lt=2**63)]


def swap_entry(value: Any) -> ScorerEntry:
    """Return the validated entry for a scorer or a plan given in Python, as `Swap` takes it.

    Raises:
        InputError: the entry is wrong.
    """
    if isinstance(value, ScorerEntry):
        return value
    value = one_entry(value, Path())
    (entry,) = Experiment.normalised({"scorers": [model_entry({PLAN: value} if is_plan(value) else value)]})["scorers"]
    checked = validated(_Holder, {"entry": entry}, {}).entry
    for planned in checked.entries:
        if planned.dropout:
            raise InputError.of(
                got(planned.dropout, "models run without dropout inside of a Swap", "leave it out"), ["dropout"]
            )
    return checked
