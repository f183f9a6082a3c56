"""The columns of the study `fit`: a row for each label and head, and one for the whole model; its facts."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import chain
from typing import ClassVar

from attncli.catalogue.fitted import FITTED, METADATA, FittedFacts
from attncli.core.numbers import short
from attncli.models.outputs import HEAD, LANGUAGE_COLUMNS, LAYER, OF_KIND, OutputKind, output_columns
from attncli.results import LABEL, NORMALIZER, SCORER, Column, Facts

BEFORE = "_before"  # the end of the names of columns of unfitted scorers
BY = Column("by", "by", "The row is about this head, or all layers: the whole model.", text=True, kind="place")
PLACE = (SCORER, LABEL, NORMALIZER, BY, LAYER, HEAD)
PARAMETERS = Column("parameters", "params", "Number of learnt parameters of the head.")
KL = Column(
    "kl",
    "KL",
    "Mean divergence of the model's weights from the scorer's, over the keys that the scorer sees; of a whole language "
    "model, of its predictions.",
    "nats",
    short,
    least=1e-5,
)
OUTPUT_L2 = Column(
    "output_l2", "output\nL2", "L2 norm of the change of the head's output, over that of the model's own.", format=short
)
TOP1 = Column(
    "top1_agreement",
    "top-1\nagreement",
    "Share of queries with the largest weight on the same key; of predictions, with the same most probable token.",
    format=short,
    most=1,
)


def before(column: Column) -> Column:
    """Return the column of the unfitted scorer beside one of the fitted scorer."""
    heading, about = f"{column.heading}\nbefore", f"{column.about.removesuffix('.')}, without fitting."
    return replace(column, key=column.key + BEFORE, heading=heading, about=about)


KL_TRAIN = replace(KL, key="kl_train", heading="KL in\ntraining", about="Mean divergence for the texts in training.")
OUTSIDE = Column(
    "outside",
    "weight\noutside",
    "Mean weight of the model on keys that the entry cannot see; divergences are over the others.",
    format=short,
    most=1,
)
OF_HEADS = (PARAMETERS, before(KL), KL, KL_TRAIN, OUTSIDE, before(OUTPUT_L2), OUTPUT_L2, TOP1)


def fit_columns(*kinds: OutputKind) -> tuple[Column, ...]:
    """Return the columns of the rows for kinds of outputs; without any, for a captured file."""
    columns = {column.key: column for column in (*PLACE, *OF_HEADS)}
    for column in chain.from_iterable(map(output_columns, kinds)):
        for one in (before(column), column):
            columns.setdefault(one.key, one)
    return tuple(columns.values())


COLUMNS = fit_columns(*OF_KIND)
assert {column.key for column in LANGUAGE_COLUMNS} <= {column.key for column in COLUMNS}


class FitFacts(Facts):
    """The model, the number of texts in training and held out, the `kind` of its outputs if it was run, and the file.

    `fitted` are the facts of the file with the fitted parameters.
    """

    parameters_file: ClassVar[str] = FITTED

    model: str
    texts: int
    held_out: int
    kind: OutputKind | None = None
    fitted: FittedFacts

    @property
    def main(self) -> str | None:
        """The key of the main column of the whole model; None if it was not run."""
        return None if self.kind is None else "loss_change" if self.kind == "language" else "relative_l2"

    @property
    def metadata(self) -> Mapping[str, str]:
        """The metadata of the file with the parameters."""
        return {METADATA: self.fitted.model_dump_json()}
