"""How much memory configurations take that are trained side by side, known before anything is made."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch

from attncli.studies.memory import PROGRAM, Estimate, require_memory
from attncli.studies.train.job import Job
from attncli.studies.train.task import TESTS, steps_at_a_time

COPIES = {"adam": 5, "sgd": 3}  # of a parameter: itself, its gradient twice, and the two averages of Adam
VECTORS = {"scaled_dot": 5, "general": 6, "cosine": 14, "gaussian": 10}  # of each symbol, as long as a query
IN_VECTORS = 4  # those of other scorers: query and key, and the gradients of both
PAIRS, IN_PAIRS, CAPPED = {"gaussian": 9}, 3, 3  # numbers of a pair of symbols, or hidden unit of it; of a softcap
POOLED = 4  # as the loss and its gradient hold the pooled values
DRAWN, KEPT = 24, 64  # bytes of a symbol that may be drawn, for one seed at a time, and of a key that was drawn
WEIGHED = 16  # bytes of a weight, beside eight copies of it
SEEDS = "or fewer seeds"
CURES = {
    "embeddings": ("embedding", f"use smaller embeddings, fewer symbols, {SEEDS}"),
    "parameters": ("d", f"use a smaller d, smaller embeddings, {SEEDS}"),
    "queries and keys": ("d", f"use a smaller d, fewer symbols, {SEEDS}"),
    "scores": ("vocabulary", f"use fewer symbols, fewer hidden units, {SEEDS}"),
    "sequences": ("batch", f"use smaller batches, fewer symbols, {SEEDS}"),
    "pooled values": ("classes", f"use fewer classes, smaller batches, {SEEDS}"),
}


def check_memory(jobs: Sequence[Job], options: Any, threads: int, device: torch.device) -> None:
    """Refuse what as many of the largest need as are trained at the same time.

    Raises:
        InputError: at the key that the most is needed for.
    """
    if jobs:
        estimate = estimate_training(jobs, options, threads)
        most = max(CURES, key=lambda name: estimate.parts[name])
        place, cure = CURES[most]
        wide = most == "parameters" and options.embedding > max(options.d)  # the larger side of W_q and W_k
        require_memory(estimate, device, cure, ["embedding" if wide else place])


def estimate_training(jobs: Sequence[Job], options: Any, threads: int) -> Estimate:
    """The peak of the study, at least one job; one model is made at a time, which takes its embeddings twice."""
    each = sorted((_needed(job, options) for job in jobs), key=lambda needed: sum(needed.values()))[-threads:]
    parts = sum(each, Counter[str]())
    parts["embeddings"] += each[-1]["embeddings"]
    return Estimate({name: parts[name] for name in CURES} | {"program": PROGRAM})


def _needed(job: Job, options: Any) -> Counter[str]:
    """Bytes of one configuration while it is trained."""
    seeds, symbols, itemsize = options.seeds, options.vocabulary, getattr(torch, options.dtype).itemsize
    vectors = VECTORS.get(job.entry.scorer, IN_VECTORS)
    of_pair = PAIRS.get(job.entry.scorer, IN_PAIRS) * job.width + (0 if job.entry.softcap is None else CAPPED)
    numbers = {
        "embeddings": symbols * options.embedding,
        "parameters": COPIES[options.optimizer] * job.parameters,
        "queries and keys": vectors * symbols * job.d,
        "scores": of_pair * symbols**2,
        "pooled values": POOLED * max(options.batch, TESTS) * options.classes,
    }
    needed = Counter({name: seeds * itemsize * count for name, count in numbers.items()})
    needed["sequences"] = _sequences(options, itemsize)
    return needed


def _sequences(options: Any, itemsize: int) -> int:
    """Bytes of sequences as they are drawn, those of several steps at once, and of the weights of one step."""
    trained, tested = options.batch * steps_at_a_time(options), TESTS
    drawn: int = DRAWN * max(trained, tested) * options.vocabulary
    kept: int = KEPT * max(trained * options.keys, tested * max(options.tested))
    weights: int = (WEIGHED + 8 * itemsize) * max(options.batch * options.keys, tested * max(options.tested))
    return drawn + int(options.seeds) * (kept + weights)
