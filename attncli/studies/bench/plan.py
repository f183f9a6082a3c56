"""The plan of `bench`: implementations, sizes, and the operations and bytes of each formula."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import NamedTuple

from attncli.catalogue.building import outline
from attncli.catalogue.normalizer_entries import DEFAULT_NORMALIZER
from attncli.catalogue.scorer_entries import ScorerEntry
from attncli.errors import Collector, InputError, got
from attncli.scorers import Scorer
from attncli.studies.bench.options import HIDDEN, IMPLEMENTATIONS, BenchOptions

BASELINE = "scaled_dot/textbook"
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
    """A scorer entry, the entry number `index` of the config, with one implementation to time."""

    entry: ScorerEntry
    implementation: str
    index: int

    @property
    def name(self) -> str:
        """Return `label/implementation`; contenders have the same name if they differ only in hidden units."""
        return f"{self.entry.label}/{self.implementation}"

    def gives(self, measure: str) -> bool:
        """Whether this implementation computes the measure.

        The fused kernel and linear attention have neither scores nor weights; textbook code has only softmax, and no
        bias.
        """
        if self.implementation == "textbook":
            is_softmax = self.entry.normalizer.normalizer == DEFAULT_NORMALIZER and self.entry.position_bias is None
            return is_softmax or measure == "scores"
        return self.implementation not in ("fused", "linear") or measure == "output"


def bench_plan(options: BenchOptions) -> list[Contender]:
    """Return the contenders in the order of the rows: of each entry, the chosen implementations that it has.

    Raises:
        InputError: no entry has one of the chosen implementations, for any of the measures.
    """
    collector, contenders = Collector(), list[Contender]()
    chosen = {*(options.implementations or {*IMPLEMENTATIONS} - {"compiled"})}
    if options.compile:
        chosen.add("compiled")
    for index, entry in enumerate(options.scorers):
        with collector.under("scorers", index):
            scorer, normalizer = outline(entry, 1, 1), entry.normalizer.normalizer
            has = {
                "attncli": True,
                "compiled": scorer.worth_compiling,
                "textbook": scorer.as_in_textbooks is not None,
                "fused": scorer.has_fused_kernel and normalizer == DEFAULT_NORMALIZER,
                "linear": scorer.linear_with == normalizer and entry.position_bias is None,
            }
            contenders += [Contender(entry, name, index) for name in IMPLEMENTATIONS if has[name] and name in chosen]
    collector.check()
    given = {other.implementation for other in contenders if any(map(other.gives, options.measure))}
    for index, implementation in enumerate(options.implementations or ()):
        with collector.under("implementations", index):
            if implementation not in given:
                expected = f"none of these scorers computes {' or '.join(options.measure)} by it"
                raise InputError.of(got(implementation, expected, "leave it out, or choose other scorers or measures"))
    collector.check()
    return contenders


def baseline_name(contenders: Sequence[Contender]) -> str:
    """Return the name of the contender that ratios are to: `BASELINE` if it is among them, else the first."""
    names = [contender.name for contender in contenders]
    return BASELINE if BASELINE in names else names[0]


def entry_variants(contender: Contender, options: BenchOptions, d: int) -> list[Contender]:
    """Return a copy of the contender for each `num_hiddens` of the study, or the contender if it does not apply."""
    entry = contender.entry
    if options.ignores_num_hiddens(entry):
        return [contender]
    entries = [entry.model_copy(update={HIDDEN: hidden}) for hidden in options.num_hiddens or [d]]
    return [replace(contender, entry=variant) for variant in entries]


def bench_cases(options: BenchOptions) -> Iterator[Case]:
    """Yield all combinations of sizes, the small ones first."""
    for n in sorted(options.n):
        for sizes in product(*map(sorted, (options.m or [n], options.d, options.batch, options.heads or [1]))):
            yield Case(n, *sizes)


def operations(scorer: Scorer, case: Case, measure: str, backward: bool) -> int | None:
    """Return the number of operations of the formula; a tanh, exponential or root counts as one operation.

    Return None if the scorer does not state it. The number is the same for all implementations of a scorer, and
    every normaliser counts as a softmax, so that more operations per second mean less time. Forward and backward
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
