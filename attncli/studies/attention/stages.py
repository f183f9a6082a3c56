"""One scorer on the inputs: every stage from scores to output, kept under its name, with its statistics."""

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from torch import Tensor, nn

from attncli.attention import EmptyRow, dropped, softcap, softmax_over_valid, weighted_sum
from attncli.config.scorer_entries import ScorerEntry, formula_of
from attncli.inputs.build import Inputs
from attncli.inputs.seeding import generator, seeded
from attncli.pooling import Rules, pool_by_rules
from attncli.scorers import SCORERS
from attncli.studies.attention.statistics import score_statistics, weight_statistics
from attncli.studies.progress import Progress
from attncli.studies.scoring import raw_scores, scale_of
from attncli.studies.study import Record

WEIGHT_FIGURES = ("score_mean", "score_std", "entropy", "effective_keys", "max_weight")  # unknown without weights


@dataclass(frozen=True)
class ScorerRun:
    """What one scorer made of the inputs.

    `stages` holds, in the order of the work, `scores`, `capped` (with softcap), `weights` (before dropout), `dropped`
    (the weights after dropout, where it is active) and `output`; each (b, n, m) or (b, heads, n, m), `output` with v in
    place of m. Where nobody asks for weights, `output` is the only one. `state` is the scorer's state_dict.
    """

    label: str
    formula: str
    scale: float
    stages: Mapping[str, Tensor]
    state: Mapping[str, Tensor]
    record: Record


def run_scorer(
    entry: ScorerEntry, scorer: nn.Module, inputs: Inputs, empty_row: EmptyRow, train: bool, seed: int
) -> ScorerRun:
    """Scores, softcap, mask and softmax, dropout, weighted sum of the values; in training mode only where asked.

    Raises:
        InputError: a scorer of the user's own that fails or gives another shape.
    """
    start = time.perf_counter()
    with seeded(seed, f"forward.{entry.label}", inputs.queries.device):  # the user's own may have dropout inside
        stages = {"scores": raw_scores(scorer.train(train), inputs.queries, inputs.keys).detach()}
    if entry.softcap is not None:
        stages["capped"] = softcap(stages["scores"], entry.softcap)
    stages["weights"] = softmax_over_valid(stages.get("capped", stages["scores"]), inputs.valid.joined, empty_row)
    if train and entry.dropout > 0:
        randomness = generator(seed, f"dropout.{entry.label}")
        stages["dropped"] = dropped(stages["weights"], entry.dropout, randomness)
    stages["output"] = weighted_sum(stages.get("dropped", stages["weights"]), inputs.values)
    stages = {name: stage.cpu() for name, stage in stages.items()}  # waits for the device, too
    seconds = time.perf_counter() - start
    return _finished(entry, scorer, inputs, stages, _statistics(stages, inputs), seconds)


def run_for_output(
    entry: ScorerEntry, scorer: nn.Module, inputs: Inputs, empty_row: EmptyRow, train: bool, seed: int
) -> ScorerRun:
    """The output alone, without scores and weights, and so without their statistics.

    Raises:
        InputError: a scorer of the user's own that fails or gives another shape.
    """
    start = time.perf_counter()
    scorer.train(train)
    checked = scorer if entry.scorer in SCORERS else partial(raw_scores, scorer)
    rules = Rules(inputs.valid, entry.softcap, empty_row)
    with seeded(seed, f"forward.{entry.label}", inputs.queries.device):
        output = pool_by_rules(checked, inputs.queries, inputs.keys, inputs.values, rules).detach()
    stages = {"output": output.cpu()}
    seconds = time.perf_counter() - start
    unknown = dict.fromkeys(WEIGHT_FIGURES)
    empty = {"empty_rows": int(inputs.valid.empty_rows.sum())}
    return _finished(entry, scorer, inputs, stages, unknown | empty, seconds)


def _finished(
    entry: ScorerEntry,
    scorer: nn.Module,
    inputs: Inputs,
    stages: Mapping[str, Tensor],
    statistics: Record,
    seconds: float,
) -> ScorerRun:
    parameters = sum(parameter.numel() for parameter in scorer.parameters())
    figures = {"scorer": entry.scorer, "label": entry.label, "parameters": parameters}
    record: Record = figures | statistics | {"seconds": seconds}
    formula, scale = formula_of(type(scorer)), scale_of(scorer)
    kept = inputs.queries.dtype  # the parameters were rounded to it when they were made
    state = {name: t.to("cpu", kept if t.is_floating_point() else t.dtype) for name, t in scorer.state_dict().items()}
    return ScorerRun(entry.label, formula, scale, stages, state, record)


def _statistics(stages: Mapping[str, Tensor], inputs: Inputs) -> Record:
    empty = inputs.valid.empty_rows.cpu()
    scores = score_statistics(stages["scores"], inputs.valid.whole.cpu())
    return scores | weight_statistics(stages["weights"], empty) | {"empty_rows": int(empty.sum())}


def warn_of_numbers(run: ScorerRun, empty: Tensor, progress: Progress) -> None:
    """Say so where numbers are not finite: NaN or infinity in padding is nobody's business; at valid keys it is."""
    figures = [run.record[name] for name in ("score_mean", "entropy")]
    if any(figure is not None and not math.isfinite(figure) for figure in figures):
        progress.note(f"warning: {run.label}: NaN or infinite numbers in the scores of valid keys")
        return
    output = run.stages["output"]
    finite = output.amax(-1).isfinite() & output.amin(-1).isfinite()  # ... n; isfinite of all would take a copy
    if not bool((finite | empty).all()):
        where = "values" if "scores" in run.stages else "scores or the values"
        progress.note(f"warning: {run.label}: NaN or infinite numbers in the {where} of valid keys")
