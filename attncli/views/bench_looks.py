"""How the lines of bench.png look: a colour for each label, a marker and a stroke for each implementation."""

from collections.abc import Iterable, Mapping
from typing import Any

from attncli.views.bench_lines import IMPLEMENTATIONS, Line
from attncli.views.sweep_legend import COLOURS, LARGEST, MARKERS, SMALLER

STROKES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1, 1.3)), (0, (4, 1.3, 1, 1.3)))  # of IMPLEMENTATIONS, in order
KINDS = len(IMPLEMENTATIONS)
Looks = Mapping[Line, dict[str, Any]]


def looks(lines: Iterable[Line]) -> Looks:
    """Options of Line2D for each line. Labels beyond the colours start over with other markers.

    Only attncli's own code has filled markers, so that others on the same place show; later ones are smaller.
    """
    subjects: dict[tuple[str, int | None], int] = {}
    found: dict[Line, dict[str, Any]] = {}
    for index, line in enumerate(lines):
        subject = subjects.setdefault((line.label, line.num_hiddens), len(subjects))
        found[line] = _look(subject, _kind(line), index)
    return found


def _kind(line: Line) -> int:
    """Which implementation; those that are not known look like the last."""
    return IMPLEMENTATIONS.index(line.implementation) if line.implementation in IMPLEMENTATIONS else KINDS - 1


def _look(subject: int, kind: int, index: int) -> dict[str, Any]:
    round_, colour = divmod(subject, len(COLOURS))
    marker = MARKERS[(KINDS * round_ + kind) % len(MARKERS)]
    size = LARGEST - SMALLER * (index % len(MARKERS))
    edge = {"markeredgewidth": 0.6, "markeredgecolor": "white"}
    if kind:
        edge = {"markeredgewidth": 1.0, "markeredgecolor": COLOURS[colour], "markerfacecolor": "white"}
    stroke = {"linestyle": STROKES[kind], "linewidth": 1.2}
    return {"color": COLOURS[colour], "marker": marker, "markersize": size, **stroke, **edge}
