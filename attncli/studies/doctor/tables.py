"""The tables of the study `doctor`: layers and heads with a letter for each finding, and the meaning of the letters."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.style import Style
from rich.text import Text

from attncli.core.numbers import several
from attncli.errors import printable
from attncli.results import Result
from attncli.show.terminal.summaries import summary_lines
from attncli.show.terminal.tables import (
    FAINT,
    STRONG,
    Cells,
    blocks,
    ends,
    formulas,
    inked,
    left_out,
    numbered_layers,
    remark,
    titled,
)
from attncli.studies.doctor.checks import CHECKS
from attncli.studies.doctor.columns import DoctorFacts, source_name
from attncli.studies.doctor.letters import NOTHING, grid_cells, heads_in

FAULTS = {check.letter for check in CHECKS if check.kind == "fault"}


def tables(result: Result, *, width: int, most: int | None) -> Iterator[RenderableType]:
    """Yield a grid of layers and heads for each label, and the meaning of the letters."""
    facts = DoctorFacts.of(result)
    counts = [several(len(result.layers), "layer")] if result.layers else []
    counts += [several(facts.checked, "head"), *([several(facts.texts, "text")] if facts.texts else [])]
    yield Text(printable(f"{source_name(result)}: {', '.join(counts)}"))
    yield from remark(numbered_layers([], result.layers, most)[1])
    yield from summary_lines(result.summaries, result.layers, width, most)
    for label, grid in grid_cells(result).items():
        rows = ends([*grid.items()], most)
        has_layers = len(grid) > 1 or result.layers
        layers = [Cells("layer", [name for name, _ in rows])] if has_layers else []
        columns = list[Cells]()
        for head in heads_in(grid):  # faults are bold
            texts = ["".join(cells[head]) or NOTHING if head in cells else "" for _, cells in rows]
            bold = [STRONG if FAULTS & {*text} else Style.null() for text in texts]
            styles = [FAINT if text in ("", NOTHING) else style for text, style in zip(texts, bold, strict=True)]
            columns.append(inked(str(head), texts, styles))
        title = "Layers and heads" if layers else "Heads"
        yield from titled(f"{title}: {label}" if len(result.labels) > 1 else title, blocks(layers, columns, width))
        yield from left_out(len(grid) - len(rows), len(grid), "layers")
    checks = {row["check"] for row in result.records}
    letters = [f"{check.letter} {check.key}" for check in CHECKS if check.key in checks]
    yield Text()
    yield Text("   ".join([*letters, f"{NOTHING} nothing found"]))
    yield from formulas(result)
