"""The configurations of a training, a scorer at one size d each: can they be made, and do they fit into memory?"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

import torch
from torch import Tensor

from attncli.config.scorer_entries import ScorerEntry
from attncli.errors import Collector, InputError
from attncli.scorers import SCORERS
from attncli.scorers.additive import Additive
from attncli.studies.memory import PROGRAM, Estimate, require_memory
from attncli.studies.scoring import build_scorer, outline
from attncli.studies.train.options import TrainOptions
from attncli.studies.train.task import TESTS, steps_at_a_time

COPIES = {"adam": 5, "sgd": 3}  # of a parameter: itself, its gradient twice, and the two averages of Adam
VECTORS = {  # of each symbol, as long as a query: at least query and key, and the gradients of both
    "additive": 4,
    "scaled_dot": 5,
    "dot": 4,
    "general": 6,
    "cosine": 14,
    "gaussian": 10,
    "vector_sum": 4,
}
IN_VECTORS = 6  # of any other scorer: also the gradients of one seed, as each is scored for itself
PAIRS, IN_PAIRS, CAPPED = {"gaussian": 9}, 3, 3  # numbers of a pair of symbols, or hidden unit of it; of a softcap
POOLED = 4  # as the loss and its gradient hold the pooled values
DRAWN, KEPT = 24, 64  # bytes of a symbol that may be drawn, for one seed at a time, and of a key that was drawn
WEIGHED = 16  # bytes of a weight, beside eight copies of it
PLACES = {  # the key to blame where most is needed for this
    "embeddings": "embedding",
    "parameters": "d",
    "queries and keys": "d",
    "scores": "vocabulary",
    "sequences": "batch",
    "pooled values": "classes",
}


@dataclass(frozen=True)
class Configuration:
    """One scorer at one size d.

    `index` is that of its entry, `parameters` counts the numbers that one seed learns, and `width` those computed for a
    pair of query and key, such as hidden units.
    """

    index: int
    entry: ScorerEntry
    d: int
    parameters: int
    width: int

    @property
    def place(self) -> str:
        """`label/d`, the beginning of the names of its curves."""
        return f"{self.entry.label}/{self.d}"


def configurations_of(options: TrainOptions) -> list[Configuration]:
    """Every scorer at every size, in the order of the rows.

    Raises:
        InputError: options of a scorer that fit no size.
    """
    found, collector = list[Configuration](), Collector()
    for index, entry in enumerate(options.scorers):
        with collector.under("scorers", index):  # told once, of the first size
            for d in options.d:
                scorer = outline(entry, d, d)
                parameters = 2 * d * options.embedding + sum(each.numel() for each in scorer.parameters())
                width = scorer.w_v.in_features if isinstance(scorer, Additive) else 1
                found.append(Configuration(index, entry, d, parameters, width))
    collector.check()
    return found


def check_memory(jobs: Sequence[Configuration], options: TrainOptions, threads: int, device: torch.device) -> None:
    """Refuse configurations that do not fit into memory, `threads` of them at a time.

    Raises:
        InputError: at the key that the most is needed for.
    """
    estimate = estimate_training(jobs, options, threads)
    most = max(PLACES, key=lambda name: estimate.parts[name])
    wide = most == "parameters" and options.embedding > max(options.d)  # the larger side of W_q and W_k
    place = "embedding" if wide else PLACES[most]
    require_memory(estimate, device, "use a smaller number, or fewer seeds", [place])


def parameters_of(jobs: Sequence[Configuration], options: TrainOptions) -> dict[str, dict[str, Tensor]]:
    """The parameters that are read, by label and state_dict name.

    Raises:
        InputError: scorers that cannot be made with them, those of the user's own among them.
    """
    states, collector = dict[str, dict[str, Tensor]](), Collector()
    for index, of_one in groupby(jobs, key=lambda job: job.index):
        with collector.under("scorers", index):  # told once, of the first size
            for job in of_one:
                if job.entry.parameters is not None or job.entry.scorer not in SCORERS:  # the others can be made
                    scorer = build_scorer(job.entry, job.d, job.d, options.seed, getattr(torch, options.dtype))
                    if job.entry.parameters is not None:
                        states[job.entry.label] = dict(scorer.state_dict())
                        for name, parameter in scorer.named_parameters():
                            if not bool(parameter.isfinite().all()):
                                message = f"got NaN or infinite numbers in {name}; expected finite ones to begin with"
                                raise InputError.of(message, ["parameters", "file"])
    collector.check()
    return states


def estimate_training(jobs: Iterable[Configuration], options: TrainOptions, threads: int) -> Estimate:
    """The peak of at least one configuration, `threads` at a time. A model that is made takes its embeddings twice."""
    each = sorted((_needed(job, options) for job in jobs), key=lambda needed: sum(needed.values()))[-threads:]
    parts = sum(each, Counter[str]())
    parts["embeddings"] += each[-1]["embeddings"]
    return Estimate({name: parts[name] for name in PLACES} | {"program": PROGRAM})


def _needed(job: Configuration, options: TrainOptions) -> Counter[str]:
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
    # Sequences as they are drawn, those of several steps at once, and the weights of one step.
    trained, keys_in_tests = options.batch * steps_at_a_time(options), TESTS * max(options.tested)
    drawn = DRAWN * max(trained, TESTS) * symbols
    kept = KEPT * max(trained * options.keys, keys_in_tests)
    weights = (WEIGHED + 8 * itemsize) * max(options.batch * options.keys, keys_in_tests)
    needed = {name: seeds * itemsize * count for name, count in numbers.items()}
    return Counter(needed | {"sequences": drawn + seeds * (kept + weights)})
