"""The columns of the study `swap`: a row for each scorer entry and place in the model where it is put; its facts."""

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from attncli.core.numbers import duration, several, short
from attncli.models.outputs import ALL, HEAD, LAYER, OutputKind, amount, change
from attncli.results import LABEL, NORMALIZER, SCORER, Column, Facts, Row

BY = Column(
    "by",
    "by",
    "The layers with the scorer: all, this layer, this head, up to or from this layer, or those of a plan: within.",
    text=True,
    kind="place",
)
PLACE = (SCORER, LABEL, NORMALIZER, BY, LAYER, HEAD)
WITHIN = (
    Column("layers", "layers", "By `within`: number of layers that take the entry."),
    change("chosen_change", "chosen\nchange", "Change of the loss on the texts that chose the layers.", "nats"),
    Column("chosen_change_se", "±", "Standard error of that change, over the texts.", "nats", short),
    amount("chosen_l2", "chosen\nL2", "Relative L2 on the texts that chose the layers, if there is no loss."),
    Column(
        "passes",
        "passes",
        "Passes that found the layers, one at a time and together; those that judge the plan do not count.",
    ),
)
SECONDS = Column("seconds", "time", "Time of the runs with this entry at this place.", "s", duration, kind="measured")
COLUMNS = (*PLACE, *ALL, *WITHIN, SECONDS)
MEASURED = {column.key: column for column in (*ALL, *WITHIN)}


def measured_columns(row: Row) -> list[Column]:
    """Return the columns of the measured quantities of a row."""
    return [MEASURED[key] for key in row if key in MEASURED]


def limited_keys(kind: OutputKind) -> tuple[str, str]:
    """Return the key of the quantity that `within` limits, and its key on the texts that chose the layers."""
    return ("loss_change", "chosen_change") if kind == "language" else ("relative_l2", "chosen_l2")


class SwapFacts(Facts):
    """The model, the number of its `texts`, and the number of `heads` of each layer by name.

    `chosen` is the number of layers that were replaced, if not all.

    `kind` is the kind of the main output, `metric` the name of the user's function, and `pooling` how a sentence
    encoder joins its tokens. `missed` has the reason why attention was not recognised and keeps its
    own outputs, by layer. `within` is the limit of the plans, `held_out` the number of texts that judged them.
    """

    model: str
    texts: int
    kind: OutputKind
    metric: str | None = None
    pooling: str | None = None
    heads: dict[str, int]
    chosen: int | None = None
    missed: dict[str, str] = Field(default_factory=dict)
    within: float | None = None
    held_out: int | None = None
    plans: list[dict[str, Any]] = Field(default_factory=list)

    @property
    def documents(self) -> Mapping[str, Row]:
        """The plans as a file of entries."""
        return {"plan.yaml": {"scorers": self.plans}} if self.plans else {}

    @property
    def all_layers(self) -> str:
        """All layers that were replaced in words, with their number if others were not recognised or not chosen."""
        if self.chosen is not None:
            return several(self.chosen, "chosen layer")
        if self.missed and len(self.heads) == 1:
            return "the one recognised layer"
        return f"all {several(len(self.heads), 'recognised layer')}" if self.missed else "all layers"

    @property
    def main(self) -> Column:
        """The column that tables by layer and pictures show."""
        key = "metric_change" if self.metric else "loss_change" if self.kind == "language" else "relative_l2"
        return MEASURED[key]
