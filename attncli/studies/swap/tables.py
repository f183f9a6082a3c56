"""The tables of the study `swap`: all layers at once, and the main metric by layer and by head."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from attncli.catalogue.scorer_entries import MODEL
from attncli.core.numbers import several
from attncli.errors import printable
from attncli.results import LABEL, Result
from attncli.show.terminal.tables import formulas, numbered_layers, pick, pivot, remark, titled
from attncli.show.terminal.tables import tables as blocks
from attncli.studies.swap.columns import PLACE, SwapFacts, measured_columns

TITLES = {
    "layer": "one layer at a time",
    "head": "one head at a time",
    "up_to": "all layers up to this one",
    "from": "all layers from this one on",
}


def tables(result: Result, *, width: int, most: int | None) -> Iterator[RenderableType]:
    """Yield the metrics with all layers replaced, then the main metric by place."""
    facts = SwapFacts.of(result)
    texts = f", {several(facts.texts, 'text')}" if facts.texts else ""
    layers = several(len(result.layers), "layer")
    yield Text(printable(f"{facts.model}: {layers} with attention{texts}; references: model, uniform, zero"))
    rows, names = numbered_layers(result.records, result.layers, most)
    yield from remark(names)
    if facts.missed:
        missed = "; ".join(f"{layer}: {problem}" for layer, problem in facts.missed.items())
        yield from remark(printable(f"not recognised, and left as they are: {missed}"))
    if len(whole := [row for row in rows if row["by"] == "all"]) > 1:  # not the model's own scorer alone
        columns = measured_columns(whole[0])
        yield from titled(facts.all_layers.capitalize(), blocks([LABEL], columns, whole, width, most))
    if plans := [row for row in rows if row["by"] == "within"]:
        unit = " nats" if facts.kind == "language" else ""
        words = f"Within {facts.within:g}{unit}, judged on {several(facts.held_out or 0, 'other text')}"
        yield from titled(words, blocks([LABEL], measured_columns(plans[0]), plans, width, most))
    for by, title in TITLES.items():
        chosen = [row for row in rows if row["by"] == by and row["label"] != MODEL]  # verified to change nothing
        places = pick(PLACE, ["layer", "head"] if by == "head" else ["layer"])
        if chosen:
            yield from titled(f"{facts.main.name_with_unit}, {title}", pivot(places, facts.main, chosen, width, most))
    yield from formulas(result)
