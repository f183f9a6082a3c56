"""The tables of the study `fit`: medians over heads for each label, and every head if there is room."""

from collections.abc import Iterator
from dataclasses import replace

from rich.console import RenderableType
from rich.text import Text

from attncli.core.numbers import finite, several
from attncli.errors import printable
from attncli.results import LABEL, Result, Row, by_label
from attncli.show.terminal.tables import formulas, numbered_layers, pick, pivot, remark, titled
from attncli.show.terminal.tables import tables as blocks
from attncli.studies.fit.columns import BEFORE, COLUMNS, KL, OUTSIDE, PARAMETERS, TOP1, FitFacts
from attncli.studies.fit.findings import column_median

WORST = replace(KL, key="worst", heading="worst\nhead", about="Largest divergence of a head.")


def tables(result: Result, *, width: int, most: int | None) -> Iterator[RenderableType]:
    """Yield the medians over heads, then the divergence of each head if there is any."""
    facts = FitFacts.of(result)
    main = facts.main
    heads = sum(len(layer.heads) for layer in facts.fitted.layers.values())
    fitted = f"{several(heads, 'head')} of {several(len(result.layers), 'layer')}"
    texts = f"{several(facts.texts, 'text')} to learn from, {facts.held_out} held out"
    yield Text(printable(f"{facts.model}: {fitted}; {texts}; references: model, uniform, keys_alone (w . k)"))
    rows, names = numbered_layers(result.records, result.layers, most)
    yield from remark(names)
    whole = pick(COLUMNS, [main + BEFORE, main]) if main else []
    before, after, *l2 = pick(COLUMNS, ["kl" + BEFORE, "kl", "output_l2" + BEFORE, "output_l2"])
    has_hidden = any(finite(row.get("outside") for row in result.records))
    figures = [PARAMETERS, before, after, WORST, *[OUTSIDE] * has_hidden, *l2, TOP1, *whole]
    title = f"Texts held out, medians over heads{'; whole model' if whole else ''}"
    yield from titled(title, blocks([LABEL], figures, _summary(result, main), width, most))
    by_head = [row for row in rows if row["by"] == "head"]
    places = pick(COLUMNS, ["layer", "head"])
    compared = [row for row in by_head if row["kl"] is not None and row["label"] != "model"]
    if compared:
        yield from titled(f"{KL.name_with_unit} by head", pivot(places, KL, compared, width, most))
    yield from formulas(result)


def _summary(result: Result, main: str | None) -> list[Row]:
    """Return a row for each label: medians over heads, the largest divergence, and the whole model's main column."""
    rows = list[Row]()
    for label, of_label in by_label(result.records).items():
        heads = [row for row in of_label if row["by"] == "head"]
        whole = [row for row in of_label if row["by"] == "all"]
        row: Row = {"label": label, "parameters": heads[0]["parameters"]}
        row |= {key: column_median(heads, key) for key in ("kl" + BEFORE, "kl", "output_l2" + BEFORE, "output_l2")}
        row |= {"worst": max(finite(head["kl"] for head in heads), default=None)}
        row |= {key: column_median(heads, key) for key in ("outside", "top1_agreement")}
        for key in (main + BEFORE, main) if main is not None and whole else ():
            row[key] = whole[0][key]
        rows.append(row)
    return rows
