"""The columns of the study `swap`: a row for each scorer entry and place in the model where it is put; its facts."""

from pydantic import Field

from attncli.core.numbers import duration, several
from attncli.models.outputs import ALL, HEAD, LAYER, OutputKind, output_columns
from attncli.results import LABEL, NORMALIZER, SCORER, Column, Facts

BY = Column(
    "by",
    "by",
    "The layers with the scorer: all, this layer, this head, up to or from this layer.",
    text=True,
    kind="place",
)
PLACE = (SCORER, LABEL, NORMALIZER, BY, LAYER, HEAD)
SECONDS = Column("seconds", "time", "Time of the runs with this entry at this place.", "s", duration, kind="measured")
COLUMNS = (*PLACE, *ALL, SECONDS)
BY_KEY = {column.key: column for column in COLUMNS}


class SwapFacts(Facts):
    """The model, the number of its `texts`, and the number of `heads` of each layer by name.

    `kind` is the kind of the main output, `metric` the name of the user's function, and `pooling` how a sentence
    encoder joins its tokens. `missed` has the reason why attention was not recognised and keeps its
    own outputs, by layer.
    """

    model: str
    texts: int
    kind: OutputKind
    metric: str | None = None
    pooling: str | None = None
    heads: dict[str, int]
    missed: dict[str, str] = Field(default_factory=dict)

    @property
    def all_layers(self) -> str:
        """All layers in words, with their number if others were not recognised."""
        if self.missed and len(self.heads) == 1:
            return "the one recognised layer"
        return f"all {several(len(self.heads), 'recognised layer')}" if self.missed else "all layers"

    @property
    def measured(self) -> tuple[Column, ...]:
        """The columns of the measured quantities."""
        return output_columns(self.kind, self.metric is not None)

    @property
    def main(self) -> Column:
        """The column that tables by layer and pictures show."""
        key = "metric_change" if self.metric else "loss_change" if self.kind == "language" else "relative_l2"
        return BY_KEY[key]
