"""The rows of the study `attention`, as far as they are known before the work."""

from itertools import combinations
from typing import Any

from attncli.config.scorer_entries import ScorerEntry
from attncli.inputs.build import Inputs
from attncli.studies.expectations.outlook import Outlook, Table
from attncli.studies.expectations.stage_shapes import STAGES

COLUMNS = (
    "scorer", "label", "parameters", "score_mean", "score_std", "entropy", "effective_keys", "max_weight", "empty_rows",
    "seconds",
)  # fmt: skip
COMPARED = ("a", "b", "js_divergence", "top1_agreement", "max_abs_difference", "output_difference")
WITHOUT_WEIGHTS = ("scorer", "label", "parameters", "empty_rows", "seconds")
COMPARED_WITHOUT_WEIGHTS = ("a", "b", "output_difference")


def attention_rows(options: Any, inputs: Inputs) -> Outlook:
    """One row per scorer, one per pair, and the stages of every scorer."""
    entries = options.scorers
    rows = [{"scorer": entry.scorer, "label": entry.label} for entry in entries]
    pairs = [{"a": a.label, "b": b.label} for a, b in combinations(entries, 2)]
    alone = "there is only one scorer"
    shapes = {entry.label: _shapes(options, inputs, entry) for entry in entries}
    if options.weights:
        return Outlook(Table(rows, COLUMNS), Table(pairs, COMPARED, alone), shapes)
    there = {*WITHOUT_WEIGHTS, *COMPARED_WITHOUT_WEIGHTS, "output"}
    left_out = {name: "weights: false" for name in (*COLUMNS, *COMPARED, *STAGES) if name not in there}
    return Outlook(Table(rows, WITHOUT_WEIGHTS), Table(pairs, COMPARED_WITHOUT_WEIGHTS, alone), shapes, left_out)


def _shapes(options: Any, inputs: Inputs, entry: ScorerEntry) -> dict[str, tuple[int, ...]]:
    """Those of `run_scorer`, or of `run_for_output`."""
    scores = inputs.valid.shape
    output = {"output": (*scores[:-1], inputs.values.shape[-1])}
    if not options.weights:
        return output
    shapes = {"scores": scores, "weights": scores, **output}
    if entry.softcap is not None:
        shapes["capped"] = scores
    if options.train and entry.dropout > 0:
        shapes["dropped"] = scores
    return shapes
