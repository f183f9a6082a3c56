"""Work out one query: every number on the way from the query and the keys to the output."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from attncli.attention import Rules, at_least_float32, dropped, weighted_sum
from attncli.catalogue.building import entry_formulas
from attncli.catalogue.guarding import calling
from attncli.catalogue.scorer_entries import ScorerEntry
from attncli.config.values import layer_choice
from attncli.core.numbers import exact
from attncli.core.seeding import generator, seeded
from attncli.errors import InputError, Problem, below, did_you_mean, got, in_ranges, printable
from attncli.models.inputs import Inputs, Scored
from attncli.models.selection import matching_call
from attncli.normalizers import Normalizer
from attncli.results import MOST_KEYS, Explanation, Row
from attncli.scorers import SCORERS, Scorer
from attncli.scorers._heads import head_normalizer
from attncli.sources.layers import Layer, Prepared
from attncli.studies.attention.options import AttentionOptions

WEIGHTS = ("weight", "dropped")  # the last stages


@dataclass(frozen=True)
class QueryTensors:
    """The tensors of one query and head, on the CPU: q (q), k (m, k), v (m, v), valid (m), stages (m), output (v).

    `raw_q` and `raw_k` are q and k before the scorer entry's `qk_norm`, `rope` and rounding; `position` is that of q.
    The stages are `score`, `capped` (if there is a softcap), `biased` (if there is a bias), `weight` and `dropped` (if
    dropout is active). `sink` (1) is the score of an additional key without a value, if the model has such a key.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    valid: Tensor
    stages: Mapping[str, Tensor]
    output: Tensor
    sink: Tensor | None
    raw_q: Tensor
    raw_k: Tensor
    position: int

    def ranked(self, most: int | None) -> tuple[Tensor, Tensor]:
        """Return the numbers of the `most` keys with the largest weights (None: all), sorted, and of the other keys."""
        weights = self.stages["weight"]
        seen = (self.valid | (weights != 0)).nonzero()[:, 0]  # without a valid key, masked keys may have weights
        ranked = seen[weights[seen].nan_to_num(nan=-1.0).argsort(descending=True, stable=True)]
        return ranked[:most].sort().values, ranked[len(seen) if most is None else most :]

    def total(self, keys: Tensor) -> list[float]:
        """Return the sum of the values of some keys, each times its weight, after dropout."""
        used = self.stages.get("dropped", self.stages["weight"])
        total: list[float] = weighted_sum(used[None, keys], self.v[keys])[0].tolist()
        return total


@dataclass(frozen=True)
class Steps:
    """The steps to a score or weight: steps that do not depend on the key, the others but the last, and its formula."""

    of_query: Row = field(default_factory=dict)
    of_keys: Mapping[str, Tensor] = field(default_factory=dict)
    formula: str | None = None

    def total(self, keys: Tensor | int) -> Row:
        """Return the sum of each step over some keys, or its value for a key."""
        return {name: step[keys].sum().item() for name, step in self.of_keys.items()}


@torch.no_grad()
def explain(
    prepared: Prepared[AttentionOptions],
    label: str | None = None,
    *,
    layer: str | int | None = None,
    batch: int = 0,
    head: int | None = None,
    query: int = 0,
    most: int | None = MOST_KEYS,
) -> Explanation:
    """Work out one query with the scorer `label`, in `layer` and `head`; by default the first of each.

    The `most` keys with the largest weights are listed, in the order of the keys; all keys if `most` is None.

    Raises:
        InputError: there is no such label, layer, batch element, head or query (the path of the problem is the name of
            the argument), or a user's scorer returns steps of wrong shapes.
    """
    chosen = _chosen_layer(prepared, layer)
    inputs, heads = chosen.inputs, [head or 0 for head in chosen.inputs.heads]
    head = heads[0] if head is None else head
    index = _index(prepared.options, inputs, label, {"batch": batch, "head": head, "query": query})
    scored = chosen.scored[index]
    with below("scorers", index):
        row = _row(prepared.options, inputs, scored, batch, heads.index(head), query)
        to_score = _score_steps(scored.entry, scored.scorer.cpu(), row)
        with below("normalizer"):
            to_weight, of_sink = _weight_steps(head_normalizer(scored.rules.normalizer, heads.index(head)), row)
    entry, (listed, others) = scored.entry, row.ranked(most)
    queries, keys = (_names(inputs.tokens.get(side), batch) for side in ("queries", "keys"))
    sink = None
    if row.sink is not None:
        weight = None if of_sink is None else of_sink.item()
        sink = {"score": row.sink.item(), "weight_steps": to_weight.total(-1), "weight": weight}
    return Explanation(
        name=prepared.options.name,
        label=entry.label,
        scorer=entry.scorer,
        normalizer=entry.normalizer.normalizer,
        formula=entry_formulas([entry])[entry.label],
        place={
            "layer": chosen.name,
            "layer_number": None if chosen.name is None else chosen.number,
            "batch": batch,
            "head": head if len(inputs.valid.shape) > 3 else None,
            "query": query,
            "token": queries and queries[query],
        },
        formulas=_formulas(entry, scored.rules, row, to_score.formula, to_weight.formula),
        of_query={"q": row.raw_q.tolist(), **to_score.of_query},
        of_weights=to_weight.of_query,
        keys=[_key(row, key, keys and keys[key], to_score, to_weight) for key in listed.tolist()],
        rest=_sums(row, others, to_weight) if len(others) else None,
        sink=sink,
        masked=(~row.valid).nonzero()[:, 0].tolist(),
        empty_row=None if bool(row.valid.any()) else scored.rules.empty_row,
        output=row.output.tolist(),
        parameters={name: list(item.shape) for name, item in scored.scorer.state_dict().items()},
        others=[item.label for item in prepared.options.scorers if item is not entry],
    )


def _seen(name: str, entry: ScorerEntry) -> str:
    """Return the name of a query or key as the scorer sees it: normalised, rotated, and rounded."""
    name = f"{entry.qk_norm}_norm({name})" if entry.qk_norm else name
    name = f"rope({name})" if entry.rope else name
    return f"{entry.dtype}({name})" if entry.dtype else name


def _key(row: QueryTensors, key: int, token: str | None, to_score: Steps, to_weight: Steps) -> Row:
    """Return every number of a key; an invalid key has weights only."""
    return {
        "key": key,
        "token": token,
        "valid": bool(row.valid[key]),
        "k": row.raw_k[key].tolist(),
        "steps": {name: step[key].tolist() for name, step in to_score.of_keys.items()},
        **{name: stage[key].item() for name, stage in row.stages.items() if row.valid[key] or name in WEIGHTS},
        "weight_steps": to_weight.total(key),
        "v": row.v[key].tolist(),
        "part": row.total(torch.tensor([key])),
    }


def _sums(row: QueryTensors, keys: Tensor, to_weight: Steps) -> Row:
    """Return the sums of steps, weights and values over the keys that are not listed."""
    weights = {name: row.stages[name][keys].sum().item() for name in WEIGHTS if name in row.stages}
    return {"keys": len(keys), "weight_steps": to_weight.total(keys), **weights, "part": row.total(keys)}


def _formulas(entry: ScorerEntry, rules: Rules, row: QueryTensors, score: str | None, weight: str | None) -> Row:
    """Return the formulas of all steps, given the formulas of score and weight, each None if unknown."""
    rounded = f", rounded to {entry.dtype}" if entry.rounding in ("flash", "steps") else ""
    formulas: Row = {"score": f"{score}{rounded}" if score and entry.rounding == "steps" else score}
    if "capped" in row.stages:
        cap = exact(rules.cap)
        formulas["capped"] = f"{cap} * tanh(score / {cap})"
    if "dropped" in row.stages:
        share = exact(1.0 - entry.dropout)
        formulas["dropped"] = f"weight / {share}, or 0 with probability {entry.dropout:g}"
    relative = " relative to the largest" if entry.rounding == "flash" else ""
    return formulas | {"weight": weight and f"{weight}{rounded}{relative}", "output": f"sum of weight * v{rounded}"}


def _chosen_layer(prepared: Prepared[AttentionOptions], layer: str | int | None) -> Layer:
    """Return the layer that a name, a number in the file or a pattern chooses; the first by default."""
    if layer is None:
        return prepared.layers[0]
    numbers = prepared.source.numbers
    if not numbers:
        raise InputError.of(got(layer, "expected a run over layers of a model", "leave it out"), ["layer"])
    with below("layer"):
        name = matching_call(layer_choice(layer), numbers)
    return next(each for each in prepared.layers if each.name == name)


def _index(options: AttentionOptions, inputs: Inputs, label: str | None, requested: Mapping[str, int]) -> int:
    """Return the index of the scorer `label`; raise an InputError if there is no such scorer or place.

    `requested` has batch element, head and query by name.
    """
    labels, problems = [entry.label for entry in options.scorers], list[Problem]()
    if label is not None and label not in labels:
        problems.append(Problem(got(label, "unknown label", did_you_mean(label, labels)), ("label",)))
    b, *_, n, _ = inputs.valid.shape
    axes: dict[str, tuple[Sequence[int], str]] = {
        "batch": (range(b), "batch elements"),
        "head": ([head or 0 for head in inputs.heads], "heads"),
        "query": (range(n), "queries"),
    }
    for name, index in requested.items():
        values_of_axis, nouns = axes[name]
        if name == "head" and index and inputs.heads == [None]:
            problems.append(Problem(got(index, "there are no heads here", "leave it out"), (name,)))
        elif isinstance(index, bool) or not isinstance(index, int) or index not in values_of_axis:
            of = f"of {len(values_of_axis)} {nouns}" if len(values_of_axis) > 1 else f"the only {name}"
            expected = f"expected {in_ranges(values_of_axis)}, {of}"
            problems.append(Problem(got(index, expected), (name,)))
    if problems:
        raise InputError(problems)
    return 0 if label is None else labels.index(label)


def _row(options: AttentionOptions, inputs: Inputs, scored: Scored, batch: int, head: int, query: int) -> QueryTensors:
    """Compute one query of a batch element as the study does, and return the tensors of the head with this index."""
    entry, rules = scored.entry, scored.rules
    element, rows = slice(batch, batch + 1), slice(query, query + 1)

    def matrix(tensor: Tensor, element: int = batch) -> Tensor:
        """Return the matrix of the batch element and head."""
        return tensor[element].reshape(-1, *tensor.shape[-2:])[head].cpu()

    queries, keys, values = scored.seen(inputs)
    # A user's scorer may mix queries and batch elements.
    is_whole = entry.scorer not in SCORERS and options.weights
    with seeded(options.seed, f"forward.{entry.seed_name}", queries.device):
        scored.scorer.train(options.train)
        if is_whole:
            scores = scored.scores(queries, keys)[element][..., rows, :]
        else:
            scores = scored.scores(queries[element][..., rows, :], keys[element])
    stages_of_row = rules.stages(scores, element, rows)
    if rules.bias is not None:
        stages_of_row["bias"] = rules.bias.added_to(torch.zeros_like(scores), element, rows)
    stages = {"score": scores, "weight": stages_of_row.pop("weights"), **stages_of_row}
    if options.train and entry.dropout > 0:  # drawn for all queries, as in the run
        drawn = generator(options.seed, f"dropout.{entry.seed_name}")
        factors = dropped(torch.ones(rules.valid.shape, dtype=scores.dtype), entry.dropout, drawn)
        stages["dropped"] = stages["weight"].cpu() * factors[element][..., rows, :]
    valid = rules.valid.tile(element, rows)
    valid = torch.ones_like(scores, dtype=torch.bool) if valid is None else valid.expand(scores.shape)
    sink = None
    if rules.sinks is not None:
        sink = matrix(rules.sinks.expand(*rules.valid.shape[:-1], 1))[query]
    tensors = inputs.queries, inputs.keys, queries, keys, values
    raw_q, raw_k, q, k, v = (matrix(tensor) for tensor in at_least_float32(*tensors))
    at = {name: matrix(stage, 0)[0] for name, stage in stages.items()}
    output = rules.pooled(at.get("dropped", at["weight"])[None], v)[0]
    position = inputs.first_of(entry) + query
    return QueryTensors(q[query], k, v, matrix(valid, 0)[0], at, output, sink, raw_q[query], raw_k, position)


def _score_steps(entry: ScorerEntry, scorer: Scorer, row: QueryTensors) -> Steps:
    """Return the scorer's steps. They begin with query and key as the scorer sees them: normalised, rotated, rounded.

    Raises:
        InputError: the method `steps` fails, or a step has a wrong shape.
    """
    with calling("the scorer's steps"):
        own_steps = scorer.steps(row.q[None], row.k)
    steps = Steps() if own_steps is None else _split("scorer", own_steps, len(row.k))
    q, k = (_seen(name, entry) for name in "qk")
    if q == "q":
        return steps
    formula = steps.formula and f"{steps.formula}, with {q} and {k}"
    position = {} if entry.rope is None else {"position of q": row.position}
    positions = {} if entry.rope is None else {"position of k": torch.arange(len(row.k))}
    of_keys = {**positions, k: row.k, **steps.of_keys}
    return Steps({**position, q: row.q.tolist(), **steps.of_query}, of_keys, formula)


def _weight_steps(normalizer: nn.Module, row: QueryTensors) -> tuple[Steps, Tensor | None]:
    """Return the normaliser's steps, and the weight of the sink (a key without a value), None if there is no sink.

    Raises:
        InputError: the method `steps` fails, or a step has a wrong shape.
    """
    if not bool(row.valid.any()):
        return Steps(), None
    scores = row.stages.get("biased", row.stages.get("capped", row.stages["score"]))
    sinks = scores[:0] if row.sink is None else row.sink.to(scores.dtype)
    scores = torch.cat([sinks, scores, scores[:1]])[None]  # a masked key more, so there are two at least
    valid = pad(pad(row.valid, (len(sinks), 0), value=True), (0, 1), value=False)[None]
    assert isinstance(normalizer, Normalizer)
    sink = normalizer(scores, valid)[0, 0] if len(sinks) else None
    with calling("the normaliser's steps"):
        own_steps = normalizer.steps(scores.masked_fill(~valid, 0.0), valid)
    if own_steps is None:
        return Steps(), sink
    steps = _split("normaliser", own_steps, scores.shape[-1])
    of_keys = {name: step[:-1].roll(-len(sinks)) for name, step in steps.of_keys.items()}  # the sink last
    return replace(steps, of_keys=of_keys), sink


def _split(what: str, made: Mapping[str, Any], m: int) -> Steps:
    """Return the steps of a scorer or normaliser. The last step is the score or the weight: only its name is kept.

    Raises:
        InputError: a step has a shape that does not fit 1 query and m keys.
    """
    of_query, of_keys = Row(), dict[str, Tensor]()
    with calling(f"the {what}'s steps"):
        steps = {printable(str(name)): torch.as_tensor(step) for name, step in made.items()}
    for name, step in steps.items():
        shape = tuple(step.shape[:2])
        if shape not in ((), (1, 1), (1, m)) or step.ndim > 3:
            expected = "expected a number, (n or 1, m or 1), or (n or 1, m or 1, size)"
            raise InputError.of(f"the {what}'s steps gave {name} of shape {list(step.shape)}; {expected}")
        if shape == (1, m):
            of_keys[name] = step[0]
        else:
            of_query[name] = (step[0, 0] if shape else step).tolist()
    formula = str(next(reversed(steps), None))
    of_keys.pop(formula, None)
    return Steps(of_query, of_keys, formula)


def _names(names: Any, batch: int) -> Any:
    """Return the tokens of a batch element; None if there are no tokens."""
    return names[batch] if names and isinstance(names[0], list) else names
