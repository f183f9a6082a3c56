"""The configurations that are to be trained: whether they can be made, and fit into memory together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from attncli.config.scorer_entries import ScorerEntry
from attncli.errors import Collector
from attncli.scorers import SCORERS
from attncli.studies.building import build_scorer, outline
from attncli.studies.memory import PROGRAM, Estimate, projected, require_memory
from attncli.studies.train_task import TESTS, steps_at_a_time

COPIES = 5  # of a parameter: itself, its gradient, the two averages of Adam, and one while it is made
KEPT = 4  # numbers that gradients need for each hidden unit of a pair of symbols, and for each key of a sequence
CURES = {
    "parameters": ("d", "use a smaller d, or fewer seeds"),
    "scores": ("vocabulary", "use fewer symbols, or fewer hidden units"),
    "sequences": ("batch", "use smaller batches, or fewer symbols"),
}


@dataclass(frozen=True)
class Job:
    """One configuration, an entry at one size, with so many parameters for each seed; `width` of them for each pair of
    query and key, such as hidden units.
    """

    entry: ScorerEntry
    d: int
    parameters: int
    width: int

    @property
    def name(self) -> str:
        """In messages."""
        return f"{self.entry.label}, d = {self.d}"


def jobs_of(options: Any, kept: Mapping[tuple[str, int], Any], threads: int, device: torch.device) -> list[Job]:
    """What is not `kept` from an earlier run, small ones first, so that all scorers have got somewhere early.

    Raises:
        InputError: scorers that cannot be made, or do not fit into memory.
    """
    jobs, collector = list[Job](), Collector()
    for d in sorted(options.d):
        for index, entry in enumerate(options.scorers):
            with collector.under("scorers", index):
                jobs += [_job(entry, d, options)] if (entry.label, d) not in kept else []
    collector.check()
    _check_memory(jobs, options, threads, device)
    for index, entry in enumerate(options.scorers):
        with collector.under("scorers", index):
            _check(entry, options)
    collector.check()
    return jobs


def _job(entry: ScorerEntry, d: int, options: Any) -> Job:
    own = list(outline(entry, d, d).parameters())
    parameters = 2 * d * options.embedding + sum(parameter.numel() for parameter in own)
    return Job(entry, d, parameters, max((projected(parameter, d, d) for parameter in own), default=1))


def _check(entry: ScorerEntry, options: Any) -> None:
    """Refuse what cannot be made; scorers of the catalogue without a file can, as far as memory goes."""
    if entry.parameters is not None or entry.scorer not in SCORERS:
        for d in options.d:
            build_scorer(entry, d, d, options.seed, getattr(torch, options.dtype))


def _check_memory(jobs: Sequence[Job], options: Any, threads: int, device: torch.device) -> None:
    """Of as many of the largest as are trained at the same time."""
    itemsize, seeds = getattr(torch, options.dtype).itemsize, options.seeds
    largest = sorted(jobs, key=lambda job: (job.parameters, job.width))[-threads:]
    sequences = seeds * max(options.batch * steps_at_a_time(options), TESTS * len(options.tested))
    entries = 2 * options.vocabulary + KEPT * max(options.tested)  # random numbers and their order; then symbols
    needed = {
        "parameters": sum(COPIES * seeds * job.parameters for job in largest) * itemsize,
        "scores": sum(KEPT * seeds * options.vocabulary**2 * job.width for job in largest) * itemsize,
        "sequences": len(largest) * sequences * entries * 8,
    }
    place, cure = CURES[max(needed, key=lambda name: needed[name])]
    if jobs:
        require_memory(Estimate(needed | {"program": PROGRAM}), device, cure, [place])
