"""One scorer on the inputs: every stage from scores to output, kept under its name, with its statistics."""

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from torch import Tensor, nn

from attncli.attention import dropped, softcap, softmax_over_valid, weighted_sum
from attncli.config.scorer_entries import ScorerEntry, formula_of
from attncli.inputs.build import Inputs
from attncli.inputs.seeding import generator, seeded
from attncli.pooling import Rules, pool_by_rules
from attncli.scorers import SCORERS
from attncli.studies.attention.options import AttentionOptions
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


def run_scorer(options: AttentionOptions, entry: ScorerEntry, scorer: nn.Module, inputs: Inputs) -> ScorerRun:
    """All stages, or without weights the output alone; in training mode only where asked.

    Raises:
        InputError: a scorer of the user's own that fails or gives another shape.
    """
    start = time.perf_counter()
    scorer.train(options.train)
    with seeded(options.seed, f"forward.{entry.label}", inputs.queries.device):  # it may have dropout inside
        stages = _stages(options, entry, scorer, inputs) if options.weights else _output(options, entry, scorer, inputs)
    stages = {name: stage.cpu() for name, stage in stages.items()}  # waits for the device, too
    seconds = time.perf_counter() - start
    empty = inputs.valid.empty_rows.cpu()
    figures: Record = dict.fromkeys(WEIGHT_FIGURES)
    if options.weights:
        figures |= score_statistics(stages["scores"], inputs.valid.whole.cpu())
        figures |= weight_statistics(stages["weights"], empty)
    parameters = sum(parameter.numel() for parameter in scorer.parameters())
    record = {"scorer": entry.scorer, "label": entry.label, "parameters": parameters, **figures}
    record |= {"empty_rows": int(empty.sum()), "seconds": seconds}
    dtype = inputs.queries.dtype  # the parameters were rounded to it when they were made
    state = {name: t.to("cpu", dtype if t.is_floating_point() else t.dtype) for name, t in scorer.state_dict().items()}
    return ScorerRun(entry.label, formula_of(type(scorer)), scale_of(scorer), stages, state, record)


def _stages(options: AttentionOptions, entry: ScorerEntry, scorer: nn.Module, inputs: Inputs) -> dict[str, Tensor]:
    """Scores, softcap, mask and softmax, dropout, weighted sum of the values."""
    stages = {"scores": raw_scores(scorer, inputs.queries, inputs.keys).detach()}
    if entry.softcap is not None:
        stages["capped"] = softcap(stages["scores"], entry.softcap)
    scores = stages.get("capped", stages["scores"])
    stages["weights"] = softmax_over_valid(scores, inputs.valid.joined, options.mask.empty_row)
    if options.train and entry.dropout > 0:
        randomness = generator(options.seed, f"dropout.{entry.label}")
        stages["dropped"] = dropped(stages["weights"], entry.dropout, randomness)
    return stages | {"output": weighted_sum(stages.get("dropped", stages["weights"]), inputs.values)}


def _output(options: AttentionOptions, entry: ScorerEntry, scorer: nn.Module, inputs: Inputs) -> dict[str, Tensor]:
    checked = scorer if entry.scorer in SCORERS else partial(raw_scores, scorer)
    rules = Rules(inputs.valid, entry.softcap, options.mask.empty_row)
    return {"output": pool_by_rules(checked, inputs.queries, inputs.keys, inputs.values, rules).detach()}


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
