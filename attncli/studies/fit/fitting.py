"""Fit the parameters of a scorer to the attention of a model: the losses, Newton's method, and gradient descent.

All heads of a layer are computed together. Their parameters do not meet, unless `per` says that they share them.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from attncli.catalogue.building import build_scorer
from attncli.catalogue.guarding import calling, raw_scores
from attncli.catalogue.scorer_entries import ScorerEntry
from attncli.core.metrics import top1_agreement, top_keys
from attncli.errors import InputError, show
from attncli.models.inputs import rules_of_inputs, with_model_defaults
from attncli.normalizers import Normalizer
from attncli.normalizers.softmax import is_softmax
from attncli.scorers import Scorer
from attncli.scorers._heads import KEYS, QUERIES, HeadScorer, by_head, put_options
from attncli.studies.fit.calls import EntryBucket, LayerCalls, head_sums
from attncli.studies.fit.options import Per, learnt_options

LEAST = 1e-20  # a smaller weight counts as this in a divergence
MOST_QUERIES = 64  # of each text in a step of descent, at most
RATE, OPTION_RATE, PROJECTION_RATE = 0.02, 0.05, 0.005  # of Adam, at first
BETAS = (0.8, 0.95)  # of Adam: a few hundred steps are too few for a longer memory
MOST_ROUNDS = 60  # of Newton's method
EXACT, NEAR = 1e-7, 1e-3  # the slope, relative to the spread of scores, and the relative step, that end it
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
        groups = [(tensor.requires_grad_(), rates.get(name, RATE)) for name, tensor in self.raw.items()]
        return [{"params": [tensor], "lr": rate, "initial_lr": rate} for tensor, rate in groups]


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
    """An entry in a layer: its texts to learn from and held out, its scorer, normaliser and learnt numbers."""

    name: str
    heads: int
    training: Sequence[EntryBucket]
    held_out: Sequence[EntryBucket]
    scorer: HeadScorer
    normalizer: Normalizer
    learnt: LearntNumbers

    def put(self) -> None:
        """Put the learnt numbers into the scorer and the normaliser."""
        self.scorer.learnt = self.learnt.values
        put_options(self.normalizer.formula, by_head(self.scorer.learnt))

    def scores(self, bucket: EntryBucket) -> Tensor:
        """Return the scores (b, h, n, m)."""
        return raw_scores(self.scorer, bucket.queries, bucket.keys)

    def weights(self, bucket: EntryBucket) -> Tensor:
        """Return the weights (b, h, n, m)."""
        return bucket.weights(self.scores(bucket), self.normalizer)


def starts(entry: ScorerEntry, calls: Sequence[LayerCalls], per: Per, seed: int, *, by_output: bool) -> list[LayerFit]:
    """Return the fits of an entry to layers, before any step: as the entry is without fitting."""
    fits = list[LayerFit]()
    for layer in calls:
        entry_of_layer = with_model_defaults(entry, layer.inputs.call)
        q, k = layer.inputs.queries.shape[-1], layer.inputs.keys.shape[-1]
        scorer, h = build_scorer(entry_of_layer, q, k, seed, torch.float32), layer.inputs.queries.shape[1]
        training, held_out = (
            [EntryBucket.build(bucket, entry_of_layer) for bucket in buckets]
            for buckets in (layer.training, layer.held_out)
        )
        normalizer = rules_of_inputs(entry_of_layer, layer.inputs, "zero").normalizer
        assert isinstance(normalizer, Normalizer)
        learnt = fits[0].learnt if fits and per == "all" else _start(entry, scorer, normalizer, layer, per, by_output)
        fits.append(LayerFit(layer.name, h, training, held_out, HeadScorer(scorer, {}), normalizer, learnt))
    return fits


def _start(
    entry: ScorerEntry, scorer: Scorer, normalizer: Normalizer, layer: LayerCalls, per: Per, by_output: bool
) -> LearntNumbers:
    count = layer.inputs.queries.shape[1] if per == "head" else 1
    raw, ranges = dict[str, Tensor](), dict[str, tuple[float, float]]()
    of_normalizer, call = learnt_options(entry.normalizer), layer.inputs.call
    if not by_output and (call is None or call.sinks is None):
        of_normalizer = [each for each in of_normalizer if each not in normalizer.learnt_from_outputs]
    for module, options in ((scorer, learnt_options(entry)), (normalizer.formula, of_normalizer)):
        for option in options:
            low, high = ranges[option] = tuple(module.learnable[option])
            value = getattr(module, option, None)
            if isinstance(value, str):  # -ln(m)
                keys = torch.cat([bucket.valid[:, 0].sum(-1)[bucket.counted] for bucket in layer.training])
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


def divergences(weights: Tensor, bucket: EntryBucket) -> Tensor:
    """Return the sum of the divergences of each head's (h,) target from its weights, sum p log(p / w) - p + w.

    If both sum to 1, it is the Kullback-Leibler divergence. A weight below LEAST counts as LEAST.
    """
    sums = head_sums(weights.sum(-1) * bucket.counted[:, None])
    return bucket.negative_entropy + sums - head_sums((weights + LEAST).log() * bucket.target)


def losses(fit: LayerFit, bucket: EntryBucket, by_output: bool) -> tuple[Tensor, Tensor]:
    """Return the sum of each head's errors (h,) over the queries that count, and its divisor.

    These are divergences and the number of queries, or squares of the change of the output and of the output.
    """
    weights = fit.weights(bucket)
    return output_errors(weights, bucket) if by_output else (divergences(weights, bucket), bucket.counted.sum())


def output_errors(weights: Tensor, bucket: EntryBucket) -> tuple[Tensor, Tensor]:
    """Return the sums of squares of the change of each head's (h,) output, and of its output."""
    change = (weights @ bucket.model_bucket.inputs.values - bucket.output) * bucket.counted[:, None, :, None]
    return head_sums(change.square()), head_sums(bucket.output.square())


def descend(
    fits: Sequence[LayerFit], steps: int, by_output: bool, seed: torch.Generator, done: Callable[[float], None]
) -> None:
    """Fit in place by Adam, with learning rates that fall to 0 along a cosine; each step has a bucket and some queries.

    With few queries of many texts the keys, whose features cost the same for one query as for all, would take most of
    the time. `done` is called after each step with the share that is done.
    """
    learnt = {id(fit.learnt): fit.learnt for fit in fits}
    groups = [group for tensors in learnt.values() for group in tensors.groups()]
    optimizer = torch.optim.Adam(groups, betas=BETAS, foreach=True)
    orders = [_in_turn(fit.training, seed) for fit in fits]
    for step in range(steps):
        optimizer.zero_grad()
        loss = torch.zeros((), dtype=torch.float64)
        for fit, buckets in zip(fits, orders, strict=True):
            bucket = next(buckets)
            rows = bucket.counted.any(0).nonzero()[:, 0]
            rows = rows[torch.randperm(len(rows), generator=seed)[:MOST_QUERIES]]
            fit.put()
            error, size = losses(fit, bucket.select(rows), by_output)
            loss = loss + (error / size.clamp(min=1e-30)).sum()
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


def _in_turn(buckets: Sequence[EntryBucket], seed: torch.Generator) -> Iterator[EntryBucket]:
    """Yield buckets, all of them in a new order before one comes again."""
    while True:
        for index in torch.randperm(len(buckets), generator=seed).tolist():
            yield buckets[index]


def convex_factor(fit: LayerFit) -> str | None:
    """Return the learnt option that is a factor of the scores, if the divergence is convex in it; else None."""
    names = [name for name in fit.learnt.ranges if name in OPTION_FOR]
    is_plain = is_softmax(fit.normalizer) and all(
        bucket.rules.cap is None and bucket.rules.sinks is None for bucket in fit.training
    )
    return names[0] if names and is_plain else None


@dataclass
class Best:
    """The learnt numbers of layers with the smallest loss on the texts to learn from, of all that were looked at.

    Each head has numbers of its own, unless all heads share them; then the sum of their losses decides. `figures` has
    the losses (layers, heads) of the best.
    """

    fits: Sequence[LayerFit]
    by_output: bool
    figures: Tensor | None = None
    raw: dict[str, Tensor] = field(default_factory=dict)

    def look(self) -> None:
        """Measure the numbers as they are, and keep them where they are better than before."""
        for fit in self.fits:
            fit.put()
        raw, new = self.fits[0].learnt.raw, torch.stack([mean_losses(fit, self.by_output) for fit in self.fits])
        if self.figures is None:
            self.raw, self.figures = {name: tensor.clone() for name, tensor in raw.items()}, new  # Adam writes to them
            return
        is_by_head = any(len(tensor) > 1 for tensor in raw.values())
        old, loss = ((each.sum(0) if is_by_head else each.sum()[None]) for each in (self.figures, new))
        better = ~(loss >= old) & ~loss.isnan()
        for name, tensor in raw.items():
            self.raw[name] = torch.where(better.view(-1, *[1] * (tensor.ndim - 1)), tensor, self.raw[name])
        self.figures = torch.where(better, new, self.figures)

    def put(self) -> None:
        """Put the best numbers into the scorers."""
        self.fits[0].learnt.raw = dict(self.raw)
        for fit in self.fits:
            fit.put()


@torch.no_grad()
def solve(fits: Sequence[LayerFit], option: str) -> None:
    """Set the factor of the scores to the minimum of the mean divergence.

    For scores f x the divergence of the model's weights p from w = softmax(f x) has the slope E_w[x] - E_p[x] in f, and
    the variance of x under w as its curvature. This is never negative, so there is one minimum, where the means agree.
    Where w is nearly one weight the curvature is nearly 0, and a step of Newton's method may lead anywhere. So the sign
    of the slope keeps a bracket from `low` to `high` around the minimum. A step that would leave it goes to its middle,
    or to twice the factor while `high` is infinite.
    """
    learnt = fits[0].learnt
    learnt.raw[option] = _raw(learnt.ranges[option], torch.full_like(learnt.raw[option], OPTION_FOR[option](1.0)))
    centred = list[tuple[Tensor, Tensor]]()  # scores, less their mean over the keys of a query; their biases and masks
    wanted = torch.zeros(len(learnt.raw[option]), dtype=torch.float64)
    sizes, spread, pairs = (torch.zeros_like(wanted) for _ in range(3))

    def of_sets(terms: Tensor) -> Tensor:
        """Return the sums in float64 of terms (b, h, ...) for each set of parameters: a head, or all heads."""
        sums = head_sums(terms)
        return sums if len(wanted) > 1 else sums.sum(0, keepdim=True)

    for fit in fits:
        fit.put()
        for bucket in fit.training:
            x = fit.scores(bucket).masked_fill(~bucket.valid, 0.0)
            sizes += of_sets(x.square())
            x -= x.sum(-1, keepdim=True) / bucket.valid.sum(-1, keepdim=True).clamp(min=1)
            x.masked_fill_(~bucket.valid, 0.0)
            hidden = torch.zeros(bucket.valid.shape).masked_fill_(
                ~bucket.valid & bucket.valid.any(-1, keepdim=True), -math.inf
            )
            centred.append((x, hidden if bucket.bias is None else hidden + bucket.bias))
            wanted += of_sets(bucket.target * x)
            spread += of_sets(x.square())
            pairs += of_sets((bucket.valid & bucket.counted[:, None, :, None]).expand_as(x))
    differ = spread > (ROUNDING**2 * sizes)
    unit = (pairs / spread).sqrt().where(differ, 1.0).clamp(max=LARGEST)  # the factor for scores of variance 1
    factor, low, high = unit.clone(), torch.zeros_like(unit), torch.full_like(unit, math.inf)
    for _ in range(MOST_ROUNDS):
        slope, bend = -wanted, torch.zeros_like(unit)
        of_heads = factor.to(torch.float32)[:, None, None]
        for x, added in centred:
            weights = torch.addcmul(added, x, of_heads).softmax(-1).mul_(x)
            mean = weights.sum(-1)
            slope += of_sets(mean)
            bend += of_sets(weights.mul_(x).sum(-1) - mean.square())
        high, low = torch.where(slope > 0, factor, high), torch.where(slope > 0, low, factor)
        new = factor - slope / bend.clamp(min=1e-300)
        middle = torch.where(high.isfinite(), (low + high) / 2, 2 * factor)
        new = torch.where((new > low) & (new < high), new, middle).clamp(min=1e-9 * unit)
        new = torch.where(slope.abs() * unit <= EXACT * pairs, factor, new)
        moved, factor = (new - factor).abs() / factor, new
        if bool((moved <= NEAR).all()):  # the next step would be about the square of the last one
            break
    learnt.raw[option] = _raw(learnt.ranges[option], OPTION_FOR[option](factor).to(torch.float32))
    for fit in fits:
        fit.put()


@torch.no_grad()
def mean_losses(fit: LayerFit, by_output: bool) -> Tensor:
    """Return the loss of each head (h,) for the texts to learn from: mean divergence, or error of the output."""
    sums = [losses(fit, bucket, by_output) for bucket in fit.training]
    error, size = (torch.stack([*map(torch.as_tensor, each)]).sum(0) for each in zip(*sums, strict=True))
    return (error / size).clamp(min=0.0)


@torch.no_grad()
def measure(fit: LayerFit) -> dict[str, Tensor]:
    """Return figures of each head (h,) for the texts held out: means over the queries that count.

    They are the divergence of the weights over the keys that the entry sees, the model's weight on others, the relative
    L2 norm of the change of the output, and the share of queries whose largest weights agree, of those that have a top
    key in both.
    """
    sums = list[list[Tensor]]()
    for bucket in fit.held_out:
        weights, whole = fit.weights(bucket), bucket.model_bucket
        agreed = top1_agreement(top_keys(weights, bucket.valid.expand(weights.shape)), whole.top)
        agreed = agreed.masked_fill(~bucket.counted[:, None], math.nan)
        hidden = (
            whole.model_weights.masked_fill(bucket.valid, 0.0)
            if bucket.target is not whole.model_weights
            else torch.zeros(1, fit.heads)
        )
        same, ranked = head_sums(agreed.nan_to_num(0.0)), head_sums(~agreed.isnan())
        count = bucket.counted.sum().expand(fit.heads)
        sums.append(
            [divergences(weights, bucket), head_sums(hidden), *output_errors(weights, bucket), same, ranked, count]
        )
    kl, outside, changes, sizes, same, ranked, count = (sum(each) for each in zip(*sums, strict=True))
    l2 = (changes / sizes).sqrt().masked_fill(sizes == 0, math.nan)
    return {
        "kl": (kl / count).clamp(min=0.0),
        "outside": outside / count,
        "output_l2": l2,
        "top1_agreement": same / ranked,
    }
