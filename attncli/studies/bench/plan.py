"""The plan of `bench`: implementations, sizes, and the operations and bytes of each formula."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, product
from typing import NamedTuple, get_args

from attncli.building import outline
from attncli.config.normalizer_entries import DEFAULT_NORMALIZER
from attncli.config.scorer_entries import ScorerEntry, entry_models
from attncli.errors import Collector, InputError, Problem, did_you_mean, got, show
from attncli.scorers import Scorer
from attncli.studies.bench.options import HIDDEN, IMPLEMENTATIONS, BenchOptions, Measure

# Operations for each weight: largest score, difference, exponential, sum, quotient. Other normalisers count alike.
SOFTMAX = 5
BACKWARD = 3  # forward and backward together, as a multiple of forward: each product has two gradients


class Case(NamedTuple):
    """One combination of sizes: n queries and m keys of size d, in each of `heads` heads of `batch` elements."""

    n: int
    m: int
    d: int
    batch: int = 1
    heads: int = 1

    @property
    def matrices(self) -> int:
        """Return the number of n x m matrices of scores: batch times heads."""
        return self.batch * self.heads


@dataclass(frozen=True)
class Contender:
    """A scorer entry with one implementation to time.

    `path` is the entry's path in the config, empty if the entry is not in the config but was added as the baseline.
    """

    entry: ScorerEntry
    implementation: str
    path: tuple[str | int, ...] = ()

    @property
    def name(self) -> str:
        """Return `label/implementation`; contenders have the same name if they differ only in hidden units."""
        return f"{self.entry.label}/{self.implementation}"

    @property
    def names(self) -> tuple[str, str, str]:
        """Return the patterns by which `only` and `skip` can name this contender."""
        return self.entry.label, self.implementation, self.name

    def gives(self, measure: str) -> bool:
        """Whether this implementation computes the measure.

        The fused kernel and linear attention have neither scores nor weights; textbook code has only softmax, and no
        bias.
        """
        if self.implementation == "textbook":
            is_softmax = self.entry.normalizer.normalizer == DEFAULT_NORMALIZER and self.entry.position_bias is None
            return is_softmax or measure == "scores"
        return self.implementation not in ("fused", "linear") or measure == "output"


def plan_of(options: BenchOptions) -> list[Contender]:
    """Return the contenders chosen by `scorers`, `only` and `skip`, and the baseline, in the order of the rows."""
    collector, offered = Collector(), list[Contender]()
    for index, entry in enumerate(options.scorers):
        with collector.under("scorers", index):
            offered += _contenders(entry, options, "scorers", index)
    collector.check()
    labels, implementations, names = zip(*(contender.names for contender in offered), strict=True)
    known = list(dict.fromkeys([*labels, *implementations, *names]))
    for key in ("only", "skip"):
        for index, pattern in enumerate(getattr(options, key)):
            if pattern not in known:
                cure = did_you_mean(pattern, known)
                if pattern.rpartition("/")[2] == "compiled" and not options.compile:
                    cure = "add --compile (in YAML `compile: true`) to measure compiled code"
                message = got(pattern, "unknown label or implementation", cure)
                collector.problems.append(Problem(message, (key, index)))
    with collector.under("baseline"):
        baseline = _baseline(options, offered)
    collector.check()
    only, skip = set(options.only or known), set(options.skip)
    chosen = [offer for offer in offered if only.intersection(offer.names) and not skip.intersection(offer.names)]
    if not chosen:
        key = "only" if options.only else "skip"
        raise InputError.of(got(getattr(options, key), "nothing is left to measure", "leave one of them out"), [key])
    if baseline not in offered:
        return [baseline, *chosen]
    return [contender for contender in offered if contender in chosen or contender == baseline]


def variants_of(contender: Contender, options: BenchOptions, d: int) -> list[Contender]:
    """Return a copy of the contender for each `num_hiddens` of the study, or the contender if it does not apply."""
    entry = contender.entry
    if options.ignores_num_hiddens(entry):
        return [contender]
    entries = [entry.model_copy(update={HIDDEN: hidden}) for hidden in options.num_hiddens or [d]]
    return [replace(contender, entry=variant) for variant in entries]


def cases_of(options: BenchOptions) -> Iterator[Case]:
    """Yield all combinations of sizes, ordered by the number of queries, then of keys."""
    for n in sorted(options.n):
        for sizes in product(sorted(options.m or [n]), options.d, options.batch, options.heads or [1]):
            yield Case(n, *sizes)


def operations(scorer: Scorer, case: Case, measure: str, backward: bool) -> int | None:
    """Return the number of operations of the formula; a tanh, exponential or root counts as one operation.

    Return None if the scorer does not state it. The number is the same for all implementations of a scorer,
    and every normaliser counts as a softmax, so that more operations per second mean less time. Forward and backward
    together count as three times forward.
    """
    formula = scorer.operations(case.n, case.m, case.d, case.d)
    if formula is None:
        return None
    pooling = case.n * case.m * (SOFTMAX + 2 * case.d) if measure != "scores" else 0
    return case.matrices * (formula + pooling) * (BACKWARD if backward else 1)


def traffic(case: Case, measure: str, backward: bool, itemsize: int) -> int:
    """Return the bytes of the used inputs and of the results, each counted once, with `itemsize` bytes per number.

    If `backward`, the gradient of each tensor counts as well. Intermediate tensors do not count.
    """
    n, m, d = case.n, case.m, case.d
    numbers = {
        "scores": (n + m) * d + n * m,
        "weights": (n + 2 * m) * d + n * m + n * d,
        "output": (n + 2 * m) * d + n * d,
    }[measure]
    return case.matrices * numbers * itemsize * (2 if backward else 1)


def _contenders(entry: ScorerEntry, options: BenchOptions, *path: str | int) -> list[Contender]:
    """Return a contender for each implementation of an entry."""
    scorer, normalizer = outline(entry, 1, 1), entry.normalizer.normalizer
    is_offered = {
        "attncli": True,
        "compiled": options.compile and scorer.worth_compiling,
        "textbook": scorer.as_in_textbooks is not None,
        "fused": scorer.has_fused_kernel and normalizer == DEFAULT_NORMALIZER,
        "linear": scorer.linear_with == normalizer and entry.position_bias is None,
    }
    return [Contender(entry, name, path) for name in IMPLEMENTATIONS if is_offered[name]]


def _baseline(options: BenchOptions, offered: Sequence[Contender]) -> Contender:
    """Return the contender that `baseline` names, from the entries or else from the catalogue of scorers."""
    labels = {contender.entry.label for contender in offered}
    others = [model.model_validate({"scorer": name}) for name, model in entry_models().items() if name not in labels]
    others_offered = chain.from_iterable(_contenders(entry, options) for entry in others)
    by_name = {contender.name: contender for contender in [*offered, *others_offered]}
    baseline = by_name.get(options.baseline)
    if baseline is None:
        expected = "unknown baseline; expected label/implementation"
        raise InputError.of(got(options.baseline, expected, did_you_mean(options.baseline, by_name)))
    missing = [measure for measure in options.measure if not baseline.gives(measure)]
    if missing:
        measures = " and ".join(measure for measure in get_args(Measure) if baseline.gives(measure))
        message = f"which gives the {measures} only and no {missing[0]}; choose another, or measure the {measures} only"
        raise InputError.of(f"got {show(options.baseline)}, {message}")
    return baseline
