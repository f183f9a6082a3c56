"""The tables of the `train` study: accuracy by d, and everything that was measured."""

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from attncli.runs.records import TrainResult
from attncli.show.numbers import MISSING, counted, printable
from attncli.show.tables import Cells, stacked
from attncli.show.weights import STRONG
from attncli.studies.study import Record
from attncli.views.sweep_tables import by_label, columns, faint, labels, shortened, stacked_parts
from attncli.views.train_numbers import (
    keys_tested,
    learning,
    least_loss,
    mean_and_range,
    measured,
    of_equal_weights,
    reached,
    share,
    sizes_of,
    steps,
    task,
    trained_with,
)

RANGE = "mean over the seeds, and in brackets the range from the lowest to the highest"
LEGEND = (
    "steps is the median up to the first test with an accuracy of 90 %, seeds how many got there; "
    "entropy that of the weights in nats before the first step and in the end, gradient its norm in the end"
)
LOSS = "the loss takes what is pooled as logits, so that it is at least ln(1 + (classes - 1)/e), here"
INTERRUPTED = "interrupted, so not all is there; --resume with this run's folder goes on from here"


def train_tables(result: TrainResult, width: int, full: bool) -> Iterator[RenderableType]:
    """Everything to print, from top to bottom."""
    summary = result.comparisons
    yield Text(f"{task(result)}; {learning(result)}")
    if result.interrupted:
        yield Text(INTERRUPTED)
    for keys in keys_tested(summary):
        yield Text()
        yield _heading(keys, result)
        yield from _table(_accuracy([record for record in summary if record["keys"] == keys]), width)
    yield from faint(RANGE if result.settings["seeds"] > 1 else "")
    yield Text()
    yield Text.assemble(("learning", STRONG), " at each d")
    shown, left_out = shortened(trained_with(result, summary), full)
    yield from _table([*labels(shown), *_details(shown)], width)
    yield from faint(left_out)
    yield from faint(f"{LEGEND}; {LOSS} {measured(least_loss(result.settings['classes']))}")
    yield Text()
    yield from _formulas(result)


def _heading(keys: int, result: TrainResult) -> Text:
    trained = result.settings["keys"]
    other = "" if keys == trained else f", trained with {trained}"
    nothing = share(of_equal_weights(result, keys))
    return Text.assemble(
        ("accuracy", STRONG), f" with {counted(keys)} keys{other} (weights that are all equal have {nothing})"
    )


def _accuracy(records: Sequence[Record]) -> list[Cells]:
    """One row a label, one column a d."""
    groups = by_label(records)
    found = [{record["d"]: record for record in rows} for rows in groups.values()]
    return [
        Cells("label", [printable(label) for label in groups]),
        *(Cells(f"d = {d}", [_cell(rows.get(d)) for rows in found]) for d in sizes_of(records)),
    ]


def _cell(record: Record | None) -> str:
    return MISSING if record is None else mean_and_range(record, "accuracy")


def _details(records: Sequence[Record]) -> list[Cells]:
    first, second, *rest = columns(
        (
            ("d", "d", str),
            ("steps_to_90", "steps to\n90 %", steps),
            ("loss", "loss", measured),
            ("start_entropy", "entropy\nat first", measured),
            ("entropy", "entropy\nat last", measured),
            ("gradient_norm", "gradient", measured),
        ),
        records,
    )
    return [first, second, Cells("seeds", [reached(record) for record in records]), *rest]


def _table(made: Sequence[Cells], width: int) -> Iterator[RenderableType]:
    names, *numbers = made
    yield from stacked_parts(stacked([names], numbers, width))


def _formulas(result: TrainResult) -> Iterator[Text]:
    for label, records in by_label(result.records).items():
        scorer = records[0]["scorer"]
        said = "" if scorer == label else f" ({printable(scorer)})"
        yield Text.assemble((printable(label), STRONG), f"{said}: {printable(result.formulas[label])}")
