"""The tables of the study `train`: accuracy by d, and the course of learning."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from attncli.catalogue.building import all_softmax
from attncli.core.numbers import MISSING, number
from attncli.errors import printable
from attncli.results import LABEL, Result, by_label
from attncli.show.terminal import tables as show
from attncli.studies.train.columns import ACCURACY, COMPARISONS, ENTROPY, GRADIENT, KEYS, LOSS, START, D, TrainFacts
from attncli.studies.train.rows import mean_and_range

STEPS, REACHED = show.pick(COMPARISONS, ["steps_to_90", "reached_90"])
DETAILS = (D, STEPS, REACHED, LOSS, START, ENTROPY, GRADIENT)
RANGE = "mean over the seeds (lowest–highest)"
LEGEND = "steps: median over the seeds; entropy: of the weights{}, in nats; gradient: norm after the last step"
INTERRUPTED = "interrupted: results are incomplete"


def tables(result: Result, *, width: int, most: int | None) -> Iterator[RenderableType]:
    """Yield everything to print, from top to bottom."""
    facts, summary = TrainFacts.of(result), result.comparisons
    yield Text(facts.words)
    if result.interrupted:
        yield Text(INTERRUPTED)
    all_keys, sizes = (dict.fromkeys(row[key] for row in summary) for key in ("keys", "d"))
    yield Text()
    if len(all_keys) > 1:
        yield Text.assemble(("accuracy", show.STRONG), f" by number of keys, trained with {number(facts.keys)}")
        yield from show.pivot([KEYS, D][: 1 + (len(sizes) > 1)], ACCURACY, summary, width, most)
    else:
        equal = number(facts.equal_weights[str(facts.keys)], 3)
        title = f" with {number(facts.keys)} keys (chance level {equal})"
        yield Text.assemble(("accuracy", show.STRONG), title)
        groups = by_label(summary)
        texts = [{row["d"]: mean_and_range(row) for row in rows} for rows in groups.values()]
        columns = [show.Cells(f"d = {d}", [cells.get(d, MISSING) for cells in texts]) for d in sorted(sizes)]
        yield from show.blocks([show.Cells("label", [printable(label) for label in groups])], columns, width)
    yield from show.remark(RANGE if facts.seeds > 1 else "")
    yield Text()
    yield Text.assemble(("learning", show.STRONG), " at each d")
    trained = [row for row in summary if row["keys"] == facts.keys]
    yield from show.tables([LABEL], DETAILS, trained, width, most)
    softmax = all_softmax(summary)
    legend, lowest = LEGEND.format("" if softmax else " / their sum"), "" if softmax else " of weights that sum to 1"
    yield from show.remark(f"{legend}; lowest possible loss{lowest}: {number(facts.least_loss, 3)}")
    yield from show.formulas(result)
