"""Which implementations of which scorers are measured, and which of them the others are compared with."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from attncli.config.scorer_entries import ScorerEntry, entry_model
from attncli.errors import Collector, InputError, did_you_mean, got, show
from attncli.scorers import SCORERS
from attncli.studies.bench.options import HIDDEN, BenchOptions

IMPLEMENTATIONS = ("attncli", "compiled", "textbook", "fused")


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
        InputError: patterns or a baseline that nothing has the name of, or that leave nothing to measure.
    """
    offered = [
        Contender(entry, name, index)
        for index, entry in enumerate(options.scorers)
        for name in implementations_of(entry, options.compile)
    ]
    collector = Collector()
    for key in ("only", "skip"):
        for index, pattern in enumerate(getattr(options, key)):
            with collector.under(key, index):
                _check_pattern(pattern, offered)
    with collector.under("baseline"):
        baseline = _baseline(options, offered)
    collector.check()
    chosen = [each for each in offered if _is_chosen(each, options)]
    if not chosen:
        key = "only" if options.only else "skip"
        raise InputError.of(got(getattr(options, key), "nothing is left to measure", "leave one of them out"), [key])
    among = [each for each in offered if each in chosen or each == baseline]
    return Plan(among if baseline in among else [baseline, *among], baseline)


def implementations_of(entry: ScorerEntry, compiled: bool) -> list[str]:
    """Those that an entry has; torch.compile can fuse something in additive attention and in scorers of one's own."""
    textbook = entry.scorer == "additive" or entry.options.get("scale") == "1/sqrt(d)"
    there = {
        "attncli": True,
        "compiled": compiled and (entry.scorer == "additive" or entry.scorer not in SCORERS),
        "textbook": textbook and entry.scorer in SCORERS,
        "fused": entry.scorer == "scaled_dot",
    }
    return [name for name in IMPLEMENTATIONS if there[name]]


def variants(options: Any, contender: Contender, d: int) -> list[ScorerEntry]:
    """The entry with each number of hidden units that it is measured with."""
    entry = contender.entry
    if options.names_hidden(entry):
        return [entry]
    return [entry.model_copy(update={HIDDEN: hidden}) for hidden in options.num_hiddens or [d]]


def _is_chosen(contender: Contender, options: BenchOptions) -> bool:
    wanted = not options.only or bool(contender.names & set(options.only))
    return wanted and not contender.names & set(options.skip)


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
