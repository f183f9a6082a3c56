"""The columns of the study `swap`: a row for each scorer entry and place in the model where it is put; its facts."""

from functools import partial
from typing import Literal

from attncli.numbers import duration, number
from attncli.results import LABEL, NORMALIZER, SCORER, Column, Facts

short = partial(number, digits=3)
Kind = Literal["language", "encoder", "other"]
BY = Column(
    "by",
    "by",
    "The layers with the scorer: all, this layer, this head, up to or from this layer.",
    text=True,
    kind="place",
)
LAYER = Column("layer", "layer", "Layer of the model, by its name; empty for all.", text=True, kind="place")
HEAD = Column("head", "head", "Number of the head, from 0; empty for all.", kind="place")
PLACE = (SCORER, LABEL, NORMALIZER, BY, LAYER, HEAD)
ANY = (
    Column(
        "relative_l2",
        "relative\nL2",
        "L2 norm of the change of the main output, over that of the own one.",
        format=short,
        least=1e-5,
    ),
    Column("largest", "largest\nchange", "Largest absolute change of the main output.", format=short, least=1e-5),
)
LANGUAGE = (
    Column("loss", "loss", "Mean cross-entropy of the next token.", "nats"),
    Column(
        "loss_change",
        "loss\nchange",
        "Loss less the loss of the model's own scorer.",
        "nats",
        short,
        signed=True,
        least=1e-3,
    ),
    Column("loss_change_se", "±", "Standard error of the change of the loss, over the texts.", "nats", short),
    Column("perplexity", "perplexity", "exp(loss)."),
    Column("kl", "KL", "Mean KL divergence of the new prediction from the own one.", "nats", short, least=1e-5),
    Column(
        "top1_agreement",
        "top-1\nagreement",
        "Share of predictions with the same most probable token.",
        format=short,
        most=1,
    ),
)
ENCODER = (
    Column(
        "token_cosine",
        "token\ncosine",
        "Mean cosine similarity of new and own states of tokens.",
        format=short,
        signed=True,
        most=1,
    ),
    Column(
        "pooled_cosine",
        "pooled\ncosine",
        "Mean cosine similarity of new and own pooled states.",
        format=short,
        signed=True,
        most=1,
    ),
    Column(
        "rank_correlation",
        "rank\ncorrelation",
        "Spearman correlation of new and own similarities of pairs of texts.",
        format=short,
        signed=True,
        most=1,
    ),
)
SECONDS = Column("seconds", "time", "Time of the runs with this entry at this place.", "s", duration, kind="measured")
OF_KIND = {"language": LANGUAGE, "encoder": ENCODER, "other": ()}
COLUMNS = (*PLACE, *ANY, *LANGUAGE, *ENCODER, SECONDS)
MAIN = {"language": "loss_change", "encoder": "relative_l2", "other": "relative_l2"}


def columns_of(kind: str) -> tuple[Column, ...]:
    """Return the columns of the rows for a kind of model: language, encoder or other."""
    return (*PLACE, *ANY, *OF_KIND[kind], SECONDS)


class SwapFacts(Facts):
    """The model, the number of its `texts`, and the number of `heads` of each layer by name.

    `kind` is that of the model's main output, `pooling` of a sentence encoder.
    """

    model: str
    texts: int
    kind: Kind
    pooling: str | None = None
    heads: dict[str, int]
