"""The tables of the study `swap`: all layers at once, and the main metric by layer and by head."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from attncli.catalogue.scorer_entries import MODEL
from attncli.core.numbers import several
from attncli.errors import printable
from attncli.results import LABEL, Result
from attncli.show.terminal.tables import formulas_if, numbered_layers, pick, pivot, remark, titled
from attncli.show.terminal.tables import tables as blocks
from attncli.studies.swap.columns import PLACE, SECONDS, SwapFacts

TITLES = {
    "layer": "one layer at a time",
    "head": "one head at a time",
    "up_to": "all layers up to this one",
    "from": "all layers from this one on",
}


def tables(result: Result, *, width: int, most: int | None, csv: str | None) -> Iterator[RenderableType]:
    """Yield the metrics with all layers replaced, then the main metric by place (all metrics if `most` is None)."""
    facts = SwapFacts.of(result)
    texts = f", {several(facts.texts, 'text')}" if facts.texts else ""
    layers = several(len(result.layers), "layer")
    yield Text(printable(f"{facts.model}: {layers} with attention{texts}; references: model, uniform, zero"))
    rows, names = numbered_layers(result.records, result.layers, most)
    yield from remark(names)
    if facts.missed:
        missed = "; ".join(f"{layer}: {problem}" for layer, problem in facts.missed.items())
        yield from remark(printable(f"not recognised, and left as they are: {missed}"))
    if whole := [row for row in rows if row["by"] == "all"]:
        title = facts.all_layers.capitalize()
        yield from titled(title, blocks([LABEL], facts.measured, whole, width, most))
    for by, title in TITLES.items():
        chosen = [row for row in rows if row["by"] == by]
        places = pick(PLACE, ["layer", "head"] if by == "head" else ["layer"])
        if chosen and most is None:
            yield from titled(title, blocks([LABEL, *places], [*facts.measured, SECONDS], chosen, width))
        elif chosen:
            chosen = [row for row in chosen if row["label"] != MODEL]  # verified to change nothing
            yield from titled(f"{facts.main.name_with_unit}, {title}", pivot(places, facts.main, chosen, width, most))
    yield from formulas_if(most, result)
