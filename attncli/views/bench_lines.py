"""What `bench` compares: a label as one implementation computes it, with the names for it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from attncli.show.numbers import printable
from attncli.studies.study import Record
from attncli.views.bench_sizes import size_of

OWN = "attncli"
IMPLEMENTATIONS = (OWN, "compiled", "textbook", "fused")  # the order in which they are shown
AGAIN = {OWN: "attncli's own code is", "compiled": "compiled it is", "textbook": "the textbook code is"}
AGAIN |= {"fused": "the fused kernel is"}


@dataclass(frozen=True)
class Line:
    """One row of a table, and one line of the picture."""

    label: str
    implementation: str
    num_hiddens: int | None = None  # where the label has several at the same sizes

    @property
    def title(self) -> str:
        """The label, fit for a terminal, with what tells it from others of its name."""
        hidden = "" if self.num_hiddens is None else f" (num_hiddens {self.num_hiddens})"
        return f"{printable(self.label)}{hidden}"

    @property
    def name(self) -> str:
        """In a sentence: `additive`, `compiled additive`, `textbook additive`."""
        return self.title if self.implementation == OWN else f"{self.implementation} {self.title}"

    @property
    def again(self) -> str:
        """With its verb, in a sentence that has named the label already."""
        return AGAIN.get(self.implementation, f"{self.implementation} is")


def baseline(record: Record) -> Line:
    """What the record's ratio is formed against."""
    label, _, implementation = str(record["baseline"]).rpartition("/")
    return Line(label, implementation)


def is_baseline(record: Record) -> bool:
    """Whether the ratio is 1 because both sides are the same."""
    return baseline(record) == Line(record["label"], record["implementation"])


def lines_of(records: Sequence[Record]) -> dict[Line, list[Record]]:
    """The records of every line: labels in their order, the implementations of a label one after the other."""
    several = _with_several_hiddens(records)
    found: dict[Line, list[Record]] = {}
    for record in records:
        hidden = record["num_hiddens"] if record["label"] in several else None
        found.setdefault(Line(record["label"], record["implementation"], hidden), []).append(record)
    labels = list(dict.fromkeys(record["label"] for record in records))
    return dict(sorted(found.items(), key=lambda item: (labels.index(item[0].label), *_order(item[0]))))


def _with_several_hiddens(records: Iterable[Record]) -> set[str]:
    """Labels that have more than one number of hidden units at the same sizes."""
    found: dict[tuple[object, ...], set[int | None]] = {}
    for record in records:
        found.setdefault((record["label"], *size_of(record)), set()).add(record["num_hiddens"])
    return {str(place[0]) for place, hiddens in found.items() if len(hiddens) > 1}


def _order(line: Line) -> tuple[int, int]:
    known = line.implementation in IMPLEMENTATIONS
    return line.num_hiddens or 0, IMPLEMENTATIONS.index(line.implementation) if known else len(IMPLEMENTATIONS)
