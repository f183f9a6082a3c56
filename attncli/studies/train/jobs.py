"""The configurations that are to be trained: whether they can be made, and fit into memory together."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from attncli.config.scorer_entries import ScorerEntry
from attncli.errors import Collector, InputError
from attncli.scorers import SCORERS
from attncli.studies.memory import projected
from attncli.studies.scoring import build_scorer, outline
from attncli.studies.train.job import Job
from attncli.studies.train.memory import check_memory


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
    check_memory(jobs, options, threads, device)
    for index, entry in enumerate(options.scorers):
        with collector.under("scorers", index):
            _check(entry, options)
    collector.check()
    return jobs


def _job(entry: ScorerEntry, d: int, options: Any) -> Job:
    own = list(outline(entry, d, d).parameters())
    parameters = 2 * d * options.embedding + sum(parameter.numel() for parameter in own)
    hidden = own if entry.scorer == "additive" else []  # other parameters are for queries, and not for pairs
    return Job(entry, d, parameters, max((projected(parameter, d, d) for parameter in hidden), default=1))


def _check(entry: ScorerEntry, options: Any) -> None:
    """Refuse what cannot be made; scorers of the catalogue without a file can, as far as memory goes."""
    if entry.parameters is not None or entry.scorer not in SCORERS:
        for d in options.d:
            scorer = build_scorer(entry, d, d, options.seed, getattr(torch, options.dtype))
            for name, parameter in scorer.named_parameters() if entry.parameters is not None else ():
                _check_finite(name, parameter)


def _check_finite(name: str, parameter: Tensor) -> None:
    """Nothing can be learnt from such a beginning."""
    if not bool(parameter.isfinite().all()):
        message = f"got NaN or infinite numbers in {name}; expected finite ones to begin with"
        raise InputError.of(message, ["parameters", "file"])
