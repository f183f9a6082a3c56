"""Fit the parameters of a scorer to the attention of a model: the losses, Newton's method, and gradient descent.

All heads of a layer are computed together. Their parameters do not meet, unless `per` says that they share them.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from attncli.catalogue.building import build_scorer
from attncli.catalogue.guarding import calling, raw_scores
from attncli.catalogue.scorer_entries import ScorerEntry
from attncli.core.metrics import top1_agreement, top_keys
from attncli.errors import InputError, show
from attncli.models.inputs import with_model_defaults
from attncli.normalizers import Normalizer
from attncli.normalizers.softmax import is_softmax
from attncli.scorers import Scorer
from attncli.scorers._heads import KEYS, QUERIES, HeadScorer, by_head, put_options
from attncli.studies.fit.calls import EntryCalls, LayerCalls, Part
from attncli.studies.fit.options import Per, learnt_options

LEAST = 1e-20  # a smaller weight counts as this in a divergence
TEXTS, TOGETHER = 8, 32  # in a step of descent; measured at a time
RATE, OPTION_RATE, PROJECTION_RATE = 0.02, 0.05, 0.005  # of Adam, at first
BETAS = (0.9, 0.95)  # of Adam: a few hundred steps are too few for a longer memory
MOST_ROUNDS, EXACT = 60, 1e-7  # of Newton's method, and the slope, relative to the spread of scores, that ends it
LARGEST, ROUNDING = 1e18, 1e-6  # factor at first, which rounds may double in float32; relative, of equal scores
OPTION_FOR = {"scale": lambda factor: factor, "sigma": lambda factor: (2.0 * factor) ** -0.5}  # the only factor


class KeysAlone(Scorer):
    """w . k

    The reference `keys_alone`: the scores of a key are the same for each query.
    """

    sizes_may_differ = True
    stacks_over_heads = True

    def __init__(self, query_size: int, key_size: int) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.zeros(key_size))

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Return the scores (..., n, m)."""
        scores = keys @ self.w[..., None]  # ... m 1
        return scores.mT.expand(*queries.shape[:-1], keys.shape[-2])


@dataclass
class LearntNumbers:
    """Numbers to learn, by name: parameters as they are, and options by `raw` numbers that keep them in their range."""

    raw: dict[str, Tensor]
    ranges: Mapping[str, tuple[float, float]]

    @property
    def values(self) -> dict[str, Tensor]:
        """The parameters and options, with a first axis of heads, or of one set for all."""
        return {name: _inside(self.ranges.get(name), tensor) for name, tensor in self.raw.items()}

    def groups(self) -> list[dict[str, object]]:
        """Return the groups of parameters for an optimizer, with their learning rates."""
        rates = dict.fromkeys(self.ranges, OPTION_RATE) | dict.fromkeys((QUERIES, KEYS), PROJECTION_RATE)
        named = [(tensor.requires_grad_(), rates.get(name, RATE)) for name, tensor in self.raw.items()]
        return [{"params": [tensor], "lr": rate, "initial_lr": rate} for tensor, rate in named]


def _inside(ends: tuple[float, float] | None, raw: Tensor) -> Tensor:
    if ends is None or ends == (-math.inf, math.inf):
        return raw
    low, high = ends
    return low + raw.exp() if high == math.inf else low + (high - low) * raw.sigmoid()


def _raw(ends: tuple[float, float], value: Tensor) -> Tensor:
    if ends == (-math.inf, math.inf):
        return value
    low, high = ends
    return (value - low).log() if high == math.inf else ((value - low) / (high - low)).logit()


@dataclass
class LayerFit:
    """An entry in a layer: its calls as it and as the model see them, its scorer, normaliser and learnt numbers."""

    calls: EntryCalls
    model: EntryCalls
    scorer: HeadScorer
    normalizer: Normalizer
    learnt: LearntNumbers

    def put(self) -> None:
        """Put the learnt numbers into the scorer and the normaliser."""
        self.scorer.learnt = self.learnt.values
        put_options(self.normalizer.formula, by_head(self.scorer.learnt))

    def scores(self, part: Part) -> Tensor:
        """Return the scores (b, h, n, m)."""
        return raw_scores(self.scorer, part.queries, part.keys)

    def weights(self, part: Part) -> Tensor:
        """Return the weights (b, h, n, m)."""
        return self.calls.weights(self.scores(part), part, self.normalizer)

    def target(self, own: Part) -> Tensor:
        """Return the model's own weights (b, h, n, m)."""
        with torch.no_grad():
            scores = own.queries @ own.keys.mT * self.model.entry.options["scale"]
            return self.model.weights(scores, own, self.model.rules.normalizer)


def starts(
    entry: ScorerEntry, calls: Sequence[LayerCalls], own: ScorerEntry, per: Per, seed: int, *, by_output: bool
) -> list[LayerFit]:
    """Return the fits of an entry to layers, before any step: as the entry is without fitting."""
    fits = list[LayerFit]()
    for layer in calls:
        call = layer.inputs.call
        some = with_model_defaults(entry, call)
        q, k = layer.inputs.queries.shape[-1], layer.inputs.keys.shape[-1]
        scorer = build_scorer(some, q, k, seed, torch.float32)
        seen = EntryCalls.of(layer, some), EntryCalls.of(layer, with_model_defaults(own, call))
        normalizer = seen[0].rules.normalizer
        assert isinstance(normalizer, Normalizer)
        learnt = fits[0].learnt if fits and per == "all" else _start(entry, scorer, normalizer, layer, per, by_output)
        fits.append(LayerFit(*seen, HeadScorer(scorer, {}), normalizer, learnt))
    return fits


def _start(
    entry: ScorerEntry, scorer: Scorer, normalizer: Normalizer, layer: LayerCalls, per: Per, by_output: bool
) -> LearntNumbers:
    count = len(layer.heads) if per == "head" else 1
    raw, ranges = dict[str, Tensor](), dict[str, tuple[float, float]]()
    of_normalizer, call = learnt_options(entry.normalizer), layer.inputs.call
    if not by_output and (call is None or call.sinks is None):
        of_normalizer = [each for each in of_normalizer if each not in normalizer.learnt_from_outputs]
    for module, options in ((scorer, learnt_options(entry)), (normalizer.formula, of_normalizer)):
        for option in options:
            low, high = ranges[option] = tuple(module.learnable[option])
            value = getattr(module, option, None)
            if isinstance(value, str):  # -ln(m)
                keys = layer.inputs.valid.whole[:, 0].sum(-1)[layer.counted]
                value = -float(keys.double().log().mean())
            elif not isinstance(value, int | float | Tensor) or not low < float(value) < high:
                message = f"got {show(value)} as {option} of {type(module).__name__} before any step"
                cure = f"expected a number between {low:g} and {high:g}, as its class says in `learnable`"
                raise InputError.of(f"{message}; {cure}")
            raw[option] = _raw(ranges[option], torch.full((count,), float(value)))
    for name, parameter in scorer.named_parameters():
        raw[name] = parameter.detach().expand(count, *parameter.shape).clone()
    if entry.project:
        for name, size in ((QUERIES, layer.inputs.queries.shape[-1]), (KEYS, layer.inputs.keys.shape[-1])):
            raw[name] = torch.eye(size).repeat(count, 1, 1)
    return LearntNumbers(raw, ranges)


def divergences(weights: Tensor, target: Tensor, valid: Tensor) -> Tensor:
    """Return the divergence (..., n) of the target from the weights over valid keys, sum p log(p / w) - p + w.

    If both sum to 1, it is the Kullback-Leibler divergence.
    """
    terms: Tensor = torch.special.xlogy(target, target) - target * (weights + LEAST).log() - target + weights
    return terms.masked_fill(~valid, 0.0).sum(-1)


def visible_target(target: Tensor, own: Part, part: Part) -> Tensor:
    """Return the target (b, h, n, m) over the keys of a part that an entry sees, `own` as the model sees it.

    Where the entry cannot see keys that the model sees, the rest is divided by its sum.
    """
    hidden = own.valid & ~part.valid
    target = target.masked_fill(hidden, 0.0)
    total = target.sum(-1, keepdim=True)
    return torch.where(hidden.any(-1, keepdim=True) & (total > 0), target / total, target)


def losses(fit: LayerFit, part: Part, own: Part, by_output: bool) -> Tensor:
    """Return the mean loss of each head (h,) over the queries that count; `own` is the part as the model sees it."""
    weights, target, counted = fit.weights(part), fit.target(own), part.counted
    if not by_output:
        target = visible_target(target, own, part)
        return (divergences(weights, target, part.valid) * counted).sum((0, 2)) / counted.sum().clamp(min=1)
    output, own_output = weights @ part.values, target @ own.values  # b h n v
    sizes = (own_output.square().sum(-1) * counted).sum((0, 2)).clamp(min=1e-30)
    return ((output - own_output).square().sum(-1) * counted).sum((0, 2)) / sizes


def descend(
    fits: Sequence[LayerFit],
    texts: Tensor,
    steps: int,
    by_output: bool,
    seed: torch.Generator,
    done: Callable[[float], None],
) -> None:
    """Fit in place by Adam, with learning rates that fall to 0 along a cosine; each step has a few texts and queries.

    `texts` are the batch elements to learn from; `done` is called after each step with the share that is done.
    """
    learnt = {id(fit.learnt): fit.learnt for fit in fits}
    groups = [group for tensors in learnt.values() for group in tensors.groups()]
    if not groups:
        return
    optimizer = torch.optim.Adam(groups, betas=BETAS, foreach=True)
    order = _some(texts, seed)
    for step in range(steps):
        chosen = next(order)
        optimizer.zero_grad()
        loss = torch.zeros(())
        for fit in fits:
            rows = fit.calls.calls.rows(chosen, seed)
            fit.put()
            loss = loss + losses(fit, fit.calls.part(chosen, rows), fit.model.part(chosen, rows), by_output).sum()
        with calling("the gradient of the scorer"):
            loss.backward()  # type: ignore[no-untyped-call]
        for group in optimizer.param_groups:
            group["lr"] = group["initial_lr"] * (0.5 + 0.5 * math.cos(math.pi * step / steps))
        optimizer.step()
        done((step + 1) / steps)
    for tensors in learnt.values():
        tensors.raw = {name: value.detach() for name, value in tensors.raw.items()}
    for fit in fits:
        fit.put()


def _some(texts: Tensor, seed: torch.Generator) -> Iterator[Tensor]:
    """Yield a few texts at a time, all of them in a new order before one comes again."""
    while True:
        yield from torch.split(texts[torch.randperm(len(texts), generator=seed)], TEXTS)


def convex_factor(fit: LayerFit) -> str | None:
    """Return the learnt option that is a factor of the scores, if the divergence is convex in it; else None."""
    names = [name for name in fit.learnt.ranges if name in OPTION_FOR]
    rules = fit.calls.rules
    is_plain = is_softmax(fit.normalizer) and rules.cap is None and rules.sinks is None
    return names[0] if names and is_plain else None


@dataclass
class Best:
    """The learnt numbers of layers with the smallest loss on the texts to learn from, of all that were looked at.

    Each head has numbers of its own, unless all heads share them; then the sum of their losses decides.
    """

    fits: Sequence[LayerFit]
    texts: Tensor
    by_output: bool
    loss: Tensor | None = None
    raw: dict[str, Tensor] = field(default_factory=dict)

    def look(self) -> None:
        """Measure the numbers as they are, and keep those that are better than before."""
        learnt, key = self.fits[0].learnt, "output_l2" if self.by_output else "kl"
        figures = [[math.nan if x is None else x for x in measure(fit, self.texts)[key]] for fit in self.fits]
        loss = torch.tensor(figures, dtype=torch.float64)  # layers heads
        sets = max((len(tensor) for tensor in learnt.raw.values()), default=1)
        loss = loss.sum(0) if sets > 1 else loss.sum()[None]
        better = torch.ones_like(loss, dtype=torch.bool) if self.loss is None else ~(loss >= self.loss) & ~loss.isnan()
        for name, tensor in learnt.raw.items():
            before = self.raw.get(name, tensor)
            self.raw[name] = torch.where(better.view(-1, *[1] * (tensor.ndim - 1)), tensor, before).detach()
        self.loss = loss if self.loss is None else torch.where(better, loss, self.loss)

    def put(self) -> None:
        """Put the best numbers into the scorers."""
        self.fits[0].learnt.raw = dict(self.raw)
        for fit in self.fits:
            fit.put()


@torch.no_grad()
def solve(fits: Sequence[LayerFit], option: str, texts: Tensor) -> None:
    """Set the factor of the scores to the minimum of the mean divergence, where E_w[x] = E_p[x] for scores f x.

    The divergence is convex in the factor f: Newton's method is kept in a bracket around its minimum.
    """
    learnt = fits[0].learnt
    learnt.raw[option] = _raw(learnt.ranges[option], torch.full_like(learnt.raw[option], OPTION_FOR[option](1.0)))
    parts = list[tuple[EntryCalls, Part, Tensor]]()
    wanted = torch.zeros(len(learnt.raw[option]), dtype=torch.float64)
    sizes, spread, pairs = (torch.zeros_like(wanted) for _ in range(3))
    for fit in fits:
        fit.put()
        for some in torch.split(texts, TOGETHER):
            part = fit.calls.part(some)
            x = fit.scores(part).masked_fill(~part.valid, 0.0)
            sizes += _by_set(x.square(), len(wanted))
            x = x - x.sum(-1, keepdim=True) / part.valid.sum(-1, keepdim=True).clamp(min=1)
            x = x.masked_fill(~part.valid, 0.0) * part.counted[..., None]
            empty = x[:0]
            parts.append((fit.calls, replace(part, queries=empty, keys=empty, values=empty), x))
            own = fit.model.part(some)
            wanted += _by_set(visible_target(fit.target(own), own, part) * x, len(wanted))
            spread += _by_set(x.square(), len(wanted))
            pairs += _by_set((part.valid & part.counted[..., None]).expand_as(x), len(wanted))
    differ = spread > (ROUNDING**2 * sizes)
    unit = (pairs / spread).sqrt().where(differ, 1.0).clamp(max=LARGEST)  # the factor for scores of variance 1
    factor, low, high = unit.clone(), torch.zeros_like(unit), torch.full_like(unit, math.inf)
    for _ in range(MOST_ROUNDS):
        slope, bend = torch.zeros_like(unit), torch.zeros_like(unit)
        of_heads = factor.to(torch.float32)[:, None, None]
        for calls, part, x in parts:
            weights = calls.weights(of_heads * x, part, fits[0].normalizer)
            mean = (weights * x).sum(-1, keepdim=True)
            slope += _by_set(weights * x, len(unit))
            bend += _by_set((weights * (x - mean).square()) * part.counted[..., None], len(unit))
        slope -= wanted
        high, low = torch.where(slope > 0, factor, high), torch.where(slope > 0, low, factor)
        if bool((slope.abs() * unit <= EXACT * pairs).all()):
            break
        new = factor - slope / bend.clamp(min=1e-300)
        middle = torch.where(high.isfinite(), (low + high) / 2, 2 * factor)
        factor = torch.where((new > low) & (new < high), new, middle).clamp(min=1e-9 * unit)
    learnt.raw[option] = _raw(learnt.ranges[option], OPTION_FOR[option](factor).to(torch.float32))
    for fit in fits:
        fit.put()


def _by_set(terms: Tensor, sets: int) -> Tensor:
    """Return the sums of (b, h, n, m) for each head, or for all heads if they share their parameters."""
    sums = terms.double().sum((0, 2, 3))
    return sums if sets > 1 else sums.sum(0, keepdim=True)


@torch.no_grad()
def measure(fit: LayerFit, texts: Tensor) -> dict[str, list[float | None]]:
    """Return figures of each head for some batch elements: means over the queries that count.

    They are the divergence of the weights over the keys that the entry sees, the model's weight on others, the relative
    L2 norm of the change of the output, and the share of queries whose largest weights agree, of those that have a top
    key in both.
    """
    sums = [torch.zeros((), dtype=torch.float64) for _ in range(7)]
    for some in torch.split(texts, TOGETHER):
        part, own = fit.calls.part(some), fit.model.part(some)
        target, weights = fit.target(own).double(), fit.weights(part).double()
        output, own_output = weights @ part.values.double(), target @ own.values.double()
        agreed = top1_agreement(
            *(top_keys(each, seen.valid.expand(each.shape)) for each, seen in ((weights, part), (target, own)))
        )
        figures = (
            divergences(weights, visible_target(target, own, part), part.valid),
            target.masked_fill(part.valid, 0.0).sum(-1),
            (output - own_output).square().sum(-1),
            own_output.square().sum(-1),
            agreed.nan_to_num(0.0),
            ~agreed.isnan(),
            torch.ones(weights.shape[:-1], dtype=torch.bool),
        )
        sums = [total + (one * part.counted).double().sum((0, 2)) for total, one in zip(sums, figures, strict=True)]
    kl, outside, changes, sizes, same, ranked, count = sums
    l2 = (changes / sizes).sqrt().masked_fill(sizes == 0, math.nan)
    names = ("kl", "outside", "output_l2", "top1_agreement")
    columns = (tensor.tolist() for tensor in (kl / count, outside / count, l2, same / ranked))
    return {
        name: [None if math.isnan(figure) else figure for figure in column]
        for name, column in zip(names, columns, strict=True)
    }
