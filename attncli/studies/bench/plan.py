"""What is measured: which implementations of which scorers, at which sizes, and what the others are compared with."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from torch import nn

from attncli.config.scorer_entries import ScorerEntry, entry_model
from attncli.errors import Collector, InputError, did_you_mean, got, show
from attncli.scorers import SCORERS
from attncli.studies.bench.options import HIDDEN, BenchOptions
from attncli.studies.compiling import worth_compiling
from attncli.studies.scoring import outline

SOFTMAX = 5  # operations for each weight: largest score, difference, exponential, sum, quotient
BACKWARD = 3  # forward and backward together, as a multiple of forward: each product has two gradients


@dataclass(frozen=True)
class Case:
    """One combination of sizes; `heads` None where there is no such axis."""

    n: int
    m: int
    d: int
    batch: int = 1
    heads: int | None = None

    @property
    def leading(self) -> tuple[int, ...]:
        """The leading axes."""
        return (self.batch,) if self.heads is None else (self.batch, self.heads)

    @property
    def matrices(self) -> int:
        """How many n x m matrices of scores there are."""
        return self.batch * (self.heads or 1)

    @property
    def pairs(self) -> int:
        """Pairs of a query and a key, in all matrices."""
        return self.matrices * self.n * self.m


@dataclass(frozen=True)
class Contender:
    """One implementation of one entry; `index` is its place in the config, None where only the baseline needs it."""

    entry: ScorerEntry
    implementation: str
    index: int | None

    @property
    def name(self) -> str:
        """`label/implementation`."""
        return f"{self.entry.label}/{self.implementation}"

    @property
    def names(self) -> set[str]:
        """What patterns may call it."""
        return {self.entry.label, self.implementation, self.name}

    def gives(self, measure: str) -> bool:
        """Whether it can be asked for this: the fused kernel has neither scores nor weights."""
        return self.implementation != "fused" or measure == "output"


@dataclass(frozen=True)
class Plan:
    """Everything that is measured, in the order of the rows; the baseline is among it."""

    contenders: Sequence[Contender]
    baseline: Contender


def plan_of(options: BenchOptions) -> Plan:
    """What `scorers`, `only`, `skip` and `baseline` say together.

    Raises:
        InputError: scorers that cannot be made; patterns or a baseline that nothing has the name of, or that leave
            nothing to measure.
    """
    collector, offered = Collector(), list[Contender]()
    for index, entry in enumerate(options.scorers):
        with collector.under("scorers", index):
            offered += [Contender(entry, name, index) for name in implementations_of(entry, options.compile)]
    collector.check()
    for key, patterns in {"only": options.only, "skip": options.skip}.items():
        for index, pattern in enumerate(patterns):
            with collector.under(key, index):
                _check_pattern(pattern, offered)
    with collector.under("baseline"):
        baseline = _baseline(options, offered)
    collector.check()
    wanted = set(options.only)
    chosen = [each for each in offered if (not wanted or each.names & wanted) and not each.names & set(options.skip)]
    if not chosen:
        key = "only" if options.only else "skip"
        raise InputError.of(got(getattr(options, key), "nothing is left to measure", "leave one of them out"), [key])
    among = [each for each in offered if each in chosen or each == baseline]
    return Plan(among if baseline in among else [baseline, *among], baseline)


def implementations_of(entry: ScorerEntry, compiled: bool) -> list[str]:
    """Those that an entry has, as its scorer's class says."""
    scorer = outline(entry, 1, 1)
    there = {
        "attncli": True,
        "compiled": compiled and worth_compiling(scorer),
        "textbook": getattr(scorer, "as_in_textbooks", None) is not None,
        "fused": getattr(scorer, "has_fused_kernel", False),
    }
    return [name for name, is_there in there.items() if is_there]


def variants(options: BenchOptions, contender: Contender, d: int) -> list[ScorerEntry]:
    """The entry with each number of hidden units that it is measured with."""
    entry = contender.entry
    if options.names_hidden(entry):
        return [entry]
    return [entry.model_copy(update={HIDDEN: hidden}) for hidden in options.num_hiddens or [d]]


def cases_of(options: BenchOptions) -> Iterator[Case]:
    """All combinations, the fewest queries first, and of those the fewest keys."""
    heads_asked: Sequence[int | None] = options.heads or [None]
    for n in sorted(options.n):
        for m, d, batch, heads in product(sorted(options.m or [n]), options.d, options.batch, heads_asked):
            yield Case(n, m, d, batch, heads)


def hidden_units(entry: ScorerEntry) -> int | None:
    """Of a scorer that has some."""
    hidden = entry.options.get(HIDDEN)
    return hidden if isinstance(hidden, int) else None


def operations(scorer: nn.Module, case: Case, measure: str, backward: bool) -> int | None:
    """Additions, multiplications and so on of the formula, a tanh, exponential or root as one.

    None where the scorer's class does not say. Implementations that take a shorter way are counted alike, so that more
    operations per second mean less time. Forward and backward count as three times forward.
    """
    try:
        formula = int(scorer.operations(case.n, case.m, case.d, case.d))  # type: ignore[operator]
    except Exception:  # there is none, or the user's own is another thing of that name
        return None
    pooling = case.n * case.m * (SOFTMAX + 2 * case.d) if measure != "scores" else 0
    return case.matrices * (formula + pooling) * (BACKWARD if backward else 1)


def traffic(case: Case, measure: str, backward: bool, itemsize: int) -> int:
    """Bytes of queries, keys, values where they are used, and results, each once, in the dtype of the config.

    Backward has the gradient of each of them once more. What an implementation keeps in between does not count.
    """
    n, m, d = case.n, case.m, case.d
    numbers = {
        "scores": (n + m) * d + n * m,
        "weights": (n + 2 * m) * d + n * m + n * d,
        "output": (n + 2 * m) * d + n * d,
    }[measure]
    return case.matrices * numbers * itemsize * (2 if backward else 1)


def _check_pattern(pattern: str, offered: Sequence[Contender]) -> None:
    known = dict.fromkeys(each.entry.label for each in offered) | dict.fromkeys(each.implementation for each in offered)
    known |= dict.fromkeys(each.name for each in offered)
    if pattern not in known:
        compiled = pattern.rpartition("/")[2] == "compiled" and "compiled" not in known
        cure = "only --compile (in YAML `compile: true`) measures that" if compiled else did_you_mean(pattern, known)
        raise InputError.of(got(pattern, "unknown label or implementation", cure))


def _baseline(options: BenchOptions, offered: Sequence[Contender]) -> Contender:
    """The contender of that name, or one of the catalogue beside them."""
    labels = {each.entry.label for each in offered}
    found = {each.name: each for each in offered}
    if options.baseline.rpartition("/")[0] not in labels:
        found |= {each.name: each for each in _catalogue(options) if each.entry.label not in labels}
    if options.baseline not in found:
        expected = "unknown baseline; expected label/implementation"
        raise InputError.of(got(options.baseline, expected, did_you_mean(options.baseline, found)))
    baseline = found[options.baseline]
    missing = [measure for measure in options.measure if not baseline.gives(measure)]
    if missing:
        message = f"which gives the output only and no {missing[0]}; choose another, or measure the output only"
        raise InputError.of(f"got {show(options.baseline)}, {message}")
    return baseline


def _catalogue(options: BenchOptions) -> list[Contender]:
    entries = [entry_model(name, scorer).model_validate({"scorer": name}) for name, scorer in SCORERS.items()]
    return [Contender(entry, name, None) for entry in entries for name in implementations_of(entry, options.compile)]
